"""Gated recurrent units, in one direction and in both."""

from functools import partial
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor
from torch.nn import functional

from ...module import Content
from ...tensor.torch_bridge.torch_function import lift
from ..activation.activation import Activation
from ..call_types import KeepsType, T
from .configs import GruConfig
from .recurrence import Bidirectional, Direction, GateController, Kernel, States, clipped, run, run_both


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
    def forward(self, x: Tensor, state: Tensor | None = None) -> Tensor:
        """`[batch, sequence, d_input] -> [batch, sequence, d_hidden]`, whose last step is the state after it.

        `state` is the hidden state before the first step, `[batch, d_hidden]`; zeros if None.
        """
        return run(self, x, None if state is None else (state,), batch_first=True, reverse=False)[0]

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

        def __call__(self, x: T, state: Any = None) -> tuple[T, T]: ...

    @lift
    def forward(self, x: Tensor, state: Tensor | None = None) -> tuple[Tensor, Tensor]:
        """`[batch, sequence, d_input] -> [batch, sequence, 2 * d_hidden]`, and the states after the last steps.

        `state` has those before the first steps, `[2, batch, d_hidden]`; zeros if None. The batch may be second.
        """
        output, (hidden,) = run_both(self, x, None if state is None else (state,))
        return output, hidden
