"""Callbacks that watch processes: `Watch` finds one that hangs, `Timing` one that is slow.

Watch: each process notes what it does, in memory. A thread of its own writes that into the store of the job every few
seconds, and arms a timer of `faulthandler`, which prints the stacks of a process that gets no further, whatever holds
its interpreter. A process whose exchange has timed out reads what the others wrote: those that write nothing any more
are stopped or gone, else those are late that have done the least and don't wait in an exchange themselves.

A process whose training fails says so there, too. The others name its error when their exchange with it breaks off; one
that waits for others still, which wait for the failed one, is ended after a while.

Timing: torch's flight recorder notes when a process begins each exchange. Of one exchange, a process waits from its own
beginning to that of the last one, in whichever direction data go; the time that the data take is not counted. Clocks of
several machines differ, so times are counted from the moment when all have left one exchange.

This is looked at with some lines of metrics, so rarely that it takes at most a two hundredth of the time.
"""

import faulthandler
import json
import math
import os
import platform
import sys
import threading
import time
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from itertools import pairwise
from statistics import median_low
from typing import TYPE_CHECKING, Any, NamedTuple

from ..._torch_compat.distributed import arrivals
from ...errors import TrainingError
from ..runs.logs import RANKS_NAME, MetricsLog
from ..view.callback import Callback

if TYPE_CHECKING:
    from .single_process import SingleProcess

GONE = ("Connection closed by peer", "Connection reset", "Broken pipe", "pair closure", "NCCL", "imed out")
"""What torch says where another process has ended or does not answer."""

_MOST_S = 5.0
_LOOKS = 2.5
"""After how many times the usual interval a process counts as silent."""
_GRACE_S = 30.0
"""How long a process may go on once another one has failed."""
_WAITING = ("torch/distributed/", "torch/nn/parallel/", "torch/autograd/graph.py")
"""Files in whose functions a process waits for others: an exchange, or a backward pass that exchanges gradients."""


class EndedError(TrainingError):
    """Another process, which this one waited for, has ended or hangs."""


