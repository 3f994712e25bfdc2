"""A data loader of another library, as a Learner reads it: with an epoch, a position, and both in its state."""

from collections.abc import Iterator, Mapping
from typing import Any

import torch

from ...data import DataLoader
from ...data.batching import to_device
from ...errors import ConfigError, DataError
from ..state.training_state import random_state, restore_random

LoaderNames = tuple[str, str]

_TRAIN = "the data loader", "training.steps_per_epoch"


class ForeignLoader:
    """Goes on in the middle of an epoch by reading the epoch again from its start.

    The global random generators, from which torch's DataLoader shuffles, are put back to where they were at that start,
    and to where they were afterwards; one that it was given (`generator=`), or its sampler, has its state here. So the
    batches are those of a training that was not stopped. A loader with
    `state_dict` and `load_state_dict` of its own, such as torchdata's StatefulDataLoader, is asked for its state.
    `epoch`, from 0, and `position` in it are those of the next batch.
    """

    def __init__(
        self, loader: Any, device: torch.device, steps_per_epoch: int | None = None, names: LoaderNames = _TRAIN
    ) -> None:
        """Wrap an iterable of batches; `names` are what messages call the loader, and what says `steps_per_epoch`."""
        self.loader = loader
        self.device = device
        self.epoch = self.position = 0
        self._names = names
        try:
            self._length = steps_per_epoch or len(loader)
        except TypeError as error:
            raise DataError(f"{names[0]} has no length; say how many steps of it an epoch has by {names[1]}") from error
        if self._length < 1:
            raise DataError(f"expected {names[0]} to have at least one batch, got an empty one")
        self._random: dict[str, Any] | None = None
        self._own_state: Any = None
        self._generators = _generators_of(loader)
        self._drawn: list[torch.Tensor] = []  # their states at the start of the epoch
        self._has_state = all(hasattr(loader, name) for name in ("state_dict", "load_state_dict"))

    @property
    def is_padding(self) -> bool:
        """True if the last batch belongs to another process, as the loader says (`Resumable`)."""
        return getattr(self.loader, "is_padding", False)

    def __len__(self) -> int:
        return self._length

    def __iter__(self) -> Iterator[Any]:
        if self.position:
            batches = self._resumed()
        else:
            self._random, self._drawn = random_state(), self._generator_states()
            batches = iter(self.loader)
        for batch in batches:
            # Counted before the batch is given: a checkpoint after its step is of the position behind it.
            self.position += 1
            if self.position == self._length:
                self.epoch, self.position = self.epoch + 1, 0
            yield to_device(batch, self.device)
            if self.position == 0:
                return
        raise DataError(
            f"{self._names[0]} ended after {self.position} batches, and its length or {self._names[1]} says that it has"
            f" {self._length} in an epoch"
        )

    def _resumed(self) -> Iterator[Any]:
        if self._has_state and self._own_state is not None:
            self.loader.load_state_dict(self._own_state)
            return iter(self.loader)
        now = random_state()
        if self._random is not None:
            restore_random(self._random)
        self._put_generators()
        batches = iter(self.loader)
        for _ in range(self.position):
            next(batches, None)
        restore_random(now)
        return batches

    def rewind(self) -> None:
        self.epoch = self.position = 0

    def state_dict(self) -> dict[str, Any]:
        state = {"epoch": self.epoch, "position": self.position, "steps_per_epoch": self._length}
        if self._has_state:
            return {**state, "loader": self.loader.state_dict()}
        drawn = self._drawn if self.position else self._generator_states()
        return {**state, "random": self._random if self.position else None, "generators": drawn}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Go to a saved position."""
        if state["steps_per_epoch"] != self._length:
            raise DataError(
                f"the saved loader position is one of {state['steps_per_epoch']} batches an epoch, and the loader has"
                f" {self._length}; use the data and the batch size that it was saved with"
            )
        self.epoch, self.position = int(state["epoch"]), int(state["position"])
        self._random, self._own_state = state.get("random"), state.get("loader")
        self._drawn = state.get("generators", [])
        self._put_generators()

    def _generator_states(self) -> list[torch.Tensor]:
        return [it.get_state() for it in self._generators]

    def _put_generators(self) -> None:
        for generator, drawn in zip(self._generators, self._drawn, strict=False):  # older checkpoints have none
            generator.set_state(drawn)


def _generators_of(loader: Any) -> list[torch.Generator]:
    """The generators that a DataLoader of torch's draws the order from, if not from the global one; each once."""
    batches = getattr(loader, "batch_sampler", None)
    owners = loader, getattr(loader, "sampler", None), batches, getattr(batches, "sampler", None)
    generators = dict.fromkeys(getattr(owner, "generator", None) for owner in owners)
    return [generator for generator in generators if isinstance(generator, torch.Generator)]


def as_loader(
    loader: Any, device: torch.device, steps_per_epoch: int | None = None, names: LoaderNames = _TRAIN
) -> Any:
    """The loader itself if it has an epoch and a position, as burnlike's; else one around it."""
    if isinstance(loader, DataLoader | ForeignLoader):
        return loader
    return ForeignLoader(loader, device, steps_per_epoch, names)


def check_ranks(loader: Any, world_size: int) -> None:
    """Refuse a DataLoader of burnlike that reads for another number of processes."""
    if isinstance(loader, DataLoader) and loader.world_size != world_size:
        raise ConfigError(
            f"expected a DataLoader with world_size={world_size}, the number of processes that read items of their own,"
            f" and with rank=parallel.data_rank; got one with world_size={loader.world_size}"
        )
