"""The plain recurrent layer, in one direction and in both."""

from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor
from torch.nn import functional

from ...tensor.torch_bridge.torch_function import lift
from ..activation.activation import Activation
from ..call_types import T
from .configs import RnnConfig
from .recurrence import Bidirectional, Direction, GateController, Kernel, States, clipped, run, run_both
from .states import RnnState

_KERNELS: dict[str, Kernel] = {"Tanh": torch.rnn_tanh, "Relu": torch.rnn_relu}


class Rnn(Direction):
    """h_t = tanh(x_t @ W_i + b_i + h_(t-1) @ W_h + b_h) (Elman 1990).

    Torch: `nn.RNN`.
    Differs: one layer, the gate's weights in its own tensors; the batch is first by default.
    """

    _first_gate = "gate"
    gate: GateController

    if TYPE_CHECKING:

        def __call__(self, x: T, state: Any = None) -> tuple[T, RnnState]: ...

    def __init__(self, config: RnnConfig, device: torch.device | str | None = None) -> None:
        super().__init__()
        self.gate = GateController(config.d_input, config.d_hidden, config.bias, config.initializer, device)
        self.d_hidden = config.d_hidden
        self.batch_first = config.batch_first
        self.reverse = config.reverse
        self.clip = config.clip
        self.hidden_activation = Activation.of(config.hidden_activation, device)

    @lift
    def forward(self, x: Tensor, state: RnnState | None = None) -> tuple[Tensor, RnnState]:
        """`[batch, sequence, d_input] -> [batch, sequence, d_hidden]`, and the state after the last step.

        `state` is that before the first step, `[batch, d_hidden]`; zeros if None. The batch may be second.
        """
        states = None if state is None else (state.hidden,)
        output, (hidden,) = run(self, x, states, self.batch_first, self.reverse)
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

        def __call__(self, x: T, state: Any = None) -> tuple[T, RnnState]: ...

    @lift
    def forward(self, x: Tensor, state: RnnState | None = None) -> tuple[Tensor, RnnState]:
        """`[batch, sequence, d_input] -> [batch, sequence, 2 * d_hidden]`, and the states after the last steps.

        `state` has those before the first steps, `[2, batch, d_hidden]`; zeros if None. The batch may be second.
        """
        output, (hidden,) = run_both(self, x, None if state is None else (state.hidden,))
        return output, RnnState(hidden)
