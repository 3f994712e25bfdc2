"""Recognizes the records of optimizers. Imports no torch."""

from collections.abc import Mapping

from ...module.identity.param_id import ParamId
from ..outline import Outline


def is_optimizer_record(outline: Outline) -> bool:
    """Whether a record has the form that those of optimizers have: states by ids, and the paths of those."""
    states, paths = outline.values.get("states"), outline.values.get("paths")
    if not isinstance(states, Mapping) or not isinstance(paths, Mapping):
        return False
    return all(id_of(name) is not None for name in (*outline.entries, *states, *(f"{it}." for it in paths)))


def id_of(name: str) -> int | None:
    """The id that a name of a part of a state begins with, None for other names."""
    text, dot, _ = name.partition(".")
    try:
        param_id = ParamId.parse(text)
    except ValueError:
        return None
    return param_id.value if dot and str(param_id) == text else None
