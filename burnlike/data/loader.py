"""DataLoader: batches in an order that depends on seed and epoch only, and a position that can be saved."""

import hashlib
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Generic, Literal, TypeVar, get_args

import torch
from torch import Tensor
from torch.utils.data import DataLoader as TorchLoader

from ..errors import ArgumentError, BatchSizeError, DataError
from .batching import MEND, BatchMaker, Made, OnBadItem, Request, bad_batch, copied_ahead, end_with_parent, to_device
from .dataset import Batcher, Dataset, name_of_data

Sampling = Literal["all", "balanced"]

STEPS_OF_LIKE_LENGTHS = 64
"""Among how many steps items with a length are sorted by it."""

_FEW_STEPS = 8


def order_of_pass(dataset: Any, seed: int | None, number: int, sampling: Sampling, step_size: int) -> Tensor:
    """int64 `[n]`: the items of a pass; without a seed in their own order.

    A dataset with `lengths` of its items has those of an optimizer step, `step_size`, of like lengths.
    """
    if seed is None:
        return torch.arange(len(dataset))
    generator = generator_of(seed, number)
    if sampling == "balanced":
        order = balanced(torch.tensor(targets_of(dataset)), generator)
    else:
        order = torch.randperm(len(dataset), generator=generator)
    lengths: Any = getattr(dataset, "lengths", None)
    return order if lengths is None else by_length(order, lengths, step_size)


def generator_of(*facts: object) -> torch.Generator:
    """A generator that is a function of the facts."""
    digest = hashlib.sha256(" ".join(map(str, facts)).encode()).digest()
    return torch.Generator().manual_seed(int.from_bytes(digest[:8], "little", signed=True))


