"""Sequences through gates: by torch's fused kernels where they compute what is asked for, else step by step.

Burn has two linear transforms for each gate, torch one matrix of all gates: `[n * d_hidden, d_input]`. Both ways use
torch's matrices, which are put together in each call, so that derivatives reach the gates.

In ONNX they are its own operators, for any length of sequences; torch's exporter would write each step.
"""

from collections.abc import Callable, Sequence
from typing import Any, ClassVar, TypeGuard

import torch
from torch import Tensor
from torch.nn import functional

from ..._torch_compat.transforms import transforming
from ...config import ModuleConfig
from ...module import Content, Module
from ...ops import join_gates, lstm, lstm_gains
from ...ops.half_products import recurrent
from ...tensor.torch_bridge.torch_function import lift
from ..configs import LinearConfig
from ..initializers.configs import Initializer
from ..layer import Layer, expect_shape, exports_to_onnx, shape_error
from ..linear import Linear
from . import gru_sequence

ONNX_NAMES: dict[Any, str] = {torch.lstm: "LSTM", torch.gru: "GRU", torch.rnn_tanh: "RNN", torch.rnn_relu: "RNN"}
_GATES = {"LSTM": (0, 3, 1, 2), "GRU": (1, 0, 2), "RNN": (0,)}
"""The places of torch's gates in the order of ONNX: input, output, forget, cell; update, reset, hidden."""


def onnx_layer(
    kernel: Any, x: Tensor, states: Sequence[Tensor], weights: Sequence[Tensor], count: int, mask: Tensor | None
) -> tuple[Tensor, ...]:
    """Compute torch's kernel over `[time, batch, d_input]` as one operator.

    Args:
        states: `[directions, batch, d_hidden]` each, the hidden state first.
        weights: of each direction: for the input, for the hidden state, and the biases of both where there are any.
        count: of directions.
        mask: `[time, batch]`: 0 or False for steps that are not read, and whose output is 0.
    """
    name = ONNX_NAMES[kernel]
    size = len(weights) // count
    parts = [weights[place : place + size] for place in range(0, len(weights), size)]
    of_input, of_hidden = (torch.stack([_ordered(part[at], name) for part in parts]) for at in (0, 1))
    biases = [torch.cat([_ordered(it, name) for it in part[2:]]) for part in parts] if size > 2 else []
    d_hidden = states[0].shape[-1]
    attributes: dict[str, Any] = {"hidden_size": d_hidden, "direction": "bidirectional" if count > 1 else "forward"}
    if name == "GRU":
        # As torch has it, and `reset_after`; ONNX's own default is the other form.
        attributes["linear_before_reset"] = 1
    if kernel is torch.rnn_relu:
        attributes["activations"] = ["Relu"] * count
    time, batch = x.shape[:2]
    shapes = [(time, count, batch, d_hidden), *[(count, batch, d_hidden)] * len(states)]
    lengths, places, kept = None, None, None
    if mask is not None:  # the operator leaves out steps at the end only: those that are read are moved to the begin
        kept = mask != 0
        count_before = kept.cumsum(0)
        lengths = kept.sum(0, dtype=torch.int32)
        places = torch.where(kept, count_before - 1, lengths + (~kept).cumsum(0) - 1).unsqueeze(-1)
        x = torch.zeros_like(x).scatter(0, places.expand_as(x), x)
    outputs = torch.onnx.ops.symbolic_multi_out(
        name,
        (x, of_input, of_hidden, torch.stack(biases) if biases else None, lengths, *states),
        attributes,
        dtypes=[x.dtype] * len(shapes),
        shapes=shapes,
    )
    output = outputs[0].transpose(1, 2).flatten(2)
    if places is not None and kept is not None:
        output = output.gather(0, places.expand_as(output)) * kept.unsqueeze(-1)
    return output, *outputs[1:]


