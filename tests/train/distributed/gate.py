"""For `--import gate` of a training: it waits before some steps until a test lets it go on, by making a file."""

import time
from pathlib import Path
from typing import Any

from burnlike.train import Learner

GATES = {(1, 6): "never", (2, 12): "killed"}
"""(processes, steps taken) -> the file that is waited for."""

_take_step: Any = Learner.take_step


def _after_gate(self: Any) -> float:
    name = GATES.get((self.parallel.world_size, self.step))
    while name is not None and not Path(name).exists():
        time.sleep(0.01)
    return _take_step(self)


if __name__ == "gate":  # and not a module that pytest looks for doctests in
    Learner.take_step = _after_gate