def balanced(targets: Tensor, generator: torch.Generator) -> Tensor:
    """As many items as there are, with each class equally often (up to one), in a random order.

    All items of a class come once before one comes again.
    """
    order = torch.randperm(len(targets), generator=generator)
    members = [order[targets[order] == it] for it in targets.unique()]
    share = -(-len(targets) // len(members))
    drawn = []
    for indices in members:
        passes = [indices[torch.randperm(len(indices), generator=generator)] for _ in range(-(-share // len(indices)))]
        drawn.append(torch.cat(passes)[:share])
    rounds = torch.stack(drawn, 1).flatten()[: len(targets)]  # a class after the other: the rest is of different ones
    return rounds[torch.randperm(len(rounds), generator=generator)]


def targets_of(dataset: Any) -> list[int]:
    """The class of each item: what the dataset says as `targets`, or else that of each item, which is read.

    Raises:
        DataError: an item is no pair and no mapping with `labels`, or its target is not one class.
    """
    targets: Any = getattr(dataset, "targets", None)
    if targets is not None:
        labels = torch.as_tensor(targets)
        if labels.dim() == 1 and not labels.is_floating_point():
            return labels.tolist()
        raise _no_class(f"targets of {list(labels.shape)}, {labels.dtype}")
    return [_target_of(dataset[place]) for place in range(len(dataset))]


def _target_of(item: Any) -> int:
    if isinstance(item, dict):
        item = (None, item.get("labels"))
    target = (
        torch.as_tensor(item[1]) if isinstance(item, tuple | list) and len(item) == 2 and item[1] is not None else None
    )
    if target is None or target.dim() or target.is_floating_point():
        raise _no_class(type(item).__name__ if target is None else f"a target of {list(target.shape)}, {target.dtype}")
    return int(target)


def _no_class(got: str) -> DataError:
    return DataError(f"sampling: balanced: expected items with one class each, (input, class) or `labels`, got {got}")


def check_balanced(dataset: Any, seed: int | None) -> None:
    """Refuse to balance what has no classes, or an order of its own."""
    if seed is None:
        raise ValueError("sampling='balanced' needs a seed, by which items are drawn")
    if getattr(dataset, "order_of_pass", None) is not None:
        raise DataError(
            f"sampling: balanced: {name_of_data(dataset)} is read in an order of its own, without looking at classes;"
            " weigh the classes by the task's class_weights"
        )
    targets_of(dataset)


def by_length(order: Tensor, lengths: Any, step_size: int) -> Tensor:
    """The order changed so that the items of an optimizer step have like lengths, which need little padding.

    Items change places within windows of some steps only, and the steps of all windows are in a random order that
    follows from the one that is given. What is left at the end of the items stays there.

    Args:
        order: int64 `[n]`, a random order of the items.
        lengths: of the items, by their indices.
        step_size: items of a step.
    """
    sizes = torch.as_tensor(lengths)
    n_steps = len(order) // step_size
    if n_steps == 0:
        return order
    steps: list[Tensor] = []
    together = min(STEPS_OF_LIKE_LENGTHS, max(_FEW_STEPS, n_steps // 4))  # else the same items would meet again
    for window in order[: n_steps * step_size].split(step_size * together):
        steps += window[sizes[window].argsort(stable=True)].split(step_size)
    places = order[:n_steps].argsort(stable=True).tolist()  # random, as the order is
    return torch.cat([*(steps[place] for place in places), order[n_steps * step_size :]])


def by_steps(identity: Mapping[str, Any], accumulation_steps: int) -> dict[str, Any]:
    """The identity of a loader with numbers of optimizer steps in place of those of batches."""
    items, batches = (int(identity.get(name) or 0) for name in ("batch_size", "steps_per_epoch"))
    steps = -(-batches // accumulation_steps)
    return {**identity, "batch_size": items * accumulation_steps, "steps_per_epoch": steps}


Item = TypeVar("Item")
Batch = TypeVar("Batch")

PREFETCHED_PER_WORKER = 2
_REASONS = 20
"""Of so many items that were left out a loader says why."""


class DataLoader(Generic[Item, Batch]):
    """Hands out the batches of one epoch after the other; each `iter()` goes on where the last one stopped.

    The order is a pure function of `(seed, epoch)`: neither the number of workers nor what was read before plays a
    part. With `steps_per_epoch`, epochs are equal pieces of an endless row of passes, each pass a new permutation, so
    every item is seen equally often whatever the length of an epoch. Without it, an epoch is one pass, and its last
    batch may be smaller. Of a dataset that has `lengths`, a number for each item, the items of a step have like ones.
    What a dataset draws from the global random generators, as augmentation does, depends on the seed, the epoch and the
    step only.

    Several ranks, with a loader each, see together what one process with batches of `world_size * batch_size` sees.
    Each takes an equal share of such a batch; a batch that can't be divided is split as evenly as possible.

    Example:
        >>> import torch
        >>> from burnlike.data import DataLoader, InMemDataset
        >>> class Stack:
        ...     def batch(self, items, device):
        ...         return torch.tensor(items, device=device)
        >>> loader = DataLoader(InMemDataset([10, 20, 30]), Stack(), batch_size=2)
        >>> [batch.tolist() for batch in loader]
        [[10, 20], [30]]
        >>> loader.epoch
        1

    Attributes:
        epoch: of the next batch, from 0.
        position: of the next batch in the epoch.
        skipped: how many items could not be read and were left out.
        left_out: why, of the first of them since the epoch began.
        is_padding: whether the last batch that was handed out is one item that belongs to another rank: there was none
            for this one, which must take part in the step all the same.
    """

    def __init__(
        self,
        dataset: Dataset[Item],
        batcher: Batcher[Item, Batch] | None = None,
        *,
        batch_size: int,
        seed: int | None = None,
        steps_per_epoch: int | None = None,
        device: torch.device | str = "cpu",
        num_workers: int = 0,
        on_bad_item: OnBadItem = "raise",
        rank: int = 0,
        world_size: int = 1,
        accumulation_steps: int = 1,
        joined_batch_size: int | None = None,
        fingerprint: str | None = None,
        drop_last: bool = False,
        sampling: Sampling = "all",
        repeats: int = 1,
    ) -> None:
        """Make a loader at the beginning of epoch 0.

        Args:
            dataset: the items.
            batcher: makes a batch of items. None: the dataset's own `batch(indices, device)` if it has one, else
                torch's `default_collate`.
            batch_size: items of a batch, of this rank, >= 1.
            seed: of the shuffling and of what the dataset draws; None keeps the order of the dataset.
            steps_per_epoch: batches of an epoch; None is all items once.
            device: where the batches go.
            num_workers: processes that make batches ahead, by torch's DataLoader; 0 makes each when it is asked for.
                Their batches are copied to a CUDA device from pinned memory while the one before is computed with.
            on_bad_item: whether an item that can't be read ends the training, or is left out and counted.
            rank: number of this process among those that train together.
            world_size: how many these are.
            accumulation_steps: how many batches an optimizer step takes: a position saved at the end of a step is
                also one of batches that are divided otherwise.
            joined_batch_size: items of a batch of all ranks together; None is `world_size * batch_size`.
            fingerprint: a hash of the data, where the dataset has none.
            drop_last: whether an epoch that is one pass leaves out a last batch that is smaller.
            sampling: `all`: a pass has each item once. `balanced`: it has each class equally often, by a seed.
            repeats: how often each batch is handed out, one time after the other.

        Raises:
            DataError: there are no items, or with drop_last not enough for a batch; or items to balance have no class.
            ValueError: a number is out of range, or an option has no such value.
            ArgumentError: the batcher has no `batch`.
        """
        if len(dataset) == 0:
            raise DataError("expected a dataset with at least one item, got an empty one")
        counts = {"batch_size": batch_size, "steps_per_epoch": steps_per_epoch, "world_size": world_size}
        counts |= {"accumulation_steps": accumulation_steps, "joined_batch_size": joined_batch_size}
        counts |= {"repeats": repeats}
        for name, value in {**counts, "num_workers": num_workers}.items():
            if value is not None and value < (least := int(name in counts)):
                raise ValueError(f"expected {name} >= {least}, got {value}")
        for name, value, kind in (("on_bad_item", on_bad_item, OnBadItem), ("sampling", sampling, Sampling)):
            if value not in get_args(kind):
                raise ValueError(f"expected {name} to be {' or '.join(map(repr, get_args(kind)))}, got {value!r}")
        if batcher is not None and not callable(getattr(batcher, "batch", None)):
            raise ArgumentError(
                "expected a batcher with a method batch(items, device), or none for torch's default_collate, got"
                f" {getattr(batcher, '__name__', type(batcher).__name__)}; a function of items belongs in such a method"
            )
        if not 0 <= rank < world_size:
            raise ValueError(f"expected rank in 0..{world_size - 1}, got {rank}")
        self.dataset = dataset
        self.batcher = batcher
        self.batch_size = batch_size
        self.seed = seed
        self.steps_per_epoch = steps_per_epoch
        self.device = torch.device(device)
        self.num_workers = num_workers
        self.on_bad_item: OnBadItem = on_bad_item
        self.rank = rank
        self.world_size = world_size
        self.accumulation_steps = accumulation_steps
        self.joined_batch_size = joined_batch_size
        self.fingerprint = fingerprint
        self.drop_last = drop_last
        self.sampling: Sampling = sampling
        self.repeats = repeats
        if sampling == "balanced":
            check_balanced(dataset, seed)
        if len(self) == 0:
            raise DataError(
                f"drop_last leaves none of {len(dataset)} items in batches of {self._joined}; lower"
                " training.batch_size, or leave out drop_last"
            )
        self.epoch = 0
        self.position = 0
        self._continues = False
        self.skipped = self._unreadable()
        self.left_out: list[str] = []
        self.is_padding = False
        self._passes: dict[tuple[int | None, int, int], Tensor] = {}

    def __getstate__(self) -> dict[str, Any]:
        """The content of copies and pickles: everything but the orders of passes, which are made again."""
        return {**self.__dict__, "_passes": {}}

    def __len__(self) -> int:
        """Batches of an epoch."""
        if self.steps_per_epoch:
            return self.steps_per_epoch
        count = len(self.dataset) // self._joined
        has_rest = not self.drop_last and count * self._joined != len(self.dataset)
        return (count + has_rest) * self.repeats

    @property
    def _joined(self) -> int:
        """Items of the batches of all ranks together."""
        return self.joined_batch_size or self.batch_size * self.world_size

    def __iter__(self) -> Iterator[Batch]:
        """The batches that are left of the current epoch; the position moves on before each is handed out.

        Without a seed, all batches, unless a position was loaded: an evaluation is whole, whoever took a look before.

        Raises:
            DataError: an item can't be read, or a worker process has died.
        """
        if self.seed is None and not self._continues:
            self.position = 0
        self._continues = False
        epoch, steps = self.epoch, range(self.position, len(self))
        if self.position == 0:
            self.left_out = []
        maker = BatchMaker(self.dataset, self.batcher, self.seed, self.on_bad_item)
        if self.num_workers == 0:
            for step in steps:
                yield self._hand_out(step, maker.make(self.request(epoch, step), self.device))
        else:
            for step, made_batch in zip(steps, self._made_ahead(maker, epoch, steps), strict=True):
                yield self._hand_out(step, made_batch)

    def indices(self, epoch: int, step: int) -> list[int]:
        """Indices of the items of one batch, of this rank."""
        joined = self._joined_indices(epoch, step)
        # Parts of the batch of all ranks: with another number of processes the batches stay the same.
        first, last = (len(joined) * rank // self.world_size for rank in (self.rank, self.rank + 1))
        return joined[first:last]

    def _joined_indices(self, epoch: int, step: int) -> list[int]:
        n_items, size = len(self.dataset), self._joined
        if self.steps_per_epoch is None:
            start = step // self.repeats * size
            return self._taken(epoch, start, min(start + size, n_items))
        taken: list[int] = []
        first = (epoch * self.steps_per_epoch + step) // self.repeats * size
        while len(taken) < size:
            number, start = divmod(first + len(taken), n_items)
            taken += self._taken(number, start, min(start + size - len(taken), n_items))
        return taken

    def request(self, epoch: int, step: int) -> Request:
        """The indices and seed of a batch; a rank that has no items of it gets one of another rank."""
        # A rank without a batch would leave the others waiting in the next exchange.
        indices = self.indices(epoch, step)
        return Request(epoch, step, indices or self._joined_indices(epoch, step)[:1])

    def _unreadable(self) -> int:
        """The number of unreadable rows that the dataset has left out; a DataError if none may be."""
        rows: Sequence[str] = getattr(self.dataset, "unreadable", ())
        if rows and self.on_bad_item == "raise":
            raise DataError(f"{rows[0]}{f' (and {len(rows) - 1} more)' if rows[1:] else ''}. {MEND}")
        return len(rows)

    def rewind(self) -> None:
        """Go back to the beginning of epoch 0."""
        self.epoch = self.position = 0

    def state_dict(self) -> dict[str, Any]:
        """The position, and what it is a position in; plain values.

        A dataset that has a `fingerprint`, a hash of its items as a string, is known again by it; another one by that
        of the loader.
        """
        place = {"epoch": self.epoch, "position": self.position, "accumulation_steps": self.accumulation_steps}
        return {**place, **self._identity()}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Go to a saved position.

        Raises:
            BatchSizeError: an optimizer step of the loader that saved it takes another number of items.
            DataError: it was saved by a loader with other batches; the position is as before.
        """
        missing = [name for name in ("epoch", "position", "batch_size", "steps_per_epoch") if name not in state]
        if missing:
            raise DataError(
                f"expected a position that state_dict() of a DataLoader gave, got one without {', '.join(missing)}"
            )
        times, own_times = int(state.get("accumulation_steps", self.accumulation_steps)), self.accumulation_steps
        before, now = by_steps({"sampling": "all", **state}, times), by_steps(self._identity(), own_times)
        if before["batch_size"] != now["batch_size"]:
            raise BatchSizeError(
                f"the saved loader position is one of other batches: a step took {before['batch_size']} items,"
                f" and would take {now['batch_size']} now: batch_size {self.batch_size} x processes {self.world_size} x"
                f" accumulation_steps {own_times}; choose these so that a step takes as many as before, or set"
                f" global_batch_size to {before['batch_size']}"
            )
        old_data, data = ([it.get(name) for name in ("num_items", "fingerprint")] for it in (before, now))
        if old_data != data:
            shown = [f"{count} items with the fingerprint {hash_!s:.12}" for count, hash_ in (old_data, data)]
            explained: Any = getattr(self.dataset, "changes_since", None)
            raise DataError(
                "the saved loader position is one of other data: the content of its files, or what is taken of them,"
                f" was {shown[0]}, is {shown[1]} now{explained(old_data[1]) if explained else ''}"
            )
        for name, value in now.items():
            if before.get(name) != value:
                raise DataError(
                    f"the saved loader position is one of other batches: {name} was {before.get(name)}, is {value} now"
                )
        # Counted in batches, of which a step may have another number now.
        epoch, (position, rest) = int(state["epoch"]), divmod(int(state["position"]) * own_times, times)
        if rest or epoch < 0 or not 0 <= position < len(self):
            raise DataError(f"the saved loader position does not exist: batch {state['position']} of epoch {epoch}")
        self.epoch, self.position, self._continues = epoch, position, True

    def _identity(self) -> dict[str, Any]:
        return {
            "seed": self.seed,
            "batch_size": self._joined,
            "steps_per_epoch": len(self),
            "num_items": len(self.dataset),
            "fingerprint": getattr(self.dataset, "fingerprint", None) or self.fingerprint,
            "sampling": self.sampling,
        }

    def _made_ahead(self, maker: BatchMaker, epoch: int, steps: range) -> Iterator[Made]:
        """Batches from worker processes, in their order, on the device."""
        ahead = TorchLoader(
            maker,  # pyright: ignore[reportArgumentType] - a dataset whose indices are requests
            sampler=(self.request(epoch, step) for step in steps),  # pyright: ignore[reportArgumentType] - read once
            batch_size=None,
            num_workers=min(self.num_workers, len(steps)),
            collate_fn=Made._make,  # pyright: ignore[reportArgumentType] - what torch would convert stays as it is
            prefetch_factor=PREFETCHED_PER_WORKER,
            pin_memory=self.device.type == "cuda",
            worker_init_fn=end_with_parent,
            generator=torch.Generator(),  # torch draws a seed for its workers: not from the global generator
        )
        try:
            if self.device.type == "cuda":
                yield from copied_ahead(ahead, self.device)
            else:
                yield from (made_batch._replace(batch=to_device(made_batch.batch, self.device)) for made_batch in ahead)
        except RuntimeError as error:
            if "worker" not in str(error):
                raise
            raise DataError(
                f"a worker process of the data loader has died: {error}. Often its memory was full: use fewer"
                " num_workers, or smaller batches"
            ) from error

    def _hand_out(self, step: int, made_batch: Made) -> Batch:
        self.skipped += len(made_batch.skipped)
        self.left_out = [*self.left_out, *(reason for _, reason in made_batch.skipped)][:_REASONS]
        if made_batch.error:
            raise bad_batch(made_batch) from made_batch.cause
        if self.world_size > 1:
            self.is_padding = not self.indices(self.epoch, step)
        self.position += 1
        if self.position == len(self):
            self.epoch, self.position = self.epoch + 1, 0
        return made_batch.batch

    def _taken(self, number: int, start: int, stop: int) -> list[int]:
        """The indices at these positions of one pass; the order of the last two passes is kept."""
        pass_order: Any = getattr(self.dataset, "order_of_pass", None)
        if pass_order is not None:
            return pass_order(self.seed, number, start, stop)
        key = (self.seed, len(self.dataset), number)
        order = self._passes.get(key)
        if order is None:
            step_size = self._joined * self.accumulation_steps
            order = order_of_pass(self.dataset, self.seed, number, self.sampling, step_size)
            # A new dict, as threads that make batches may be reading the old one.
            self._passes = {**dict([*self._passes.items()][-1:]), key: order}
        return order[start:stop].tolist()
