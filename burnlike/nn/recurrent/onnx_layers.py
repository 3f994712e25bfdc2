"""Recurrent layers in ONNX: by its own operators, for any length of sequences; torch's exporter writes each step."""

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

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
