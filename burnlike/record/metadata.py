"""What burnlike writes into a safetensors file's metadata: ids, aliases, states, layout and values. Imports no torch.

Every key begins with `burnlike.`, so that the texts of others stay beside them. `burnlike.format` names the version of
this layout.
"""

import json
from collections.abc import Mapping
from typing import Any

from ..errors import RecordError, RecordFormatError
from ..module.param_id import ParamId
from .layout import LayoutOf, check_layout
from .outline import Entry, Outline
from .values import dump_values, load_values

FORMAT_VERSION = "2"
"""Version 1 had neither states nor layouts; it is read as well."""

_READABLE = ("1", FORMAT_VERSION)
_PREFIX = "burnlike."
_FORMAT, _IDS, _ALIASES, _VALUES, _STATES, _LAYOUT = (
    f"{_PREFIX}{name}" for name in ("format", "ids", "aliases", "values", "states", "layout")
)

VERSIONS = f"{_PREFIX}versions"
"""What torch noted about the modules of a state dict (`_metadata`), as JSON; it stays in `Outline.metadata`."""

PICKLED = f"{_PREFIX}pickled"
"""Says that a file of `torch.save` has a whole module, which code of its own had no share in."""

USUAL_VERSION: Mapping[str, Any] = {"version": 1}
"""What torch notes about most modules."""

_FRAMEWORK = {"format": "pt"}
"""transformers reads only safetensors files that say so."""

_BURN_RECORDER = "burn_core::"
_BURN_TEXTS = ("float", "int", "format", "version", "settings")
"""What Burn's recorders say about their files; in a safetensors file `format` means the framework."""


def encode(outline: Outline) -> dict[str, str]:
    """Turn what a record holds beside its tensors into the texts of `__metadata__`.

    Texts that another program wrote stay; where there is nothing else, they stay alone.

    Raises:
        RecordError: a value is neither a number, a text, a bool, None, nor a list or map of those.
    """
    others, texts = _others(outline.metadata), own_texts(outline)
    if others and not texts:
        return others
    return {**_FRAMEWORK, **others, _FORMAT: FORMAT_VERSION, **texts}


def foreign(metadata: Mapping[str, Any]) -> dict[str, str]:
    """What another program wrote about its file, as far as it is true of one of a format of Burn's, too."""
    return {key: text for key, text in _others(metadata).items() if _FRAMEWORK.get(key) != text}


def _others(metadata: Mapping[str, Any]) -> dict[str, str]:
    """What another program wrote about its file, as far as it is true of a safetensors file, too."""
    others = {key: str(text) for key, text in metadata.items() if not key.startswith(_PREFIX)}
    if others.get("format", "").startswith(_BURN_RECORDER):
        return {key: text for key, text in others.items() if key not in _BURN_TEXTS}
    return others


def tells_states(texts: Mapping[str, str]) -> bool:
    """Whether the texts say which tensors are states."""
    return _STATES in texts


def own_texts(outline: Outline, states: bool | None = None) -> dict[str, str]:
    """What a record holds beside its tensors, as texts; with the version if there are any.

    Args:
        outline: the record.
        states: whether to say which tensors are states; None is if there are some.

    Raises:
        RecordError: a value is neither a number, a text, a bool, None, nor a list or map of those.
    """
    texts: dict[str, str] = {}
    if outline.ids:
        texts[_IDS] = _dump({name: str(param_id) for name, param_id in outline.ids.items()})
    if outline.aliases:
        texts[_ALIASES] = _dump(dict(outline.aliases))
    if outline.values:
        texts[_VALUES] = dump_values(outline.values)
    if bool(outline.states) if states is None else states:
        known = frozenset(outline.states)
        texts[_STATES] = _dump([name for name in outline.entries if name in known])
    texts |= {key: str(outline.metadata[key]) for key in (VERSIONS, PICKLED) if key in outline.metadata}
    if outline.layout is not None and not isinstance(outline.layout, LayoutOf):
        texts[_LAYOUT] = _dump(outline.layout)
    return {_FORMAT: FORMAT_VERSION, **texts} if texts else {}


def dump_versions(noted: Mapping[str, Any]) -> str:
    """The text of `VERSIONS`.

    Args:
        noted: path of a module -> what torch notes about it, plain values; what it notes about most is left out.

    Raises:
        RecordError: something in it is no plain value.
    """
    return dump_values({path: it for path, it in noted.items() if it != USUAL_VERSION})


def aliases_of(texts: Mapping[str, str], path: str) -> dict[str, str]:
    """The aliases among the texts, unchecked.

    Raises:
        RecordFormatError: they are damaged.
    """
    return _load_map(texts, _ALIASES, path) if texts.get(_FORMAT) in _READABLE else {}


def decode(texts: Mapping[str, str], entries: Mapping[str, Entry], path: str) -> Outline:
    """Read the texts of `__metadata__` back.

    Args:
        texts: the texts.
        entries: the tensors of the file, by name.
        path: the file, for messages.

    Raises:
        RecordFormatError: the texts are damaged or of a version that this reader doesn't know.
    """
    others = {key: text for key, text in texts.items() if not key.startswith(_PREFIX) or key in (VERSIONS, PICKLED)}
    version = texts.get(_FORMAT)
    if version is None:
        return Outline(entries, metadata=others, format="safetensors")
    if version not in _READABLE:
        raise RecordFormatError(
            f"{path}: expected burnlike.format {' or '.join(_READABLE)}, got {version!r}; a newer burnlike wrote it:"
            " update"
        )
    aliases = _load_map(texts, _ALIASES, path)
    for alias, name in aliases.items():
        if alias in entries or name not in entries:
            raise RecordFormatError(f"{path}: {_ALIASES} ties {alias!r} to {name!r}, which the tensors contradict")
    states = _load(texts, _STATES, path, [])
    if not isinstance(states, list) or not all(isinstance(name, str) and name in entries for name in states):
        raise RecordFormatError(f"{path}: {_STATES} is not a list of tensors of the file")
    layout = _load(texts, _LAYOUT, path, None)
    try:
        check_layout({} if layout is None else layout)
    except RecordError as error:
        raise RecordFormatError(f"{path}: {_LAYOUT}: {error}") from error
    return Outline(
        entries,
        _decode_ids(texts, entries, path),
        aliases,
        load_values(texts.get(_VALUES, "{}"), f"{path}: {_VALUES}"),
        frozenset(states),
        layout,
        others,
        "safetensors",
        version,
    )


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


def _load_map(metadata: Mapping[str, str], key: str, path: str) -> dict[str, str]:
    found = _load(metadata, key, path, {})
    if not isinstance(found, dict) or not all(isinstance(value, str) for value in found.values()):
        raise RecordFormatError(f"{path}: {key} is not a map from text to text")
    return found


def _load(metadata: Mapping[str, str], key: str, path: str, absent: Any) -> Any:
    if key not in metadata:
        return absent
    try:
        return json.loads(metadata[key])
    except (ValueError, RecursionError) as error:
        raise RecordFormatError(f"{path}: {key} is not valid JSON ({error})") from error


def _dump(value: Any) -> str:
    return json.dumps(value, separators=(",", ":"), ensure_ascii=False, allow_nan=False)
