"""Reads a tree of nodes into typed values, and collects every mistake.

One reader for files, for `--set` and for `Config(...)` in Python, so that all three say the same of the same mistake.
Each value is checked once. A struct that the reader makes is made of what it has read, so its `__post_init__` asks
`fields_are_read` and goes on to the rules across fields; one that a program makes has its fields read there.
"""

from contextlib import suppress
from contextvars import ContextVar
from functools import cache
from typing import Any

import msgspec
import msgspec.inspect as mi

from burnlike.errors import ConfigError, Problem, nearest

from . import words
from .file_paths import placed, tell
from .node import Entries, Location, MappingEntry, Node, find, from_python, report
from .plain import INVALID, plain_value
from .registry import (
    TAG_FIELD,
    ConfigType,
    DuplicateTypeError,
    bare_members_of,
    default_of,
    fields_of,
    inlined_in,
    is_role,
    lookup,
    tag_of,
    type_in,
)
from .tree import DEFAULTS

_LISTS = (mi.ListType, mi.VarTupleType, mi.TupleType)
_CONTAINERS = (mi.StructType, mi.DictType, *_LISTS)

# msgspec calls `__post_init__` with the struct alone. A context variable and no attribute of the class, as several
# threads may read configs of one class.
_making: ContextVar[ConfigType | None] = ContextVar("_making", default=None)
"""The class of the struct that a reader is making of values that it has read."""


def fields_are_read(cls: ConfigType) -> bool:
    """True in the `__post_init__` of a struct that a reader makes; False at once after it, for all that others make."""
    if _making.get() is not cls:
        return False
    _making.set(None)
    return True


@cache
def defaults_of(cls: ConfigType) -> dict[str, Any]:
    """The defaults of a class's fields, by key, each read once as if a file had it: 1.0 for the 1 of a float.

    Defaults that a factory makes or that do not fit their field are left out, and are read with each config.
    """
    defaults, reader = {}, NodeReader()
    for key, field in fields_of(cls).items():
        if field.default is not msgspec.NODEFAULT:
            value = reader.read(from_python(field.default, Location()), field.type, key)
            if value is not INVALID:
                defaults[key] = value
    return defaults


