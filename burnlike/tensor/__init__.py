"""The typed tensor: `Tensor[B, D, K]`, its kinds and ranks, and the free functions that take it."""

from typing import TYPE_CHECKING

from .._lazy import attach

if TYPE_CHECKING:
    from . import activation, grid, linalg, loss, module, options, quantization, signal
    from .checkpointing import checkpoint
    from .dtypes import DType, FloatDType, IntDType
    from .grid import GridOptions, IndexPos
    from .kinds import D1, D2, D3, D4, D5, D6, D7, D8, Bool, Float, Int, Kind
    from .lifting import lift
    from .linalg_operands import Norm
    from .options import (
        AttentionModuleOptions,
        AvgPoolOptions,
        ConvOptions,
        ConvTransposeOptions,
        DeformConvOptions,
        GridSampleOptions,
        InterpolateOptions,
        MaxPoolOptions,
        UnfoldOptions,
    )
    from .quantization import Block, QTensor, QuantScheme
    from .scattering import IndexingUpdateOp
    from .short_time import StftOptions
    from .slices import Slice, s
    from .tensor import Tensor

__all__ = [
    "D1",
    "D2",
    "D3",
    "D4",
    "D5",
    "D6",
    "D7",
    "D8",
    "AttentionModuleOptions",
    "AvgPoolOptions",
    "Block",
    "Bool",
    "ConvOptions",
    "ConvTransposeOptions",
    "DType",
    "DeformConvOptions",
    "Float",
    "FloatDType",
    "GridOptions",
    "GridSampleOptions",
    "IndexPos",
    "IndexingUpdateOp",
    "Int",
    "IntDType",
    "InterpolateOptions",
    "Kind",
    "MaxPoolOptions",
    "Norm",
    "QTensor",
    "QuantScheme",
    "Slice",
    "StftOptions",
    "Tensor",
    "UnfoldOptions",
    "activation",
    "checkpoint",
    "grid",
    "lift",
    "linalg",
    "loss",
    "module",
    "options",
    "quantization",
    "s",
    "signal",
]

__getattr__, __dir__ = attach(
    __name__,
    {
        **dict.fromkeys(["D1", "D2", "D3", "D4", "D5", "D6", "D7", "D8", "Bool", "Float", "Int", "Kind"], "kinds"),
        **dict.fromkeys(
            [
                "AttentionModuleOptions",
                "AvgPoolOptions",
                "ConvOptions",
                "ConvTransposeOptions",
                "DeformConvOptions",
                "GridSampleOptions",
                "InterpolateOptions",
                "MaxPoolOptions",
                "UnfoldOptions",
            ],
            "options",
        ),
        "IndexingUpdateOp": "scattering",
        **dict.fromkeys(["Slice", "s"], "slices"),
        **dict.fromkeys(["GridOptions", "IndexPos"], "grid"),
        "Norm": "linalg_operands",
        "StftOptions": "short_time",
        **dict.fromkeys(["grid", "linalg", "signal"], ""),
        **dict.fromkeys(["DType", "FloatDType", "IntDType"], "dtypes"),
        **dict.fromkeys(["Block", "QTensor", "QuantScheme"], "quantization"),
        "quantization": "",
        "Tensor": "tensor",
        "checkpoint": "checkpointing",
        "lift": "lifting",
        **dict.fromkeys(["activation", "loss", "module", "options"], ""),
    },
)
