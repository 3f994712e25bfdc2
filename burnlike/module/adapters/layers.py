"""Low-rank adapters (Hu et al. 2021, arXiv:2106.09685), and weight normalization, as reparameterizations."""

import sys
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from typing import Any, Literal, TypeVar, cast, get_args

import torch
from torch import Tensor, nn
from torch.nn import functional

from ..._dtypes import FloatName
from ..._torch_compat.dispatch import assume_constant
from ..._torch_compat.modules import CALL_HOOKS
from ...errors import ArgumentError, ModuleTreeError
from ...ops import linear, lora_linear
from ...ops._arguments import autocast_dtype, for_products
from ...ops._function import is_recorded, is_transformed
from ...ops.bernoulli_noise import dropout
from ..torch_objects.wrappers import dequantized, is_quantized, own_class, parametrizations_of
from ..tree.paths import listed
from .configs import LoraConfig
from .reparameterization import Reparameterization, attach, candidates

M = TypeVar("M", bound=nn.Module)

_COMPUTED_IN = [getattr(torch, name) for name in get_args(FloatName)]


class Lora(Reparameterization):
    """weight + alpha / rank * a @ b, in the element type of `a` and `b`.

    In DoRA (Liu et al. 2024, arXiv:2402.09353, eq. 5) the sum has the `magnitude`, and its direction alone; its norm
    counts as a constant in gradients.

    Attributes:
        a: `[weight.shape[0], rank]`, drawn from N(0, init_std).
        b: `[rank, weight.shape[1]]`, zeros, so that a new adapter changes nothing.
        scale: alpha / rank.
        transposed: whether the weight is `[d_output, d_input]`, and `a` `[d_input, rank]`: the product is transposed.
        dropout: the share of the layer's input that the adapter is not given in training; needs a layer in `calls`.
        magnitude: `[d_output]`, of DoRA; else None.
        is_residual: True if the base lost what the factors began with, so that it is no model by itself.
    """

    reparameterization_name = "lora"
    a: nn.Parameter
    b: nn.Parameter
    magnitude: nn.Parameter | None

    def __init__(
        self, config: LoraConfig, weight: Tensor, *, transposed: bool = False, dropout: float = 0.0, dora: bool = False
    ) -> None:
        """For `weight`, `[d_0, d_1]` in whatever layout; but for DoRA only shape, element type and device matter.

        That of a convolution is `[d_output, d_input, *kernel]`, and `transposed`.
        """
        super().__init__()
        own_dtype = weight.dtype if weight.dtype in _COMPUTED_IN else torch.get_default_dtype()
        dtype = own_dtype if config.dtype is None else getattr(torch, config.dtype)
        std = 1 / config.rank if config.init_std is None else config.init_std
        shape = weight.flatten(1).shape if weight.dim() > 2 else weight.shape
        first, second = reversed(shape) if transposed else shape
        self.a = nn.Parameter(torch.empty(first, config.rank, dtype=dtype, device=weight.device).normal_(0, std))
        self.b = nn.Parameter(torch.zeros(config.rank, second, dtype=dtype, device=weight.device))
        self.scale = config.alpha / config.rank
        self.transposed, self.dropout, self.is_residual = transposed, dropout, False
        # The norm of the weight without factors: `b` is 0, so a new adapter changes nothing.
        self.magnitude = nn.Parameter(self._norm(dequantized(weight.detach()).to(dtype))) if dora else None

    def forward(self, base: Tensor) -> Tensor:
        base = dequantized(base)
        if base.dim() > 2:
            return self(base.flatten(1)).view(base.shape).to(base.dtype)  # that of what a layer reads
        if self.transposed:
            effective = torch.addmm(base.mT.to(self.a.dtype), self.a, self.b, alpha=self.scale).mT
        else:
            effective = torch.addmm(base.to(self.a.dtype), self.a, self.b, alpha=self.scale)
        if self.magnitude is None:
            return effective
        # Detached, as DoRA's section 4.3 has it: gradients of the norm cost memory and gain nothing.
        factor = self.magnitude / self._norm(effective).detach()
        return effective * (factor[:, None] if self.transposed else factor)

    def delta(self) -> Tensor:
        product = self.scale * (self.a @ self.b)
        return product.mT if self.transposed else product

    def layer_forward(self, layer: nn.Module, layer_class: type, *arguments: Any, **keywords: Any) -> Tensor | None:
        """The layer's result without its sum of weights; None for a layer of another kind, or watched by hooks."""
        kind = kind_of(layer_class)
        inputs = (*arguments, *keywords.values())
        if kind is None or len(inputs) != 1 or (adapted := adapter_of(layer, Lora)) is None:
            return None
        base, bias = adapted[1], cast("Tensor | None", getattr(layer, "bias", None))
        if kind == "embedding":
            return self.of_rows(inputs[0], layer, base)
        return self.linear(inputs[0], base, bias, outputs_first=kind == "linear")

    def linear(self, x: Tensor, base: Tensor, bias: Tensor | None, *, outputs_first: bool = False) -> Tensor:
        """x @ (the effective weight, or its transpose) + bias, with the dropout of `x` in training."""
        is_dropped = self.training and self.dropout > 0.0
        down, up = (self.a, self.b) if self.transposed == outputs_first else (self.b.mT, self.a.mT)
        plain = not is_quantized(base) and base.dtype == self.a.dtype == x.dtype and x.dtype.itemsize > 2
        if plain and not is_dropped and autocast_dtype(x) is None:
            weight = base.mT if outputs_first else base
            if self.magnitude is None:
                return lora_linear(x, weight, down, up, bias, self.scale)
            result = lora_linear(x, weight, down, up, None, self.scale) * self._factor(base)
            return result if bias is None else result + bias
        result = frozen_linear(x, base, bias, outputs_first=outputs_first)
        dropped = dropout(x, self.dropout, is_dropped)
        low = dropped.to(self.a.dtype) @ down @ up * self.scale
        if self.magnitude is None:
            return (result + low).to(result.dtype)
        factor = self._factor(base)
        is_own = not is_dropped and bias is None
        base_part = result if is_own else frozen_linear(dropped, base, None, outputs_first=outputs_first)
        return (result + (factor - 1) * base_part + factor * low).to(result.dtype)

    def of_rows(self, indices: Tensor, layer: Any, base: Tensor) -> Tensor:
        """Rows of the effective table of an `nn.Embedding`."""
        rows = functional.embedding(indices, base, layer.padding_idx, None, 2.0, layer.scale_grad_by_freq, layer.sparse)
        result = rows + functional.embedding(indices, self.a) @ self.b * self.scale
        return (result if self.magnitude is None else result * self._factor(base)).to(rows.dtype)

    def _factor(self, base: Tensor) -> Tensor:
        """The factor of the sum in DoRA, `[d_output]`: the magnitude by the norm."""
        assert self.magnitude is not None
        with torch.no_grad():
            weight = dequantized(base).to(self.a.dtype)
            weight = torch.addmm(weight.mT if self.transposed else weight, self.a, self.b, alpha=self.scale)
            norm = torch.linalg.vector_norm(weight, dim=0)
        return self.magnitude / norm

    def _norm(self, weight: Tensor) -> Tensor:
        return torch.linalg.vector_norm(weight, dim=1 if self.transposed else 0)