class Watch(Callback):
    """The status of this process for the others, and theirs; a callback notes how far the training is.

    Attributes:
        step: the optimizer step that is being made; `doing` says what of it.
        training: the number of the training in this job.
        failed: what another process has failed with, as far as this one knows.
    """

    def __init__(self, store: Any, rank: int, world_size: int, timeout_s: float, *, keeps_store: bool) -> None:
        self._store = store.clone()  # a connection of its own: the training may be waiting for an answer
        self._rank, self._world_size = rank, world_size
        self._timeout_s, self._interval_s = timeout_s, min(_MOST_S, timeout_s / 8)
        self._keeps_store = keeps_store  # which ends with this process
        self.step, self.doing = 0, "starting"
        self.training, self.failed = 0, ""
        self._depth, self._failed_at = 0, 0.0  # blocks of `training_here` may lie in one another
        self._count = self._beats = 0
        self._asks = False  # since others have let it wait in vain
        self._main = threading.get_ident()
        self._done = threading.Event()
        # A daemon, as it must not keep alive a process that fails.
        self._thread = threading.Thread(target=self._beat, name="burnlike-watch", daemon=True)
        self._thread.start()

    def on_fit_start(self, learner: Any) -> None:
        self.training, self.failed = self.training + 1, ""
        self._note(learner.step + 1, "reading a batch")

    def on_batch_start(self, learner: Any, batch: Any) -> None:
        self._note(learner.step + 1, "computing")

    def on_backward_end(self, learner: Any) -> None:
        self._note(learner.step + 1, "taking the optimizer step")

    def on_step_end(self, learner: Any) -> None:
        self._note(learner.step + 1, "reading a batch")

    def on_valid_start(self, learner: Any, split: str) -> None:
        self._note(learner.step, "validating")

    def _note(self, step: int, doing: str) -> None:
        """The process got so far; this costs less than a microsecond."""
        self.step, self.doing = step, doing
        self._count += 1

    @contextmanager
    def training_here(self) -> Iterator[None]:
        """Within the `with` block this process may wait for others, and is ended where one of them has failed."""
        self._depth += 1
        try:
            yield
        finally:
            self._depth -= 1

    def fail(self, text: str) -> None:
        """Tell the others that this process fails, unless one has said so before."""
        who = f"rank {self._rank} on {platform.node()} failed: {text}"
        is_first = not self._knows(who)
        with suppress(RuntimeError):  # the store is gone
            store = self._store.clone()
            store.compare_set(f"failed {self.training}", "", who)
            self._count_among(store, "know", self._world_size, is_new=is_first)

    def failure(self) -> str:
        """The error of another process that this one waited for; empty where none has told one."""

        def learn() -> str:
            store = self._store.clone()
            text = self.failed or self._read_failure(store)
            if text:
                self._count_among(store, "know", self._world_size, is_new=not self._knows(text))
            return text

        return self._asked(learn) or self.failed

    def _count_among(self, store: Any, what: str, expected: int, *, is_new: bool = True) -> None:
        """Count this process among those that have read it; the one that keeps the store stays for them a while."""
        readers = store.add(f"{what} {self.training}", int(is_new))
        end = time.monotonic() + _LOOKS * self._interval_s
        while self._keeps_store and readers < expected and time.monotonic() < end:
            time.sleep(0.05)
            readers = store.add(f"{what} {self.training}", 0)

    def _asked(self, ask: Callable[[], str | None]) -> str | None:
        """The store's answer; None where the process that keeps it is stopped or gone."""
        answers: list[str | None] = []

        def run() -> None:
            with suppress(RuntimeError):
                answers.append(ask())

        thread = threading.Thread(target=run, daemon=True)
        thread.start()
        thread.join(_LOOKS * self._interval_s + 2 * _MOST_S)
        return answers[0] if answers else None

    def _read_failure(self, store: Any) -> str:
        key = f"failed {self.training}"
        return store.get(key).decode() if store.check([key]) else ""

    def _knows(self, failure: str) -> bool:
        """True if it was known before that a process has failed; it is from now on."""
        before, self.failed = self.failed, self.failed or failure
        if not before:
            self._failed_at = time.monotonic()
        return bool(before)

    def close(self) -> None:
        self._done.set()
        self._thread.join(2 * _MOST_S)
        faulthandler.cancel_dump_traceback_later()

    def late(self) -> str:
        """The processes that the others wait for, and where they are."""
        self._asks = True
        silent = "rank 0 gives no sign of life: it keeps the store of the job, which does not answer"
        late_ranks = self._asked(self._late) or silent
        self._asked(lambda: self._count_among(self._store.clone(), "late", self._world_size - 1))
        return late_ranks

    def _beat(self) -> None:
        seen = -1
        while not self._done.is_set():
            if seen != self._count:
                seen = self._count
                # Stacks are printed before the others' exchange times out, which ends the job.
                faulthandler.dump_traceback_later(0.8 * self._timeout_s, file=sys.__stderr__ or sys.stderr)
            self._beats += 1
            where, waits = _place(self._main)
            status = {
                "beats": self._beats,
                "count": self._count,
                "step": self.step,
                "doing": self.doing,
                "where": where,
                "waits": waits or self._asks,
                "host": platform.node(),
                "process": os.getpid(),
            }
            try:
                self._store.set(f"watch {self._rank}", json.dumps(status))
                if not self.failed and (text := self._read_failure(self._store)) and not self._knows(text):
                    self._store.add(f"know {self.training}", 1)
            except RuntimeError:  # the store is gone, and the job with it
                if not self.failed:
                    return
            if self.failed and self._depth and time.monotonic() - self._failed_at > _GRACE_S:
                print(f"burnlike: {self.failed}; this process waited for it, and ends", file=sys.stderr, flush=True)
                os._exit(1)  # the main thread waits in an exchange, which no exception reaches
            self._done.wait(self._interval_s)

    def _read(self, store: Any) -> dict[int, dict[str, Any]]:
        keys = {rank: f"watch {rank}" for rank in range(self._world_size)}
        return {rank: json.loads(store.get(key)) for rank, key in keys.items() if store.check([key])}

    def _late(self) -> str:
        store = self._store.clone()
        before = self._read(store)
        time.sleep(_LOOKS * self._interval_s)
        now = self._read(store)
        if never := [rank for rank in range(self._world_size) if rank not in now]:
            return f"rank{'s' * (len(never) > 1)} {', '.join(map(str, never))} never began"
        if silent := [rank for rank, value in now.items() if value["beats"] == before.get(rank, {}).get("beats")]:
            step = max(value["step"] for value in now.values())  # a silent one may have gone on after its last word
            return f"{'; '.join(_who(rank, now[rank]) for rank in silent)} gives no sign of life in step {step}"
        least = min(value["count"] for value in now.values())
        behind = [rank for rank, value in now.items() if value["count"] == least]
        busy = [rank for rank in behind if not now[rank]["waits"]] or [rank for rank in now if not now[rank]["waits"]]
        late = [(_who(rank, now[rank]), now[rank]) for rank in busy or behind]
        return "; ".join(f"{who} hangs in step {it['step']}, {it['doing']}, at {it['where']}" for who, it in late)


def _place(thread: int) -> tuple[str, bool]:
    """The place of a thread, as file:line in function, outside of torch, and True if it waits for others."""
    frame = sys._current_frames().get(thread)
    waits = frame is not None and any(it in frame.f_code.co_filename for it in _WAITING)
    while frame is not None and frame.f_back is not None and f"{os.sep}torch{os.sep}" in frame.f_code.co_filename:
        frame = frame.f_back
    if frame is None:
        return "", False
    return f"{frame.f_code.co_filename}:{frame.f_lineno} in {frame.f_code.co_name}", waits


def _who(rank: int, status: dict[str, Any]) -> str:
    return f"rank {rank} (process {status['process']} on {status['host']})"


