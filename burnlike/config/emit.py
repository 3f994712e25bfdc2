"""Writes a config as plain data and as YAML that reads back as the same config."""

import enum
from typing import Any

import msgspec
import yaml

from burnlike.errors import ConfigError

from .plain import ScalarError, resolve
from .registry import TAG_FIELD, ConfigType, default_of, fields_of, inlined_in, tag_of

_WIDTH = 110
_MAP = "tag:yaml.org,2002:map"


def to_plain(value: Any) -> Any:
    """Dicts, lists and plain values only; `type` stands first in the dict of a tagged struct.

    Raises:
        ConfigError: a struct is one that no YAML can hold.
    """
    match value:
        case msgspec.Struct():
            if reason := getattr(type(value), "unwritable", ""):
                raise ConfigError(f"{value!r} can't be written as YAML or plain data: it holds {reason}")
            tag = tag_of(type(value))
            names = zip(value.__struct_encode_fields__, value.__struct_fields__, strict=True)
            head = {} if tag is None else {TAG_FIELD: tag}
            plain = head | {key: to_plain(getattr(value, name)) for key, name in names}
            return _with_inlined(plain, type(value)) if inlined_in(type(value)) else plain
        case enum.Enum():
            return value.value
        case dict():
            return {key: to_plain(item) for key, item in value.items()}
        case list() | tuple():
            return [to_plain(item) for item in value]
    return value


def to_plain_without_defaults(value: Any) -> Any:
    """The same without fields that have their default, so that a changed `type` takes its own."""
    if isinstance(value, msgspec.Struct):
        tag = tag_of(type(value))
        plain: dict[str, Any] = {} if tag is None else {TAG_FIELD: tag}
        for key, field in fields_of(type(value)).items():
            part = getattr(value, field.name)
            if key == inlined_in(type(value)) and isinstance(part, msgspec.Struct):
                plain |= to_plain_without_defaults(part)
            elif field.required or part != default_of(field):
                plain[key] = to_plain_without_defaults(part)
        return plain
    if isinstance(value, dict):
        return {key: to_plain_without_defaults(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [to_plain_without_defaults(item) for item in value]
    return value


def _with_inlined(plain: dict[str, Any], cls: ConfigType) -> dict[str, Any]:
    """The keys of the inlined config, and of the others those that differ from their defaults."""
    below = plain.pop(inlined_in(cls)) or {}
    return below | {key: value for key, value in plain.items() if value != fields_of(cls)[key].default}


def to_yaml(value: Any) -> str:
    """Plain data as YAML, for people and for any YAML reader: what one could take for a number stands in quotes."""
    return yaml.dump(value, Dumper=_Dumper, sort_keys=False, allow_unicode=True, width=_WIDTH)


class _Dumper(yaml.SafeDumper):
    """Block style, short lists in one line, quotes wherever YAML 1.1 or 1.2 would not see a string."""

    def ignore_aliases(self, data: Any) -> bool:
        return True

    def increase_indent(self, flow: bool = False, indentless: bool = False) -> Any:
        return super().increase_indent(flow, False)


def _string(dumper: yaml.SafeDumper, text: str) -> yaml.ScalarNode:
    return dumper.represent_scalar("tag:yaml.org,2002:str", text, style=_style(text))


def _style(text: str) -> str | None:
    """The style of a string: a block of lines, with escapes, in plain quotes, or (None) as PyYAML sees fit."""
    lines = text.split("\n")
    if len(lines) > 2 and all(line.isprintable() and not line[:1].isspace() for line in lines):
        return "|"
    if not text.isprintable():
        return '"'
    try:
        return None if resolve(text) == text else "'"
    except ScalarError:
        return "'"


def _list(dumper: yaml.SafeDumper, items: list[Any]) -> yaml.SequenceNode:
    in_one_line = all(not isinstance(item, dict | list) for item in items)
    return dumper.represent_sequence("tag:yaml.org,2002:seq", items, flow_style=in_one_line)


_Dumper.add_representer(str, _string)
_Dumper.add_representer(list, _list)
_Dumper.add_representer(dict, lambda dumper, it: dumper.represent_mapping(_MAP, it.items(), flow_style=not it))
