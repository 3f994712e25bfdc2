"""What burnlike writes into a file's metadata: ids, aliases of tied tensors, and plain values. Imports no torch.

Every key begins with `burnlike.`, so that the texts of others stay beside them. `burnlike.format` names the version of
this layout.
"""

import json
import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from ..errors import RecordError, RecordFormatError
from ..module.param_id import ParamId

FORMAT_VERSION = "1"

_PREFIX = "burnlike."
_FORMAT, _IDS, _ALIASES, _VALUES = (f"{_PREFIX}{name}" for name in ("format", "ids", "aliases", "values"))
_MAX_DEPTH = 64  # a limit of our own: that of Python depends on who calls
_ESCAPE = "$"
_FLOAT = "$float"
_SPECIAL_FLOATS = {"nan": math.nan, "inf": math.inf, "-inf": -math.inf}


@dataclass(frozen=True, slots=True)
class Details:
    """What a record holds beside its tensors' values.

    Attributes:
        ids: ParamId of each tensor that is a parameter.
        aliases: other name of a tied tensor -> the name it is stored under.
        values: numbers, texts, None, and lists and maps of them.
        format: version of burnlike's layout, None in a file that another program wrote.
        other: the texts that are not burnlike's.
    """

    ids: Mapping[str, ParamId] = field(default_factory=dict)
    aliases: Mapping[str, str] = field(default_factory=dict)
    values: Mapping[str, Any] = field(default_factory=dict)
    format: str | None = None
    other: Mapping[str, str] = field(default_factory=dict)


def encode(ids: Mapping[str, ParamId], aliases: Mapping[str, str], values: Mapping[str, Any]) -> dict[str, str]:
    """Turn a record's details into the texts of `__metadata__`.

    Raises:
        RecordError: a value is neither a number, a text, a bool, None, nor a list or map of those.
    """
    texts = {"format": "pt", _FORMAT: FORMAT_VERSION}  # transformers reads only files that say "pt"
    if ids:
        texts[_IDS] = _dump({name: str(param_id) for name, param_id in ids.items()})
    if aliases:
        texts[_ALIASES] = _dump(dict(aliases))
    if values:
        texts[_VALUES] = _dump(_to_json(values, "values"))
    return texts


def decode(metadata: Mapping[str, str], names: Mapping[str, Any], path: str) -> Details:
    """Read the texts of `__metadata__` back.

    Args:
        metadata: the texts.
        names: the tensors of the file, by name.
        path: the file, for messages.

    Raises:
        RecordFormatError: the texts are damaged or of a version that this reader doesn't know.
    """
    other = {key: text for key, text in metadata.items() if not key.startswith(_PREFIX)}
    version = metadata.get(_FORMAT)
    if version is None:
        return Details(other=other)
    if version != FORMAT_VERSION:
        raise RecordFormatError(
            f"{path}: expected burnlike.format {FORMAT_VERSION!r}, got {version!r}; a newer burnlike wrote it: update"
        )
    aliases = _load_map(metadata, _ALIASES, path)
    for alias, name in aliases.items():
        if alias in names or name not in names:
            raise RecordFormatError(f"{path}: {_ALIASES} ties {alias!r} to {name!r}, which the tensors contradict")
    return Details(_decode_ids(metadata, names, path), aliases, _decode_values(metadata, path), version, other)


def _decode_ids(metadata: Mapping[str, str], names: Mapping[str, Any], path: str) -> dict[str, ParamId]:
    ids: dict[str, ParamId] = {}
    name_of: dict[ParamId, str] = {}
    for name, text in _load_map(metadata, _IDS, path).items():
        try:
            ids[name] = ParamId.parse(text)
        except ValueError as error:
            raise RecordFormatError(f"{path}: {_IDS} of {name!r}: {error}") from error
        if name not in names:
            raise RecordFormatError(f"{path}: {_IDS} names {name!r}, which is no tensor of the file")
        if ids[name] in name_of:
            raise RecordFormatError(f"{path}: {_IDS} gives {text!r} to both {name_of[ids[name]]!r} and {name!r}")
        name_of[ids[name]] = name
    return ids


def _decode_values(metadata: Mapping[str, str], path: str) -> dict[str, Any]:
    try:
        values = _from_json(_load(metadata, _VALUES, path))
    except _TooDeepError as error:
        raise RecordFormatError(f"{path}: {_VALUES} is nested too deeply (more than {_MAX_DEPTH} levels)") from error
    if not isinstance(values, dict):
        raise RecordFormatError(f"{path}: {_VALUES} is not a map")
    return values


def _load_map(metadata: Mapping[str, str], key: str, path: str) -> dict[str, str]:
    found = _load(metadata, key, path)
    if not isinstance(found, dict) or not all(isinstance(value, str) for value in found.values()):
        raise RecordFormatError(f"{path}: {key} is not a map from text to text")
    return found


def _load(metadata: Mapping[str, str], key: str, path: str) -> Any:
    try:
        return json.loads(metadata.get(key, "{}"))
    except (ValueError, RecursionError) as error:
        raise RecordFormatError(f"{path}: {key} is not valid JSON ({error})") from error


def _dump(value: Any) -> str:
    return json.dumps(value, separators=(",", ":"), ensure_ascii=False, allow_nan=False)


class _TooDeepError(Exception):
    pass


def _to_json(value: Any, place: str, depth: int = 0) -> Any:
    """JSON has no inf and nan: they become `{"$float": "inf"}`, and keys that begin with `$` get a second one."""
    if depth > _MAX_DEPTH:
        raise RecordError(
            f"values: nested too deeply (more than {_MAX_DEPTH} levels), or a list or map holds itself; flatten it"
        )
    if value is None or isinstance(value, bool | str):
        return value
    if type(value) is int:
        return value
    if type(value) is float:
        return value if math.isfinite(value) else {_FLOAT: repr(value)}
    if isinstance(value, list | tuple):
        return [_to_json(item, f"{place}[{index}]", depth + 1) for index, item in enumerate(value)]
    if isinstance(value, Mapping):
        for key in value:
            if not isinstance(key, str):
                raise RecordError(f"{place}: expected text as key, got {key!r}; turn it into text")
        return {
            f"{_ESCAPE}{key}" if key.startswith(_ESCAPE) else key: _to_json(item, f"{place}.{key}", depth + 1)
            for key, item in value.items()
        }
    raise RecordError(
        f"{place}: expected a number, text, bool, None, list or map, got {type(value).__name__}; "
        "store tensors among the record's tensors and turn the rest into plain values"
    )


def _from_json(value: Any, depth: int = 0) -> Any:
    if depth > _MAX_DEPTH:
        raise _TooDeepError
    if isinstance(value, list):
        return [_from_json(item, depth + 1) for item in value]
    if isinstance(value, dict):
        if set(value) == {_FLOAT}:
            return _SPECIAL_FLOATS.get(value[_FLOAT], math.nan)
        return {key.removeprefix(_ESCAPE): _from_json(item, depth + 1) for key, item in value.items()}
    return value
