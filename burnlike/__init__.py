"""Burn's semantics on PyTorch. `import burnlike as bl` loads nothing heavy: parts are imported at first use."""

from typing import TYPE_CHECKING

from ._lazy import attach

__version__ = "0.1.0"

if TYPE_CHECKING:
    from . import config, data, errors, module, nn, ops, optim, record, train
    from .config import Config
    from .module import Module, Param, ParamId
    from .record import (
        BFloat16Precision,
        DoublePrecision,
        FullPrecision,
        HalfPrecision,
        Precision,
        Record,
        SafetensorsRecorder,
    )

__getattr__, __dir__ = attach(
    __name__,
    {
        **dict.fromkeys(["config", "data", "errors", "module", "nn", "ops", "optim", "record", "train"], ""),
        "Config": "config",
        **dict.fromkeys(["Module", "Param", "ParamId"], "module"),
        **dict.fromkeys(
            [
                "BFloat16Precision",
                "DoublePrecision",
                "FullPrecision",
                "HalfPrecision",
                "Precision",
                "Record",
                "SafetensorsRecorder",
            ],
            "record",
        ),
    },
)
