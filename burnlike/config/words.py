"""Names types and values in messages: "an int >= 1", "'abc' (a string)"."""

import math
import numbers
import re
import sys
from collections.abc import Iterable, Sequence
from typing import Any

import msgspec
import msgspec.inspect as mi

from .bounds import LARGEST_FLOAT
from .node import FromEnvironment, Node
from .plain import INVALID, plain_value
from .registry import members_of
from .scalars import number_hint, resolve

_LONGEST = 60
_UNSAID = (sys.float_info.max, LARGEST_FLOAT)
"""Bounds of what only has to be finite."""
MOST_CHOICES = 16
"""Of a longer list, so many are shown."""
_KINDS = {int: "an int", float: "a float", str: "a string", bool: "a bool"}
_COMMA = re.compile(r"(-?[0-9]+),([0-9]*)", re.ASCII)
"""A decimal comma, or a comma at the end."""
_MEANT_AS_REFERENCE = re.compile(r"\$[A-Za-z_][\w.\[\]]*")


def describe(wanted: mi.Type) -> str:
    """The values that a type allows, with an article."""
    match wanted:
        case mi.Metadata() if _reason(wanted):
            finite = sys.float_info.max if isinstance(wanted.type, mi.FloatType) else None
            return describe(msgspec.structs.replace(wanted.type, le=finite))
        case mi.Metadata():
            return describe(wanted.type)
        case mi.UnionType():
            return " or ".join(map(describe, sorted(wanted.types, key=lambda it: isinstance(it, mi.NoneType))))
        case mi.IntType():
            return "an int" + _range(wanted)
        case mi.FloatType():
            return ("a finite number" if wanted.le == sys.float_info.max else "a number") + _range(wanted)
        case mi.StrType():
            pattern = f" matching /{wanted.pattern}/" if wanted.pattern else ""
            return "a string" + _size(wanted, "character") + pattern
        case mi.BoolType():
            return "true or false"
        case mi.NoneType():
            return "null"
        case mi.LiteralType():
            return choices([*map(show, wanted.values)])
        case mi.EnumType():
            return choices([show(member.value) for member in wanted.cls])
        case mi.ListType() | mi.VarTupleType():
            return f"a list{_size(wanted, 'item')} (each {describe(wanted.item_type)})"
        case mi.TupleType():
            return f"a list of {len(wanted.item_types)} items ({', '.join(map(describe, wanted.item_types))})"
        case mi.DictType():
            return f"a mapping{_size(wanted, 'key')} (each value {describe(wanted.value_type)})"
        case mi.StructType():
            return with_article(wanted.cls.__name__)
        case _:
            return "plain data (numbers, strings, true, false, null, lists, mappings with strings as keys)"


def got(node: Node, wanted: mi.Type | None = None) -> str:
    """The value as it was written, and its type if another one is wanted."""
    value = node.value
    if node.is_map:
        return "a mapping" if value else "an empty mapping"
    if node.is_list:
        return f"a list of {len(value)} item{'s' * (len(value) != 1)}"
    if value is None:
        return "nothing" if node.text == "" else "null"
    if node.is_secret:
        return _KINDS.get(str if isinstance(value, str) else type(value), "a value")
    shown = show_text(node.text) if node.text and not isinstance(value, str) else show(value)
    if isinstance(value, bool) or (wanted is not None and any(_is_of_kind(value, it) for it in _members(wanted))):
        return shown
    kind = str if isinstance(value, FromEnvironment) else type(value)
    return f"{shown} ({_KINDS.get(kind) or with_article(kind.__name__)})"


def excess(node: Node, wanted: mi.Type) -> str:
    """The message about a number beyond a bound that has a reason (`bounds.at_most`); empty for all else."""
    value: Any = node.value
    for member in members_of(wanted):
        reason, number = _reason(member), member.type if isinstance(member, mi.Metadata) else member
        if not (reason and isinstance(number, mi.IntType | mi.FloatType)):
            continue
        kind: Any = numbers.Integral if isinstance(number, mi.IntType) else numbers.Real
        if not isinstance(value, kind) or isinstance(value, bool):
            continue
        if number.le is not None and number.le < value < math.inf:
            return f"expected at most {number.le} ({reason}), got {got(node, wanted)}"
        if number.ge == -(number.le or 0) and -math.inf < value < number.ge:
            return f"expected at least {number.ge} ({reason}), got {got(node, wanted)}"
    return ""


def _reason(wanted: mi.Type) -> str:
    return (wanted.extra or {}).get("reason", "") if isinstance(wanted, mi.Metadata) else ""


def hint(wanted: mi.Type, node: Node) -> str:
    """The value to write instead, for common slips; begins with `; `, or is empty."""
    kinds = _members(wanted)
    value, text = node.value, node.text
    advice = ""
    if isinstance(value, str) and _MEANT_AS_REFERENCE.fullmatch(value):
        advice = f"a reference is ${{{value.strip('$')}}}"
    elif any(isinstance(kind, mi.NoneType) for kind in kinds) and value in ("None", "none", "nil"):
        advice = "write null"
    elif any(isinstance(kind, mi.IntType | mi.FloatType) for kind in kinds) and isinstance(value, int | float | str):
        advice = _number_advice(value, text, kinds)
    elif any(isinstance(kind, mi.BoolType) for kind in kinds) and isinstance(value, str):
        spelled = {"true": ("yes", "on", "y", "true"), "false": ("no", "off", "n", "false")}
        advice = next((f"write {ours}" for ours, theirs in spelled.items() if value.lower() in theirs), "")
    elif any(isinstance(kind, mi.StrType) for kind in kinds) and text and not isinstance(value, str):
        advice = f'put it in quotes: "{show_text(text)}"'
    elif any(isinstance(kind, mi.ListType | mi.VarTupleType) for kind in kinds) and text:
        advice = f"write [{show_text(text)}]"
    return f"; {advice}" if advice else ""