_SHARE = 200
_MOST_STEPS, _MOST_EXCHANGES = 20, 512
"""Of one look."""
_FACTOR, _LEAST_NS = 1.5, 2_000_000
"""A process is slow that computes so many times as long as most, and by so much longer."""


class ProcessTimes(NamedTuple):
    """Timings of the last steps of one process. Moments are nanoseconds from the common one on.

    Attributes:
        host: its machine.
        rate: values, such as tokens, of its own in a second.
        ends: when steps ended, the first of which is the beginning of what is looked at.
        begun: when it began exchanges, by their names.
        cost: seconds of the last look.
    """

    host: str
    rate: float
    ends: Sequence[int]
    begun: Mapping[str, int]
    cost: float


class Timing(Callback):
    """Compares the processes of a training from time to time."""

    def __init__(self, parallel: "SingleProcess") -> None:
        self._parallel = parallel
        self._ends: deque[int] = deque(maxlen=_MOST_STEPS + 1)
        self._next = 0
        self._cost = 0.0
        self._slow: tuple[int, ...] = ()
        self._log: MetricsLog | None = None
        self.notes: list[str] = []

    def on_fit_start(self, learner: Any) -> None:
        self._next = learner.step + 2  # the first step is slower than others
        if self._parallel.is_main and learner.run is not None:
            self._log = MetricsLog(learner.run.path / RANKS_NAME)
            self._log.cut_back(learner.step)
        with self._parallel.explain_lost_peer():
            self._parallel.gather(None)
        self._synced_ns = time.time_ns()
        self._ends.clear()

    def on_step_end(self, learner: Any) -> None:
        self._ends.append(time.time_ns())

    def on_metrics(self, learner: Any, line: Mapping[str, Any]) -> None:
        """With lines of the training: all processes have just agreed on its numbers."""
        if line["split"] == "train" and learner.step >= self._next:
            self._look(learner, next((name for name in line if name.endswith("_per_s")), "items_per_s"))

    def _look(self, learner: Any, name: str) -> None:
        began_ns = time.time_ns()
        begun, ends = arrivals(self._ends[0]), [*self._ends]
        while len(begun) > _MOST_EXCHANGES and len(ends) > 2:
            del ends[0]
            begun = {key: value for key, value in begun.items() if value > ends[0]}
        zero = self._synced_ns
        times = ProcessTimes(
            platform.node(),
            learner.window.rate,
            [end - zero for end in ends],
            {key: value - zero for key, value in begun.items()},
            self._cost,
        )
        processes = [ProcessTimes(*it) for it in self._parallel.gather(tuple(times))]
        self._synced_ns = time.time_ns()
        self._ends.clear()
        self._cost = (self._synced_ns - began_ns) / 1e9
        # By numbers that all have, so that all look again with the same line.
        span = (processes[0].ends[-1] - processes[0].ends[0]) / 1e9 / max(len(processes[0].ends) - 1, 1)
        self._next = learner.step + max(2, math.ceil(_SHARE * processes[0].cost / max(span, 1e-6)))
        if self._parallel.is_main and min(len(process.ends) for process in processes) > 1:
            computing = own_times(processes)
            self._note_slow(processes, computing)
            if self._log is not None:
                spans = [process.ends[-1] - process.ends[0] for process in processes]
                waiting = [1 - sum(computed) / span for computed, span in zip(computing, spans, strict=True)]
                of_step = spans[0] / 1e9 / (len(processes[0].ends) - 1)
                values = {
                    name: [process.rate for process in processes],
                    "waiting": waiting,
                    "host": [process.host for process in processes],
                }
                self._log.append({"step": learner.step, "seconds_per_step": of_step, **values})

    def _note_slow(self, processes: Sequence[ProcessTimes], computing: Sequence[Sequence[int]]) -> None:
        medians = [median_low(it) for it in computing]  # of most steps: one that writes a checkpoint does not count
        usual = median_low(medians)
        slow = tuple(rank for rank, it in enumerate(medians) if it > _FACTOR * usual and it - usual > _LEAST_NS)
        if slow != self._slow:
            self.notes += [
                f"rank {rank} on {processes[rank].host} is slow: it computes for {medians[rank] / 1e6:.1f} ms of a"
                f" step, most for {usual / 1e6:.1f} ms, and the others wait for it"
                for rank in slow
            ]
        self._slow = slow


def own_times(processes: Sequence[ProcessTimes]) -> list[list[int]]:
    """For how many nanoseconds of each step each process waited for no other."""
    last: dict[str, int] = {}
    for process in processes:
        for name, moment in process.begun.items():
            last[name] = max(moment, last.get(name, moment))
    return [[*_own_times(it, sorted((moment, last[name]) for name, moment in it.begun.items()))] for it in processes]


def _own_times(process: ProcessTimes, waits: Sequence[tuple[int, int]]) -> Iterator[int]:
    """The time of each step without the waits, which may overlap."""
    for start, stop in pairwise(process.ends):
        waited = 0
        end = start
        for first, last in waits:
            waited += max(0, min(last, stop) - max(first, end))
            end = max(end, min(last, stop))
        yield stop - start - waited
