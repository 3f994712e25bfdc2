"""Burn's names of element types, and the numbers that bincode has for them."""

from typing import Any

from ..._dtypes import DTYPES
from ...errors import DTypeError, RecordFormatError

_PLAIN = tuple(it.record for it in DTYPES if it.in_burn and it.kind != "bool")
_BOOL_STORES = {"Native": "BOOL", "U8": "U8", "U32": "U32"}


def burn_dtype(dtype: str, name: str) -> Any:
    """Burn's name: a text, or `{"Bool": "Native"}`."""
    if dtype == "BOOL":
        return {"Bool": "Native"}
    if dtype not in _PLAIN:
        raise DTypeError(
            f"'{name}' is {dtype}, which Burn's formats can't hold; save it as safetensors or choose another Precision"
        )
    return dtype


def read_dtype(found: Any, place: str) -> tuple[str, str]:
    """The dtype that Burn's name means, and that of the bytes, `""` for the same."""
    match found:
        case "Flex32":
            return "F32", ""
        case "Bool":  # before 0.21
            return "BOOL", ""
        case str() if found in _PLAIN:
            return found, ""
        case {"Bool": str() as store} if len(found) == 1 and store in _BOOL_STORES:
            stored = _BOOL_STORES[store]
            return "BOOL", "" if stored == "BOOL" else stored
        case {"QFloat": _}:
            raise RecordFormatError(f"{place} is quantized (QFloat), which can't be read; save it dequantized")
    known = ", ".join((*_PLAIN, "Flex32", "Bool"))
    raise RecordFormatError(f"{place} has the unknown dtype {found!r:.60}; known: {known}")


_NUMBERED = (*_PLAIN[:2], "Flex32", *_PLAIN[2:], "Bool", "QFloat")
_WITHOUT_FLEX32 = tuple(name for name in _NUMBERED if name != "Flex32")
_WITHOUT_U16 = tuple(name for name in _WITHOUT_FLEX32 if name != "U16")


def numbered_dtypes(version: tuple[int, int]) -> tuple[str, ...]:
    """Burn's names in the order of their numbers in bincode, in the given version of Burn (from 0.14 on)."""
    if version < (0, 16):
        return _WITHOUT_U16
    return _WITHOUT_FLEX32 if version < (0, 17) else _NUMBERED


def bool_has_store(version: tuple[int, int]) -> bool:
    """Whether the number of Bool is followed by that of its store, in the given version of Burn."""
    return version >= (0, 21)


BOOL_STORES = tuple(_BOOL_STORES)
"""How Burn keeps bools, in the order of their numbers in bincode."""


def dtype_bytes(dtype: str, name: str) -> bytes:
    found = burn_dtype(dtype, name)
    return bytes(
        [_NUMBERED.index("Bool"), BOOL_STORES.index("Native")] if dtype == "BOOL" else [_NUMBERED.index(found)]
    )
