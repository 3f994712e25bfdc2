"""Recorder of memory and of exchanges between processes, for computations with tensors without values.

See `forecast_step` for an example. torch's memory is told by storages: `_note` numbers each new one, and a weak
reference notes the moment when the last tensor of it is gone, as torch's allocator would get it back.
"""

import weakref
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from contextlib import ExitStack
from typing import Any, NamedTuple, Self

import torch
import torch.distributed as dist
from torch import Tensor

from ..._torch_compat.dispatch import TorchDispatchMode, grouped_products
from ..._torch_compat.fake_processes import group_of, resizes_seen
from ..._torch_compat.fake_tensors import NEEDS_VALUES, READS_NUMBER, is_plain, memory_of
from ..._torch_compat.pytree import tree_leaves
from ...errors import ConfigError

_KINDS = {
    "allgather": "all-gather",
    "reducescatter": "reduce-scatter",
    "allreduce": "all-reduce",
    "alltoall": "all-to-all",
    "broadcast": "broadcast",
    "send": "send",
    "recv": "receive",
}
"""What an exchange is called, by a part of its operator's name without underscores."""

aten: Any = torch.ops.aten


class Exchange(NamedTuple):
    """An exchange of a kind within a group of processes.

    Attributes:
        kind: `all-gather` and so on.
        ranks: of the group.
        bytes: of the tensor that is whole on each process after it, or was so before.
    """

    kind: str
    ranks: tuple[int, ...]
    bytes: int


