"""Models of `torch.nn`'s layers that take the weights of ready models."""

import re
from collections.abc import Mapping

from torch import nn

from burnlike.interop import record_to_torch


def renamed(name: str, names: Mapping[str, str]) -> str:
    """`name` with the patterns of `names` replaced, one after the other."""
    for pattern, other in names.items():
        name = re.sub(pattern, other, name)
    return name


def take_weights(ours: nn.Module, theirs: nn.Module, names: Mapping[str, str]) -> None:
    """Give theirs the weights of ours.

    Args:
        ours: a ready model.
        theirs: of torch's layers.
        names: patterns in the paths of ours, with torch's names of layers' tensors, to what theirs has in place of it.
    """
    state = {renamed(name, names): it for name, it in record_to_torch(ours).tensors.items()}
    counters = {name: it for name, it in theirs.state_dict().items() if name.endswith("num_batches_tracked")}
    theirs.load_state_dict({**counters, **state})
