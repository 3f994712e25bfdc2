"""`torch.lstm`, as `nn.LSTM` calls it, by the native op: all layers and directions, from any state."""

from collections.abc import Sequence

import torch
from torch import Tensor

from ... import ops
from ...ops.bernoulli_noise import dropout as native_dropout


def lstm(
    x: Tensor,
    states: Sequence[Tensor],
    weights: Sequence[Tensor],
    has_biases: bool,
    num_layers: int,
    dropout: float,
    train: bool,
    bidirectional: bool,
    batch_first: bool,
) -> tuple[Tensor, Tensor, Tensor] | None:
    """The results of `torch.lstm` of sequences `[time, batch, d_input]`; None for what is left to torch."""
    directions = 2 if bidirectional else 1
    count, each = num_layers * directions, 4 if has_biases else 2
    if type(x) is not Tensor or x.dim() != 3 or len(states) != 2 or len(weights) != count * each:
        return None
    output, size = x.transpose(0, 1) if batch_first else x, states[1].shape[-1]
    shape, columns = (count, output.shape[1], size), (4 * size, size)
    if any(state.shape != shape for state in states) or any(weight.shape != columns for weight in weights[1::each]):
        return None
    if not ops.lstm_gains(output, size, [*states, *weights]):
        return None
    drops = train and dropout > 0 and num_layers > 1
    output = output.contiguous() if drops else output  # the order in which torch's dropout draws
    last: list[tuple[Tensor, Tensor]] = []
    for layer in range(num_layers):
        runs: list[tuple[Tensor, Tensor, Tensor]] = []
        for direction in range(directions):
            place = layer * directions + direction
            of_input, of_hidden, *biases = weights[place * each : (place + 1) * each]
            joined = (of_input, of_hidden, *(biases or (None, None)))
            runs.append(ops.lstm(output, states[0][place], states[1][place], joined, None, direction == 1))
        output = runs[0][0] if directions == 1 else torch.cat([run[0] for run in runs], -1)
        if drops and layer < num_layers - 1:
            output = native_dropout(output, dropout)
        last += [(hidden, cell) for _, hidden, cell in runs]
    hidden, cell = (torch.stack([pair[place] for pair in last]) for place in range(2))
    return output.transpose(0, 1) if batch_first else output, hidden, cell
