"""Plain recurrent layers, long short-term memory and gated recurrent units, in one direction and in both, with
the states that they take and return.
"""

from collections.abc import Callable, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple, Self

import torch
from torch import Tensor, nn
from torch.nn import functional

from ...backend import Backend
from ...config import ModuleConfig
from ...errors import ShapeError
from ...module import Content
from ...tensor import Tensor as Typed
from ...tensor.torch_bridge.torch_function import lift
from ..activation.activation import Activation
from ..activation.configs import ReluConfig, TanhConfig
from ..call_types import KeepsType, T
from ..tensor_source import TensorSource
from ..torch_counterpart import Counterpart, expect_only, refuse
from . import configs
from .configs import GruConfig, LstmConfig, RnnConfig
from .recurrence import Bidirectional, Direction, GateController, Kernel, States, clipped, run, run_both


class RnnState(NamedTuple):
    """The state of `Rnn`, `[batch, d_hidden]`, and with a first dimension of 2 that of `BiRnn`."""

    hidden: Tensor


class LstmState(NamedTuple):
    """The state of `Lstm`, `[batch, d_hidden]` each, or `[2, batch, d_hidden]` of `BiLstm`; torch has hidden first."""

    cell: Tensor
    hidden: Tensor

    @classmethod
    def new(cls, cell: Tensor, hidden: Tensor) -> Self:
        """The state of these tensors. Raises ShapeError if their shapes differ."""
        if cell.shape != hidden.shape:
            raise ShapeError(
                f"LstmState: expected cell and hidden of one shape, got {list(cell.shape)} and {list(hidden.shape)}"
            )
        return cls(cell, hidden)

    @classmethod
    def initial(cls, shape: Sequence[int], device: Backend | torch.device | str | None = None) -> Self:
        """Zeros of a shape: torch tensors on a device, or typed ones of a backend."""
        if isinstance(device, Backend):
            zeros: Any = Typed.zeros(list(shape), device)
            return cls(zeros, zeros)
        return cls(torch.zeros(*shape, device=device), torch.zeros(*shape, device=device))

    @classmethod
    def unwrap_or_initial(
        cls, state: Self | None, shape: Sequence[int], device: Backend | torch.device | str | None = None
    ) -> Self:
        """`state`, or zeros if it is None."""
        return cls.initial(shape, device) if state is None else state

    @property
    def shape(self) -> torch.Size:
        """The shape of the cell, and so of the hidden state."""
        return self.cell.shape

    @property
    def device(self) -> torch.device:
        return self.cell.device

    def unpack(self) -> tuple[Tensor, Tensor]:
        return self.cell, self.hidden

    def map_state(self, function: Callable[[Tensor], Tensor]) -> "LstmState":
        """The state of what `function` makes of both tensors."""
        return LstmState(function(self.cell), function(self.hidden))

    def squeeze_dim(self, dim: int) -> "LstmState":
        """Without the dimension `dim`. Raises ShapeError if it has another size than 1."""
        if self.shape[dim] != 1:
            raise ShapeError(f"LstmState: expected size 1 in dimension {dim}, got {list(self.shape)}")
        return self.map_state(lambda tensor: torch.squeeze(tensor, dim))

    def unsqueeze_dim(self, dim: int) -> "LstmState":
        """With a dimension of size 1 at `dim` of the result."""
        return self.map_state(lambda tensor: torch.unsqueeze(tensor, dim))

    @staticmethod
    def stack(states: Sequence["LstmState"], dim: int) -> "LstmState":
        """The states along a new dimension."""
        return LstmState(
            torch.stack([state.cell for state in states], dim), torch.stack([state.hidden for state in states], dim)
        )

    def chunk(self, chunks: int, dim: int) -> "list[LstmState]":
        """The state in `chunks` parts along a dimension, which stays."""
        cells, hiddens = torch.chunk(self.cell, chunks, dim), torch.chunk(self.hidden, chunks, dim)
        return [LstmState(*pair) for pair in zip(cells, hiddens, strict=True)]


