"""One of two processes that look at sharded modules. Run by test_fsdp.py, which starts it."""

import faulthandler
import sys
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

from ..checks import write_results
from .functions import ALONE, CHECKS, trains_in_the_usual_order
from .models import STATES, WRAPPINGS, WRAPPINGS_OF_TRAINING


def cells(every: bool) -> Iterator[tuple[str, str, str]]:
    """Check, state and wrapping: all of them, or one state."""
    for wrapping in WRAPPINGS if every else ("nested",):
        for state in STATES if every else ("after a forward without grad",):
            for check in CHECKS:
                yield check, state, wrapping


def checks(every: bool) -> dict[str, Callable[[], Any]]:
    rows: dict[str, Callable[[], Any]] = {
        f"trains_in_the_usual_order, {wrapping}": partial(trains_in_the_usual_order, make)
        for wrapping, make in WRAPPINGS_OF_TRAINING.items()
    }
    rows |= ALONE
    for check, state, wrapping in cells(every):
        rows[f"{check}, {state}, {wrapping}"] = partial(in_state, check, state, wrapping)
    return rows


def in_state(check: str, state: str, wrapping: str) -> None:
    model = WRAPPINGS[wrapping]()
    CHECKS[check](model, lambda: STATES[state](model))


if __name__ == "__main__":
    faulthandler.enable()
    write_results(Path(sys.argv[1]), checks(every=sys.argv[2:] == ["all"]))
