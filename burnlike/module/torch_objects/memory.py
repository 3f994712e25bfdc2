"""The memory that tensors use, and copies that share none of it."""

from bisect import bisect_left, bisect_right
from collections.abc import Iterable

from torch import Tensor
from torch.nn.parameter import is_lazy as is_shapeless

from ..._torch_compat.dispatch import is_traceable_wrapper_subclass
from .lazy_parameter import is_lazy


def is_unfilled(tensor: Tensor) -> bool:
    """True if a parameter has no values yet: a lazy one, or torch's own (`nn.LazyLinear`) that has no shape either."""
    return is_lazy(tensor) or is_shapeless(tensor)


class Memory:
    """The memory of some tensors, to find out whether another tensor uses a part of it."""

    def __init__(self, tensors: Iterable[Tensor] = ()) -> None:
        # Ranges of addresses, sorted and without overlap.
        self._starts: list[int] = []
        self._ends: list[int] = []
        for tensor in tensors:
            self.add(tensor)

    def add(self, tensor: Tensor) -> None:
        for start, end in _ranges(tensor) or ():
            first, last = bisect_right(self._ends, start), bisect_left(self._starts, end)
            if first < last:
                start, end = min(start, self._starts[first]), max(end, self._ends[last - 1])
            self._starts[first:last] = [start]
            self._ends[first:last] = [end]

    def holds(self, tensor: Tensor) -> bool:
        """True if `tensor` uses a part of the memory, or where it lies is not known."""
        ranges = _ranges(tensor)
        if ranges is None:
            return True
        return any(bisect_right(self._ends, start) < bisect_left(self._starts, end) for start, end in ranges)

    def separate(self, tensor: Tensor) -> Tensor:
        """The values of `tensor`, detached, in memory that none of those taken in uses, and that is now taken in.

        That is the tensor's own memory if it can be trained there, else a copy. Called outside of inference mode.
        """
        value = tensor.detach()
        copied = value.is_inference() or self.holds(value)
        if not copied and not is_traceable_wrapper_subclass(value):  # a part of something larger, or expanded
            copied = value.untyped_storage().nbytes() != value.numel() * value.element_size()
        if copied:
            value = value.clone()
        self.add(value)
        return value


def _ranges(tensor: Tensor) -> list[tuple[int, int]] | None:
    """The addresses that the memory of `tensor` begins and ends at; None where torch can't tell."""
    if is_traceable_wrapper_subclass(tensor):
        names, _ = tensor.__tensor_flatten__()
        parts = [_ranges(part) for name in names if isinstance(part := getattr(tensor, name), Tensor)]
        return None if None in parts else [it for part in parts for it in part or ()]
    if tensor.is_meta or is_unfilled(tensor):
        return []
    try:
        storage = tensor.untyped_storage()
        start = storage.data_ptr()
    except (NotImplementedError, RuntimeError):  # sparse tensors, and those that have no storage
        return None
    return [(start, start + storage.nbytes())] if storage.nbytes() else []
