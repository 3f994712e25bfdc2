"""Backward passes at the same time: of several threads, and inside of another one's hooks."""

import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

import torch
from torch import Tensor

# The leaves whose `.grad` a pass is using now. Guarded by the condition, which is notified when some are free again.
_IN_USE: set[int] = set()
_FREED = threading.Condition()


@contextmanager
def exclusive(leaves: Sequence[Tensor]) -> Iterator[None]:
    """Wait until no other pass uses the `.grad` of one of these leaves, then keep others away from them."""
    wanted = {id(leaf) for leaf in leaves}
    with _FREED:
        _FREED.wait_for(lambda: _IN_USE.isdisjoint(wanted))
        _IN_USE.update(wanted)
    try:
        yield
    finally:
        with _FREED:
            _IN_USE.difference_update(wanted)
            _FREED.notify_all()


def in_backward() -> bool:
    """Whether this thread is running a hook of a backward pass."""
    return torch._C._current_graph_task_id() != -1
