"""Resumable: a data loader that goes on in the middle of an epoch, for the loops of others."""

import random
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, Generic, TypeVar

import torch
from torch.utils.data import BatchSampler, DataLoader as TorchLoader, IterableDataset, RandomSampler, SequentialSampler

from ..errors import ArgumentError, DataError
from .batching import BatchMaker, Request, bad_batch, to_device
from .dataset import Batcher
from .loader import PREFETCHED_PER_WORKER, DataLoader

Batch = TypeVar("Batch")

_CPU = torch.device("cpu")


class Resumable(Generic[Batch]):
    """Stands where a torch DataLoader does, and knows its position in an epoch.

    After `load_state_dict`, batches are those of a loop that was not stopped, bit for bit: also with another number of
    workers, and of processes whose batches together have as many items. Each `iter` goes on where the last one
    stopped; `epoch` and `position` say where that is. Going on costs no reading of what was before. A process for which
    the last batch of an epoch has no item gets one of another, which `is_padding` says: its loss is to count 0 times.

    Example:
        >>> import torch
        >>> data = torch.utils.data.TensorDataset(torch.arange(6))
        >>> loader = Resumable(torch.utils.data.DataLoader(data, batch_size=2, shuffle=True), seed=1)
        >>> first, *rest = [batch[0].tolist() for batch in loader]
        >>> loader.load_state_dict({**loader.state_dict(), "epoch": 0, "position": 1})
        >>> [batch[0].tolist() for batch in loader] == rest
        True

    Attributes:
        loader: burnlike's DataLoader, which makes the batches.
        dataset: gives items by their index as the data set does, and whole batches to accelerate's
            `skip_first_batches`.
        batch_sampler: the indices of the batches of the current epoch, from its beginning.
    """

    def __init__(
        self,
        loader: "DataLoader[Any, Batch] | TorchLoader[Any]",
        *,
        seed: int = 0,
        rank: int | None = None,
        world_size: int | None = None,
    ) -> None:
        """Wrap a loader.

        Args:
            loader: burnlike's, as it is; or torch's DataLoader over a map-style data set, of which the data set, batch
                size, shuffling, `collate_fn`, `drop_last` and `num_workers` are taken.
            seed: of the shuffling, and of what a data set draws, for torch's loader.
            rank, world_size: of the processes that share torch's loader; None is those of torch.distributed.

        Raises:
            ArgumentError: what the loader does can't be repeated, or not from the middle.
        """
        self._is_divided = isinstance(loader, DataLoader) or world_size is not None
        self._shuffle: dict[str, bool] = {}  # of burnlike's own loader the seed says it
        if not isinstance(loader, DataLoader):
            loader = _of_torch(loader, seed, *_ranks(rank, world_size))
            self._shuffle = {"shuffle": not hasattr(loader.dataset, "order_of_pass")}
        self.loader = loader
        self.dataset = _Batched(loader)
        self.drop_last = loader.drop_last
        self.batch_size = loader.batch_size
        self.num_workers = loader.num_workers
        self.prefetch_factor = PREFETCHED_PER_WORKER if loader.num_workers else None
        self.collate_fn: Callable[[Any], Any] = _only
        self.batch_sampler = _Batches(loader)
        self.sampler = None

    @property
    def epoch(self) -> int:
        """The epoch of the next batch, from 0."""
        return self.loader.epoch

    @property
    def position(self) -> int:
        """The place of the next batch in its epoch."""
        return self.loader.position

    @property
    def is_padding(self) -> bool:
        """True if the last batch that was handed out belongs to another process: this one has to take part in the step,
        and the batch must not count. Only over several processes, at the end of an epoch.
        """
        return self.loader.is_padding

    def __len__(self) -> int:
        return len(self.loader)

    def __iter__(self) -> Iterator[Batch]:
        """The batches that are left of the current epoch.

        Raises:
            ArgumentError: other processes have joined since the loader was wrapped.
        """
        count = _ranks(None, None)[1]
        if not self._is_divided and count != self.loader.world_size:
            raise ArgumentError(
                f"Resumable was made for {self.loader.world_size} processes, and there are {count}: make it after"
                " torch.distributed.init_process_group, or give rank and world_size"
            )
        return iter(self.loader)

    def set_epoch(self, epoch: int) -> None:
        """Go to the beginning of an epoch, unless it is the current one."""
        self.batch_sampler.set_epoch(epoch)

    def state_dict(self) -> dict[str, Any]:
        """The position, and what it is a position in; plain values."""
        return {**self.loader.state_dict(), **self._shuffle}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Go to a saved position.

        Raises:
            DataError: it is one of other data, or of batches in another order, or with another number of items in all
                processes together.
        """
        for name, value in self._shuffle.items():
            if state.get(name, value) != value:
                raise DataError(
                    f"the saved loader position is one of other batches: {name} was {state[name]}, is {value} now; make"
                    f" torch's DataLoader with {name}={state[name]}"
                )
        self.loader.load_state_dict(state)


class _Indices(list[int]):
    """The indices of a batch, with its place, by which what is drawn for it is seeded."""

    def __init__(self, request: Request) -> None:
        super().__init__(request.indices)
        self.request = request


class _Batches:
    """The indices of each batch of the current epoch."""

    def __init__(self, loader: DataLoader[Any, Any]) -> None:
        self.batch_size = loader.batch_size
        self.drop_last = False
        self._loader = loader

    def __len__(self) -> int:
        return len(self._loader)

    def __iter__(self) -> Iterator[list[int]]:
        epoch = self._loader.epoch
        return (_Indices(self._loader.request(epoch, step)) for step in range(len(self)))

    def set_epoch(self, epoch: int) -> None:
        if epoch != self._loader.epoch:
            self._loader.epoch, self._loader.position = epoch, 0


class _Batched:
    """The data set of a loader; asked for the items of a `_Batches`, it gives the batch."""

    def __init__(self, loader: DataLoader[Any, Any]) -> None:
        self._dataset = loader.dataset.items if isinstance(loader.dataset, _Items) else loader.dataset
        self._maker = BatchMaker(loader.dataset, loader.batcher, loader.seed, loader.on_bad_item)

    def __len__(self) -> int:
        return len(self._dataset)

    def __getitem__(self, index: int) -> Any:
        return self._dataset[index]

    def __getitems__(self, indices: Any) -> list[Any]:
        batch = self._maker.make(indices.request, _CPU)
        if batch.error:
            raise bad_batch(batch) from batch.cause
        return [batch.batch]

    def __getattr__(self, name: str) -> Any:
        if name == "_dataset":  # of a copy that is being made
            raise AttributeError(name)
        return getattr(self._dataset, name)


def _only(batches: Sequence[Any]) -> Any:
    (batch,) = batches
    return batch


class _Items:
    """A data set of others, of which nothing but its items is used."""

    def __init__(self, items: Any, *, is_shuffled: bool) -> None:
        self.items = items
        if not is_shuffled:
            self.order_of_pass = _in_order

    def __len__(self) -> int:
        return len(self.items)

    def __getitem__(self, index: int) -> Any:
        return self.items[index]


def _in_order(seed: int | None, number: int, start: int, stop: int) -> list[int]:
    return [*range(start, stop)]


class _Collate(Batcher[Any, Any]):
    """The `collate_fn` of torch's loader."""

    def __init__(self, function: Callable[[list[Any]], Any]) -> None:
        self.function = function

    def batch(self, items: Sequence[Any], device: torch.device) -> Any:
        return to_device(self.function([*items]), device)