_KERNELS: dict[str, Kernel] = {"Tanh": torch.rnn_tanh, "Relu": torch.rnn_relu}


class Rnn(Direction):
    """h_t = tanh(x_t @ W_i + b_i + h_(t-1) @ W_h + b_h) (Elman 1990).
    Torch: `nn.RNN`. Differs: one layer, the gate's weights in its own tensors; the batch is first by default.
    """

    _first_gate = "gate"
    gate: GateController

    if TYPE_CHECKING:

        def __call__(self, x: T, state: Any = None, attention_mask: Any = None) -> tuple[T, RnnState]: ...

    def __init__(self, config: RnnConfig, device: torch.device | str | None = None) -> None:
        super().__init__()
        self.gate = GateController(config.d_input, config.d_hidden, config.bias, config.initializer, device)
        self.d_hidden = config.d_hidden
        self.batch_first = config.batch_first
        self.reverse = config.reverse
        self.clip = config.clip
        self.hidden_activation = Activation.of(config.hidden_activation, device)

    @lift
    def forward(
        self, x: Tensor, state: RnnState | None = None, attention_mask: Tensor | None = None
    ) -> tuple[Tensor, RnnState]:
        """`[batch, sequence, d_input] -> [batch, sequence, d_hidden]`; state `[batch, d_hidden]`, zeros if None.

        In padding, where `attention_mask` (of the shape of x without features) is 0, states stay and outputs are 0.
        """
        states = None if state is None else (state.hidden,)
        output, (hidden,) = run(self, x, states, attention_mask, self.batch_first, self.reverse)
        return output, RnnState(hidden)

    def gates(self) -> list[GateController]:
        return [self.gate]

    def kernel(self) -> Kernel | None:
        return _KERNELS.get(self.hidden_activation.variant) if self.clip is None else None

    def step(self, projected: Tensor, states: States, weight: Tensor, bias: Tensor | None) -> States:
        gate = projected + functional.linear(states[0], weight, bias)
        return (clipped(self.hidden_activation(gate), self.clip),)


class BiRnn(Bidirectional):
    """Two of `Rnn`, of which one reads the sequence from its end (Schuster & Paliwal 1997).
    Torch: `nn.RNN` with `bidirectional=True`.
    Differs: one layer, the gates' weights in their own tensors; the batch is first by default.
    """

    _direction = RnnConfig
    _first_gate = "gate"

    if TYPE_CHECKING:

        def __call__(self, x: T, state: Any = None, attention_mask: Any = None) -> tuple[T, RnnState]: ...

    @lift
    def forward(
        self, x: Tensor, state: RnnState | None = None, attention_mask: Tensor | None = None
    ) -> tuple[Tensor, RnnState]:
        """`[batch, sequence, d_input] -> [.., 2 * d_hidden]`; state `[2, batch, d_hidden]`, zeros if None.

        In padding, where `attention_mask` (of the shape of x without features) is 0, states stay and outputs are 0.
        """
        output, (hidden,) = run_both(self, x, None if state is None else (state.hidden,), attention_mask)
        return output, RnnState(hidden)


