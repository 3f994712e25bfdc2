"""The feed-forward parts of transformers: with and without a gate, and mixtures of several.

Several processes may share experts: rows travel to the process that has their expert, and their outputs back.
"""

from collections.abc import Iterable, Mapping
from typing import Any, ClassVar, NamedTuple

import torch
import torch.distributed as dist
from torch import Tensor, nn

from ..._torch_compat.collectives import exchanged
from ..._torch_compat.transforms import transforming
from ...module import Content, Module
from ...tensor.torch_bridge.torch_function import lift
from ..call_types import KeepsType
from ..configs import DropoutConfig, LinearConfig
from ..joint_batch import JointLayer
from ..layer import FromConfig, Layer, expect_shape
from .configs import GatedFeedForwardConfig, MixtureOfExpertsConfig, PositionWiseFeedForwardConfig


def outputs_of(experts: Iterable[nn.Module], rows: Tensor, counts: Tensor) -> Tensor:
    """The outputs of experts for rows `[n, d_model]`, sorted by expert; counts are int64 `[experts]`."""
    parts = rows.split(counts.tolist())
    return torch.cat([expert(part) for expert, part in zip(experts, parts, strict=True)])


class DividedExperts:
    """The processes that share the experts of a layer; each has as many, in the order of their numbers.

    A parameter of an expert gets gradients of the rows of all these processes, where another parameter gets those of
    one. So that a mean over the processes that have it is the same mean, they are divided by the number of processes.
    """

    NAME: ClassVar = "_divided_experts"
    """What a layer keeps it as: no field, which records and copies would have."""

    def __init__(self, group: dist.ProcessGroup) -> None:
        self.rank, self.size = dist.get_rank(group), dist.get_world_size(group)
        self._group = group

    def outputs(self, experts: Iterable[nn.Module], rows: Tensor, counts: Tensor) -> Tensor:
        """As `outputs_of`, for rows and counts of all experts, of which this process has `experts`."""
        sent = counts.view(self.size, -1)
        received = torch.empty_like(sent)
        dist.all_to_all_single(received, sent.contiguous(), group=self._group)
        n_sent, n_received = sent.sum(1).tolist(), received.sum(1).tolist()
        rows = exchanged(_ScaledGradient.apply(rows, self.size), n_received, n_sent, self._group)
        # They come by process; the rows of an expert are to lie together.
        numbers = torch.arange(received.shape[1], device=rows.device).repeat(self.size)
        order = numbers.repeat_interleave(received.flatten()).argsort(stable=True)
        outputs = outputs_of(experts, rows.index_select(0, order), received.sum(0))
        by_process = outputs.index_select(0, order.argsort())
        return _ScaledGradient.apply(exchanged(by_process, n_sent, n_received, self._group), 1 / self.size)

    def __deepcopy__(self, memo: dict[int, Any]) -> None:
        """Copies of a model have no group; what they lack, they are loaded with."""

    def __reduce__(self) -> tuple[type[None], tuple[()]]:
        return type(None), ()


