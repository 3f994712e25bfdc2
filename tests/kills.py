"""Kills what trains, again and again, at moments after checkpoints, and goes on: each run ends in the same bits."""

import random
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Protocol


class Trains(Protocol):
    """What trains in a directory, such as a process."""

    def start(self, run: Path) -> None:
        """Begin the run, or go on with it."""

    def is_running(self) -> bool: ...

    def kill(self) -> None: ...

    def wait(self) -> bool:
        """Whether the run has come to its end, where nothing was killed; the test fails if it ended otherwise."""
        ...


def kill_and_resume(
    trains: Trains,
    kills: int,
    place: Path,
    assert_same: Callable[[Path], None],
    *,
    steps: Sequence[int] = (3, 0, 9, 18),
    longest_s: float = 0.1,
) -> tuple[int, int]:
    """Kill so many times; returns how many runs were needed, and at how many different checkpoints they went on.

    Args:
        trains: writes checkpoints now and then, more than one run at least.
        kills: how often.
        place: where the runs are.
        assert_same: compares a run that has ended with one that was left alone.
        steps: how many more are waited for, each time: a step, not a time, as a busy machine gets there, too.
        longest_s: of the pause that follows.
    """
    moments, done, runs = random.Random(3), 0, 0
    went_on: set[int] = set()
    while done < kills:
        run, is_over = place / f"run-{runs}", False
        while not is_over:
            before = last_step(run)
            went_on.add(before)
            trains.start(run)
            if done < kills:
                while trains.is_running() and last_step(run) < before + steps[done % len(steps)]:
                    time.sleep(0.001)
                time.sleep(moments.uniform(0, longest_s))
                trains.kill()
            is_over = trains.wait()
            done += not is_over
            longest_s *= 0.5 if is_over else 1.1  # the machine is faster, or slower, than it was
        assert_same(run)
        runs += 1
    return runs, len(went_on - {0})


def last_step(run: Path) -> int:
    """Of the checkpoints of a run; 0 without one."""
    return max((int(it.name.removeprefix("step-")) for it in run.glob("checkpoints/step-*")), default=0)
