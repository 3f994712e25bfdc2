"""How processes train one model together: alone, DistributedDataParallel, or fully sharded (FSDP2).

The gradient of a step is that of sum(size * loss) / sum(size) over all batches of all processes. torch's wrappers take
the mean over the processes, so the sum is divided by total / (processes * reference) at the end, where `reference` is
the size that each loss is weighed by. It is a power of two that all processes have agreed on: a resumed training may
agree on another one, and rounds as before.
"""

import contextlib
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import timedelta
from functools import partial
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist
from torch import nn
from torch.distributed import PrefixStore  # pyright: ignore[reportPrivateImportUsage] - torch documents it
from torch.distributed.rendezvous import rendezvous

from ..._env import number_of_ranks, restart_count
from ...errors import ArgumentError, ConfigError, TrainingError
from ...module import agree_ids
from ...record import Record
from ..checkpoint.checkpointer import Checkpointer
from ..checkpoint.several import FollowingCheckpointer, write_sharded
from .activation_checkpointing import blocks_of
from .configs import DistributedConfig
from .steps import LossFunction

_GONE = ("Connection closed by peer", "Connection reset", "Broken pipe", "NCCL", "imed out")
"""What torch says where another process has ended or does not answer."""


class SingleProcess:
    """Trains by itself.

    Attributes:
        rank: number of the process.
        world_size: how many there are.
    """

    rank = 0
    world_size = 1
    is_sharded = False

    @property
    def is_main(self) -> bool:
        """Whether this process writes files and prints."""
        return self.rank == 0

    def prepare(self, model: nn.Module) -> None:
        """Wrap or shard the model, in place as far as anyone sees."""

    def train_step(self, step: LossFunction, model: nn.Module, batch: Any) -> Any:
        """`step(model, batch)`."""
        return step(model, batch)

    @contextmanager
    def accumulating(self, model: nn.Module, is_last: bool) -> Iterator[None]:
        """Around a forward and backward pass; gradients are exchanged in the last of a step."""
        yield

    def reference(self, size: int) -> int:
        """The size by which losses are weighed, for a step that begins with a batch of so many values."""
        return size

    def sums(self, values: Sequence[float]) -> list[float]:
        """The sum of each number over the processes."""
        return list(values)

    def largest(self, value: int) -> int:
        """The largest of the processes' numbers."""
        return value

    def gather(self, value: Any) -> list[Any]:
        """The values of all processes, by rank; plain values."""
        return [value]

    def broadcast(self, value: Any) -> Any:
        """The value of rank 0."""
        return value

    def checkpointer(self, directory: Path, keep: int) -> Checkpointer:
        """What this process writes checkpoints with."""
        return Checkpointer(directory, keep)

    def close(self) -> None:
        """Leave the group."""


class _Several(SingleProcess):
    """Several processes, which a launcher such as torchrun has started."""

    def __init__(self) -> None:
        self.rank, self.world_size = dist.get_rank(), dist.get_world_size()
        self._reference = 0

    def reference(self, size: int) -> int:
        """See `SingleProcess.reference`."""
        if self._reference == 0:
            self._reference = 1 << max(self.largest(size).bit_length() - 1, 0)
        return self._reference

    def sums(self, values: Sequence[float]) -> list[float]:
        """See `SingleProcess.sums`."""
        tensor = torch.tensor(values, dtype=torch.float64)
        with _others_alive():
            dist.all_reduce(tensor)
        return tensor.tolist()

    def largest(self, value: int) -> int:
        """See `SingleProcess.largest`."""
        tensor = torch.tensor(value)
        with _others_alive():
            dist.all_reduce(tensor, dist.ReduceOp.MAX)
        return int(tensor)

    def gather(self, value: Any) -> list[Any]:
        """See `SingleProcess.gather`."""
        values: list[Any] = [None] * self.world_size
        with _others_alive():
            dist.all_gather_object(values, value)
        return values

    def broadcast(self, value: Any) -> Any:
        """See `SingleProcess.broadcast`."""
        values = [value]
        with _others_alive():
            dist.broadcast_object_list(values)
        return values[0]

    def checkpointer(self, directory: Path, keep: int) -> Checkpointer:
        """See `SingleProcess.checkpointer`."""
        kind = Checkpointer if self.is_main else FollowingCheckpointer
        if self.is_sharded:
            return kind(directory, keep, partial(write_sharded, is_main=self.is_main, broadcast=self.broadcast))
        return kind(directory, keep) if self.is_main else kind(directory, keep, _write_nothing)

    def close(self) -> None:
        """See `SingleProcess.close`."""
        if dist.is_initialized():
            dist.destroy_process_group()


