"""burnlike's data in a safetensors file's metadata: ids, aliases, states, layout and plain values as JSON.

Imports no torch.

Every key begins with `burnlike.`, so that the texts of others stay beside them. `burnlike.format` names the version of
this layout.
"""

import json
import math
from collections.abc import Mapping
from typing import Any

from ..errors import RecordError, RecordFormatError
from ..module.identity.param_id import ParamId
from .bytes.budget import Budget, NotThisError, load_json, text_map, text_pairs, texts_of
from .formats import Outline, TensorEntry
from .layout import LayoutOf, check_layout, join

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


FORMAT_VERSION = "2"
_PREFIX = "burnlike."
_FORMAT, _IDS, ALIASES, _VALUES, STATES, _LAYOUT, CHECKSUMS = (
    f"{_PREFIX}{name}" for name in ("format", "ids", "aliases", "values", "states", "layout", "checksums")
)

# What torch noted about the modules of a state dict (`_metadata`), as JSON; it stays in `Outline.metadata`.
VERSIONS = f"{_PREFIX}versions"
USUAL_VERSION: Mapping[str, Any] = {"version": 1}  # about most modules
# Says that a file of `torch.save` has a whole module, which code of its own had no share in.
PICKLED = f"{_PREFIX}pickled"

_ID_BYTES, _STATE_BYTES = 170, 130  # memory that is kept of each, at most
_FRAMEWORK = {"format": "pt"}  # transformers reads only safetensors files that say so
# What Burn's recorders say about their files; in a safetensors file `format` means the framework.
_BURN_RECORDER, _BURN_TEXTS = "burn_core::", ("float", "int", "format", "version", "settings")


def encode(outline: Outline, checksums: str = "") -> dict[str, str]:
    """Turn what a record holds beside its tensors, and the checksums, into the texts of `__metadata__`.

    Texts that another program wrote stay; where there is nothing else, they stay alone, byte for byte.
    """
    others, texts = _others(outline.metadata) if outline.metadata else {}, own_texts(outline)
    if others and not texts:
        return others
    return {**_FRAMEWORK, **others, _FORMAT: FORMAT_VERSION, **texts, **({CHECKSUMS: checksums} if checksums else {})}


def foreign(metadata: Mapping[str, Any]) -> dict[str, str]:
    """Metadata of another program that is still true in a file of one of Burn's formats."""
    return {key: text for key, text in _others(metadata).items() if _FRAMEWORK.get(key) != text}


def _others(metadata: Mapping[str, Any]) -> dict[str, str]:
    """Metadata of another program that is still true in a safetensors file."""
    others = {key: str(text) for key, text in metadata.items() if not key.startswith(_PREFIX)}
    if others.get("format", "").startswith(_BURN_RECORDER):
        return {key: text for key, text in others.items() if key not in _BURN_TEXTS}
    return others


def own_texts(outline: Outline, states: bool | None = None) -> dict[str, str]:
    """The content of a record beside its tensors, as texts, with the version; `states` lists those, None if any."""
    texts: dict[str, str] = {}
    if outline.ids:
        texts[_IDS] = _dump(dict(zip(outline.ids, map(str, outline.ids.values()), strict=True)))
    if outline.aliases:
        texts[ALIASES] = _dump(dict(outline.aliases))
    if outline.values:
        texts[_VALUES] = dump_values(outline.values)
    if bool(outline.states) if states is None else states:
        texts[STATES] = _dump([*filter(frozenset(outline.states).__contains__, outline.entries)])
    for key in (VERSIONS, PICKLED):
        if key in outline.metadata:
            texts[key] = str(outline.metadata[key])
    if outline.layout is not None and not isinstance(outline.layout, LayoutOf):
        texts[_LAYOUT] = _dump(outline.layout)
    return {_FORMAT: FORMAT_VERSION, **texts} if texts else {}


def dump_versions(noted: Mapping[str, Any]) -> str:
    """The text of `VERSIONS`: path of a module -> what torch notes about it, if that is not the usual."""
    return dump_values({path: value for path, value in noted.items() if value != USUAL_VERSION})


