"""The envelope of every file of v0.21: five texts about how it was written, and an empty `_b`.

What Burn has no place for (aliases without ids, plain values) stands beside them under `burnlike`, which Burn's readers
of formats with names pass over. Imports no torch.
"""

from collections.abc import Mapping
from typing import Any

from ...errors import RecordFormatError
from ..metadata import FORMAT_VERSION
from ..outline import Outline, kind_of_name

VERSION = "0.21.0"
"""Of burn-core, whose files these are."""

_SETTINGS = {
    "F32": ("f32", "i32", "FullPrecisionSettings"),
    "F64": ("f64", "i64", "DoublePrecisionSettings"),
    "F16": ("half::binary16::f16", "i16", "HalfPrecisionSettings"),
    "BF16": ("half::bfloat::bf16", "i32", "BFloat16PrecisionSettings"),  # Burn has none of this name
}
KEYS = ("float", "int", "format", "version", "settings")
"""The texts, in order."""


def metadata_of(outline: Outline, recorder: str) -> dict[str, str]:
    """The five texts; without a precision those of the file that the record came from, or what its floats suggest.

    Args:
        outline: what is written.
        recorder: Burn's name of the recorder, with its module.
    """
    found = {key: text for key, text in outline.metadata.items() if key in KEYS and isinstance(text, str)}
    floats = {it.dtype for it in outline.entries.values() if kind_of_name(it.dtype) == "float"}
    if (
        outline.precision is None
        and {"float", "int", "settings"} <= found.keys()
        and _may_be(found["settings"], floats)
    ):
        float_name, int_name, settings = found["float"], found["int"], found["settings"]
    else:
        dtype = outline.precision or (floats.pop() if len(floats) == 1 else "F32")
        float_name, int_name, settings = _SETTINGS.get(dtype, _SETTINGS["F32"])
    return {
        "float": float_name,
        "int": int_name,
        "format": f"{recorder}<burn_core::record::settings::{settings}>",
        "version": VERSION,
        "settings": settings,
    }


def _may_be(settings: str, floats: set[str]) -> bool:
    """Whether a file with these settings can hold floats of these types: it may have been converted since."""
    known = {name: dtype for dtype, (_, _, name) in _SETTINGS.items()}
    return settings not in known or floats <= {known[settings]}


def check_metadata(found: Any, path: str) -> dict[str, str]:
    """The five texts of a file.

    Raises:
        RecordFormatError: they are not there.
    """
    if not isinstance(found, Mapping) or not all(isinstance(found.get(key), str) for key in KEYS):
        raise RecordFormatError(f"{path}: its metadata lacks the texts {', '.join(KEYS)}; it is no record of Burn's")
    return {key: found[key] for key in KEYS}


__all__ = ["FORMAT_VERSION", "KEYS", "VERSION", "check_metadata", "metadata_of"]
