"""Several processes that train one model: what all strategies have in common.

The gradient of a step is that of sum(size * loss) / sum(size) over all batches of all processes. torch's wrappers take
the mean over the processes, so the sum is divided by total / (processes * reference) at the end, where `reference` is
the size that each loss is weighed by. It is a power of two that all processes have agreed on: a resumed training may
agree on another one, and rounds as before.

They write and read the checkpoints of a run together, in the directory of rank 0, which others may not see.
"""

import socket
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager, nullcontext
from dataclasses import replace
from datetime import timedelta
from functools import cached_property, partial
from itertools import count
from pathlib import Path
from tempfile import TemporaryDirectory
from time import monotonic, sleep
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.distributed import (
    PrefixStore,  # pyright: ignore[reportPrivateImportUsage] - torch documents both
    Store,  # pyright: ignore[reportPrivateImportUsage] - torch documents both
)
from torch.distributed.rendezvous import rendezvous

from ..._env import launcher_has_store, rendezvous as known_ranks, restart_count
from ...errors import ArgumentError, CheckpointError, ConfigError, RecordError
from ...module import agree_ids
from ...module.torch_objects.wrappers import local
from ...nn.divided_sequence import DividedSequence
from ...nn.joint_batch import JointBatch, join
from ...optim.core.sharded import OtherStages, whole
from ...record import Record
from ...record.distributed.together import (
    fingerprints,
    not_one_directory,
    not_the_same_files,
    place_of,
    ranks_elsewhere,
    send_file,
)
from ..checkpoint.checkpointer import (
    Checkpoint,
    Checkpointer,
    FollowingCheckpointer,
    SilentCheckpointer,
    write_together,
)
from ..view.callback import Callback
from .configs import CONTEXT_IN_FLOAT8, IN_INT8, DdpConfig, DistributedConfig, Fsdp2Config, MeshSizes, pipeline_problems
from .mesh import Mesh
from .part_of_model import Experts, divide_layers, divide_sequences
from .single_process import SingleProcess
from .watch import GONE, EndedError, Timing, Watch

_REMEDY = ", or set checkpoint.gather: true, with which rank 0 gets the parts of all and writes them"
_LATE = "imed out"
"""What torch says where another process does not answer in time."""
_SHOWN = 1000
"""Characters of an error that other processes are told."""
_REMEMBERED = "burnlike.remembered"
_RELEASE_S = 0.2
"""Time for gloo's threads to release the tensors of the last exchange, for which they need the interpreter: one that
does so while the interpreter ends aborts the process (torch 2.13, "terminate called without an active exception")."""
_OF_WHOLE_PARAMETERS = ("Adafactor", "Muon", "Rprop")
"""Optimizers of torch 2.13 whose step has operations that DTensors have not."""


