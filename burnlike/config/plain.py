"""Plain values: read from unquoted YAML scalars, and converted to exactly the type of a field.

Scalars follow the core schema of YAML 1.2.2 (section 10.3.2), which people expect. Differences from it, each because a
config is written by hand:
- `50_000` is the int 50000 (underscores only between digits).
- `0123` is a string: YAML 1.1 reads it as octal, YAML 1.2 as decimal, so it is refused where a number is due.
- `1e999` is an error, not infinity.
"""

import enum
import math
import numbers
import re
from collections.abc import Iterable
from typing import Any

import msgspec.inspect as mi

from burnlike._dtypes import other_name

from .hiding import FromEnvironment
from .node import Node

INVALID: Any = object()
"""Stands for a value that does not fit."""

Scalar = None | bool | int | float | str

_NULL = frozenset(("", "~", "null", "Null", "NULL"))
_BOOL = {"true": True, "True": True, "TRUE": True, "false": False, "False": False, "FALSE": False}
_INT = re.compile(r"[-+]?(?:0|[1-9][0-9]*(?:_[0-9]+)*)", re.ASCII)
_BASED_INT = re.compile(r"0(?:o[0-7]+(?:_[0-7]+)*|x[0-9a-fA-F]+(?:_[0-9a-fA-F]+)*)", re.ASCII)
_DIGITS = r"[0-9]+(?:_[0-9]+)*"
_FLOAT = re.compile(rf"[-+]?(?:\.{_DIGITS}|{_DIGITS}(?:\.(?:{_DIGITS})?)?)(?:[eE][-+]?[0-9]+)?", re.ASCII)
_LEADING_ZERO = re.compile(r"[-+]?0[0-9_]+", re.ASCII)
_SPECIAL_FLOAT = re.compile(r"([-+]?)\.(inf|Inf|INF)|\.(nan|NaN|NAN)", re.ASCII)
_MAX_DIGITS = 400
"""More digits than any float64 or any int of use has; Python itself refuses above 4300."""


class ScalarError(ValueError):
    """A scalar that looks like a number but can't be one."""


def resolve(text: str) -> Scalar:
    """The value of the unquoted scalar `text`; a ScalarError for a number too large, or of more than 400 digits.

    Example:
        >>> [resolve(text) for text in ("1e-4", "no", "0o17", "50_000", "-.inf", "12:30:00", "~", "3.")]
        [0.0001, 'no', 15, 50000, -inf, '12:30:00', None, 3.0]
    """
    if text in _NULL:
        return None
    if text in _BOOL:
        return _BOOL[text]
    first = text[0]
    if not (first in "+-." or "0" <= first <= "9"):
        return text
    if _INT.fullmatch(text):
        return int(_sized(text))
    if _BASED_INT.fullmatch(text):
        return int(_sized(text), 0)
    if _FLOAT.fullmatch(text) and not _LEADING_ZERO.fullmatch(text):
        value = float(_sized(text))
        if math.isinf(value):
            raise ScalarError("is too large for a float (the largest is about 1.8e308); write .inf for infinity")
        return value
    if special := _SPECIAL_FLOAT.fullmatch(text):
        return math.nan if special[3] else float(special[1] + "inf")
    return text


def number_hint(text: str) -> str:
    """The number to write instead of `text`, which is a string; empty if there is none.

    Example:
        >>> number_hint("0123"), number_hint("-inf")
        ('a leading zero is ambiguous, write 123 or 0o123', 'write -.inf')
    """
    if _LEADING_ZERO.fullmatch(text):
        decimal = text.replace("_", "").lstrip("+-0") or "0"
        octal = f" or 0o{decimal}" if decimal != "0" and set(decimal) <= set("01234567") and text[0] == "0" else ""
        return f"a leading zero is ambiguous, write {'-' * text.startswith('-')}{decimal}{octal}"
    bare = text.lstrip("+-").lower()
    if bare in ("inf", "infinity", "nan"):
        return f"write {'-' * text.startswith('-')}.{bare[:3]}"
    return ""


def _sized(text: str) -> str:
    if len(text) > _MAX_DIGITS:
        raise ScalarError(f"has {len(text)} characters; a number may have {_MAX_DIGITS}")
    return text


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
            if isinstance(value, wanted.cls):
                return value
            option = _choice(value, [member.value for member in wanted.cls])
            return INVALID if option is INVALID else wanted.cls(option)
    raise TypeError(f"a config can't have a field of the type {getattr(wanted, 'cls', type(wanted)).__name__}")


def string_options(wanted: mi.Type) -> list[str]:
    """The strings that a Literal, an Enum or a union with such, but without others, allows; empty for other types."""
    match wanted:
        case mi.Metadata():
            return string_options(wanted.type)
        case mi.UnionType() if not any(isinstance(it, mi.StrType) for it in wanted.types):
            return [option for member in wanted.types for option in string_options(member)]
        case mi.LiteralType():
            return [value for value in wanted.values if isinstance(value, str)]
        case mi.EnumType():
            return [member.value for member in wanted.cls if isinstance(member.value, str)]
    return []


def _choice(value: Any, options: Iterable[Any]) -> Any:
    """The option that is `value`, or another name of the same element type (`bf16` and `bfloat16`); or INVALID."""
    if isinstance(value, FromEnvironment):
        value = str(value)
    for wanted in (value, other_name(value) if type(value) is str else None):
        for option in options:
            if type(option) is type(wanted) and option == wanted:
                return option
    return INVALID


def _number(value: Any, wanted: mi.IntType | mi.FloatType) -> Any:
    types: tuple[Any, Any] = (numbers.Integral, int) if isinstance(wanted, mi.IntType) else (numbers.Real, float)
    kind, convert = types
    # Most values are Python's ints; isinstance with an abstract class runs Python code of abc.
    if isinstance(value, bool) or not (type(value) is int or isinstance(value, kind)):
        return INVALID
    try:
        number = convert(value)
    except OverflowError:  # an int that no float64 holds
        return INVALID
    is_in_range = (
        (wanted.ge is None or number >= wanted.ge)
        and (wanted.gt is None or number > wanted.gt)
        and (wanted.le is None or number <= wanted.le)
        and (wanted.lt is None or number < wanted.lt)
    )
    divisor = wanted.multiple_of
    if isinstance(number, int) and isinstance(divisor, int):
        is_multiple = number % divisor == 0  # exact, as fmod's floats are not above 2^53
    else:
        is_multiple = divisor is None or (math.isfinite(number) and math.fmod(number, divisor) == 0)
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
    """True if a string can be written as UTF-8, which lone surrogates can't."""
    try:
        return text.isascii() or bool(text.encode())
    except UnicodeEncodeError:
        return False


def _anything(node: Node) -> Any:
    """Plain data as YAML can hold it; an object of any other class is INVALID."""
    value = node.value
    if node.is_map or node.is_list:
        parts = [*map(_anything, node.parts)]
        whole = dict(zip(value, parts, strict=True)) if node.is_map else parts
        return INVALID if any(part is INVALID for part in parts) else whole
    if type(value) in (str, FromEnvironment):
        return value if is_unicode(value) else INVALID
    return value if type(value) in (type(None), bool, int, float) else INVALID
