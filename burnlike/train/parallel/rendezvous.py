"""Rendezvous of the processes of a job, which a launcher has started."""

import socket
from datetime import timedelta
from itertools import count
from time import monotonic, sleep

import torch
import torch.distributed as dist
from torch.distributed import PrefixStore  # pyright: ignore[reportPrivateImportUsage] - torch documents both
from torch.distributed.rendezvous import rendezvous

from ..._env import launcher_has_store, rendezvous as known_ranks, restart_count
from ...errors import ArgumentError
from .configs import DdpConfig, DistributedConfig, Fsdp2Config
from .distributed import SeveralProcesses
from .single_process import SingleProcess
from .watch import Watch

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