class Lstm(Direction):
    """Long short-term memory with a forget gate (Hochreiter & Schmidhuber 1997, Gers et al. 2000).

    With each gate the sum of its two linear transforms, of x_t and of h_(t-1):
    c_t = sigmoid(forget) * c_(t-1) + sigmoid(input) * tanh(cell), h_t = sigmoid(output) * tanh(c_t).
    With `input_forget` there is no `forget_gate`, it is None.

    Torch: `nn.LSTM`.
    Differs: one layer, each gate's weights in its own tensors; the batch is first by default, the cell before the
        hidden state.
    """

    _first_gate = "input_gate"
    n_states: ClassVar[int] = 2
    input_gate: GateController
    # A GateController or None; annotated so, it would be optional in records, which it is not in Burn 0.21.
    forget_gate: Any
    output_gate: GateController
    cell_gate: GateController

    if TYPE_CHECKING:

        def __call__(self, x: T, state: Any = None, attention_mask: Any = None) -> tuple[T, LstmState]: ...

    def __init__(self, config: LstmConfig, device: torch.device | str | None = None) -> None:
        super().__init__()
        gate = partial(GateController, config.d_input, config.d_hidden, config.bias, config.initializer, device)
        self.input_gate = gate()
        self.forget_gate = None if config.input_forget else gate()
        self.output_gate = gate()
        self.cell_gate = gate()
        self.d_hidden = config.d_hidden
        self.batch_first = config.batch_first
        self.reverse = config.reverse
        self.clip = config.clip
        self.input_forget = config.input_forget
        self.gate_activation = Activation.of(config.gate_activation, device)
        self.cell_activation = Activation.of(config.cell_activation, device)
        self.hidden_activation = Activation.of(config.hidden_activation, device)

    @lift
    def forward(
        self, x: Tensor, state: LstmState | None = None, attention_mask: Tensor | None = None
    ) -> tuple[Tensor, LstmState]:
        """`[batch, sequence, d_input] -> [batch, sequence, d_hidden]`; states `[batch, d_hidden]`, zeros if None.

        In padding, where `attention_mask` (of the shape of x without features) is 0, states stay and outputs are 0.
        """
        states = None if state is None else (state.hidden, state.cell)
        output, (hidden, cell) = run(self, x, states, attention_mask, self.batch_first, self.reverse)
        return output, LstmState(cell, hidden)

    def gates(self) -> list[GateController]:
        forget = () if self.input_forget else (self.forget_gate,)
        return [self.input_gate, *forget, self.cell_gate, self.output_gate]

    def kernel(self) -> Kernel | None:
        activations = (self.gate_activation, self.cell_activation, self.hidden_activation)
        usual = tuple(activation.variant for activation in activations) == ("Sigmoid", "Tanh", "Tanh")
        return torch.lstm if usual and self.clip is None and not self.input_forget else None

    def step(self, projected: Tensor, states: States, weight: Tensor, bias: Tensor | None) -> States:
        gates = projected + functional.linear(states[0], weight, bias)
        return self._after(gates.chunk(3 if self.input_forget else 4, -1), states[1])

    def one_step(self, x: Tensor, states: States) -> States:
        return self._after([gate.product(x, states[0]) for gate in self.gates()], states[1])

    def _after(self, gates: Sequence[Tensor], cell: Tensor) -> States:
        input_gate, *forget, cell_gate, output_gate = gates
        input_gate = self.gate_activation(input_gate)
        forget_gate = self.gate_activation(forget[0]) if forget else 1 - input_gate
        cell = clipped(forget_gate * cell + input_gate * self.cell_activation(cell_gate), self.clip)
        return self.gate_activation(output_gate) * self.hidden_activation(cell), cell


class BiLstm(Bidirectional):
    """Two of `Lstm`, of which one reads the sequence from its end (Schuster & Paliwal 1997).
    Torch: `nn.LSTM` with `bidirectional=True`.
    Differs: one layer, each gate's weights in its own tensors; the batch is first by default, the cell before the
        hidden state.
    """

    _direction = LstmConfig
    _first_gate = "input_gate"

    if TYPE_CHECKING:

        def __call__(self, x: T, state: Any = None, attention_mask: Any = None) -> tuple[T, LstmState]: ...

    @lift
    def forward(
        self, x: Tensor, state: LstmState | None = None, attention_mask: Tensor | None = None
    ) -> tuple[Tensor, LstmState]:
        """`[batch, sequence, d_input] -> [.., 2 * d_hidden]`; states `[2, batch, d_hidden]`, zeros if None.

        In padding, where `attention_mask` (of the shape of x without features) is 0, states stay and outputs are 0.
        """
        output, (hidden, cell) = run_both(
            self, x, None if state is None else (state.hidden, state.cell), attention_mask
        )
        return output, LstmState(cell, hidden)