class NodeReader:
    """Reads values out of nodes; `problems` holds what was wrong."""

    def __init__(self) -> None:
        self.problems: list[Problem] = []
        self._root: tuple[ConfigType, Node] | None = None
        self._beside: dict[str, list[str]] = {}
        """The keys that may stand beside those of the inlined config at a path."""

    def report(self, place: Location, path: str, message: str) -> Any:
        """Note a mistake; gives INVALID, for the caller to hand on."""
        report(self.problems, place, path, message)
        return INVALID

    def read(self, node: Node, wanted: mi.Type, path: str) -> Any:
        """The value of `node` as the type `wanted`, or INVALID."""
        if node.value is INVALID:
            return INVALID
        match wanted:
            case mi.Metadata(mi.IntType() | mi.FloatType()):  # the message has the reason for its bound
                value = plain_value(node, wanted.type)
            case mi.Metadata():
                return self.read(node, wanted.type, path)
            case mi.UnionType():
                return self._union(node, wanted, path)
            case mi.StructType():
                return self.struct(node, wanted.cls, path)
            case mi.ListType() | mi.VarTupleType() | mi.TupleType():
                return self._list(node, wanted, path)
            case mi.DictType():
                return self._dict(node, wanted, path)
            case _:
                value = plain_value(node, wanted)
        return self._wrong(node, wanted, path) if value is INVALID else value

    def struct(self, node: Node, cls: ConfigType, path: str) -> Any:
        """The instance of `cls`, or of the class below it that the node's `type:` names, or INVALID."""
        if node.value is INVALID:
            return INVALID
        if isinstance(node.value, cls):
            # YAML can name the type of an instance made in Python, or need not.
            kind, name = type(node.value), type(node.value).__name__
            if tag_of(kind) is not None or (kind is cls and not is_role(cls)) or getattr(kind, "unwritable", ""):
                return node.value
            message = f'{name} has no type that YAML could name; write `class {name}(..., tag="{name}")`'
            return self.report(node.place, path, message)
        if inlined_in(cls) and isinstance(node.value, msgspec.Struct):
            return cls(**{inlined_in(cls): node.value})
        if not node.is_map:
            return self._no_mapping(node, cls, path)
        self._root = self._root or (cls, node)
        chosen = self._choose(node, cls, path)
        if chosen is None:
            return INVALID
        before = len(self.problems)
        values = self._values(node, cls, chosen, path)
        if len(self.problems) > before or INVALID in values.values():
            return INVALID
        making = _making.set(chosen)
        try:
            return chosen(**values)
        except ConfigError as error:
            for problem in error.problems or [Problem(str(error))]:
                self.report(find(node, problem.path).place, _join(path, problem.path), problem.message)
            return INVALID
        finally:
            _making.reset(making)

    def _choose(self, node: Node, cls: ConfigType, path: str) -> ConfigType | None:
        """The class that a mapping is to become: `cls`, or the one below it that its `type:` names."""
        entry = node.value.get(TAG_FIELD)
        if not is_role(cls) and (entry is None or tag_of(cls) is None):
            return cls
        if entry is None:
            is_burns = not path and node.place.source.lower().endswith(".json")
            remedy = "; Burn's form has none here: load it by its class, such as LinearConfig.load" if is_burns else ""
            self.report(node.place, path, words.missing_type(node, cls) + remedy)
            return None
        tag: Node = entry.value
        if tag.value is INVALID:
            return None
        try:
            chosen = lookup(cls, tag.value) if isinstance(tag.value, str) else None
            if chosen is None:
                self.report(tag.place, _join(path, TAG_FIELD), words.unknown_type(tag, cls))
            return chosen
        except DuplicateTypeError as error:
            self.report(tag.place, _join(path, TAG_FIELD), str(error))
            return None

    def _values(self, node: Node, role: ConfigType, cls: ConfigType, path: str) -> dict[str, Any]:
        """The fields that a mapping gives, by attribute name; reports unknown and missing keys."""
        fields, defaults = fields_of(cls), defaults_of(cls)
        if inlined := inlined_in(cls):
            # The keys of the inlined field get a mapping of their own.
            entries = {key: entry for key, entry in node.value.items() if key in fields_of(cls) and key != inlined}
            beside = {key: entry for key, entry in node.value.items() if key not in entries}
            if beside:
                entries[inlined] = MappingEntry(node.place, node.with_value(Entries(beside)))
            node = node.with_value(Entries(entries))
        prefix = f"{path}." if path else ""
        absent = fields.keys() - node.value.keys()
        values, meant = {}, set()
        for key, entry in node.value.items():
            if key in fields:
                below = prefix + key
                if key == inlined:
                    below, self._beside[path] = path, [name for name in fields if name != key]
                value = self.read(entry.value, fields[key].type, below)
                values[fields[key].name] = self._placed(value, entry.value, fields[key].type, below)
            elif key != TAG_FIELD or tag_of(cls) is None:
                # It may have been written for the type that the mapping had before.
                old = None if entry.written_for is None else lookup(role, entry.written_for)
                if old is None or key not in fields_of(old):
                    meant.add(self._unknown_key(node, cls, key, absent, path))
        for key, field in fields.items():
            if key not in absent:
                continue
            if field.required:
                if key not in meant:
                    remedy = getattr(cls, "examples", {}).get(key) or f"expected {words.expected(field.type)}"
                    self.report(node.place, path, f"missing key '{key}'; {remedy}")
            elif key not in defaults:
                values[field.name] = self.read(from_python(default_of(field), node.place), field.type, prefix + key)
            elif defaults[key] is not field.default:
                values[field.name] = defaults[key]  # any other one is put in by msgspec
        return values

    def _placed(self, value: Any, node: Node, wanted: mi.Type, path: str) -> Any:
        """A value as it is, unless it is a path that a file has, which is relative to that file."""
        if type(value) is not str or not node.place.line:
            return value
        result = placed(value, wanted, node.place.source)
        if result.problem:
            return self.report(node.place, path, result.problem)
        if result.note:
            tell(result.note, path, node.place.source, node.place.line)
        return result.path

    def _unknown_key(self, node: Node, cls: ConfigType, key: str, absent: set[str], path: str) -> str:
        """Report an unknown key; gives the absent key that is likely meant, so that it is not reported as missing."""
        allowed = [*fields_of(cls), *self._beside.get(path, ())]
        place = node.value[key].place
        if key == DEFAULTS:
            remedy = "stands at the root of a file" if place.line else "stands in a file and can't be set by an option"
            self.report(place, _join(path, key), f"`defaults`, which names other files, {remedy}")
            return ""
        # A key that the same file has already can't be the one that was meant; an option or another file sets it again.
        there = {name for name, entry in node.value.items() if place.line and entry.place.source == place.source}
        free = [name for name in [*allowed, *([] if path else [DEFAULTS])] if name not in there]
        near = self._elsewhere(key, path, exactly=True)
        near = near or next((f"; did you mean '{name}'?" for name in words.OUR_NAMES.get(key, ()) if name in free), "")
        near = near or nearest(key[: words.LONGEST], free)
        near = near or self._elsewhere(key, path, exactly=False)
        listed = "" if near else f"; {cls.__name__} has {', '.join(allowed) or 'no keys'}"
        self.report(place, _join(path, key), f"unknown key '{words.show_text(key)}'{near}{listed}")
        return next((name for name in absent if near == nearest(name, [name])), "")

    def _elsewhere(self, key: str, path: str, *, exactly: bool) -> str:
        assert self._root is not None
        right_path = words.path_elsewhere(*self._root, key[: words.LONGEST], path, exactly=exactly)
        if not right_path:
            return ""
        is_above = bool(path) and "." not in right_path
        if is_above and not exactly:  # `mode` of an inner mapping is no misspelling of `model`
            return ""
        return f"; did you mean '{right_path}'" + (" at the root?" if is_above else "?")

    def _union(self, node: Node, wanted: mi.UnionType, path: str) -> Any:
        """The member whose shape the node has; a mistake inside a list or mapping is reported as that member's."""
        members = bare_members_of(wanted)
        if not (node.is_map or node.is_list):
            for member in sorted(members, key=lambda it: isinstance(it, mi.FloatType)):  # 1 is an int first
                value = plain_value(node, member) if not isinstance(member, _CONTAINERS) else INVALID
                if isinstance(member, mi.StructType) and isinstance(node.value, member.cls):
                    value = self.struct(node, member.cls, path)
                if value is not INVALID:
                    return value
            structs = [member.cls for member in members if isinstance(member, mi.StructType)]
            if len(structs) == 1 and all(isinstance(it, mi.StructType | mi.NoneType) for it in members):
                return self._no_mapping(node, structs[0], path, or_null=len(members) > 1)
            return self._wrong(node, wanted, path)
        shape = (mi.StructType, mi.DictType) if node.is_map else _LISTS
        fitting = [member for member in members if isinstance(member, shape)]
        if len(fitting) == 1:
            return self.read(node, fitting[0], path)
        if (tag := type_in(node)) is not None:
            for member in fitting:
                if isinstance(member, mi.StructType) and lookup(member.cls, tag):
                    return self.read(node, member, path)
        return self._wrong(node, wanted, path)

    def _list(self, node: Node, wanted: Any, path: str) -> Any:
        if not node.is_list:
            return self._wrong(node, wanted, path)
        count = len(node.value)
        if isinstance(wanted, mi.TupleType):
            types, fits = wanted.item_types, count == len(wanted.item_types)
        else:
            types, fits = (wanted.item_type,) * count, _has_size(count, wanted)
        if not fits:
            return self._wrong(node, wanted, path)
        pairs = enumerate(zip(node.value, types, strict=True))
        items = [self.read(_with_type(item, kind), kind, _join(path, str(index))) for index, (item, kind) in pairs]
        if INVALID in items:
            return INVALID
        return items if isinstance(wanted, mi.ListType) else tuple(items)

    def _dict(self, node: Node, wanted: mi.DictType, path: str) -> Any:
        if not isinstance(wanted.key_type, mi.StrType):
            raise TypeError(f"{path}: a mapping of a config has strings as keys; annotate it dict[str, ...]")
        if not node.is_map or not _has_size(len(node.value), wanted):
            return self._wrong(node, wanted, path)
        written = [key for key, entry in node.value.items() if not entry.from_option]
        values = {}
        for key, entry in node.value.items():
            below, before = _join(path, key), len(self.problems)
            values[key] = self.read(entry.value, wanted.value_type, below)
            leads_nowhere = entry.from_option and entry.value.is_map and TAG_FIELD not in entry.value.value
            if values[key] is INVALID and leads_nowhere and (near := nearest(key[: words.LONGEST], written)):
                self.problems[before:] = [entry.place.problem(below, f"there is no '{words.show_text(key)}'{near}")]
        return INVALID if INVALID in values.values() else values

    def _no_mapping(self, node: Node, cls: ConfigType, path: str, *, or_null: bool = False) -> Any:
        remedy = ""
        if is_role(cls) and isinstance(node.value, str) and lookup(cls, node.value):
            remedy = f"; write {{type: {node.value}}}"
        message = f"expected {words.mapping_of(cls)}{' or null' * or_null}, got {words.got(node)}{remedy}"
        return self.report(node.place, path, message)

    def _wrong(self, node: Node, wanted: mi.Type, path: str) -> Any:
        if too_large := words.excess(node, wanted):
            return self.report(node.place, path, too_large)
        if isinstance(wanted, mi.AnyType) and _has_wrong_reference(node):
            return INVALID
        if node.reference is not None:
            shown = f"{words.got(node, wanted)} from {words.show_text(node.reference)}"
            return self.report(node.place, path, f"expected {words.describe(wanted)}, got {shown}")
        message = f"expected {words.describe(wanted)}, got {words.got(node, wanted)}{words.hint(wanted, node)}"
        return self.report(node.place, path, message)


def _with_type(item: Node, kind: mi.Type) -> Node:
    """An item of a list that is the name of a type as the mapping that it stands for: `Accuracy`, {type: Accuracy}."""
    if not (isinstance(kind, mi.StructType) and is_role(kind.cls) and isinstance(item.value, str)):
        return item
    with suppress(DuplicateTypeError):  # which is told of the mapping
        if item.reference is not None or lookup(kind.cls, item.value) is None:
            return item
    return Node(Entries({TAG_FIELD: MappingEntry(item.place, item)}), item.place)


def _has_wrong_reference(node: Node) -> bool:
    return node.value is INVALID or any(map(_has_wrong_reference, node.parts))


def _has_size(count: int, wanted: Any) -> bool:
    return (wanted.min_length or 0) <= count and (wanted.max_length is None or count <= wanted.max_length)


def _join(path: str, key: str) -> str:
    return f"{path}.{words.show_text(key)}" if path and key else path or words.show_text(key)