class ExpertsLora(Lora):
    """The weight of experts in one tensor, plus scale times a product of factors for each.

    Attributes:
        a: `[n_experts, rank, d_input]`.
        b: `[d_output, rank, n_experts]`, zeros; both lie as peft stores them.
        transposed: whether the weight is `[n_experts, d_output, d_input]`, and not `[n_experts, d_input, d_output]`.
    """

    def __init__(self, config: LoraConfig, weight: Tensor, *, transposed: bool) -> None:
        """For `weight`, of which only shape, element type and device matter."""
        count, first, second = weight.shape
        super().__init__(config, weight[0], transposed=transposed)
        outputs, inputs = (first, second) if transposed else (second, first)
        options: Any = {"dtype": self.a.dtype, "device": weight.device}
        bound = inputs**-0.5  # as nn.Linear draws
        self.a = nn.Parameter(torch.empty(count, config.rank, inputs, **options).uniform_(-bound, bound))
        self.b = nn.Parameter(torch.zeros(outputs, config.rank, count, **options))

    def forward(self, base: Tensor) -> Tensor:
        up = self.b.permute(2, 0, 1)
        factors = (up, self.a) if self.transposed else (self.a.mT, up.mT)
        return torch.baddbmm(base.to(self.a.dtype), *factors, alpha=self.scale).to(base.dtype)