class Gru(KeepsType, Direction):
    """Gated recurrent unit (Cho et al. 2014, eq. 5-8).

    With z = sigmoid(update gate), r = sigmoid(reset gate): h_t = (1 - z) * n + z * h_(t-1), where
    n = tanh(x_t @ W_i + b_i + r * (h_(t-1) @ W_h + b_h)), or with `reset_after=False`
    n = tanh(x_t @ W_i + b_i + (r * h_(t-1)) @ W_h + b_h).

    Torch: `nn.GRU` with `batch_first=True`.
    Differs: one layer, each gate's weights in its own tensors; only the outputs are returned.
    """

    _first_gate = "update_gate"
    update_gate: GateController
    reset_gate: GateController
    new_gate: GateController

    def __init__(self, config: GruConfig, device: torch.device | str | None = None) -> None:
        super().__init__()
        gate = partial(GateController, config.d_input, config.d_hidden, config.bias, config.initializer, device)
        self.update_gate = gate()
        self.reset_gate = gate()
        self.new_gate = gate()
        self.d_hidden = config.d_hidden
        self.reset_after = config.reset_after
        self.gate_activation = Activation.of(config.gate_activation, device)
        self.hidden_activation = Activation.of(config.hidden_activation, device)
        self.clip = config.clip

    @lift
    def forward(self, x: Tensor, state: Tensor | None = None, attention_mask: Tensor | None = None) -> Tensor:
        """`[batch, sequence, d_input] -> [batch, sequence, d_hidden]`; state `[batch, d_hidden]`, zeros if None.

        In padding, where `attention_mask` (of the shape of x without features) is 0, states stay and outputs are 0.
        """
        states = None if state is None else (state,)
        return run(self, x, states, attention_mask, batch_first=True, reverse=False)[0]

    def gates(self) -> list[GateController]:
        return [self.reset_gate, self.update_gate, self.new_gate]

    def kernel(self) -> Kernel | None:
        usual = self.gate_activation.variant == "Sigmoid" and self.hidden_activation.variant == "Tanh"
        return torch.gru if usual and self.reset_after and self.clip is None else None

    def step(self, projected: Tensor, states: States, weight: Tensor, bias: Tensor | None) -> States:
        (hidden,) = states
        reset_input, update_input, new_input = projected.chunk(3, -1)
        split = 2 * self.d_hidden
        if self.reset_after:
            both, new_hidden = functional.linear(hidden, weight, bias).split([split, self.d_hidden], -1)
        else:
            both, new_hidden = functional.linear(hidden, weight[:split], None if bias is None else bias[:split]), None
        reset_hidden, update_hidden = both.chunk(2, -1)
        reset = self.gate_activation(reset_input + reset_hidden)
        update = self.gate_activation(update_input + update_hidden)
        if new_hidden is None:
            new_hidden = functional.linear(reset * hidden, weight[split:], None if bias is None else bias[split:])
        else:
            new_hidden = reset * new_hidden
        new = self.hidden_activation(new_input + new_hidden)
        return (clipped((1 - update) * new + update * hidden, self.clip),)

    def custom_content(self, content: Content) -> Content:
        return super().custom_content(content).add("reset_after", self.reset_after)


