"""Rates of the processes of a training, how long each waits for others, and which of them is slow.

torch's flight recorder notes when a process begins each exchange. Of one exchange, a process waits from its own
beginning to that of the last one, in whichever direction data go; the time that the data take is not counted. Clocks of
several machines differ, so times are counted from the moment when all have left one exchange.

This is looked at with some lines of metrics, so rarely that it takes at most a two hundredth of the time.
"""

import math
import platform
import time
from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from itertools import pairwise
from statistics import median_low
from typing import TYPE_CHECKING, Any, NamedTuple

from ..._torch_compat.distributed import arrivals
from ..runs.logs import RANKS_NAME, MetricsLog
from ..view.callback import Callback

if TYPE_CHECKING:
    from .single_process import SingleProcess

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
            begun = {key: it for key, it in begun.items() if it > ends[0]}
        zero = self._synced_ns
        times = ProcessTimes(
            platform.node(),
            learner.window.rate,
            [it - zero for it in ends],
            {key: it - zero for key, it in begun.items()},
            self._cost,
        )
        processes = [ProcessTimes(*it) for it in self._parallel.gather(tuple(times))]
        self._synced_ns = time.time_ns()
        self._ends.clear()
        self._cost = (self._synced_ns - began_ns) / 1e9
        # By numbers that all have, so that all look again with the same line.
        span = (processes[0].ends[-1] - processes[0].ends[0]) / 1e9 / max(len(processes[0].ends) - 1, 1)
        self._next = learner.step + max(2, math.ceil(_SHARE * processes[0].cost / max(span, 1e-6)))
        if self._parallel.is_main and min(len(it.ends) for it in processes) > 1:
            computing = own_times(processes)
            self._note_slow(processes, computing)
            if self._log is not None:
                spans = [it.ends[-1] - it.ends[0] for it in processes]
                waiting = [1 - sum(computed) / span for computed, span in zip(computing, spans, strict=True)]
                of_step = spans[0] / 1e9 / (len(processes[0].ends) - 1)
                values = {
                    name: [it.rate for it in processes],
                    "waiting": waiting,
                    "host": [it.host for it in processes],
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
