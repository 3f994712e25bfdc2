"""Moments of many small parameters in few tensors: handing a tensor to a kernel costs more than a small one's step."""

from collections.abc import Sequence
from itertools import groupby

import torch
from torch import Tensor

# Values up to which a moment is packed, if it has any. Above, a step's time is in its values, and packing would cost
# memory in vain.
SMALL = 16384


def pack(moments: Sequence[Tensor]) -> tuple[list[Tensor], list[Tensor]]:
    """Put each run of small moments into one flat tensor, end to end.

    Returns:
        For each moment a tensor of its shape and values, and the list that `adamw_step_` takes: flat tensors for the
        runs, the others as they are. Both share memory.
    """
    each: list[Tensor] = []
    handed: list[Tensor] = []
    for (is_small, _, _), group in groupby(moments, lambda it: (0 < it.numel() <= SMALL, it.dtype, it.device)):
        run = list(group)
        if not is_small or len(run) == 1:
            each += run
            handed += run
            continue
        flat = torch.cat([moment.flatten() for moment in run])
        parts = flat.split([moment.numel() for moment in run])
        each += [part.view(moment.shape) for part, moment in zip(parts, run, strict=True)]
        handed.append(flat)
    return each, handed
