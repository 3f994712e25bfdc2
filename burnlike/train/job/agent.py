"""Starts the processes of a job on this machine by torch's elastic agent, and says what became of them."""

import logging
import os
import signal
import sys
import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, NamedTuple

from torch.distributed.elastic.agent.server.api import WorkerSpec
from torch.distributed.elastic.agent.server.local_elastic_agent import LocalElasticAgent
from torch.distributed.elastic.multiprocessing import DefaultLogsSpecs, SignalException
from torch.distributed.elastic.rendezvous import (
    RendezvousError,
    RendezvousParameters,
    RendezvousTimeoutError,
    registry as rendezvous_registry,
)

from ..._atomic import remove_directory
from ..._env import children_know
from ..._regular_file import open_regular, regular_size
from ..._terminal import harmless
from ...errors import TrainingError
from ..learner.stopping import Interrupted
from .launching import Amount, log_of

_FORWARDED = (signal.SIGINT, signal.SIGTERM, signal.SIGUSR1, signal.SIGHUP)
_LAST_BYTES = 1 << 16
_LAST_LINES = 12
_AGAIN_S = 0.2
_READ_S, _MORE_S = 60, 5
"""How long torch's store waits for an answer without `read_timeout`, and what is added to it."""


class Machines(NamedTuple):
    """The machines on which the processes of a job are started.

    Attributes:
        nodes: machines, each with its own launcher.
        endpoint: HOST:PORT where the launchers meet; that on HOST keeps what they tell one another.
        job: a name that the launchers of this job have in common.
        local_address: of this machine, for the others; None asks the system.
        options: of torch's rendezvous, such as `last_call_timeout`.
    """

    nodes: Amount
    endpoint: str
    job: str
    local_address: str | None
    options: Mapping[str, str]


class Ended(NamedTuple):
    """A process that did not end well: its rank, its process id, its exit status (below 0: a signal)."""

    rank: int
    process: int
    status: int

    @property
    def is_killed(self) -> bool:
        """By another than the launcher, which ends the others by SIGTERM."""
        return self.status < 0 and self.status != -signal.SIGTERM

    def __str__(self) -> str:
        how = f"was ended by {signal.Signals(-self.status).name}" if self.status < 0 else f"ended with {self.status}"
        return f"rank {self.rank} (process {self.process}) {how}"


