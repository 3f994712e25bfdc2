"""Backward passes at the same time: in several threads, and inside hooks of other passes."""

import threading
from collections.abc import Sequence

from torch import Tensor

# The leaves whose `.grad` a pass is using now. Guarded by the condition, which is notified when some are free again.
_IN_USE: set[int] = set()
_FREED = threading.Condition()


class Exclusive:
    """Wait until no other pass uses the `.grad` of one of these leaves, then keep others away from them."""

    __slots__ = ("_wanted",)

    def __init__(self, leaves: Sequence[Tensor]) -> None:
        self._wanted = {id(leaf) for leaf in leaves}

    def __enter__(self) -> None:
        with _FREED:
            while not _IN_USE.isdisjoint(self._wanted):
                _FREED.wait()
            _IN_USE.update(self._wanted)

    def __exit__(self, *_: object) -> None:
        with _FREED:
            _IN_USE.difference_update(self._wanted)
            _FREED.notify_all()
