"""Records: what a module, an optimizer or a run knows, in files of any precision."""

from typing import TYPE_CHECKING

from .._lazy import attach

if TYPE_CHECKING:
    from .background import SaveHandle
    from .burn.recorders import (
        BinBytesRecorder,
        BinFileRecorder,
        BinGzFileRecorder,
        BurnpackRecorder,
        JsonGzFileRecorder,
        NamedMpkBytesRecorder,
        NamedMpkFileRecorder,
        NamedMpkGzFileRecorder,
        PrettyJsonFileRecorder,
    )
    from .distributed_recorder import DistributedRecorder
    from .formats import EXTENSIONS
    from .lazy_tensors import LazyTensors
    from .load_options import LoadOptions
    from .materialize import init_from
    from .module_layout import layout_of
    from .opening import open_record
    from .precision import BFloat16Precision, DoublePrecision, FullPrecision, HalfPrecision, Precision
    from .record import Record
    from .recorder import FileRecorder, Recorder, recorder_for
    from .report import LoadReport, Mismatch
    from .safetensors_recorder import SafetensorsRecorder
    from .shortcuts import load, save, save_async

__all__ = [
    "EXTENSIONS",
    "BFloat16Precision",
    "BinBytesRecorder",
    "BinFileRecorder",
    "BinGzFileRecorder",
    "BurnpackRecorder",
    "DistributedRecorder",
    "DoublePrecision",
    "FileRecorder",
    "FullPrecision",
    "HalfPrecision",
    "JsonGzFileRecorder",
    "LazyTensors",
    "LoadOptions",
    "LoadReport",
    "Mismatch",
    "NamedMpkBytesRecorder",
    "NamedMpkFileRecorder",
    "NamedMpkGzFileRecorder",
    "Precision",
    "PrettyJsonFileRecorder",
    "Record",
    "Recorder",
    "SafetensorsRecorder",
    "SaveHandle",
    "init_from",
    "layout_of",
    "load",
    "open_record",
    "recorder_for",
    "save",
    "save_async",
]

__getattr__, __dir__ = attach(
    __name__,
    {
        **dict.fromkeys(
            ["BFloat16Precision", "DoublePrecision", "FullPrecision", "HalfPrecision", "Precision"], "precision"
        ),
        **dict.fromkeys(["LoadReport", "Mismatch"], "report"),
        **dict.fromkeys(["load", "save", "save_async"], "shortcuts"),
        "SaveHandle": "background",
        **dict.fromkeys(["FileRecorder", "Recorder", "recorder_for"], "recorder"),
        "BurnpackRecorder": "burn.recorders",
        **dict.fromkeys(["BinBytesRecorder", "BinFileRecorder", "BinGzFileRecorder"], "burn.recorders"),
        **dict.fromkeys(["JsonGzFileRecorder", "PrettyJsonFileRecorder"], "burn.recorders"),
        **dict.fromkeys(["NamedMpkBytesRecorder", "NamedMpkFileRecorder", "NamedMpkGzFileRecorder"], "burn.recorders"),
        "DistributedRecorder": "distributed_recorder",
        "EXTENSIONS": "formats",
        "layout_of": "module_layout",
        "open_record": "opening",
        "LazyTensors": "lazy_tensors",
        "LoadOptions": "load_options",
        "Record": "record",
        "SafetensorsRecorder": "safetensors_recorder",
        "init_from": "materialize",
    },
)