def _ranks(rank: int | None, world_size: int | None) -> tuple[int, int]:
    import torch.distributed as group

    is_joint = group.is_available() and group.is_initialized()
    own_rank, own_size = (group.get_rank(), group.get_world_size()) if is_joint else (0, 1)
    return own_rank if rank is None else rank, own_size if world_size is None else world_size


def _of_torch(loader: Any, seed: int, rank: int, world_size: int) -> DataLoader[Any, Any]:
    """The same batches as those of a loader of torch's, in an order of the seed."""
    if type(loader) is not TorchLoader:
        raise ArgumentError(
            f"Resumable: expected burnlike's DataLoader or torch.utils.data.DataLoader, got {type(loader).__name__},"
            " whose batches it can't know"
        )
    for what, remedy in _unprovable(loader):
        raise ArgumentError(f"Resumable: a loader with {what} can't be proven to go on with the same batches: {remedy}")
    return DataLoader(
        _Items(loader.dataset, is_shuffled=type(loader.sampler) is RandomSampler),
        _Collate(loader.collate_fn),
        batch_size=loader.batch_size or 1,
        seed=seed,
        drop_last=loader.drop_last,
        num_workers=loader.num_workers,
        rank=rank,
        world_size=world_size,
    )


def _unprovable(loader: Any) -> Iterator[tuple[str, str]]:
    """The parts of a loader that can't be repeated from the middle, each with a remedy."""
    dataset, sampler = loader.dataset, loader.sampler
    name = type(dataset).__name__
    if isinstance(dataset, IterableDataset) or not all(hasattr(dataset, it) for it in ("__getitem__", "__len__")):
        yield f"the iterable data set {name}", "give one with `dataset[index]` and a length, such as `type: Stream`"
        return
    if loader.batch_size is None or type(loader.batch_sampler) is not BatchSampler:
        yield f"a batch_sampler of its own ({type(loader.batch_sampler).__name__})", "give batch_size and shuffle"
    if type(sampler) is RandomSampler:
        if sampler.replacement or sampler.num_samples != len(dataset):
            yield "a RandomSampler with replacement or num_samples", "give shuffle=True"
    elif type(sampler) is not SequentialSampler:
        kind = type(sampler).__name__
        yield f"the sampler {kind}", "give shuffle=True or False; Resumable(rank, world_size) divides between processes"
    elif len(sampler) != len(dataset):
        yield (
            f"a SequentialSampler of {len(sampler)} items beside {len(dataset)} of the data set",
            "give shuffle=False, and a data set of the items: torch.utils.data.Subset(dataset, indices)",
        )
    if loader.worker_init_fn is not None:
        yield "a worker_init_fn", "leave it out: what a data set draws depends on seed, epoch and batch only"
    for attribute, value in getattr(dataset, "__dict__", {}).items():
        if isinstance(value, torch.Generator | random.Random) or type(value).__module__.startswith("numpy.random"):
            yield (
                f"a data set that draws from a generator of its own ({name}.{attribute})",
                "draw from the global ones of torch, NumPy or Python, which are seeded for each batch",
            )
