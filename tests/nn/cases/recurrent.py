"""Cases of recurrent layers."""

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional

from burnlike import nn

from . import Case, floats

Function = Callable[[Tensor], Tensor]


def rnn_inputs() -> tuple[Any, ...]:
    return (floats(2, 5, 3),)


def product(gate: Any, x: Tensor, hidden: Tensor) -> Tensor:
    """The gate before its activation, as the papers have it."""
    parts = [x @ gate.input_transform.weight, hidden @ gate.hidden_transform.weight]
    biases = [it for it in (gate.input_transform.bias, gate.hidden_transform.bias) if it is not None]
    return torch.stack([*parts, *(it.expand_as(parts[0]) for it in biases)]).sum(0)


def sequence(x: Tensor, step: Callable[[Tensor], Tensor], reverse: bool = False) -> Tensor:
    """The outputs of `step` for `[batch, sequence, d_input]`, in order of time."""
    order = range(x.shape[1])
    found = {time: step(x[:, time]) for time in (reversed(order) if reverse else order)}
    return torch.stack([found[time] for time in order], 1)


def rnn(
    layer: Any,
    x: Tensor,
    state: Any = None,
    activation: Function = torch.tanh,
    clip: float = 1e9,
    reverse: bool = False,
) -> Any:
    """Elman 1990."""
    hidden = x.new_zeros(x.shape[0], layer.d_hidden) if state is None else state.hidden

    def step(now: Tensor) -> Tensor:
        nonlocal hidden
        hidden = activation(product(layer.gate, now, hidden)).clamp(-clip, clip)
        return hidden

    return sequence(x, step, reverse), hidden


def lstm(
    layer: Any,
    x: Tensor,
    state: Any = None,
    gate: Function = torch.sigmoid,
    cell_activation: Function = torch.tanh,
    hidden_activation: Function = torch.tanh,
    clip: float = 1e9,
    coupled: bool = False,
    reverse: bool = False,
) -> Any:
    """Gers et al. 2000, section 3; coupled gates are those of Greff et al. 2017."""
    zeros = x.new_zeros(x.shape[0], layer.d_hidden)
    cell, hidden = (zeros, zeros) if state is None else state

    def step(now: Tensor) -> Tensor:
        nonlocal cell, hidden
        let_in = gate(product(layer.input_gate, now, hidden))
        kept = 1 - let_in if coupled else gate(product(layer.forget_gate, now, hidden))
        out = gate(product(layer.output_gate, now, hidden))
        cell = (kept * cell + let_in * cell_activation(product(layer.cell_gate, now, hidden))).clamp(-clip, clip)
        hidden = out * hidden_activation(cell)
        return hidden

    return sequence(x, step, reverse), cell, hidden


def gru(
    layer: Any,
    x: Tensor,
    state: Any = None,
    gate: Function = torch.sigmoid,
    activation: Function = torch.tanh,
    clip: float = 1e9,
    reset_after: bool = True,
    reverse: bool = False,
) -> Any:
    """Cho et al. 2014, eq. 5-8; with `reset_after` its candidate is that of cuDNN."""
    hidden = x.new_zeros(x.shape[0], layer.d_hidden) if state is None else state

    def step(now: Tensor) -> Tensor:
        nonlocal hidden
        update = gate(product(layer.update_gate, now, hidden))
        reset = gate(product(layer.reset_gate, now, hidden))
        if reset_after:
            zeros = torch.zeros_like(hidden)
            own = product(layer.new_gate, torch.zeros_like(now), hidden)
            of_input = product(layer.new_gate, now, zeros)
            bias = product(layer.new_gate, torch.zeros_like(now), zeros)
            hidden_bias = layer.new_gate.hidden_transform.bias
            own_bias = 0 if hidden_bias is None else hidden_bias
            new = activation(of_input - own_bias + reset * (own - bias + own_bias))
        else:
            new = activation(product(layer.new_gate, now, reset * hidden))
        hidden = ((1 - update) * new + update * hidden).clamp(-clip, clip)
        return hidden

    return sequence(x, step, reverse), hidden


