"""Plain values (numbers, texts, bools, None, lists and maps) as JSON, exactly. Imports no torch."""

import json
import math
from collections.abc import Mapping
from typing import Any

from ..errors import RecordError, RecordFormatError
from ..module.identity.param_id import ParamId
from .bytes.budget import Budget, NotThisError, load_json
from .layout import join

# The keys of values that are an entry of a state dict, that say which class the tensors below their name make (for both
# `state_dict.module_state`), and that are ids which a record of several records has more than once:
# name of a tensor -> its id, as a text.
ENTRY, PARTS, IDS = "$entry", "$parts", "$ids"

MAX_DEPTH = 64  # levels that values may be nested; a limit of our own: that of Python depends on who calls

_ESCAPE = "$"
_FLOAT, _INT = "$float", "$int"
_EVERYWHERE = range(-(2**63), 2**64)  # integers that MessagePack and other readers of JSON can hold
_SPECIAL_FLOATS = {"nan": math.nan, "inf": math.inf, "-inf": -math.inf}


def dump_values(values: Mapping[str, Any]) -> str:
    """The values as JSON."""
    return json.dumps(to_json(values, "values"), separators=(",", ":"), ensure_ascii=False, allow_nan=False)


def load_values(text: str, place: str, budget: Budget | None = None) -> dict[str, Any]:
    """The values that `dump_values` made the text of; a budget of None is one for the text alone."""
    try:
        values = from_json(load_json(text.encode(), budget or Budget(place)), place)
    except NotThisError as error:
        raise RecordFormatError(f"{place} {error}") from error
    if not isinstance(values, dict):
        raise RecordFormatError(f"{place} is not a map")
    return values


def to_json(value: Any, place: str, depth: int = 0) -> Any:
    """A value in the form that every format can hold: JSON has no inf and nan, MessagePack no integers beyond 64 bits.

    They become `{"$float": "inf"}` and `{"$int": "18446744073709551616"}`; keys that begin with `$` get a second one.
    """
    if depth > MAX_DEPTH:
        raise RecordError(
            f"values: nested too deeply (more than {MAX_DEPTH} levels), or a list or map holds itself; flatten it"
        )
    if value is None or isinstance(value, bool | str):
        return value
    if type(value) is int:
        try:
            return value if value in _EVERYWHERE else {_INT: str(value)}
        except ValueError as error:
            raise RecordError(f"{place}: an integer of too many digits ({error}); store it as a text") from error
    if type(value) is float:
        return value if math.isfinite(value) else {_FLOAT: repr(value)}
    if isinstance(value, list | tuple):
        return [to_json(item, f"{place}[{index}]", depth + 1) for index, item in enumerate(value)]
    if isinstance(value, Mapping):
        for key in value:
            if not isinstance(key, str):
                raise RecordError(f"{place}: expected text as key, got {key!r}; turn it into text")
        return {
            f"{_ESCAPE}{key}" if key.startswith(_ESCAPE) else key: to_json(item, f"{place}.{key}", depth + 1)
            for key, item in value.items()
        }
    raise RecordError(
        f"{place}: expected a number, text, bool, None, list or map, got {type(value).__name__}; "
        "store tensors among the record's tensors and turn the rest into plain values"
    )


def from_json(value: Any, place: str, depth: int = 0) -> Any:
    """The value that `to_json` turned into `value`; changes its maps and lists, as a copy would take as much again."""
    if depth > MAX_DEPTH:
        raise RecordFormatError(f"{place} is nested too deeply (more than {MAX_DEPTH} levels)")
    if isinstance(value, list):
        for index, item in enumerate(value):
            value[index] = from_json(item, place, depth + 1)
        return value
    if isinstance(value, dict):
        if value.keys() in ({_FLOAT}, {_INT}):
            (kind, text), *_ = value.items()
            try:
                return _SPECIAL_FLOATS[text] if kind == _FLOAT else int(text)
            except (KeyError, ValueError, TypeError) as error:
                raise RecordFormatError(f"{place}: {value!r:.60} is no number") from error
        for key, item in value.items():
            value[key] = from_json(item, place, depth + 1)
        if any(key.startswith(_ESCAPE) for key in value):
            return {key.removeprefix(_ESCAPE): item for key, item in value.items()}
        return value
    if value is None or isinstance(value, bool | int | float | str):
        return value
    raise RecordFormatError(f"{place}: {value!r:.60} is no plain value")


def flat(values: Any, path: str = "") -> dict[str, Any]:
    """Path -> plain value, of maps and lists of those; an empty one is a value, but for a map that is the whole."""
    return dict(leaves(values, path))


def leaves(values: Any, path: str = "") -> list[tuple[str, Any]]:
    """Paths and values, see `flat`; names with dots may give one path twice."""
    if isinstance(values, Mapping) and values:
        parts = values.items()
    elif isinstance(values, list | tuple) and values:
        parts = enumerate(values)
    else:
        return [] if values == {} and not path else [(path, values)]
    return [pair for key, below in parts for pair in leaves(below, join(path, key))]


def ids_of_clones(values: Mapping[str, Any]) -> dict[str, ParamId]:
    """The ids that several tensors with different values have, by the names of all but the first."""
    try:
        return {name: ParamId.parse(text) for name, text in values.get(IDS, {}).items()}
    except (ValueError, TypeError, AttributeError) as error:
        raise RecordFormatError(
            f"the record's value '{IDS}' is no map from names to ids: {values[IDS]!r:.80}"
        ) from error
