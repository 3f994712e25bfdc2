"""Finds the process that hangs, where others wait for it in vain.

Each process notes what it does, in memory. A thread of its own writes that into the store of the job every few seconds,
and arms a timer of `faulthandler`, which prints the stacks of a process that gets no further, whatever holds its
interpreter. A process whose exchange has timed out reads what the others wrote: those that write nothing any more are
stopped or gone, else those are late that have done the least and don't wait in an exchange themselves.
"""

import faulthandler
import json
import os
import platform
import sys
import threading
import time
from typing import Any

from ..view.callback import Callback

_MOST_S = 5.0
_LOOKS = 2.5
"""After how many times the usual interval a process counts as silent."""
_WAITING = ("torch/distributed/", "torch/nn/parallel/", "torch/autograd/graph.py")
"""Files in whose functions a process waits for others: an exchange, or a backward pass that exchanges gradients."""


class Watch:
    """What this process says of itself to the others, and what it knows of them.

    Attributes:
        step: the optimizer step that is being made; `doing` says what of it.
    """

    def __init__(self, store: Any, rank: int, world_size: int, timeout_s: float) -> None:
        self._store = store.clone()  # a connection of its own: the training may be waiting for an answer
        self._rank, self._world_size = rank, world_size
        self._timeout_s, self._interval_s = timeout_s, min(_MOST_S, timeout_s / 8)
        self.step, self.doing = 0, "starting"
        self._count = self._beats = 0
        self._asks = False  # since others have let it wait in vain
        self._main = threading.get_ident()
        self._done = threading.Event()
        self._thread = threading.Thread(target=self._beat, name="burnlike-watch", daemon=True)
        self._thread.start()

    def note(self, step: int, doing: str) -> None:
        """The process got so far; this costs less than a microsecond."""
        self.step, self.doing = step, doing
        self._count += 1

    def close(self) -> None:
        self._done.set()
        self._thread.join(2 * _MOST_S)
        faulthandler.cancel_dump_traceback_later()

    def late(self) -> str:
        """Which processes the others wait for, and where they are."""
        self._asks = True
        found: list[str] = []
        # Where the process that keeps the store is stopped, no answer comes.
        thread = threading.Thread(target=lambda: found.append(self._late()), daemon=True)
        thread.start()
        thread.join(_LOOKS * self._interval_s + 2 * _MOST_S)
        return (
            found[0] if found else "rank 0 gives no sign of life: it keeps the store of the job, which does not answer"
        )

    def _beat(self) -> None:
        seen = -1
        while not self._done.is_set():
            if seen != self._count:
                seen = self._count
                faulthandler.dump_traceback_later(0.8 * self._timeout_s, file=sys.__stderr__ or sys.stderr)
            self._beats += 1
            where, waits = _place(self._main)
            said = {"beats": self._beats, "count": self._count, "step": self.step, "doing": self.doing, "where": where}
            said |= {"waits": waits or self._asks, "host": platform.node(), "process": os.getpid()}
            try:
                self._store.set(f"watch {self._rank}", json.dumps(said))
            except RuntimeError:  # the store is gone, and the job with it
                return
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
            return f"{_ranks(never)} never began"
        if silent := [rank for rank, it in now.items() if it["beats"] == before.get(rank, {}).get("beats")]:
            step = max(it["step"] for it in now.values())  # a silent one may have gone on after its last word
            return f"{'; '.join(_who(rank, now[rank]) for rank in silent)} gives no sign of life in step {step}"
        least = min(it["count"] for it in now.values())
        behind = [rank for rank, it in now.items() if it["count"] == least]
        busy = [rank for rank in behind if not now[rank]["waits"]] or [rank for rank in now if not now[rank]["waits"]]
        return "; ".join(f"{_who(rank, now[rank])} hangs {_at(now[rank])}" for rank in busy or behind)


class Progress(Callback):
    """Notes how far a training is."""

    def __init__(self, watch: Watch) -> None:
        self._watch = watch

    def on_fit_start(self, learner: Any) -> None:
        self._watch.note(learner.step + 1, "reading a batch")

    def on_batch_start(self, learner: Any, batch: Any) -> None:
        self._watch.note(learner.step + 1, "computing")

    def on_backward_end(self, learner: Any) -> None:
        self._watch.note(learner.step + 1, "taking the optimizer step")

    def on_step_end(self, learner: Any) -> None:
        self._watch.note(learner.step + 1, "reading a batch")

    def on_valid_start(self, learner: Any, split: str) -> None:
        self._watch.note(learner.step, "validating")


def _place(thread: int) -> tuple[str, bool]:
    """Where a thread is, as file:line in function, outside of torch; and whether it waits for other processes."""
    frame = sys._current_frames().get(thread)
    waits = frame is not None and any(it in frame.f_code.co_filename for it in _WAITING)
    while frame is not None and frame.f_back is not None and f"{os.sep}torch{os.sep}" in frame.f_code.co_filename:
        frame = frame.f_back
    if frame is None:
        return "", False
    return f"{frame.f_code.co_filename}:{frame.f_lineno} in {frame.f_code.co_name}", waits


def _who(rank: int, said: dict[str, Any]) -> str:
    return f"rank {rank} (process {said['process']} on {said['host']})"


def _at(said: dict[str, Any]) -> str:
    return f"in step {said['step']}, {said['doing']}, at {said['where']}"


def _ranks(ranks: list[int]) -> str:
    return f"rank{'s' * (len(ranks) > 1)} {', '.join(map(str, ranks))}"