def aliases_of(texts: Mapping[str, str], path: str, budget: Budget) -> dict[str, str]:
    """The aliases that the texts declare, none in another version; not checked against tensors."""
    if ALIASES not in texts or texts.get(_FORMAT) != FORMAT_VERSION:
        return {}
    try:
        return text_map(texts[ALIASES].encode(), budget)
    except NotThisError as error:
        raise _no_text_map(f"{path}: {ALIASES}", error) from error


def decode(
    texts: Mapping[str, str], entries: Mapping[str, TensorEntry], path: str, budget: Budget | None = None
) -> Outline:
    """Read the texts of `__metadata__` back."""
    budget = budget or Budget(path)
    others = dict(texts)
    for key in texts:
        if key.startswith(_PREFIX) and key not in (VERSIONS, PICKLED):
            del others[key]
    if (version := texts.get(_FORMAT)) is None:
        return Outline(entries, metadata=others, format="safetensors")
    if version != FORMAT_VERSION:
        is_newer = version.isdecimal() and (len(version), version) > (len(FORMAT_VERSION), FORMAT_VERSION)
        remedy = "a newer burnlike wrote it: update" if is_newer else "no burnlike writes that: save or fetch it again"
        raise RecordFormatError(f"{path}: expected {_FORMAT} '{FORMAT_VERSION}', got {version!r:.80}; {remedy}")
    aliases = aliases_of(texts, path, budget) if ALIASES in texts else {}
    for alias, name in aliases.items():
        if alias in entries or name not in entries:
            raise RecordFormatError(f"{path}: {ALIASES} ties {alias!r} to {name!r}, which the tensors contradict")
    ids = _ids(texts[_IDS].encode(), entries, f"{path}: {_IDS}", budget) if _IDS in texts else {}
    values = load_values(texts[_VALUES], f"{path}: {_VALUES}", budget) if _VALUES in texts else {}
    states: set[str] = set()
    try:
        for name in texts_of(texts[STATES].encode(), budget, _STATE_BYTES) if STATES in texts else ():
            states.add(entries[name].name)  # the entry's own text, as each is there twice otherwise
    except (NotThisError, KeyError) as error:
        what = f"is not a list of tensors of the file ({error!s:.200})"
        raise RecordFormatError(f"{path}: {STATES} {what}") from error
    layout = _layout(texts[_LAYOUT], f"{path}: {_LAYOUT}", budget) if _LAYOUT in texts else None
    return Outline(entries, ids, aliases, values, frozenset(states), layout, others, "safetensors", version)


def _no_text_map(place: str, error: NotThisError) -> RecordFormatError:
    what = str(error)
    what = what if what.startswith(("is not valid", "is not UTF-8")) else f"is not a map from text to text: it {what}"
    return RecordFormatError(f"{place} {what}")


def _ids(text: bytes, entries: Mapping[str, TensorEntry], place: str, budget: Budget) -> dict[str, ParamId]:
    ids: dict[str, ParamId] = {}
    seen: set[int] = set()
    try:
        for name, id_text in text_pairs(text, budget, _ID_BYTES):
            if (entry := entries.get(name)) is None:
                raise RecordFormatError(f"{place} names {name!r:.80}, which is no tensor of the file")
            try:
                param_id = ParamId.parse(id_text)
            except ValueError as error:
                raise RecordFormatError(f"{place} of {name!r:.80}: {error}") from error
            if name in ids:
                raise RecordFormatError(f"{place} names {name!r:.80} twice")
            if param_id.value in seen:
                other = next(key for key, its_id in ids.items() if its_id == param_id)
                raise RecordFormatError(f"{place} gives '{param_id}' to both {other!r:.80} and {name!r:.80}")
            ids[entry.name] = param_id  # the entry's own text, as each is there twice otherwise
            seen.add(param_id.value)
    except NotThisError as error:
        raise _no_text_map(place, error) from error
    return ids


def _layout(text: str, place: str, budget: Budget) -> Any:
    try:
        budget.take(0, len(text))  # each part of it is checked
        layout = load_json(text.encode(), budget)
        check_layout({} if layout is None else layout)
    except RecordError as error:
        raise RecordFormatError(f"{place}: {error}") from error
    except NotThisError as error:
        raise RecordFormatError(f"{place} {error}") from error
    return layout


def _dump(value: Any) -> str:
    return json.dumps(value, separators=(",", ":"), ensure_ascii=False, allow_nan=False)
