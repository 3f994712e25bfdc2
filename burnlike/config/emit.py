"""Writes a config as plain data and as YAML that reads back as the same config."""

import enum
import sys
from typing import Any

import msgspec
import yaml

from burnlike.errors import ConfigError

from .plain import ScalarError, resolve
from .registry import TAG_FIELD, default_of, fields_of, inlined_in, tag_of

_WIDTH = 110
_STR, _SEQ, _MAP = (f"tag:yaml.org,2002:{it}" for it in ("str", "seq", "map"))


def to_plain(value: Any, *, defaults: bool = True) -> Any:
    """Dicts, lists and plain values only; `type` stands first in the dict of a tagged struct.

    Args:
        value: a config, or anything in one.
        defaults: False leaves out fields that have their default, so that a changed `type` takes its own.

    Raises:
        ConfigError: a struct is one that no YAML can hold.
    """
    match value:
        case msgspec.Struct():
            return _plain_struct(value, defaults=defaults)
        case enum.Enum():
            return value.value
        case dict():
            return {key: to_plain(item, defaults=defaults) for key, item in value.items()}
        case list() | tuple():
            return [to_plain(item, defaults=defaults) for item in value]
    return value


def _plain_struct(config: msgspec.Struct, *, defaults: bool) -> dict[str, Any]:
    cls = type(config)
    reason = getattr(cls, "unwritable", "")
    if reason and defaults:
        raise ConfigError(f"{config!r} can't be written as YAML or plain data: it holds {reason}")
    tag, inlined = tag_of(cls), inlined_in(cls)
    plain: dict[str, Any] = {} if tag is None else {TAG_FIELD: tag}
    for key, field in fields_of(cls).items():
        part = getattr(config, field.name)
        if key == inlined:
            plain = (to_plain(part, defaults=defaults) or {}) | plain
        elif (defaults and not inlined) or field.required or part != default_of(field):
            plain[key] = to_plain(part, defaults=defaults)
    return plain


def to_yaml(value: Any) -> str:
    """Plain data as YAML, for people and for any YAML reader: what one could take for a number stands in quotes."""
    return yaml.dump(value, Dumper=_Dumper, sort_keys=False, allow_unicode=True, width=_WIDTH)


def to_flow(value: Any) -> str:
    """A plain value in one line of YAML, as it stands behind a key or is one."""
    # In a list, as PyYAML ends a document that is one plain scalar by a line of dots.
    return yaml.dump([value], Dumper=_FlowDumper, sort_keys=False, allow_unicode=True, width=sys.maxsize)[1:-2]


class _Dumper(yaml.SafeDumper):
    """Block style, short lists in one line, quotes wherever YAML 1.1 or 1.2 would not see a string."""

    # Else an object that comes twice would be written once, and referred to by `*id001`.
    def ignore_aliases(self, data: Any) -> bool:
        return True

    def increase_indent(self, flow: bool = False, indentless: bool = False) -> Any:
        return super().increase_indent(flow, False)


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
    return dumper.represent_sequence(_SEQ, items, flow_style=in_one_line)


_Dumper.add_representer(str, lambda dumper, text: dumper.represent_scalar(_STR, text, style=_style(text)))
_Dumper.add_representer(list, _list)
_Dumper.add_representer(
    dict, lambda dumper, values: dumper.represent_mapping(_MAP, values.items(), flow_style=not values)
)


class _FlowDumper(_Dumper):
    """All in one line."""


_FlowDumper.add_representer(list, lambda dumper, items: dumper.represent_sequence(_SEQ, items, flow_style=True))