class SeveralProcesses(SingleProcess):
    """Several processes, which a launcher such as torchrun has started; a strategy is a subclass.

    It defines `prepare`, which wraps or shards the model, `accumulating`, and `train_step` if a step goes through the
    wrapper. After the last batch of a step, `.grad` has to be the mean of the gradients of all processes.

    Attributes:
        watch: finds a process that hangs; None where nothing watches them.
    """

    def __init__(self, device: torch.device, store: Store | None = None) -> None:
        """Join the process group; `store` is this job's own and outlives the processes."""
        self.rank, self.world_size = dist.get_rank(), dist.get_world_size()
        self.device = device
        self._store = store
        self.watch: Watch | None = None
        self._reference = 0
        self._joint = JointBatch()
        self._sequence: DividedSequence | None = None
        self.config = DistributedConfig()
        self.experts: Experts | None = None
        self._gathers = False
        self._elsewhere: frozenset[int] = frozenset()  # ranks that don't see the directory of rank 0

    def take(self, config: DistributedConfig) -> None:
        """Stand where the sizes of the config say; a ConfigError where they do not fit the number of processes."""
        self.config, self.mesh = config, Mesh(config.sizes(self.world_size), self.device)
        self._joint.group = self.mesh.data_group
        if self.mesh.context is not None:
            self._sequence = DividedSequence(self.mesh.context.get_group())
        self.is_sharded = self.is_sharded or self.sizes.tensor * self.sizes.pipeline > 1

    @cached_property
    def mesh(self) -> Mesh:
        """All processes, each with items of its own, where no config has said otherwise."""
        return Mesh(MeshSizes(shard=self.world_size), self.device)

    @property
    def sizes(self) -> MeshSizes:
        return self.mesh.sizes

    @property
    def data_rank(self) -> int:
        return self.mesh.data_rank

    @property
    def is_first_of_data(self) -> bool:
        return self.mesh.is_first_of_data

    @property
    def data_group(self) -> Any:
        return self.mesh.data_group

    def describe(self) -> list[str]:
        lines = [f"mesh      {self.sizes}"]
        if self.config.offload is not None and self.device.type == "cpu":
            lines.append("          offload changes nothing: parameters lie in the memory of the CPU anyway")
        return lines

    def prepare(self, model: nn.Module, optimizer: Any) -> None:
        """Agree on the ids of parameters, and tell layers that depend on a whole batch of the others."""
        if type(self).is_sharded or self.mesh.tensor is not None:
            kinds = [it.__name__ for it in type(optimizer).__mro__ if it.__module__.startswith("torch.optim")]
            if kinds and kinds[0] in _OF_WHOLE_PARAMETERS:
                path = next((name for name, parameter in model.named_parameters() if parameter.requires_grad), "")
                raise ConfigError(
                    f"optimizer: torch's {kinds[0]} can't update '{path}', which is divided among processes; take"
                    " another of torch, such as AdamW, one of burnlike, or `strategy: ddp`"
                )
        agree_ids(model)
        if self.sizes.pipeline > 1:
            from .pipeline import Pipeline  # a second, which few jobs need

            self.pipeline = Pipeline(model, optimizer, self.config, self.mesh, self.device)
        if self.mesh.expert is not None:
            self.experts = Experts(model, optimizer, self.mesh, self.device)
        join(model, self._joint)
        if self._sequence is not None:
            divide_sequences(model, self._sequence)
        if self.mesh.tensor is not None:
            divide_layers(model, self.mesh.tensor, self.config.plan, self.pipeline)

    def check_computing(self, precision: str, *, compiles: bool, in_float8: bool = False) -> None:
        if precision == "int8_mixed":
            raise ConfigError(f"training.precision: {IN_INT8}")
        for path, problem in pipeline_problems(precision, compiles=compiles) if self.sizes.pipeline > 1 else ():
            raise ConfigError(f"{path}: {problem}")
        if in_float8 and self.sizes.context > 1:
            raise ConfigError(f"training.float8: {CONTEXT_IN_FLOAT8}")

    @contextmanager
    def accumulating(self, model: nn.Module, is_last: bool, counts: bool) -> Iterator[None]:
        with self._joint.part(counts), self._dividing():
            yield

    def measure(self, compute: Callable[[Any], Any], batch: Any) -> Any:
        if self.pipeline is not None:
            return self.pipeline.measure(compute, batch)
        with self._dividing():
            return compute(batch)

    def _dividing(self) -> AbstractContextManager[None]:
        return nullcontext() if self._sequence is None else self._sequence.step()

    def callbacks(self) -> list[Callback]:
        self._timing = Timing(self)
        return [self._timing, *([] if self.watch is None else [self.watch])]

    def notes(self) -> list[str]:
        notes, self._timing.notes = self._timing.notes, []
        return notes

    @contextmanager
    def explain_lost_peer(self) -> Iterator[None]:
        try:
            with nullcontext() if self.watch is None else self.watch.training_here():
                yield
        except Exception as error:
            if isinstance(error, EndedError):
                raise
            text, lost = str(error), error
            while isinstance(lost, CheckpointError | RecordError) and isinstance(lost.__cause__, Exception):
                lost = lost.__cause__  # a save that the other process didn't go on with
            if isinstance(lost, RuntimeError) and any(it in str(lost) for it in GONE):
                text, cause = str(lost), ""
                if self.watch is not None:
                    cause = self.watch.failure() or (self.watch.late() if _LATE in text else "")
                cause = cause or "another process of the job has ended or hangs; what it printed says why"
                raise EndedError(
                    f"{cause}, so this one can't go on."
                    f" The last checkpoint is whole: start the job again with --resume ({text.splitlines()[0]})"
                ) from error
            if self.watch is not None:
                self.watch.fail(" ".join(f"{type(error).__name__}: {text}".split())[:_SHOWN])
            raise

    @property
    def random_number(self) -> int:
        return self.data_rank + self.data_size * self.mesh.coordinates["pipeline"]

    @property
    def other_stages(self) -> OtherStages | None:
        parts = self.pipeline or self.experts
        return None if parts is None else parts.other_stages

    @property
    def has_predictions(self) -> bool:
        return self.pipeline is None or self.pipeline.has_last

    def with_predictions(self, value: Any) -> Any:
        return value if self.pipeline is None else self.pipeline.from_last(value)

    def whole(self, record: Record) -> Record:
        parts = self.pipeline or self.experts
        tensors: dict[str, Tensor] = {}
        for name, part in record.tensors.items():
            tensor = whole(part)  # of which all have a part; one after the other
            if self.is_main or parts is not None:
                tensors[name] = tensor.cpu()
        if not tensors:
            return record
        record = replace(record, tensors=tensors)
        return record if parts is None else parts.whole(record)

    def share_buffers(self, model: nn.Module) -> None:
        for buffer in model.buffers():
            dist.broadcast(local(buffer), group=self.data_group, group_src=0)

    @torch.no_grad()
    def share_weights(self, model: nn.Module) -> None:
        if not self.is_sharded:
            for tensor in (*model.parameters(), *model.buffers()):
                dist.broadcast(tensor, group=self.data_group, group_src=0)

    def reference(self, size: float) -> float:
        if self._reference == 0:
            self._reference = 1 << max(self.largest(size).bit_length() - 1, 0)
        return self._reference

    def sums(self, values: Sequence[float]) -> list[float]:
        # On the CPU, by gloo: a number of a device would have to be waited for.
        tensor = torch.tensor(values, dtype=torch.float64)
        dist.all_reduce(tensor, group=self.data_group)
        return tensor.tolist()

    def largest(self, value: float) -> int:
        tensor = torch.tensor(value, dtype=torch.float64)  # of one type on all ranks
        dist.all_reduce(tensor, dist.ReduceOp.MAX)
        return int(tensor)

    def gather(self, value: Any) -> list[Any]:
        values: list[Any] = [None] * self.world_size
        dist.all_gather_object(values, value)
        return values

    def broadcast(self, value: Any) -> Any:
        values = [value]
        dist.broadcast_object_list(values)
        return values[0]

    def remember(self, text: str) -> None:
        if self._store is not None:
            self._store.set(_REMEMBERED, text)

    def remembered(self) -> str:
        if self._store is None or not self._store.check([_REMEMBERED]):
            return ""
        return self._store.get(_REMEMBERED).decode()

    def checkpointer(self, directory: Path, keep: int, *, gather: bool = False) -> Checkpointer:
        timeout = timedelta(minutes=self.config.timeout_minutes)
        self._save_group = dist.new_group(backend="gloo", timeout=timeout)  # saves in the background send by it
        self._gathers = gather
        if gather:
            self._elsewhere = frozenset(ranks_elsewhere(directory, self.rank, self.gather))
        elif self.is_sharded and (problem := not_one_directory(directory, self.rank, self.gather)):
            raise CheckpointError(f"each process writes its part of a checkpoint: {problem}{_REMEDY}")
        if not self.is_sharded:
            return (Checkpointer if self.is_main else SilentCheckpointer)(directory, keep)
        kind = Checkpointer if self.is_main else FollowingCheckpointer
        return kind(directory, keep, partial(write_together, group=self._save_group, elsewhere=self._elsewhere))

    def latest(self, checkpointer: Checkpointer) -> Checkpoint | None:
        newest = checkpointer.latest() if self.is_main else None
        if self._gathers:
            return self.broadcast(newest)
        newest, files = self.broadcast(newest and (newest, fingerprints(newest.path))) or (None, {})
        if newest is not None and (problem := not_the_same_files(newest.path, files, self.gather)):
            raise CheckpointError(f"each process reads the checkpoint to go on from: {problem}{_REMEDY}")
        return newest

    @contextmanager
    def reading(self, checkpoint: Checkpoint) -> Iterator[Checkpoint]:
        if not self._elsewhere:
            yield checkpoint
            return
        places = self.gather(place_of(checkpoint.path))
        # Rank 0 sends what others don't see: to one of those that share a directory.
        receivers = [it for it in sorted(self._elsewhere) if not {*places[:it]} & {places[it]}]
        with ExitStack() as stack:
            folder: Path | None = None
            if self.rank in receivers:
                checkpoint.path.parent.mkdir(parents=True, exist_ok=True)
                temporary = TemporaryDirectory(prefix=".received-", dir=checkpoint.path.parent)
                folder = Path(stack.enter_context(temporary))
            paths: list[Any] = self.gather(folder)
            files = sorted(str(it.relative_to(checkpoint.path)) for it in checkpoint.path.rglob("*") if it.is_file())
            for receiver in receivers:
                for file in self.broadcast(files):
                    target = paths[receiver] / file
                    if self.rank == receiver:
                        target.parent.mkdir(parents=True, exist_ok=True)
                    send_file(checkpoint.path / file, target, 0, receiver, self._save_group)
            self.broadcast(None)
            at = places.index(places[self.rank])
            yield checkpoint if self.rank not in self._elsewhere else checkpoint._replace(path=paths[at])
            self.broadcast(None)  # all have read

    def close(self) -> None:
        if self.watch is not None:
            self.watch.close()
        if dist.is_initialized():
            time.sleep(_RELEASE_S)
            dist.destroy_process_group()


