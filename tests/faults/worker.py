"""A process that does as it is told, so that it can be made to fail or be killed: one JSON line in, one out.

    python -m tests.faults.worker PLACE FOLDER

What is killed is done in a fork, which spares the start of torch.
"""

import ctypes
import json
import os
import sys
from pathlib import Path

import torch

from burnlike.errors import BurnlikeError

from .actions import ACTIONS

KILL = 4


def main(place: Path, folder: Path) -> None:
    """Obey the lines on the standard input."""
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)  # what libraries print is no answer
    shim = ctypes.CDLL(os.environ["LD_PRELOAD"])
    torch.set_num_threads(1)
    for line in sys.stdin:
        order = json.loads(line)
        action = ACTIONS[order["action"]]

        def run(order: dict[str, int] = order, action: object = action) -> dict[str, object]:
            error = ""
            shim.shim_arm(order.get("at", -1), order.get("failure", 0))
            try:
                (action.before if order.get("before") else action.act)(place, folder)  # type: ignore[attr-defined]
            except (BurnlikeError, OSError) as raised:
                error = f"{type(raised).__name__}: {raised}"
            except Exception as raised:
                error = f"!! {type(raised).__name__}: {raised}"
            calls = shim.shim_count()
            shim.shim_arm(-1, 0)
            return {"error": error, "calls": calls}

        print(json.dumps(in_fork(run) if order.get("failure") == KILL else run()), file=answers, flush=True)


def in_fork(run: object) -> dict[str, object]:
    pid = os.fork()
    if pid == 0:
        run()  # type: ignore[operator]
        os._exit(0)
    _, status = os.waitpid(pid, 0)
    return {"error": "", "killed": os.WIFSIGNALED(status)}


if __name__ == "__main__":
    main(Path(sys.argv[1]), Path(sys.argv[2]))