class _Forward(nn.Module):
    """What DistributedDataParallel wraps: its forward is a task's step, which may call the model as it likes."""

    def __init__(self, model: nn.Module) -> None:
        super().__init__()
        self.model = model

    def forward(self, step: LossFunction, batch: Any) -> Any:
        return step(self.model, batch)


class Ddp(_Several):
    """Each process has the whole model; gradients are averaged by DistributedDataParallel."""

    def prepare(self, model: nn.Module) -> None:
        """Wrap the model; it stays what it is for everyone else, with its names and ids."""
        agree_ids(model)
        self._wrapped = nn.parallel.DistributedDataParallel(_Forward(model))

    def train_step(self, step: LossFunction, model: nn.Module, batch: Any) -> Any:
        """`step(model, batch)` within the wrapper."""
        with _others_alive():
            return self._wrapped(step, batch)

    @contextmanager
    def accumulating(self, model: nn.Module, is_last: bool) -> Iterator[None]:
        """See `SingleProcess.accumulating`."""
        with contextlib.nullcontext() if is_last else self._wrapped.no_sync(), _others_alive():
            yield


class Fsdp2(_Several):
    """Each process has a part of each parameter (`torch.distributed.fsdp.fully_shard`), blocks one by one."""

    is_sharded = True

    def prepare(self, model: nn.Module) -> None:
        """Shard the model's blocks and the rest."""
        from torch.distributed.fsdp import fully_shard

        agree_ids(model)
        for block in blocks_of(model):
            fully_shard(block)
        fully_shard(model)

    @contextmanager
    def accumulating(self, model: Any, is_last: bool) -> Iterator[None]:
        """See `SingleProcess.accumulating`."""
        model.set_requires_gradient_sync(is_last)
        with _others_alive():
            yield


def make_parallel(config: DistributedConfig, device: torch.device) -> SingleProcess:
    """The processes that a config asks for; a launcher has started them.

    Raises:
        ConfigError: it asks for several, and this process was started alone.
        ArgumentError: torch's process group can't be made.
    """
    if config.strategy == "none":
        return SingleProcess()
    if not dist.is_torchelastic_launched() and not dist.is_initialized() and not _has_environment():
        raise ConfigError(
            f"distributed.strategy: {config.strategy} needs several processes: start them by torchrun"
            " --nproc-per-node 2 -m burnlike train ..., or leave it out"
        )
    if not dist.is_initialized():
        backend = "cpu:gloo,cuda:nccl" if device.type == "cuda" else "gloo"
        timeout = timedelta(minutes=config.timeout_minutes)
        try:
            store, rank, world_size = next(rendezvous("env://", timeout=timeout))
            # After a restart by torchrun, the store still has the addresses of the processes before.
            own = PrefixStore(f"attempt {restart_count()}", store)
            dist.init_process_group(backend, store=own, rank=rank, world_size=world_size, timeout=timeout)
        except (RuntimeError, ValueError) as error:
            raise ArgumentError(f"the processes of the job can't find each other: {error}") from error
    return Ddp() if config.strategy == "ddp" else Fsdp2()


def _write_nothing(directory: Path, records: Mapping[str, Record]) -> None:
    """Another process writes."""


def _has_environment() -> bool:
    return number_of_ranks() > 1


@contextmanager
def _others_alive() -> Iterator[None]:
    """Say it clearly where another process is gone."""
    try:
        yield
    except RuntimeError as error:
        text = str(error)
        if any(it in text for it in _GONE):
            raise TrainingError(
                "another process of the job has ended or hangs, so this one can't go on; what it printed says why. The"
                f" last checkpoint is whole: start the job again with --resume ({text.splitlines()[0]})"
            ) from error
        raise
