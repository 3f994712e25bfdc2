"""Copies batches to a CUDA device while the ones before are computed with."""

from collections.abc import Iterable, Iterator
from typing import Any

import torch
from torch import Tensor

from .._torch_compat.pytree import tree_map
from .making import Made, to_device


def copied_ahead(batches: Iterable[Made], device: torch.device) -> Iterator[Made]:
    """The batches on the device; each is copied on a stream of its own before the one before it is handed out.

    Args:
        batches: in pinned memory, so that copies need no CPU.
        device: one of CUDA.
    """
    stream = torch.cuda.Stream(device)
    waiting: tuple[Made, Any] | None = None
    for made in batches:
        with torch.cuda.stream(stream):
            copied = made._replace(batch=to_device(made.batch, device)), stream.record_event()
        if waiting is not None:
            yield _ready(*waiting, device)
        waiting = copied
    if waiting is not None:
        yield _ready(*waiting, device)


def _ready(made: Made, copied: Any, device: torch.device) -> Made:
    """The batch, for the stream in use: it waits for the copy, and keeps the memory until it has used it."""
    stream: Any = torch.cuda.current_stream(device)
    stream.wait_event(copied)
    tree_map(lambda it: it.record_stream(stream) if isinstance(it, Tensor) else None, made.batch)
    return made