def _ordered(tensor: Tensor, name: str) -> Tensor:
    gates = tensor.chunk(len(_GATES[name]))
    return torch.cat([gates[place] for place in _GATES[name]])


States = tuple[Tensor, ...]
"""In torch's order, the hidden state first: `[batch, d_hidden]`, or `[directions, batch, d_hidden]` for kernels."""

Kernel = Callable[..., tuple[Tensor, ...]]
"""`torch.lstm`, `torch.gru`, `torch.rnn_tanh` or `torch.rnn_relu`."""
# Up to so many, a step by the weights as they lie is faster: a token of an LstmLm of two layers of 256 takes 0.31 ms in
# place of 0.73.
_FEW_ROWS = 8


class GateController(Module):
    """x @ W_i + b_i + h @ W_h + b_h, before the gate's activation.

    The layers with gates compute those of all gates at once. They take the weights from here, and don't call this.
    """

    input_transform: Linear
    hidden_transform: Linear

    def __init__(
        self,
        d_input: int,
        d_output: int,
        bias: bool,
        initializer: Initializer,
        device: torch.device | str | None = None,
    ) -> None:
        super().__init__()
        linear = LinearConfig(d_input=d_input, d_output=d_output, bias=bias, initializer=initializer)
        self.input_transform = linear.init(device)
        self.hidden_transform = linear.replace(d_input=d_output).init(device)

    def product(self, x: Tensor, hidden: Tensor) -> Tensor:
        """As `gate_product` of matrices, by the weights alone."""
        parts = ((x, self.input_transform), (hidden, self.hidden_transform))
        one, other = (it @ to.weight if to.bias is None else torch.addmm(to.bias, it, to.weight) for it, to in parts)
        return one.add_(other)

    @lift
    def gate_product(self, x: Tensor, hidden: Tensor) -> Tensor:
        """The gate's value before its activation, `[..., d_input], [..., d_output] -> [..., d_output]`."""
        return self.input_transform(x) + self.hidden_transform(hidden)


class Direction(Layer):
    """A layer that reads sequences in one direction, step by step; its state has `n_states` tensors."""

    n_states: ClassVar[int] = 1
    _first_gate: ClassVar[str]
    d_hidden: int

    def gates(self) -> list[GateController]:
        """The gates in torch's order."""
        raise NotImplementedError

    def kernel(self) -> Kernel | None:
        """Torch's function that computes what this layer is set to, if there is one."""
        raise NotImplementedError

    def step(self, projected: Tensor, states: States, weight: Tensor, bias: Tensor | None) -> States:
        """The states after one step, of `projected` input of all gates `[batch, n * d_hidden]`.

        weight and bias are those of the hidden state, of all gates: `[n * d_hidden, d_hidden]` and `[n * d_hidden]`.
        """
        raise NotImplementedError

    def one_step(self, x: Tensor, states: States) -> States | None:
        """The states after one step of `[batch, d_input]`, by the weights of each gate as they are; None for `step`."""
        return None

    def custom_content(self, content: Content) -> Content:
        return _add_sizes(content, self._first_gate)


class Bidirectional(Layer):
    """Two layers that read the same sequences, `reverse` from the end; their outputs are side by side.

    The layer that reads forwards is the child `forward`, as in Burn, in paths and records. `layer.forward` is the
    method, as in torch: `layer.get_submodule("forward")` is the child.
    """

    _direction: ClassVar[type[ModuleConfig]]
    """The config of one of the two; the config of both has its fields."""
    _first_gate: ClassVar[str]
    reverse: Direction
    d_hidden: int
    batch_first: bool

    def __init__(self, config: Any, device: torch.device | str | None = None) -> None:
        super().__init__()
        shared = {name: getattr(config, name) for name in config.__struct_fields__ if name != "batch_first"}
        one: Any = self._direction(**shared)
        self.forward = one.init(device)
        self.reverse = one.init(device)
        self.d_hidden = config.d_hidden
        self.batch_first = config.batch_first

    def directions(self) -> tuple[Any, Any]:
        return self.forwards, self.reverse

    @property
    def forwards(self) -> Any:
        """The layer that reads forwards; its name in an ONNX file, as torch's exporter looks up modules by names."""
        return self._modules["forward"]

    def named_modules(self, memo: Any = None, prefix: str = "", remove_duplicate: bool = True) -> Any:
        old = f"{prefix}.forward" if prefix else "forward"
        for path, module in super().named_modules(memo, prefix, remove_duplicate):
            if torch.onnx.is_in_onnx_export() and (path == old or path.startswith(f"{old}.")):
                path = f"{old}s{path.removeprefix(old)}"
            yield path, module

    def custom_content(self, content: Content) -> Content:
        return _add_sizes(content, f"forward.{self._first_gate}")


