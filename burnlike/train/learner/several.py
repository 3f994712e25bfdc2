"""Several processes that train one model: DistributedDataParallel, or fully sharded (FSDP2).

The gradient of a step is that of sum(size * loss) / sum(size) over all batches of all processes. torch's wrappers take
the mean over the processes, so the sum is divided by total / (processes * reference) at the end, where `reference` is
the size that each loss is weighed by. It is a power of two that all processes have agreed on: a resumed training may
agree on another one, and rounds as before.
"""

import contextlib
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import timedelta
from functools import partial
from itertools import count
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist
from torch import nn
from torch.distributed import PrefixStore, Store  # pyright: ignore[reportPrivateImportUsage] - torch documents both
from torch.distributed.device_mesh import DeviceMesh, init_device_mesh
from torch.distributed.rendezvous import rendezvous

from ..._env import restart_count
from ...errors import ArgumentError, CheckpointError, ConfigError, TrainingError
from ...module import agree_ids
from ...module.identity.torch_wrappers import is_distributed, part_of
from ...nn.joint_batch import JointBatch, join
from ...record import Record
from ...record.distributed.one_directory import fingerprints, not_one_directory, not_the_same_files
from ..checkpoint.checkpointer import Checkpoint, Checkpointer
from ..checkpoint.several import FollowingCheckpointer, write_sharded
from .activation_checkpointing import blocks_of
from .configs import DistributedConfig
from .launcher import check_launched
from .parallel import SingleProcess
from .steps import LossFunction

_GONE = ("Connection closed by peer", "Connection reset", "Broken pipe", "pair closure", "NCCL", "imed out")
"""What torch says where another process has ended or does not answer."""

_UNUSED = "Expected to have finished reduction in the prior iteration"
"""What DistributedDataParallel says in the step after one in which a parameter got no gradient."""

_REMEMBERED = "burnlike.remembered"

_JOBS = count(1)
"""Numbers the jobs of this process, which share the launcher's store."""

_RELEASE_S = 0.2
"""Time for gloo's threads to release the tensors of the last exchange, for which they need the interpreter: one that
does so while the interpreter ends aborts the process (torch 2.13, "terminate called without an active exception")."""


class _Several(SingleProcess):
    """Several processes, which a launcher such as torchrun has started."""

    def __init__(self, device: torch.device, store: Store | None = None) -> None:
        """Join the others; `store` outlives them, and is that of this job alone."""
        self.rank, self.world_size = dist.get_rank(), dist.get_world_size()
        self._device = device
        self._store = store
        self._reference = 0
        self._joint = JointBatch()

    @contextmanager
    def others_alive(self) -> Iterator[None]:
        """See `SingleProcess.others_alive`."""
        try:
            yield
        except RuntimeError as error:
            text = str(error)
            if _UNUSED in text:
                raise ConfigError(
                    "distributed.strategy: with ddp every parameter that is trained must get a gradient in every step,"
                    " and some got none; freeze them (requires_grad=False), or use them in the loss"
                ) from error
            if not isinstance(error, TrainingError) and any(it in text for it in _GONE):
                raise TrainingError(
                    "another process of the job has ended or hangs, so this one can't go on; what it printed says why."
                    f" The last checkpoint is whole: start the job again with --resume ({text.splitlines()[0]})"
                ) from error
            raise

    def share_buffers(self, model: nn.Module) -> None:
        """See `SingleProcess.share_buffers`."""
        for buffer in model.buffers():
            dist.broadcast(buffer, 0)

    def reference(self, size: int) -> int:
        """See `SingleProcess.reference`."""
        if self._reference == 0:
            self._reference = 1 << max(self.largest(size).bit_length() - 1, 0)
        return self._reference

    def sums(self, values: Sequence[float]) -> list[float]:
        """See `SingleProcess.sums`."""
        tensor = torch.tensor(values, dtype=torch.float64)
        dist.all_reduce(tensor)
        return tensor.tolist()

    def largest(self, value: int) -> int:
        """See `SingleProcess.largest`."""
        tensor = torch.tensor(value)
        dist.all_reduce(tensor, dist.ReduceOp.MAX)
        return int(tensor)

    def gather(self, value: Any) -> list[Any]:
        """See `SingleProcess.gather`."""
        values: list[Any] = [None] * self.world_size
        dist.all_gather_object(values, value)
        return values

    def broadcast(self, value: Any) -> Any:
        """See `SingleProcess.broadcast`."""
        values = [value]
        dist.broadcast_object_list(values)
        return values[0]

    def remember(self, text: str) -> None:
        """See `SingleProcess.remember`."""
        if self._store is not None:
            self._store.set(_REMEMBERED, text)

    def remembered(self) -> str:
        """See `SingleProcess.remembered`."""
        if self._store is None or not self._store.check([_REMEMBERED]):
            return ""
        return self._store.get(_REMEMBERED).decode()

    def checkpointer(self, directory: Path, keep: int) -> Checkpointer:
        """See `SingleProcess.checkpointer`."""
        kind = Checkpointer if self.is_main else FollowingCheckpointer
        if not self.is_sharded:
            return kind(directory, keep) if self.is_main else kind(directory, keep, _write_nothing)
        if problem := not_one_directory(directory, self.rank, self.gather):
            raise CheckpointError(f"each process of fsdp2 writes its part of a checkpoint: {problem}")
        return kind(directory, keep, partial(write_sharded, is_main=self.is_main, broadcast=self.broadcast))

    def latest(self, checkpointer: Checkpointer) -> Checkpoint | None:
        """See `SingleProcess.latest`."""
        found = checkpointer.latest() if self.is_main else None
        found, files = self.broadcast(found and (found, fingerprints(found.path))) or (None, {})
        if found is not None and (problem := not_the_same_files(found.path, files, self.gather)):
            raise CheckpointError(f"each process reads the checkpoint to go on from: {problem}")
        return found

    def close(self) -> None:
        """See `SingleProcess.close`."""
        if dist.is_initialized():
            time.sleep(_RELEASE_S)
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

    def prepare(self, model: nn.Module, optimizer: Any) -> None:
        """Wrap the model; it stays what it is for everyone else, with its names and ids."""
        agree_ids(model)
        join(model, self._joint)
        self._wrapped = nn.parallel.DistributedDataParallel(_Forward(model))

    def train_step(self, step: LossFunction, model: nn.Module, batch: Any) -> Any:
        """`step(model, batch)` within the wrapper."""
        return self._wrapped(step, batch)

    @contextmanager
    def accumulating(self, model: nn.Module, is_last: bool, counts: bool) -> Iterator[None]:
        """See `SingleProcess.accumulating`."""
        with self._joint.part(counts), contextlib.nullcontext() if is_last else self._wrapped.no_sync():
            yield