class Recorder(TorchDispatchMode):
    """Notes memory and exchanges within its `with` block, which lies in one of fake tensors.

    Where values are asked for, each number is 1, and all items are chosen: the most that a batch takes. All processes
    have the same numbers, so that a sum over them is how many they are. Items that are counted by what they belong to,
    as tokens by their experts, are as many of each; these counts are known, also where they are exchanged and summed.

    Attributes:
        exchanges: in their order.
        changes: of memory: the number of a block, and how many bytes it takes more.
        resized: numbers of the blocks that were freed or allocated in place, as FSDP2 does with gathered parameters.
    """

    def __init__(self) -> None:
        super().__init__()
        self.exchanges: list[Exchange] = []
        self.changes: list[tuple[int, int]] = []
        self.resized: set[int] = set()
        self._live: dict[int, tuple[int, int, Any]] = {}
        self._blocks = 0
        self._answers: dict[int, int] = {}
        self._counts: dict[int, list[int]] = {}
        self._stack = ExitStack()

    def __enter__(self) -> Self:
        self._stack.enter_context(resizes_seen(self._resized))
        return super().__enter__()

    def __exit__(self, *error: Any) -> None:
        super().__exit__(*error)
        self._stack.close()

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        if not all(map(is_plain, types)):
            return NotImplemented  # it comes again with the tensors within
        if func.__name__ == "wait_tensor.default":  # without values torch gives a copy, else the tensor itself
            return args[0]
        try:
            if func is grouped_products.default:
                # torch multiplies groups of rows in any type of floats, but without values in bfloat16 alone.
                x, y, *rest = args
                result = func(x.bfloat16(), y.bfloat16(), *rest, **(kwargs or {})).to(x.dtype)
            else:
                result = func(*args, **(kwargs or {}))
        except NEEDS_VALUES:
            result = self._without_values(func, args, kwargs or {})
        for tensor in tree_leaves(result):
            if isinstance(tensor, Tensor):
                self._note(tensor)
        if "c10d" in func.namespace or func.namespace == "_dtensor":
            self._note_exchange(func, args, result)
        elif func is aten.sum.dim_IntList and (counts := self._counts.get(_key(args[0]))) is not None:
            columns = args[0].shape[-1]
            rows = [counts[place : place + columns] for place in range(0, len(counts), columns)]
            self._counts[_key(result)] = [sum(it) for it in (rows if args[1] == [1] else zip(*rows, strict=True))]
        return result

    def blocks_of(self, tensors: Iterable[Tensor]) -> set[int]:
        """The numbers of the blocks of memory in which tensors lie now."""
        return {self._live[key][0] for key in map(_key, tensors) if key in self._live}

    def forget_others(self, tensors: Iterable[Tensor]) -> None:
        """Count all memory as freed but the blocks of these tensors."""
        kept = self.blocks_of(tensors)
        for key, (number, bytes, reference) in self._live.items():
            if number not in kept:
                self.changes.append((number, -bytes))
                self._live[key] = number, 0, reference

    def peak(self, kinds: Mapping[str, set[int]], first: int = 0, leave_out: Sequence[str] = ()) -> dict[str, int]:
        """The bytes of each kind of blocks, and of others (`""`), when they are most together.

        Args:
            kinds: the numbers of the blocks of each kind; a block counts for the first that has it.
            first: the number of changes after which it is looked for.
            leave_out: kinds that don't count for which moment it is.
        """
        kind_of = {block: kind for kind, blocks in reversed([*kinds.items()]) for block in blocks}
        taken = most = end = 0
        for place, (block, more) in enumerate(self.changes, 1):
            taken += more * (kind_of.get(block) not in leave_out)
            if place >= first and taken > most:
                most, end = taken, place
        at_peak = Counter(dict.fromkeys([*kinds, ""], 0))
        for block, more in self.changes[:end]:
            at_peak[kind_of.get(block, "")] += more
        return dict(at_peak)

    def _note(self, tensor: Tensor) -> None:
        storage: Any = tensor.untyped_storage()
        key = memory_of(storage)
        if key in self._live:
            return

        def freed(_: Any) -> None:
            number, bytes, _ = self._live.pop(key)
            self._answers.pop(key, None)
            self._counts.pop(key, None)
            self.changes.append((number, -bytes))

        self._blocks += 1
        self._live[key] = self._blocks, storage.nbytes(), weakref.ref(storage, freed)
        self.changes.append((self._blocks, storage.nbytes()))

    def _resized(self, storage: Any) -> None:
        key = memory_of(storage)
        if (block := self._live.get(key)) is not None:
            number, before, reference = block
            self.resized.add(number)
            self.changes.append((number, storage.nbytes() - before))
            self._live[key] = number, storage.nbytes(), reference

    def _note_exchange(self, func: Any, args: Sequence[Any], result: Any) -> None:
        name = func.__name__.split(".")[0].replace("_", "")
        kind = next((it for part, it in _KINDS.items() if part in name), None)
        group = None if kind is None else group_of(args)
        if kind is None or group is None or group.size() == 1:
            return
        tensors = [[it for it in tree_leaves(value) if isinstance(it, Tensor)] for value in (*args, result)]
        most = max(sum(it.nbytes for it in some) for some in tensors)
        self.exchanges.append(Exchange(kind, tuple(dist.get_process_group_ranks(group)), most))
        if kind == "all-reduce":
            for key in {_key(it) for some in tensors for it in some}:
                self._answers[key] = self._answers.get(key, 1) * group.size()
        counts = [self._counts[_key(it)] for it in tensors[1] if _key(it) in self._counts]
        if kind == "all-to-all" and counts:  # each process sends this one as many as this one keeps
            size = len(counts[0]) // group.size()
            kept_here = counts[0][group.rank() * size : (group.rank() + 1) * size]
            self._counts |= {_key(it): kept_here * group.size() for it in tensors[0]}

    def _without_values(self, func: Any, args: Sequence[Any], kwargs: Mapping[str, Any]) -> Any:
        """Result of an operation whose shape or value depends on values that fake tensors do not have."""
        if func is READS_NUMBER:
            counts = self._counts.get(_key(args[0]))
            return self._answers.get(_key(args[0]), 1) if counts is None else counts[args[0].storage_offset()]
        if func is aten.repeat_interleave.Tensor and (counts := self._counts.get(_key(args[0]))) is not None:
            return args[0].new_empty(sum(counts))
        if func is aten.nonzero.default:
            return args[0].new_empty((args[0].numel(), args[0].dim()), dtype=torch.int64)
        if func is aten.masked_select.default:
            return args[0].new_empty(torch.broadcast_shapes(args[0].shape, args[1].shape).numel())
        if func is aten.index.Tensor:  # by a mask
            places: list[Any] = []
            for index in args[1]:
                if index is None or index.dtype is not torch.bool:
                    places.append(index)
                else:  # all items are chosen: as many places in each dimension of the mask
                    places += [index.new_zeros(index.numel(), dtype=torch.int64) for _ in index.shape]
            return func(args[0], places)
        if func is aten.bincount.default:
            count = kwargs.get("minlength", args[2] if len(args) > 2 else 0)
            result = args[0].new_empty(count, dtype=torch.int64)
            share, left = divmod(args[0].numel(), count or 1)
            self._counts[_key(result)] = [share + (place < left) for place in range(count)]
            return result
        raise ConfigError(f"can't be forecast: the size of what {func.__name__} gives depends on values")


def _key(tensor: Tensor) -> int:
    return memory_of(tensor.untyped_storage())
