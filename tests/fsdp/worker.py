"""One of two processes that look at sharded modules. Run by test_fsdp.py, which starts it."""

import faulthandler
import json
import os
import sys
import traceback
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
import torch.distributed as dist

from .functions import ALONE, CHECKS, trains_in_the_usual_order
from .models import STATES, WRAPPINGS, WRAPPINGS_OF_TRAINING


def cells(every: bool) -> Iterator[tuple[str, str, str]]:
    """Check, state and wrapping: all of them, or one state."""
    for wrapping in WRAPPINGS if every else ("nested",):
        for state in STATES if every else ("after a forward without grad",):
            for check in CHECKS:
                yield check, state, wrapping


def main(folder: Path, every: bool) -> None:
    """Write down what went wrong."""
    dist.init_process_group("gloo")
    found: dict[str, str] = {}

    def note(name: str, check: Callable[[], None]) -> None:
        dist.barrier()
        try:
            check()
            found[name] = ""
        except (Exception, pytest.fail.Exception):
            found[name] = traceback.format_exc()

    for wrapping, make in WRAPPINGS_OF_TRAINING.items():
        note(f"trains_in_the_usual_order, {wrapping}", lambda make=make: trains_in_the_usual_order(make))
    for name, check in ALONE.items():
        note(name, check)
    for check, state, wrapping in cells(every):
        model = WRAPPINGS[wrapping]()
        note(
            f"{check}, {state}, {wrapping}",
            lambda it=(check, state), model=model: CHECKS[it[0]](model, lambda: STATES[it[1]](model)),
        )
    (folder / f"found{dist.get_rank()}.json").write_text(json.dumps(found))
    dist.barrier()
    sys.stdout.flush()
    # torch 2.13 sometimes waits for ever while it takes gloo's threads down.
    os._exit(0)


if __name__ == "__main__":
    faulthandler.enable()
    main(Path(sys.argv[1]), sys.argv[2:] == ["all"])
