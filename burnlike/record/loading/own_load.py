"""Loads by an object's own `load_record`, undone if something else fails."""

import copy
from collections.abc import Callable
from dataclasses import replace
from typing import Any

from ..owners import load_own
from ..record import Record


def load_undoably(target: Any, record: Record, **options: Any) -> Callable[[], None]:
    """Let `target` load a record by its own method; if that raises, `target` gets its state back.

    Takes memory for a copy of the state.

    Args:
        target: has `into_record` and `load_record`, or is a module.
        record: what it is to load.
        options: those of its `load_record`.

    Returns:
        What gives `target` the state from before.
    """
    before = Record.of(target)
    tensors = {name: before.tensors[name].detach().clone() for name in before.tensors}
    before = replace(before, tensors=tensors, values=copy.deepcopy(dict(before.values)))
    try:
        load_own(target, record, **options)
    except BaseException:
        load_own(target, before)
        raise
    return lambda: load_own(target, before)
