"""Records: what a module, an optimizer or a run knows, in files of any precision."""

from typing import TYPE_CHECKING

from .._lazy import attach

if TYPE_CHECKING:
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
    from .derived.module_layout import layout_of
    from .distributed.recorder import DistributedRecorder
    from .files.budget import ReadLimits
    from .files.lazy_tensors import LazyTensors
    from .formats import EXTENSIONS
    from .loading.load_options import LoadOptions
    from .loading.materialize import init_from
    from .loading.report import LoadReport, Mismatch
    from .opening import open_record
    from .precision import BFloat16Precision, DoublePrecision, FullPrecision, HalfPrecision, Precision
    from .record import Record
    from .recorder import FileRecorder, Recorder, recorder_for
    from .safetensors_recorder import SafetensorsRecorder
    from .saving.background import SaveHandle
    from .shortcuts import load, save, save_async
    from .verifying import verify

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
    "ReadLimits",
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
    "verify",
]

__getattr__, __dir__ = attach(
    __name__,
    {
        **dict.fromkeys(
            ["BFloat16Precision", "DoublePrecision", "FullPrecision", "HalfPrecision", "Precision"], "precision"
        ),
        **dict.fromkeys(["LoadReport", "Mismatch"], "loading.report"),
        **dict.fromkeys(["load", "save", "save_async"], "shortcuts"),
        "SaveHandle": "saving.background",
        **dict.fromkeys(["FileRecorder", "Recorder", "recorder_for"], "recorder"),
        "BurnpackRecorder": "burn.recorders",
        **dict.fromkeys(["BinBytesRecorder", "BinFileRecorder", "BinGzFileRecorder"], "burn.recorders"),
        **dict.fromkeys(["JsonGzFileRecorder", "PrettyJsonFileRecorder"], "burn.recorders"),
        **dict.fromkeys(["NamedMpkBytesRecorder", "NamedMpkFileRecorder", "NamedMpkGzFileRecorder"], "burn.recorders"),
        "DistributedRecorder": "distributed.recorder",
        "EXTENSIONS": "formats",
        "layout_of": "derived.module_layout",
        "open_record": "opening",
        "LazyTensors": "files.lazy_tensors",
        "ReadLimits": "files.budget",
        "LoadOptions": "loading.load_options",
        "Record": "record",
        "SafetensorsRecorder": "safetensors_recorder",
        "init_from": "loading.materialize",
        "verify": "verifying",
    },
)