def choices(options: list[str], whole_list: str = "") -> str:
    """`'a'`, `'a' or 'b'`, `one of 'a', 'b', 'c'`; a long list is cut, with a word on where the whole one is."""
    if len(options) > MOST_CHOICES:
        more = f"... ({len(options)} in all{f'; {whole_list}' if whole_list else ''})"
        options = [*options[:MOST_CHOICES], more]
    return f"one of {', '.join(options)}" if len(options) > 2 else " or ".join(options)


def listed(keys: Iterable[str]) -> str:
    """Keys between commas; of many, the first ones and how many there are."""
    keys = [*keys]
    shown = [show_text(key) for key in keys[:MOST_CHOICES]]
    return ", ".join([*shown, f"... ({len(keys)} in all)"] if len(keys) > MOST_CHOICES else shown)


def with_article(noun: str) -> str:
    """`a noun` or `an owl`."""
    return f"an {noun}" if noun[0] in "aeiouAEIO" else f"a {noun}"


def show(value: Any) -> str:
    """A plain value on one line, strings in quotes, null and bools as YAML spells them."""
    if value is None or isinstance(value, bool):
        return {None: "null", True: "true", False: "false"}[value]
    if isinstance(value, str):
        return f"'{show_text(value)}'"
    return show_text(repr(value))


def show_text(text: str) -> str:
    """`text` on one line, printable and not too long to read; the reference of what the environment gave."""
    text = text.reference if isinstance(text, FromEnvironment) else text
    if len(text) > _LONGEST:
        text = text[: _LONGEST - 3] + "..."
    return text if text.isprintable() else repr(text)[1:-1]


def _members(wanted: mi.Type) -> tuple[mi.Type, ...]:
    """The types that a value may have, without what is said about them."""
    return tuple(it.type if isinstance(it, mi.Metadata) else it for it in members_of(wanted))


def _is_of_kind(value: Any, wanted: mi.Type) -> bool:
    match wanted:
        case mi.IntType():
            return isinstance(value, int)
        case mi.FloatType():
            return isinstance(value, int | float)
        case mi.StrType():
            return isinstance(value, str)
        case mi.LiteralType() | mi.EnumType():
            options = wanted.values if isinstance(wanted, mi.LiteralType) else [it.value for it in wanted.cls]
            return type(value) in map(type, options)
    return False


def _number_advice(value: int | float | str, text: str | None, kinds: Sequence[mi.Type]) -> str:
    """What to write for a number of another form, if the type takes that number."""
    if isinstance(value, str) and text is None:
        quoted_number = len(value) < _LONGEST and isinstance(resolve(value), int | float)
        return "remove the quotes" if quoted_number else ""
    if isinstance(value, str):
        if found := _COMMA.fullmatch(value):
            value = ".".join(part for part in found.groups() if part)
            return f"write {value}" if _is_taken(resolve(value), kinds) else ""
        advice = number_hint(value)
        infinite = math.inf if "." in advice else 0  # the other hints are about leading zeros
        return advice if not infinite or _is_taken(infinite, kinds) else ""
    takes_floats = any(isinstance(kind, mi.FloatType) for kind in kinds)
    whole = isinstance(value, float) and not takes_floats and value.is_integer() and abs(value) < 2**63
    return f"write {int(value)}" if whole else ""


def _is_taken(value: Any, kinds: Sequence[mi.Type]) -> bool:
    numbers_only = [kind for kind in kinds if isinstance(kind, mi.IntType | mi.FloatType)]
    return any(plain_value(Node(value), kind) is not INVALID for kind in numbers_only)


def _range(wanted: mi.IntType | mi.FloatType) -> str:
    bounds = {">=": wanted.ge, ">": wanted.gt, "<=": wanted.le, "<": wanted.lt}
    said = {sign: bound for sign, bound in bounds.items() if bound is not None and abs(bound) not in _UNSAID}
    text = " and ".join(f"{sign} {bound}" for sign, bound in said.items())
    text = f"from {wanted.ge} to {wanted.le}" if said.keys() == {">=", "<="} else text
    multiple = "" if wanted.multiple_of is None else f" that is a multiple of {wanted.multiple_of}"
    return (f" {text}" if text else "") + multiple


def _size(wanted: Any, unit: str) -> str:
    low, high = wanted.min_length, wanted.max_length
    if low is None and high is None:
        return ""
    size = f"at least {low}" if high is None else f"at most {high}" if not low else f"{low} to {high}"
    size = f"{low}" if low == high else size
    return f" of {size} {unit}{'s' * ((low if high is None else high) != 1)}"