class Dequantized(Reparameterization):
    """A quantized weight that a layer computes with as a plain one."""

    reparameterization_name = "dequantized"

    def forward(self, base: Tensor) -> Tensor:
        return dequantized(base)

    def layer_forward(self, layer: nn.Module, layer_class: type, *arguments: Any, **keywords: Any) -> Tensor | None:
        kind, inputs = kind_of(layer_class), (*arguments, *keywords.values())
        if kind in (None, "embedding") or len(inputs) != 1:
            return None
        if (adapted := adapter_of(layer, Dequantized)) is None:
            return None
        bias = cast("Tensor | None", layer.bias)
        return self.linear(inputs[0], adapted[1], bias, outputs_first=kind == "linear")

    def linear(self, x: Tensor, base: Tensor, bias: Tensor | None, *, outputs_first: bool = False) -> Tensor:
        return frozen_linear(x, base, bias, outputs_first=outputs_first)


# Compiled code could not guard the forward of a class of which some modules are fused.
@assume_constant
def kind_of(layer: type) -> Literal["linear", "conv1d", "embedding"] | None:
    """The kind of a class of layers that computes just what torch's or transformers' layer of this kind does."""
    if issubclass(layer, nn.Linear) and layer.forward is nn.Linear.forward:
        return "linear"
    if issubclass(layer, nn.Embedding) and layer.forward is nn.Embedding.forward:
        return "embedding"
    # Its layers are here only if it is loaded; importing it would take seconds.
    library = sys.modules.get("transformers.pytorch_utils")
    return "conv1d" if library is not None and layer.forward is library.Conv1D.forward else None


def frozen_linear(x: Tensor, base: Tensor, bias: Tensor | None, *, outputs_first: bool) -> Tensor:
    """A linear layer of a weight `[d_output, d_input]` (`outputs_first`) or `[d_input, d_output]`, perhaps quantized.

    A quantized one is not trained; it is made plain in each pass, and not kept for the other.
    """

    def weight(dtype: torch.dtype) -> Tensor:
        plain = dequantized(base).to(dtype)
        return plain if outputs_first else plain.mT

    x = for_products(x)
    bias = None if bias is None else bias.to(x.dtype)
    if not is_quantized(base) or is_transformed() or is_recorded():
        return linear(x, weight(x.dtype), bias)
    return _FrozenLinear.apply(x, weight, bias)


class _FrozenLinear(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor, weight: Callable[[torch.dtype], Tensor], bias: Tensor | None) -> Tensor:
        ctx.weight = weight
        return linear(x, weight(x.dtype), bias)

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor | None, ...]:
        (grad,) = grads
        grad_x = grad @ ctx.weight(grad.dtype) if ctx.needs_input_grad[0] else None
        return grad_x, None, grad.flatten(0, -2).sum(0) if ctx.needs_input_grad[2] else None


A = TypeVar("A", bound=Reparameterization)


def adapter_of(module: nn.Module, *kinds: type[A]) -> tuple[A, Tensor] | None:
    """The adapter of the weight, of one of some classes, and its base, for layers that need not make its sum.

    None if there is none, if another parametrization lies above it, or if hooks are to see the sum.
    """
    list_of = parametrizations_of(module).get("weight")
    if list_of is None or len(list_of._modules) != 1:
        return None
    lora = list_of._modules["0"]
    if type(lora) not in kinds or any(getattr(part, hooks) for part in (list_of, lora) for hooks in CALL_HOOKS):
        return None
    return cast("A", lora), list_of.original


