"""`nn.LSTM` by the native op: all of its layers and directions, from any state."""

from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from ... import ops


def is_lstm(module: Any) -> bool:
    """True for a layer whose forward is torch's, without a projection of its states."""
    return isinstance(module, nn.LSTM) and type(module).forward is nn.LSTM.forward and not module.proj_size


def lstm_forward(module: Any, x: Any, states: Any = None) -> tuple[Tensor, tuple[Tensor, Tensor]] | None:
    """What `nn.LSTM` returns, or None for what is left to torch: sequences alone, packed ones, errors."""
    layers, directions, size = module.num_layers, 1 + module.bidirectional, module.hidden_size
    if type(x) is not Tensor or x.dim() != 3 or x.shape[-1] != module.input_size or module.proj_size:
        return None
    time_first = x.transpose(0, 1) if module.batch_first else x
    shape = (layers * directions, time_first.shape[1], size)
    if states is None:
        states = (x.new_zeros(shape),) * 2
    if type(states) is not tuple or len(states) != 2 or any(getattr(it, "shape", None) != shape for it in states):
        return None
    weights = module.all_weights
    if not ops.lstm_gains(time_first, size, [*states, *(it for each in weights for it in each)]):
        return None
    drops = bool(module.training and module.dropout and layers > 1)
    output = time_first.contiguous() if drops else time_first  # of which torch's dropout draws
    last: list[tuple[Tensor, Tensor]] = []
    for layer in range(layers):
        runs = []
        for direction in range(directions):
            place = layer * directions + direction
            of_input, of_hidden, *biases = weights[place]
            joined = (of_input, of_hidden, *(biases or (None, None)))
            runs.append(ops.lstm(output, states[0][place], states[1][place], joined, None, direction == 1))
        output = runs[0][0] if directions == 1 else torch.cat([it[0] for it in runs], -1)
        if drops and layer < layers - 1:
            output = F.dropout(output, module.dropout)
        last += [(hidden, cell) for _, hidden, cell in runs]
    hidden, cell = (torch.stack([pair[place] for pair in last]) for place in range(2))
    return output.transpose(0, 1) if module.batch_first else output, (hidden, cell)
