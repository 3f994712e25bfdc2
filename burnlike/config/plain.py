"""Checks whether a plain value is of a type, and converts it to exactly that type."""

import enum
import math
import numbers
import re
from collections.abc import Iterable
from typing import Any

import msgspec.inspect as mi

from burnlike._dtypes import other_name

from .node import FromEnvironment, Node

INVALID: Any = object()
"""What stands for a value that does not fit."""


def plain_value(node: Node, wanted: mi.Type) -> Any:
    """The value of `node` as the type `wanted`, or INVALID.

    An int is taken for a float; a bool is never a number; a float is never an int, whatever its value. Numbers of other
    libraries (NumPy's) become Python's. A type that configs can't have is a TypeError.
    """
    value = node.value
    match wanted:
        case mi.AnyType():
            return _anything(node)
        case mi.NoneType():
            return None if value is None else INVALID
        case mi.BoolType():
            return value if isinstance(value, bool) else INVALID
        case mi.IntType() | mi.FloatType():
            return _number(value, wanted)
        case mi.StrType():
            return _string(value, wanted)
        case mi.LiteralType():
            return _choice(value, wanted.values)
        case mi.EnumType():
            return _member(value, wanted.cls)
    raise TypeError(f"a config can't have a field of the type {wanted}")


def string_options(wanted: mi.Type) -> list[str]:
    """The strings that a Literal, an Enum or a union with such allows; empty for other types."""
    match wanted:
        case mi.Metadata():
            return string_options(wanted.type)
        case mi.UnionType():
            return [option for member in wanted.types for option in string_options(member)]
        case mi.LiteralType():
            return [value for value in wanted.values if isinstance(value, str)]
        case mi.EnumType():
            return [member.value for member in wanted.cls if isinstance(member.value, str)]
    return []


def _choice(value: Any, options: Iterable[Any]) -> Any:
    """The option that is `value`, or another name of the same element type (`bf16` and `bfloat16`); or INVALID."""
    value = str(value) if isinstance(value, FromEnvironment) else value
    other = other_name(value) if type(value) is str else None
    for wanted in (value, other):
        for option in options:
            if type(option) is type(wanted) and option == wanted:
                return option
    return INVALID


def _number(value: Any, wanted: mi.IntType | mi.FloatType) -> Any:
    allowed: tuple[Any, Any] = (numbers.Integral, int) if isinstance(wanted, mi.IntType) else (numbers.Real, float)
    kind, made = allowed
    if isinstance(value, bool) or not isinstance(value, kind):
        return INVALID
    try:
        number = made(value)
    except OverflowError:
        return INVALID
    is_in_range = (
        (wanted.ge is None or number >= wanted.ge)
        and (wanted.gt is None or number > wanted.gt)
        and (wanted.le is None or number <= wanted.le)
        and (wanted.lt is None or number < wanted.lt)
    )
    of = wanted.multiple_of
    if isinstance(number, int) and isinstance(of, int):
        return number if is_in_range and number % of == 0 else INVALID
    is_multiple = of is None or (math.isfinite(number) and math.fmod(number, of) == 0)
    return number if is_in_range and is_multiple else INVALID


def _string(value: Any, wanted: mi.StrType) -> Any:
    if not isinstance(value, str) or isinstance(value, enum.Enum) or not is_unicode(value):
        return INVALID
    if len(value) < (wanted.min_length or 0) or (wanted.max_length is not None and len(value) > wanted.max_length):
        return INVALID
    if wanted.pattern is not None and not re.search(wanted.pattern, value):
        return INVALID
    return value if isinstance(value, FromEnvironment) else str(value)


def is_unicode(text: str) -> bool:
    """Whether a string can be written as UTF-8: whether it is free of lone surrogates."""
    try:
        return text.isascii() or bool(text.encode())
    except UnicodeEncodeError:
        return False


def _member(value: Any, cls: type[enum.Enum]) -> Any:
    if isinstance(value, cls):
        return value
    found = _choice(value, [member.value for member in cls])
    return INVALID if found is INVALID else cls(found)


def _anything(node: Node) -> Any:
    """Whatever YAML can hold; an object of any other class is INVALID."""
    value = node.value
    if node.is_map or node.is_list:
        parts = [*map(_anything, node.parts)]
        whole = dict(zip(value, parts, strict=True)) if node.is_map else parts
        return INVALID if any(it is INVALID for it in parts) else whole
    if type(value) in (str, FromEnvironment):
        return value if is_unicode(value) else INVALID
    return value if type(value) in (type(None), bool, int, float) else INVALID