_JOBS = count(1)
"""Numbers the jobs of this process, which share the launcher's store."""


def _await_first(host: str, port: int, timeout_s: float) -> None:
    """Wait until the first process listens: torch's own client, where it waits in vain, prints 40 lines of its own."""
    until = monotonic() + timeout_s
    while True:
        try:
            with socket.create_connection((host, port), timeout=max(0.1, until - monotonic())):
                return
        except OSError as error:
            if monotonic() >= until:
                raise ArgumentError(
                    "the processes of the job can't find each other: nothing listened at"
                    f" MASTER_ADDR={host} MASTER_PORT={port} for {timeout_s:.0f} s, the timeout_minutes ({error});"
                    " start the process with RANK=0 there, and let all have these variables alike"
                ) from error
            sleep(0.1)


def make_parallel(config: DistributedConfig, device: torch.device) -> SingleProcess:
    """The processes that a config asks for; a launcher has started them. A CUDA device becomes torch's current one.

    Several without a launcher that says where the others are are a ConfigError; a process group that torch can't make
    is an ArgumentError.
    """
    if config.is_single:
        return config.chosen.init(device)
    if not dist.is_initialized():
        config.check_launched()
    if device.type == "cuda":
        torch.cuda.set_device(device)
    store = None
    if not dist.is_initialized():
        # Both on GPUs: what processes agree on are numbers of the CPU.
        backend = "cpu:gloo,cuda:nccl" if device.type == "cuda" else "gloo"
        timeout = timedelta(minutes=config.timeout_minutes)
        try:
            # As torchrun, srun or mpirun say.
            ranks = known_ranks()
            host, port, rank = ranks["MASTER_ADDR"], ranks["MASTER_PORT"], int(ranks["RANK"])
            if rank and not launcher_has_store():
                _await_first(host, int(port), timeout.total_seconds())
            place = f"tcp://{host}:{port}?rank={rank}&world_size={ranks['WORLD_SIZE']}"
            launcher_store, rank, world_size = next(rendezvous(place, timeout=timeout))
            store = PrefixStore(f"job {next(_JOBS)}", launcher_store)
            # After a restart by torchrun, the store still has the addresses of the processes before.
            attempt = PrefixStore(f"attempt {restart_count()}", store) if launcher_has_store() else store
            dist.init_process_group(backend, store=attempt, rank=rank, world_size=world_size, timeout=timeout)
        except (RuntimeError, ValueError) as error:
            raise ArgumentError(f"the processes of the job can't find each other: {error}") from error
    kind = config.chosen
    if config.tensor * config.expert > 1 and isinstance(kind, DdpConfig):
        kind = Fsdp2Config()  # on a mesh whose shards are whole: torch's DDP takes the same parameters everywhere
    parallel = kind.init(device, store)
    if isinstance(parallel, SeveralProcesses):
        parallel.take(config)
        if store is not None and parallel.world_size > 1:
            keeps_store = parallel.rank == 0 and not launcher_has_store()
            timeout_s = 60 * config.timeout_minutes
            parallel.watch = Watch(store, parallel.rank, parallel.world_size, timeout_s, keeps_store=keeps_store)
    return parallel