def run(
    layer: Direction, x: Tensor, states: States | None, mask: Tensor | None, batch_first: bool, reverse: bool
) -> tuple[Tensor, States]:
    """The hidden states of all steps, and the states after the last one; `mask` is as of `_by_steps`."""
    batch, time = expect_sequence(layer, x, layer, batch_first)
    for state in states or ():
        expect_shape(layer, state, batch, layer.d_hidden, name="state")
    if mask is None and x.shape[time] == 1 and states is not None and _takes_one_step(x):
        step = layer.one_step(x.squeeze(time), states)
        if step is not None:
            return step[0].unsqueeze(time).clone(), step  # what is done to the output in place is not for the state
    if (results := _by_lstm([layer], x, [states], mask, batch_first, reverse)) is not None:
        output, *last = results
        return output, tuple(state.squeeze(0) for state in last)
    kernel = layer.kernel()
    if not _usable(kernel, mask):
        return _by_steps(layer, x, states, time, reverse, mask)
    stacked = None if states is None else tuple(state.unsqueeze(0) for state in states)
    if reverse:
        x, mask = x.flip(time), None if mask is None else mask.flip(time)
    output, *last = _by_kernel(kernel, [layer], x, stacked, batch_first, mask)
    return output.flip(time) if reverse else output, tuple(state.squeeze(0) for state in last)


def run_both(layer: Bidirectional, x: Tensor, states: States | None, mask: Tensor | None) -> tuple[Tensor, States]:
    """The hidden states of both directions side by side, and the last states one above the other."""
    directions = layer.directions()
    batch, time = expect_sequence(layer, x, directions[0], layer.batch_first)
    for state in states or ():
        expect_shape(layer, state, 2, batch, layer.d_hidden, name="state")
    own_states = [None if states is None else tuple(state[index] for state in states) for index in range(2)]
    if (results := _by_lstm(directions, x, own_states, mask, layer.batch_first)) is not None:
        return results[0], results[1:]
    kernel, other = (direction.kernel() for direction in directions)
    if kernel is other and _usable(kernel, mask):
        output, *last = _by_kernel(kernel, directions, x, states, layer.batch_first, mask)
        return output, tuple(last)
    runs = [
        _by_steps(direction, x, own_states[index], time, index == 1, mask) for index, direction in enumerate(directions)
    ]
    last = zip(*(states for _, states in runs), strict=True)
    return torch.cat([output for output, _ in runs], -1), tuple(torch.stack(pair) for pair in last)


def expect_sequence(layer: Layer, x: Tensor, direction: Direction, batch_first: bool) -> tuple[int, int]:
    """The size of the batch, and which dimension is time; ShapeError for another shape, or no steps."""
    sizes = ("batch", "sequence") if batch_first else ("sequence", "batch")
    expect_shape(layer, x, *sizes, direction.gates()[0].input_transform.weight.shape[0])
    batch, time = (0, 1) if batch_first else (1, 0)
    if x.shape[time] == 0:
        raise shape_error(layer, "a sequence of at least one step", list(x.shape))
    return x.shape[batch], time