class Agent:
    """The processes on this machine: started, started again where one fails, and told of signals."""

    def __init__(self, command: Sequence[str], logs: Path, machines: Machines) -> None:
        self.command, self.logs, self.machines = [*command], logs, machines
        self._agent: LocalElasticAgent | None = None
        self._signals = 0

    def run(self, processes: Amount, allowed: Sequence[int], restarts: int) -> None:
        """Run the job to its end; a TrainingError names the processes that failed.

        Of a range of processes on one machine the most are started, and fewer again where some were killed.

        Args:
            processes: on this machine.
            allowed: the numbers that fit the config, where `processes` is a range.
            restarts: how often the job may start again.
        """
        self.logs.mkdir(parents=True, exist_ok=True)
        logging.getLogger("torch.distributed.elastic").setLevel(logging.CRITICAL)  # what it says, _failed says
        with self._handling_signals(), children_know(**variables(self.logs, self.machines)), self._showing_rank_0():
            count = allowed[-1] if processes.is_range else processes.most
            while True:
                ended = self._run(count, 0 if processes.is_range else restarts)
                if not ended:
                    return
                if not processes.is_range or restarts == 0:
                    raise TrainingError(self._failed(ended))
                restarts -= 1
                # A killed process is taken for one that the machine had no room for, such as by the OOM killer.
                fewer = max(count - sum(it.is_killed for it in ended), processes.least)
                count = max((it for it in allowed if it <= fewer), default=allowed[0])

    def _run(self, count: int, restarts: int) -> list[Ended]:
        with self._meeting():
            handler = _handler(self.machines)
        spec = WorkerSpec(
            role="burnlike",
            local_world_size=count,
            entrypoint=sys.executable,
            args=("-u", *self.command),  # unbuffered, or the last lines of a killed process would be lost
            rdzv_handler=handler,
            max_restarts=restarts,
            local_addr=self.machines.local_address,
        )
        # torch's folder for errors of processes; what they print goes to the run's logs (`follow_launcher`).
        scratch = self.logs / f".agent-{os.getpid()}"
        self._agent = LocalElasticAgent(spec, DefaultLogsSpecs(log_dir=str(scratch)), exit_barrier_timeout=60)
        try:
            with self._meeting():
                result: Any = self._agent.run()
        except SignalException as stop:
            raise Interrupted(stop.sigval) from stop
        finally:
            handler.shutdown()
            remove_directory(scratch)
        if result is None:  # the others have ended the job meanwhile
            return []
        return [Ended(rank, failure.pid, failure.exitcode) for rank, failure in sorted(result.failures.items())]

    @contextmanager
    def _meeting(self) -> Iterator[None]:
        """Say of torch's errors of the rendezvous what could not be reached, or who did not come."""
        machines = self.machines
        try:
            yield
        except RendezvousTimeoutError as error:
            seconds = machines.options.get("join_timeout", "600")
            reason = (
                f"fewer than {machines.nodes.least} came within {seconds} s (--rdzv-conf join_timeout=N); start"
                f" `burnlike launch` on each machine, with the same --rdzv-endpoint and the name '{machines.job}' of"
                " --rdzv-id"
            )
            raise TrainingError(f"the launchers of the job can't meet at {machines.endpoint}: {reason}") from error
        except (RendezvousError, RuntimeError, TimeoutError, ValueError) as error:
            (reason, *_) = str(error.__cause__ or error).splitlines() or [type(error).__name__]
            raise TrainingError(
                f"the launchers of the job can't meet at {machines.endpoint}: {reason.rstrip('.')}; HOST has to be one"
                " of the machines, on which `burnlike launch` runs, and PORT free there"
            ) from error

    def _failed(self, ended: Sequence[Ended]) -> str:
        first = next((it for it in ended if it.is_killed), ended[0])
        log = log_of(self.logs, first.rank)
        tail = ""
        if log.exists():
            with open_regular(log) as file:
                file.seek(max(0, regular_size(log) - _LAST_BYTES))
                lines = file.read().decode(errors="replace").splitlines()[-_LAST_LINES:]
            tail = "".join(f"\n  {line}" for line in lines)
        run = self.logs.parent
        may_resume = first.is_killed and any((run / "checkpoints").glob("step-*"))
        remedy = f" The last checkpoint is whole: launch the job again with --resume {run}." if may_resume else ""
        return f"{'; '.join(map(str, ended))}.{remedy} The last lines of {log}:{harmless(tail)}"

    def _workers(self) -> list[Any]:
        agent = self._agent
        return [] if agent is None else [worker for worker in agent.get_worker_group().workers if worker.id is not None]

    @contextmanager
    def _handling_signals(self) -> Iterator[None]:
        """Hand signals to the processes, which write a checkpoint and end; the third one ends them at once."""
        # A signal that is ignored stays so: `nohup` ignores SIGHUP.
        numbers = [it for it in _FORWARDED if signal.getsignal(it) != signal.SIG_IGN]
        before = {number: signal.signal(number, self._forward) for number in numbers}
        try:
            yield
        finally:
            for number, handler in before.items():
                signal.signal(number, handler)

    def _forward(self, number: int, _: object) -> None:
        self._signals += 1
        told = 0
        for worker in self._workers():
            # It may have ended by itself a moment ago.
            with suppress(ProcessLookupError):
                os.kill(worker.id, number)
                told += 1
        if not told or self._signals > 2:
            raise Interrupted(number)

    @contextmanager
    def _showing_rank_0(self) -> Iterator[None]:
        """Copy the output of rank 0 to this program's output, if rank 0 is on this machine."""
        log, done = log_of(self.logs, 0), threading.Event()
        start = log.stat().st_size if log.exists() else 0  # behind what earlier launches of this run have printed

        def follow(position: int) -> None:
            while True:
                is_last = done.is_set()
                if log.exists() and any(worker.global_rank == 0 for worker in self._workers()):
                    with log.open("rb") as file:
                        file.seek(position)
                        if text := file.read():
                            position += len(text)
                            print(text.decode("utf-8", "replace"), end="", flush=True)
                if is_last:  # read once more after the processes have ended
                    return
                done.wait(_AGAIN_S)

        thread = threading.Thread(target=follow, args=(start,), daemon=True)
        thread.start()
        try:
            yield
        finally:
            done.set()
            thread.join()


def _handler(machines: Machines) -> Any:
    """Torch's rendezvous handler, which is connected; it waits without an end for a server that does not answer."""
    parameters = RendezvousParameters(
        backend="c10d",
        endpoint=machines.endpoint,
        run_id=machines.job,
        min_nodes=machines.nodes.least,
        max_nodes=machines.nodes.most,
        local_addr=machines.local_address,
        **machines.options,
    )
    outcome: list[Any] = []

    def connect() -> None:
        try:
            outcome.append(rendezvous_registry.get_rendezvous_handler(parameters))
        except Exception as error:
            outcome.append(error)

    seconds = 2 * int(machines.options.get("read_timeout", _READ_S)) + _MORE_S  # it tries to connect twice
    thread = threading.Thread(target=connect, daemon=True)
    thread.start()
    thread.join(seconds)
    if not outcome:
        raise TimeoutError(f"what listens there has not answered for {seconds} s: it is no launcher")
    if isinstance(outcome[0], Exception):
        raise outcome[0]
    return outcome[0]


def variables(logs: Path, machines: Machines) -> dict[str, str]:
    """Environment of the processes: where they log, and torch's flight recorder of NCCL.

    The recorder keeps the last collectives of each rank, and writes them where one times out.
    """
    # Launchers that start at other times count other attempts, by which ranks would look for one another in a store
    # that stays. With several of them, the store is rank 0's.
    of_rank_0 = str(int(machines.nodes.most > 1))
    return {
        "BURNLIKE_LOGS": str(logs.absolute()),
        "BURNLIKE_LAUNCHER": str(os.getpid()),
        "TORCHELASTIC_SIGNALS_TO_HANDLE": "SIGQUIT",  # one that Agent does not hand on
        "TORCH_DISABLE_SHARE_RDZV_TCP_STORE": of_rank_0,
        "TORCH_FR_BUFFER_SIZE": "2000",
        "TORCH_NCCL_DUMP_ON_TIMEOUT": "1",
        "TORCH_FR_DUMP_TEMP_FILE": str(logs.absolute() / "nccl-trace-rank-"),
    }
