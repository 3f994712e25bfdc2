"""Making of one batch from its items, in the process that trains or in a worker, and its way to the device."""

import hashlib
import multiprocessing
import os
import random
import sys
import threading
import traceback
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, Literal, NamedTuple, cast

import torch
from torch import Tensor
from torch.utils.data import default_collate

from .._torch_compat.pytree import tree_map
from ..errors import BurnlikeError, ConfigError, DataError
from .dataset import name_of_data

OnBadItem = Literal["raise", "skip"]
"""What becomes of an item that can't be read."""

MEND = "Mend the data, or leave such items out by on_bad_item='skip' (training.on_bad_item in YAML)"
_ALIKE = "A batch is of items of one shape and type: pad or cut them, or give a batcher of your own"

_CPU = torch.device("cpu")


class Request(NamedTuple):
    """A batch to be made.

    Attributes:
        epoch: its epoch.
        step: its number in the epoch.
        indices: of its items.
    """

    epoch: int
    step: int
    indices: list[int]


class Made(NamedTuple):
    """A batch that was made, or why it was not.

    Attributes:
        batch: on the CPU, if a worker made it.
        skipped: the indices of items that could not be read, each with the reason.
        error: a message.
        cause: the exception; of a worker, one with the text of its traceback.
        remedy: what to do about the error; empty where the message says it.
    """

    batch: Any
    skipped: tuple[tuple[int, str], ...] = ()
    error: str = ""
    cause: BaseException | None = None
    remedy: str = MEND


class BatchMaker:
    """Makes batches; picklable where the dataset and the batcher are.

    The global random generators of Python, torch and NumPy are seeded for each batch from the loader's seed, the epoch
    and the step. So whatever a dataset draws is the same in every process. A dataset that never draws says so by
    `draws = False`.
    """

    def __init__(self, dataset: Any, batcher: Any, seed: int | None, on_bad_item: OnBadItem) -> None:
        self.dataset = dataset
        self.batcher = batcher
        self.seed = seed
        self.on_bad_item: OnBadItem = on_bad_item

    def __getitem__(self, request: Request) -> Made:
        """The batch on the CPU, as a worker makes it; the cause of an error travels as text."""
        # On the CPU: a forked worker can't use CUDA, and the loader pins and copies.
        made_batch = self.make(request, _CPU)
        if made_batch.cause is None:
            return made_batch
        # As text: many exceptions can't be pickled, and a traceback never.
        text = "".join(traceback.format_exception(made_batch.cause))
        return made_batch._replace(cause=RuntimeError(f"in a worker process:\n{text}"))

    def make(self, request: Request, device: torch.device) -> Made:
        if self.seed is None or not getattr(self.dataset, "draws", True):
            return self._made(request.indices, device)
        with seeded(self.seed, request.epoch, request.step):
            return self._made(request.indices, device)

    def _made(self, indices: Sequence[int], device: torch.device) -> Made:
        if self.batcher is None and callable(getattr(self.dataset, "batch", None)):
            return self._of_dataset(indices, device)
        items: list[Any] = []
        skipped: dict[int, str] = {}
        for index in indices:
            try:
                items.append(self.dataset[index])
            except Exception as error:
                if self.on_bad_item == "raise":
                    return Made(None, error=f"item {index} of {self._name} can't be read: {_said(error)}", cause=error)
                skipped[index] = self._why(index, error)
        if not items:
            reason = next(iter(skipped.values()), "")
            return Made(
                None, tuple(skipped.items()), f"none of {_shown(indices)} of {self._name} can be read; {reason}"
            )
        try:
            if self.batcher is not None:
                return Made(self.batcher.batch(items, device), tuple(skipped.items()))
            return Made(to_device(default_collate(items), device), tuple(skipped.items()))
        except Exception as error:
            taken = [index for index in indices if index not in skipped]
            text = f"{_shown(taken)} of {self._name} make no batch: {_said(error)}"
            return Made(None, error=text, cause=error, remedy=_ALIKE)

    def _of_dataset(self, indices: Sequence[int], device: torch.device) -> Made:
        """The batch that the dataset makes at once; where it can't, of the items that can be read one by one."""
        try:
            return Made(self.dataset.batch(indices, device))
        except Exception as error:
            unread = {index: self._unread(index) for index in indices if self.on_bad_item == "skip"}
            skipped = {index: reason for index, reason in unread.items() if reason}
            if not 0 < len(skipped) < len(indices):
                text, remedy = f"{_shown(indices)} of {self._name}: {_said(error)}", MEND
                if isinstance(error, ConfigError):  # which no other items mend
                    remedy = ""
                return Made(None, tuple(skipped.items()), text, error, remedy)
        batch = self._of_dataset([index for index in indices if index not in skipped], device)
        return batch._replace(skipped=tuple(skipped.items()))

    def _unread(self, index: int) -> str:
        """Why an item can't be read; empty where it can."""
        try:
            self.dataset[index]
        except Exception as error:
            return self._why(index, error)
        return ""

    def _why(self, index: int, error: Exception) -> str:
        return f"item {index} of {self._name}: {_said(error)}"

    @property
    def _name(self) -> str:
        return name_of_data(self.dataset)