class BiGru(Bidirectional):
    """Two of `Gru`, of which one reads the sequence from its end (Schuster & Paliwal 1997).
    Torch: `nn.GRU` with `bidirectional=True`.
    Differs: one layer, each gate's weights in its own tensors; the batch is first by default.
    """

    _direction = GruConfig
    _first_gate = "update_gate"

    if TYPE_CHECKING:

        def __call__(self, x: T, state: Any = None, attention_mask: Any = None) -> tuple[T, T]: ...

    @lift
    def forward(
        self, x: Tensor, state: Tensor | None = None, attention_mask: Tensor | None = None
    ) -> tuple[Tensor, Tensor]:
        """`[batch, sequence, d_input] -> [.., 2 * d_hidden]`; state `[2, batch, d_hidden]`, zeros if None.

        In padding, where `attention_mask` (of the shape of x without features) is 0, states stay and outputs are 0.
        """
        output, (hidden,) = run_both(self, x, None if state is None else (state,), attention_mask)
        return output, hidden


_ACTIVATIONS = {"tanh": TanhConfig(), "relu": ReluConfig()}


def _from_torch(one: type[ModuleConfig], both: type[ModuleConfig], layer: nn.RNNBase) -> ModuleConfig:
    expect_only(layer, remedy="; make one layer for each", num_layers=1)
    expect_only(layer, dropout=0, proj_size=0)
    config = both if layer.bidirectional else one
    if "batch_first" not in config.__struct_fields__:
        expect_only(layer, batch_first=True)
    fields = {
        "d_input": layer.input_size,
        "d_hidden": layer.hidden_size,
        "bias": layer.bias,
        "batch_first": layer.batch_first,
    }
    if isinstance(layer, nn.RNN):
        fields["hidden_activation"] = _ACTIVATIONS[layer.nonlinearity]
    return config(**{name: value for name, value in fields.items() if name in config.__struct_fields__})


def _to_torch(twin: type[nn.RNNBase], layer: Any, device: torch.device) -> nn.Module:
    directions = layer.directions() if isinstance(layer, Bidirectional) else (layer,)
    for one in directions:
        expect_only(layer, one, clip=None, reverse=False, input_forget=False, reset_after=True)
        if one.kernel() is None:
            raise refuse(layer, "its activations have no counterpart")
    first = directions[0].gates()[0].input_transform
    options = {"nonlinearity": directions[0].hidden_activation.variant.lower()} if twin is nn.RNN else {}
    return twin(
        *first.weight.shape,
        bias=first.bias is not None,
        batch_first=getattr(layer, "batch_first", True),
        bidirectional=len(directions) > 1,
        device=device,
        **options,
    )


def _tensors(gates: tuple[str, ...], prefix: str = "", suffix: str = "") -> dict[str, TensorSource]:
    sources: dict[str, TensorSource] = {}
    for index, gate in enumerate(gates):
        for transform, name in (("input_transform", "ih"), ("hidden_transform", "hh")):
            chunk, path = (index, len(gates)), f"{prefix}{gate}.{transform}"
            sources[f"{path}.weight"] = TensorSource(f"weight_{name}_l0{suffix}", chunk, True)
            sources[f"{path}.bias"] = TensorSource(f"bias_{name}_l0{suffix}", chunk)
    return sources


def _pairs(one: type[ModuleConfig], both: type[ModuleConfig], twin: type[nn.RNNBase], *gates: str) -> list[Counterpart]:
    name, config, build = one.__name__.removesuffix("Config"), partial(_from_torch, one, both), partial(_to_torch, twin)
    of_both = _tensors(gates, "forward.") | _tensors(gates, "reverse.", "_reverse")
    return [
        Counterpart(name, twin, config, build, _tensors(gates), call="other", fits=lambda it: not it.bidirectional),
        Counterpart(f"Bi{name}", twin, config, build, of_both, call="other", fits=lambda it: it.bidirectional),
    ]


COUNTERPARTS = [
    *_pairs(configs.RnnConfig, configs.BiRnnConfig, nn.RNN, "gate"),
    *_pairs(configs.LstmConfig, configs.BiLstmConfig, nn.LSTM, "input_gate", "forget_gate", "cell_gate", "output_gate"),
    *_pairs(configs.GruConfig, configs.BiGruConfig, nn.GRU, "reset_gate", "update_gate", "new_gate"),
]