def apply_lora(module: M, config: LoraConfig) -> M:
    """Freeze `module` and add trainable adapters to its matrices, in place; returns the module.

    Every parameter is frozen, but those of reparameterizations from an earlier call. Each floating-point parameter of
    rank 2 in `config.param_group` (weights of linear layers and embeddings, in any layout) gets a `Lora`, whose factors
    are the parameters `<path>.lora.a` and `<path>.lora.b`. Nothing in the code of the module changes: it reads the
    effective weight. A tied weight has one adapter, which applies at all its places. Call it before the module is
    sharded or wrapped by DDP.

    Raises:
        ModuleTreeError: no matrix is in the group, one has an adapter already, or the module can't be changed any more.
            The module is as it was.
        ParamPathError: the group names a path that the module does not have. The module is as it was.
    """
    floats = [param for param in candidates(module) if param.tensor.is_floating_point()]
    two_dimensional = [param for param in floats if param.tensor.dim() == 2]
    chosen = {param.id for param in config.param_group.select(module)}
    matrices = [param for param in two_dimensional if param.id in chosen]
    if not matrices:
        raise ModuleTreeError(
            f"no parameter of {own_class(module).__name__} gets an adapter: expected floating-point ones of rank 2 in"
            f" {config.param_group}; of rank 2 there are {listed([param.path for param in two_dimensional])}."
            " The module is as it was"
        )
    attach([(param, Lora(config, param.tensor)) for param in matrices])
    for param in candidates(module):
        param.set_require_grad(False)
    return module


def adapters_off(module: nn.Module) -> AbstractContextManager[None]:
    """Let a module compute without its adapters, as the model that they were added to; its values stay.

    Raises:
        ModuleTreeError: there are none, one is a DoRA or began with a part of the weights, or parameters beside them
            are trained: then the model before the training is not to be had from this one.
    """
    loras = [part for part in module.modules() if isinstance(part, Lora)]
    factors = {id(it) for lora in loras for it in (lora.a, lora.b)}
    trained = [name for name, it in module.named_parameters() if it.requires_grad and id(it) not in factors]
    if not loras or trained or any(lora.magnitude is not None or lora.is_residual for lora in loras):
        what = (
            "a DoRA, or one that began with a part of the weights (start)"
            if loras and not trained
            else f"'{trained[0]}'"
            if trained
            else "none"
        )
        raise ModuleTreeError(
            f"{own_class(module).__name__} computes as before its training only where nothing but LoRA adapters is"
            f" trained, got {what}"
        )
    return _scaled_by_0(loras)


@contextmanager
def _scaled_by_0(loras: list[Lora]) -> Iterator[None]:
    scales = [lora.scale for lora in loras]
    for lora in loras:
        lora.scale = 0.0
    try:
        yield
    finally:
        for lora, scale in zip(loras, scales, strict=True):
            lora.scale = scale


class WeightNorm(Reparameterization):
    """weight * g / |weight| (Salimans & Kingma 2016, arXiv:1602.07868, eq. 2): the magnitude is `g`.

    Made of a weight, it starts with that weight's magnitudes, so that applying it changes nothing:
    `apply_reparameterization(model, lambda param: WeightNorm(param.base(), 1) if param.tensor.dim() > 1 else None)`.

    Attributes:
        g: `[weight.shape[dim]]`, the Euclidean norm of each slice along `dim`.
        dim: the dimension that counts the vectors of which each is normalized: that of the layer's outputs, 1 of
            `burnlike.nn.Linear` and 0 of `torch.nn.Linear`.
    """

    reparameterization_name = "weight_norm"

    def __init__(self, weight: Tensor, dim: int = 1) -> None:
        """For `weight`, of any rank above 1; ArgumentError if it has no dimension `dim`."""
        super().__init__()
        if not 0 <= dim < weight.dim():
            raise ArgumentError(f"expected dim to be one of the {weight.dim()} dimensions of the weight, got {dim}")
        self.dim = dim
        self.g = nn.Parameter(self._norm(weight.detach()).flatten())

    def forward(self, base: Tensor) -> Tensor:
        norm = self._norm(base)
        return base * (self.g.view(norm.shape) / norm)

    def _norm(self, weight: Tensor) -> Tensor:
        others = [dim for dim in range(weight.dim()) if dim != self.dim]
        return torch.linalg.vector_norm(weight, dim=others, keepdim=True)