def both(formula: Callable[..., Any], **options: Any) -> Callable[..., Any]:
    """The reference of a bidirectional layer, from that of one direction."""

    def reference(layer: Any, x: Tensor, state: Any = None) -> Any:
        rows = [None, None] if state is None else [_row(state, index) for index in (0, 1)]
        forward = formula(layer.get_submodule("forward"), x, rows[0], **options)
        reverse = formula(layer.reverse, x, rows[1], reverse=True, **options)
        states = [torch.stack(pair) for pair in zip(forward[1:], reverse[1:], strict=True)]
        return torch.cat((forward[0], reverse[0]), -1), *states

    return reference


def _row(state: Any, index: int) -> Any:
    return state[index] if isinstance(state, Tensor) else type(state)(*(it[index] for it in state))


def with_options(formula: Callable[..., Any], **options: Any) -> Callable[..., Any]:
    return lambda layer, *inputs: formula(layer, *inputs, **options)


def outputs_of(formula: Callable[..., Any], **options: Any) -> Callable[..., Any]:
    """Only the outputs, as of `Gru`."""
    return lambda layer, *inputs: formula(layer, *inputs, **options)[0]


def first_of_states(output: Any) -> Any:
    """What torch's layer of one direction returns, without the dimension of directions."""
    outputs, states = output
    return (outputs, *(it[0] for it in reversed(states))) if isinstance(states, tuple) else (outputs, states[0])


def of_both(output: Any) -> Any:
    """What torch's layer of both directions returns, the cell first."""
    outputs, states = output
    return (outputs, *reversed(states)) if isinstance(states, tuple) else output


def given_state(x: Tensor, state: Any) -> Any:
    """The inputs as torch's layer of one direction takes them."""
    return x, state[None] if isinstance(state, Tensor) else _torch_order([it[None] for it in state])


def given_states(x: Tensor, state: Any) -> Any:
    return x, state if isinstance(state, Tensor) else _torch_order(state)


def _torch_order(state: Any) -> Any:
    return tuple(reversed(state)) if len(state) > 1 else state[0]


def hard_sigmoid(x: Tensor) -> Tensor:
    return (0.2 * x + 0.5).clamp(0, 1)


SIZES = {"d_input": 3, "d_hidden": 4, "bias": True}
NO_BIAS = {**SIZES, "bias": False}
BAD = ((2, 5, 4), (5, 3), (2, 0, 3))
FORWARD = {"export": "torch.export calls parameters by paths, in which `forward` is a method"}
ACTIVATIONS = {"gate_activation": nn.HardSigmoidConfig(), "hidden_activation": nn.SoftsignConfig()}


def rnn_state() -> Any:
    return floats(2, 5, 3), nn.RnnState(floats(2, 4))


def lstm_state() -> Any:
    return floats(2, 5, 3), nn.LstmState(floats(2, 4), floats(2, 4))


RNN = [
    Case("Rnn", nn.RnnConfig(**SIZES), rnn_inputs, torch_output=first_of_states, bad_shapes=BAD),
    Case("Rnn/no_bias", nn.RnnConfig(**NO_BIAS), rnn_inputs, torch_output=first_of_states),
    Case(
        "Rnn/state",
        nn.RnnConfig(**SIZES),
        rnn_state,
        torch_inputs=given_state,
        torch_output=first_of_states,
    ),
    Case(
        "Rnn/relu",
        nn.RnnConfig(**SIZES, hidden_activation=nn.ReluConfig(), batch_first=False),
        rnn_inputs,
        torch_output=first_of_states,
    ),
    Case("Rnn/reverse", nn.RnnConfig(**SIZES, reverse=True), rnn_inputs, with_options(rnn, reverse=True)),
    Case(
        "Rnn/options",
        nn.RnnConfig(**SIZES, reverse=True, clip=0.3, hidden_activation=nn.SoftsignConfig()),
        rnn_state,
        with_options(rnn, reverse=True, clip=0.3, activation=functional.softsign),
    ),
    Case("BiRnn", nn.BiRnnConfig(**SIZES), rnn_inputs, torch_output=of_both, bad_shapes=BAD, not_in=FORWARD),
    Case(
        "BiRnn/clip",
        nn.BiRnnConfig(**NO_BIAS, clip=0.3, batch_first=False),
        lambda: (floats(5, 2, 3), nn.RnnState(floats(2, 2, 4))),
        lambda layer, x, state: _time_first(both(rnn, clip=0.3)(layer, x.transpose(0, 1), state)),
        not_in=FORWARD,
    ),
]