def _usable(kernel: Kernel | None, mask: Tensor | None) -> TypeGuard[Kernel]:
    """True if there is a kernel, and it can run here.

    Torch's kernels take no mask, which ONNX's operators do, and have no rules for vmap and forward derivatives.
    AOTAutograd fails where it is to differentiate the kernel that `torch.lstm` uses on CPUs (torch 2.13).
    """
    if kernel is None or transforming():
        return False
    if mask is not None:
        return exports_to_onnx() and kernel in ONNX_NAMES
    return kernel is not torch.lstm or not torch.compiler.is_dynamo_compiling() or not torch.is_grad_enabled()


def _takes_one_step(x: Tensor) -> bool:
    """True if a step is one of a few rows on the CPU, which takes less time than to put the gates together."""
    if torch.is_grad_enabled() or torch.is_autocast_enabled("cpu") or transforming() or exports_to_onnx():
        return False
    if torch.compiler.is_compiling() or torch.jit.is_tracing():  # pyright: ignore[reportPrivateImportUsage]
        return False
    return x.device.type == "cpu" and x.dtype in (torch.float32, torch.float64) and x.shape[:2].numel() <= _FEW_ROWS


def _by_kernel(
    kernel: Kernel,
    directions: Sequence[Direction],
    x: Tensor,
    states: States | None,
    batch_first: bool,
    mask: Tensor | None = None,
) -> tuple[Tensor, ...]:
    count, first = len(directions), directions[0]
    if states is None:
        batch = x.shape[0 if batch_first else 1]
        states = (x.new_zeros(count, batch, first.d_hidden),) * first.n_states
    weights = [tensor for direction in directions for tensor in packed(direction.gates())]
    if exports_to_onnx() and kernel in ONNX_NAMES:
        if batch_first:
            x, mask = x.transpose(0, 1), None if mask is None else mask.transpose(0, 1)
        output, *last = onnx_layer(kernel, x, states, weights, count, mask)
        return output.transpose(0, 1) if batch_first else output, *last

    def run(x: Tensor, states: States, weights: list[Tensor]) -> tuple[Tensor, ...]:
        state: Any = states if first.n_states > 1 else states[0]
        if kernel is torch.gru and gru_sequence.gains(x, state, weights):
            return _by_gru_sequence(x, state, weights, batch_first)
        has_bias = len(weights) > 2 * count
        return kernel(x, state, weights, has_bias, 1, 0.0, first.training, count > 1, batch_first)

    output, *last = recurrent(run, x, states, weights, keeps_state_dtype=kernel is torch.gru)
    # Traced without data, torch 2.11 gives the states of `torch.lstm` a dimension more.
    return output, *(state.reshape(count, *state.shape[-2:]) for state in last)


def _by_lstm(
    directions: Sequence[Direction],
    x: Tensor,
    states: Sequence[States | None],
    mask: Tensor | None,
    batch_first: bool,
    reverse: bool = False,
) -> tuple[Tensor, ...] | None:
    """As `_by_kernel`, the state of each direction by itself; None for what the native op does not compute faster."""
    if any(direction.kernel() is not torch.lstm for direction in directions):
        return None
    first, time_first = directions[0], x.transpose(0, 1) if batch_first else x
    tensors = [_tensors(direction.gates()) for direction in directions]
    all_tensors = [it for group in (*states, *tensors) for it in group or ()]
    if not lstm_gains(time_first, first.d_hidden, all_tensors):
        return None
    kept = None
    if mask is not None:
        expect_shape(first, mask, *x.shape[:2], name="attention_mask")
        kept = (mask != 0).transpose(0, 1) if batch_first else mask != 0
    runs: list[tuple[Tensor, ...]] = []
    for index, (parts, state) in enumerate(zip(tensors, states, strict=True)):
        # Side by side as they lie, which takes less than the transposes of `join_gates`, by torch's own copies.
        of_input, of_hidden = (torch.cat(parts[place : place + 4], 1).mT for place in (0, 4))
        biases = [torch.cat(parts[place : place + 4]) for place in range(8, len(parts), 4)]
        hidden, cell = state or (x.new_zeros(time_first.shape[1], first.d_hidden),) * 2
        weights = (of_input, of_hidden, *(biases or (None, None)))
        runs.append(lstm(time_first, hidden, cell, weights, kept, reverse or index == 1))
    output = runs[0][0] if len(runs) == 1 else torch.cat([it[0] for it in runs], -1)
    output = output if kept is None else output * kept.unsqueeze(-1)
    last = (torch.stack([it[place] for it in runs]) for place in (1, 2))
    return output.transpose(0, 1) if batch_first else output, *last


