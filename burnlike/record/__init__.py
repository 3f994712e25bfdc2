"""Records: what a module, an optimizer or a run knows, in files of any precision."""

from typing import TYPE_CHECKING

from .._lazy import attach

if TYPE_CHECKING:
    from .lazy_tensors import LazyTensors
    from .materialize import init_from
    from .precision import BFloat16Precision, DoublePrecision, FullPrecision, HalfPrecision, Precision
    from .record import Record
    from .report import LoadReport, Mismatch
    from .safetensors_recorder import SafetensorsRecorder
    from .shortcuts import load, save

__all__ = [
    "BFloat16Precision",
    "DoublePrecision",
    "FullPrecision",
    "HalfPrecision",
    "LazyTensors",
    "LoadReport",
    "Mismatch",
    "Precision",
    "Record",
    "SafetensorsRecorder",
    "init_from",
    "load",
    "save",
]

__getattr__, __dir__ = attach(
    __name__,
    {
        **dict.fromkeys(
            ["BFloat16Precision", "DoublePrecision", "FullPrecision", "HalfPrecision", "Precision"], "precision"
        ),
        **dict.fromkeys(["LoadReport", "Mismatch"], "report"),
        **dict.fromkeys(["load", "save"], "shortcuts"),
        "LazyTensors": "lazy_tensors",
        "Record": "record",
        "SafetensorsRecorder": "safetensors_recorder",
        "init_from": "materialize",
    },
)