def _time_first(output: Any) -> Any:
    return output[0].transpose(0, 1), *output[1:]


LSTM = [
    Case("Lstm", nn.LstmConfig(**SIZES), rnn_inputs, torch_output=first_of_states, bad_shapes=BAD),
    Case("Lstm/no_bias", nn.LstmConfig(**NO_BIAS), rnn_inputs, torch_output=first_of_states),
    Case(
        "Lstm/state",
        nn.LstmConfig(**SIZES, batch_first=False),
        lambda: (floats(5, 2, 3), nn.LstmState(floats(2, 4), floats(2, 4))),
        torch_inputs=given_state,
        torch_output=first_of_states,
    ),
    Case("Lstm/reverse", nn.LstmConfig(**SIZES, reverse=True), lstm_state, with_options(lstm, reverse=True)),
    Case(
        "Lstm/input_forget",
        nn.LstmConfig(**SIZES, input_forget=True, batch_first=False),
        lambda: (floats(5, 2, 3),),
        lambda layer, x: _time_first(lstm(layer, x.transpose(0, 1), coupled=True)),
    ),
    Case(
        "Lstm/options",
        nn.LstmConfig(**NO_BIAS, **ACTIVATIONS, cell_activation=nn.ReluConfig(), clip=0.3, reverse=True),
        lstm_state,
        with_options(
            lstm,
            gate=hard_sigmoid,
            cell_activation=torch.relu,
            hidden_activation=functional.softsign,
            clip=0.3,
            reverse=True,
        ),
    ),
    Case("BiLstm", nn.BiLstmConfig(**SIZES), rnn_inputs, torch_output=of_both, bad_shapes=BAD, not_in=FORWARD),
    Case(
        "BiLstm/state",
        nn.BiLstmConfig(**SIZES, batch_first=False),
        lambda: (floats(5, 2, 3), nn.LstmState(floats(2, 2, 4), floats(2, 2, 4))),
        torch_inputs=given_states,
        torch_output=of_both,
        not_in=FORWARD,
    ),
    Case(
        "BiLstm/input_forget",
        nn.BiLstmConfig(**SIZES, input_forget=True),
        lambda: (floats(2, 5, 3), nn.LstmState(floats(2, 2, 4), floats(2, 2, 4))),
        both(lstm, coupled=True),
        not_in=FORWARD,
    ),
]

GRU = [
    Case("Gru", nn.GruConfig(**SIZES), rnn_inputs, torch_output=lambda output: output[0], bad_shapes=BAD),
    Case("Gru/no_bias", nn.GruConfig(**NO_BIAS), rnn_inputs, torch_output=lambda output: output[0]),
    Case(
        "Gru/state",
        nn.GruConfig(**SIZES),
        lambda: (floats(2, 5, 3), floats(2, 4)),
        torch_inputs=given_state,
        torch_output=lambda output: output[0],
    ),
    Case("Gru/reset_before", nn.GruConfig(**SIZES, reset_after=False), rnn_inputs, outputs_of(gru, reset_after=False)),
    Case(
        "Gru/options",
        nn.GruConfig(**SIZES, **ACTIVATIONS, clip=0.3),
        lambda: (floats(2, 5, 3), floats(2, 4)),
        outputs_of(gru, gate=hard_sigmoid, activation=functional.softsign, clip=0.3),
    ),
    Case("BiGru", nn.BiGruConfig(**SIZES), rnn_inputs, torch_output=of_both, bad_shapes=BAD, not_in=FORWARD),
    Case(
        "BiGru/state",
        nn.BiGruConfig(**SIZES, batch_first=False),
        lambda: (floats(5, 2, 3), floats(2, 2, 4)),
        torch_inputs=given_states,
        torch_output=of_both,
        not_in=FORWARD,
    ),
    Case(
        "BiGru/reset_before",
        nn.BiGruConfig(**NO_BIAS, reset_after=False),
        lambda: (floats(2, 5, 3), floats(2, 2, 4)),
        both(gru, reset_after=False),
        not_in=FORWARD,
    ),
]

CASES = [*RNN, *LSTM, *GRU]
