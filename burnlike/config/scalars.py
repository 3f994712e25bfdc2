"""Reads unquoted YAML scalars by the core schema of YAML 1.2.2 (section 10.3.2), which people expect.

Differences from it, each because a config is written by hand:
- `50_000` is the int 50000 (underscores only between digits).
- `0123` is a string: YAML 1.1 reads it as octal, YAML 1.2 as decimal, so it is refused where a number is due.
- `1e999` is an error, not infinity.
"""

import math
import re

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