class Fsdp2(_Several):
    """Each process has a part of each parameter (`torch.distributed.fsdp.fully_shard`), blocks one by one."""

    is_sharded = True

    def prepare(self, model: nn.Module, optimizer: Any) -> None:
        """Shard the model's blocks and the rest; `train_step` and `valid_step` of the model may be called as `forward`.

        Raises:
            ConfigError: the optimizer has states of the whole parameters.
        """
        from torch.distributed.fsdp import fully_shard, register_fsdp_forward_method

        agree_ids(model)
        join(model, self._joint)
        before = {name: id(it) for name, it in model.named_parameters(remove_duplicate=False)}
        for block in blocks_of(model):
            fully_shard(block, mesh=self._mesh())
        fully_shard(model, mesh=self._mesh())
        if isinstance(optimizer, torch.optim.Optimizer):
            sharded = dict(model.named_parameters(remove_duplicate=False))
            _replace_parameters(optimizer, {address: sharded[name] for name, address in before.items()})
        for name in ("train_step", "valid_step"):
            if callable(getattr(type(model), name, None)):
                register_fsdp_forward_method(model, name)

    def release_whole(self, model: Any) -> None:
        """See `SingleProcess.release_whole`: without a backward pass the outermost module keeps them."""
        model.reshard()

    def _mesh(self) -> DeviceMesh:
        """All processes in one dimension. Without it torch takes CUDA's devices wherever there are some."""
        return init_device_mesh(self._device.type, (self.world_size,), mesh_dim_names=("shard",))

    @contextmanager
    def accumulating(self, model: Any, is_last: bool, counts: bool) -> Iterator[None]:
        """See `SingleProcess.accumulating`."""
        model.set_requires_gradient_sync(is_last)
        with self._joint.part(counts):
            yield


def make_parallel(config: DistributedConfig, device: torch.device) -> SingleProcess:
    """The processes that a config asks for; a launcher has started them.

    Args:
        config: the strategy.
        device: of this process; one of CUDA becomes torch's current device.

    Raises:
        ConfigError: it asks for several, and no launcher says where the others are.
        ArgumentError: torch's process group can't be made.
    """
    if config.strategy == "none":
        return SingleProcess()
    if not dist.is_initialized():
        check_launched(config.strategy)
    if device.type == "cuda":
        torch.cuda.set_device(device)
    store = None
    if not dist.is_initialized():
        backend = "cpu:gloo,cuda:nccl" if device.type == "cuda" else "gloo"
        timeout = timedelta(minutes=config.timeout_minutes)
        try:
            found, rank, world_size = next(rendezvous("env://", timeout=timeout))
            store = PrefixStore(f"job {next(_JOBS)}", found)
            # After a restart by torchrun, the store still has the addresses of the processes before.
            own = PrefixStore(f"attempt {restart_count()}", store)
            dist.init_process_group(backend, store=own, rank=rank, world_size=world_size, timeout=timeout)
        except (RuntimeError, ValueError) as error:
            raise ArgumentError(f"the processes of the job can't find each other: {error}") from error
    return (Ddp if config.strategy == "ddp" else Fsdp2)(device, store)


def _replace_parameters(optimizer: torch.optim.Optimizer, new: Mapping[int, nn.Parameter]) -> None:
    """Let an optimizer update other parameters, by the addresses of those before.

    Raises:
        ConfigError: it has taken steps with those before.
    """
    before = dict(optimizer.state)
    if any(float(state.get("step", 1)) for state in before.values()):
        raise ConfigError(
            f"optimizer: the {type(optimizer).__name__} has taken steps with the whole parameters, and fsdp2 shards"
            " them; give the Learner a new one"
        )
    for group in optimizer.param_groups:
        group["params"] = [new.get(id(it), it) for it in group["params"]]
    optimizer.state.clear()
    for old, state in before.items():  # those of Adagrad are there before the first step
        parameter: Any = new.get(id(old), old)
        optimizer.state[parameter] = {
            name: part_of(it, parameter) if is_distributed(parameter) and it.shape == old.shape else it
            for name, it in state.items()
        }


def _write_nothing(directory: Path, records: Mapping[str, Record]) -> None:
    """Another process writes."""