def _by_gru_sequence(x: Tensor, state: Tensor, weights: list[Tensor], batch_first: bool) -> tuple[Tensor, ...]:
    time_first, size = x.transpose(0, 1) if batch_first else x, len(weights) // len(state)
    runs = [
        gru_sequence.gru_sequence(time_first, one, weights[index * size : (index + 1) * size], index == 1)
        for index, one in enumerate(state)
    ]
    output = runs[0][0] if len(runs) == 1 else torch.cat([it for it, _ in runs], -1)
    return output.transpose(0, 1) if batch_first else output, torch.stack([last for _, last in runs])


def _by_steps(
    layer: Direction, x: Tensor, states: States | None, time: int, reverse: bool, mask: Tensor | None = None
) -> tuple[Tensor, States]:
    """As the kernels compute it, for every setting of the layer.

    Where `mask`, of the shape of x without its features, is 0 or False, the states stay and the output is 0: a text
    gives the same values whatever pads it, also where it is read from its end.
    """
    if mask is not None:
        expect_shape(layer, mask, *x.shape[:2], name="attention_mask")
    weight_input, weight_hidden, *biases = packed(layer.gates())
    bias_input, bias_hidden = biases or (None, None)
    projected = functional.linear(x, weight_input, bias_input).unbind(time)
    if states is None:
        states = (x.new_zeros(x.shape[1 - time], layer.d_hidden),) * layer.n_states
    outputs: list[Tensor] = []
    kept = None if mask is None else (mask != 0).unsqueeze(-1).unbind(time)
    for place in reversed(range(len(projected))) if reverse else range(len(projected)):
        after = layer.step(projected[place], states, weight_hidden, bias_hidden)
        if kept is None:
            states = after
            outputs.append(states[0])
        else:
            states = tuple(torch.where(kept[place], it, old) for it, old in zip(after, states, strict=True))
            outputs.append(states[0] * kept[place])
    return torch.stack(outputs[::-1] if reverse else outputs, time), states


def packed(gates: Sequence[GateController]) -> list[Tensor]:
    """The gates' weights as torch has them: for the input, the hidden state, and both biases if there are any."""
    return join_gates(_tensors(gates), len(gates))


def _tensors(gates: Sequence[GateController]) -> list[Tensor]:
    inputs, hiddens = [gate.input_transform for gate in gates], [gate.hidden_transform for gate in gates]
    tensors: list[Any] = [transform.weight for transforms in (inputs, hiddens) for transform in transforms]
    if inputs[0].bias is not None:
        tensors += [transform.bias for transforms in (inputs, hiddens) for transform in transforms]
    return tensors


def clipped(state: Tensor, clip: float | None) -> Tensor:
    """The state within `-clip` to `clip`."""
    return state if clip is None else state.clamp(-clip, clip)


def _add_sizes(content: Content, gate: str) -> Content:
    """Show the sizes of a layer, by the path of one of its gates."""
    d_input, d_hidden = content.shape(f"{gate}.input_transform.weight")
    bias = content.has(f"{gate}.input_transform.bias")
    return content.add("d_input", d_input).add("d_hidden", d_hidden).add("bias", bias)