class _ScaledGradient(torch.autograd.Function):
    """A tensor as it is, whose gradient is multiplied."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, factor: float) -> Tensor:
        ctx.factor = factor
        return x.view_as(x)

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor, None]:
        return grads[0] * ctx.factor, None


class PositionWiseFeedForward(KeepsType, Layer):
    """linear_outer(dropout(activation(linear_inner(x)))) at each position (Vaswani et al. 2017, section 3.3).

    Records have the activation's parameters, if there are any (Burn 0.22 loses them).

    Torch: the feed-forward part of `nn.TransformerEncoderLayer`. Differs: GELU by default, torch ReLU.
    """

    def __init__(self, config: PositionWiseFeedForwardConfig, device: torch.device | str | None = None) -> None:
        super().__init__()
        inner = LinearConfig(d_input=config.d_model, d_output=config.d_ff, initializer=config.initializer)
        self.linear_inner = inner.init(device)
        self.linear_outer = inner.replace(d_input=config.d_ff, d_output=config.d_model).init(device)
        self.dropout = DropoutConfig(prob=config.dropout).init()
        self.activation = config.activation.init(device)

    @lift
    def forward(self, x: Tensor) -> Tensor:
        """`[..., d_model] -> [..., d_model]`. Raises ShapeError if the activation changes the inner size."""
        expect_shape(self, x, "...", self.linear_inner.weight.shape[0])
        return self.linear_outer(self.dropout(self.activation(self.linear_inner(x))))

    def parallel_plan(self) -> Mapping[str, str]:
        """Each process has some of the inner values."""
        return {"": "divided", "linear_inner": "colwise", "linear_outer": "rowwise"}

    def custom_content(self, content: Content) -> Content:
        d_model, d_ff = content.shape("linear_inner.weight")
        return content.add("d_model", d_model).add("d_ff", d_ff).add("prob", self.dropout.prob)


class GatedFeedForward(KeepsType, Layer):
    """linear(gate(x)), the gate activation(x w) * (x v), a SwiGlu or GatedLinear (Shazeer 2020, eq. 6). Torch: -."""

    def __init__(self, config: GatedFeedForwardConfig, device: torch.device | str | None = None) -> None:
        super().__init__()
        self.gate = config.gate.init(device)
        self.linear = LinearConfig(
            d_input=config.d_ff, d_output=config.d_model, bias=config.bias, initializer=config.output_initializer
        ).init(device)

    @lift
    def forward(self, x: Tensor) -> Tensor:
        """`[..., d_model] -> [..., d_model]`. Raises ShapeError if the last dimension of x is not `d_model`."""
        expect_shape(self, x, "...", self.linear.weight.shape[1])
        return self.linear(self.gate(x))

    def parallel_plan(self) -> Mapping[str, str]:
        """Each process has some of the inner values."""
        return {"gate": "divided", "gate.linear_inner": "colwise", "gate.linear_outer": "colwise", "linear": "rowwise"}

    def custom_content(self, content: Content) -> Content:
        d_ff, d_model = content.shape("linear.weight")
        return content.add("d_model", d_model).add("d_ff", d_ff).add("gate", self.gate)


class MixtureOutput(NamedTuple):
    """The result of a mixture of experts, and how evenly they were chosen.

    Attributes:
        output: `[..., d_model]`.
        balance: scalar `[]`, n_experts * sum_i f_i P_i (Fedus et al. 2021, eq. 4, without alpha): f_i the positions
            for which expert i was chosen, P_i its mean probability. `n_selected` when all are chosen alike, else more.
    """

    output: Tensor
    balance: Tensor


class MixtureOfExperts(KeepsType, JointLayer, FromConfig, Module):
    """sum_i p_i expert_i(x) over the `n_selected` experts of the largest p = softmax(router(x)) (Jiang et al. 2024).

    Eager code computes the chosen experts only. Which those are is in the data, so compiled and exported code,
    torch.func's transforms and the meta device compute all experts for all positions, with a weight of 0 for those that
    were not chosen: the same numbers, for `n_experts / n_selected` times the work. Where processes share the experts
    (`distributed.expert`), only the chosen ones are computed.

    Torch: -.
    """

    def __init__(self, config: MixtureOfExpertsConfig, device: torch.device | str | None = None) -> None:
        super().__init__()
        self.router = LinearConfig(
            d_input=config.d_model, d_output=config.n_experts, bias=False, initializer=config.initializer
        ).init(device)
        expert = GatedFeedForwardConfig(
            d_model=config.d_model,
            d_ff=config.d_ff,
            activation=config.activation,
            initializer=config.initializer,
            output_initializer=config.output_initializer,
        )
        self.experts = nn.ModuleList(expert.init(device) for _ in range(config.n_experts))
        self.n_selected = config.n_selected
        self.normalized = config.normalized

    @property
    def _divided(self) -> DividedExperts | None:
        """The exchange of rows among processes that share the experts; None where each has all."""
        return self.__dict__.get(DividedExperts.NAME)

    @lift
    def forward(self, x: Tensor) -> Tensor:
        """`[..., d_model] -> [..., d_model]`. Raises ShapeError if the last dimension of x is not `d_model`."""
        return self._forward(x).output

    @lift
    def forward_balance(self, x: Tensor) -> MixtureOutput:
        """As `forward`, with what a training adds to its loss, times a small factor, so that all experts are used."""
        return self._forward(x)

    def _forward(self, x: Tensor) -> MixtureOutput:
        expect_shape(self, x, "...", self.router.weight.shape[0])
        flat = x.flatten(0, -2)
        # In float32 at least: rounded probabilities would be equal.
        probabilities = self.router(flat).softmax(-1, dtype=torch.promote_types(x.dtype, torch.float32))
        weights, chosen = probabilities.topk(self.n_selected, -1)
        if self.normalized:
            weights = weights / weights.sum(-1, keepdim=True)
        fractions, means = self._means(torch.zeros_like(probabilities).scatter(-1, chosen, 1.0), probabilities)
        balance = probabilities.shape[-1] * (fractions * means).sum()
        has_values = not (torch.compiler.is_compiling() or transforming() or x.is_meta)
        if self._divided is not None:
            of_chosen: Any = torch.compiler.disable(self._of_chosen)  # what is sent where is in the data
            mixed = of_chosen(flat, chosen, weights.to(x.dtype))
        else:
            mixed = (self._of_chosen if has_values else self._of_all)(flat, chosen, weights.to(x.dtype))
        return MixtureOutput(mixed.unflatten(0, x.shape[:-1]), balance)

    def _of_chosen(self, x: Tensor, chosen: Tensor, weights: Tensor) -> Tensor:
        # Choices sorted by expert: rows of an expert lie together, and each position's outputs are summed in the order
        # of their weights. CUDA is waited for once, for the counts.
        expert_of = chosen.flatten()
        order = expert_of.argsort(stable=True)
        counts = expert_of.bincount(minlength=self.router.weight.shape[1])
        rows = x.index_select(0, order.div(self.n_selected, rounding_mode="floor"))
        divided = self._divided
        outputs = (
            outputs_of(self.experts, rows, counts) if divided is None else divided.outputs(self.experts, rows, counts)
        )
        by_position = outputs.index_select(0, order.argsort()).unflatten(0, chosen.shape)
        return (by_position * weights[..., None]).sum(1).to(x.dtype)

    def _of_all(self, x: Tensor, chosen: Tensor, weights: Tensor) -> Tensor:
        every = x.new_zeros(x.shape[0], len(self.experts)).scatter(-1, chosen, weights)
        mixed = torch.zeros_like(x)
        for index, expert in enumerate(self.experts):
            mixed = mixed + expert(x) * every[:, index, None]
        return mixed

    def custom_content(self, content: Content) -> Content:
        content = content.add("n_selected", self.n_selected).add("normalized", self.normalized)
        return content.add("router", self.router).add("experts", self.experts)