@contextmanager
def seeded(seed: int, epoch: int, step: int) -> Iterator[None]:
    """The global random generators have states of their own within the `with` block, and then those from before."""
    digest = hashlib.sha256(f"batch {seed} {epoch} {step}".encode()).digest()
    number = int.from_bytes(digest[:8], "little")
    python, torchs = random.getstate(), torch.get_rng_state()
    numpy = cast(Any, sys.modules.get("numpy"))
    numpys: Any = None if numpy is None else numpy.random.get_state()
    # The global generators, as functions of torchvision and of users draw from these.
    random.seed(number)
    torch.default_generator.manual_seed(number % 2**63)
    if numpy is not None:
        numpy.random.seed(number % 2**32)
    try:
        yield
    finally:
        random.setstate(python)
        torch.set_rng_state(torchs)
        if numpy is not None:
            numpy.random.set_state(numpys)


def to_device(batch: Any, device: torch.device) -> Any:
    """The batch with its tensors on the device: in what torch's pytrees know, and in other tuples, lists and dicts."""

    def moved(leaf: Any) -> Any:
        if isinstance(leaf, Tensor):
            return leaf.to(device, non_blocking=True)
        if isinstance(leaf, dict):
            return {name: to_device(value, device) for name, value in leaf.items()}
        return type(leaf)(to_device(it, device) for it in leaf) if isinstance(leaf, tuple | list) else leaf

    return tree_map(moved, batch)


def copied_ahead(batches: Iterable[Made], device: torch.device) -> Iterator[Made]:
    """The batches on the device; each is copied on a stream of its own before the one before it is handed out.

    Args:
        batches: in pinned memory, so that copies need no CPU.
        device: one of CUDA.
    """
    stream = torch.cuda.Stream(device)
    waiting: tuple[Made, Any] | None = None
    for made_batch in batches:
        with torch.cuda.stream(stream):
            # On a stream of its own, while the step of the batch before computes.
            copied = made_batch._replace(batch=to_device(made_batch.batch, device)), stream.record_event()
        if waiting is not None:
            yield _ready(*waiting, device)
        waiting = copied
    if waiting is not None:
        yield _ready(*waiting, device)


def _ready(batch: Made, copied: Any, device: torch.device) -> Made:
    """The batch, for the stream in use: it waits for the copy, and keeps the memory until it has used it."""
    stream: Any = torch.cuda.current_stream(device)
    stream.wait_event(copied)
    # Else the allocator would give the memory to the next copy while the step still reads it.
    tree_map(lambda it: it.record_stream(stream) if isinstance(it, Tensor) else None, batch.batch)
    return batch


def end_with_parent(_: int = 0) -> None:
    """End this worker as soon as the process that started it is gone: it has that one's locks, as forks do."""
    parent = multiprocessing.parent_process()
    if parent is not None:
        threading.Thread(target=lambda: (parent.join(), os._exit(1)), daemon=True).start()


def bad_batch(batch: Made) -> DataError:
    return DataError(f"{batch.error}. {batch.remedy}" if batch.remedy else batch.error)


def _said(error: BaseException) -> str:
    return (str(error) if isinstance(error, BurnlikeError) else f"{type(error).__name__}: {error}").rstrip(": \n")


def _shown(indices: Sequence[int]) -> str:
    return f"items {', '.join(map(str, indices[:8]))}{', ...' if len(indices) > 8 else ''}"
