"""The typed tensor: `Tensor[B, D, K]`, its kinds and ranks, and the free functions that take it."""

from typing import TYPE_CHECKING

from .._lazy import attach

if TYPE_CHECKING:
    from . import activation, grid, linalg, loss, module, options, quantization, signal
    from .checkpointing import checkpoint
    from .data import TensorData
    from .display import PrintOptions, set_print_options
    from .distribution import Distribution
    from .dtypes import DType, FloatDType, IntDType, dtype_name
    from .grid import GridOptions, IndexPos
    from .joining import DimIter
    from .kinds import D1, D2, D3, D4, D5, D6, D7, D8, Bool, Float, Int, Kind
    from .lifting import lift
    from .linalg_operands import Norm
    from .metadata import assert_shape, debug_assert_shape
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
    from .padding import PadMode
    from .quantization import Block, QTensor, QuantScheme
    from .scattering import IndexingUpdateOp
    from .short_time import StftOptions
    from .slices import Slice, s
    from .tensor import Tensor
    from .tolerance import Tolerance
    from .transaction import Transaction

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
    "DimIter",
    "Distribution",
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
    "PadMode",
    "PrintOptions",
    "QTensor",
    "QuantScheme",
    "Slice",
    "StftOptions",
    "Tensor",
    "TensorData",
    "Tolerance",
    "Transaction",
    "UnfoldOptions",
    "activation",
    "assert_shape",
    "checkpoint",
    "debug_assert_shape",
    "dtype_name",
    "grid",
    "lift",
    "linalg",
    "loss",
    "module",
    "options",
    "quantization",
    "s",
    "set_print_options",
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
        "TensorData": "data",
        "PrintOptions": "display",
        "set_print_options": "display",
        "Distribution": "distribution",
        "dtype_name": "dtypes",
        "DimIter": "joining",
        "assert_shape": "metadata",
        "debug_assert_shape": "metadata",
        "PadMode": "padding",
        "Tolerance": "tolerance",
        "Transaction": "transaction",
        "Tensor": "tensor",
        "checkpoint": "checkpointing",
        "lift": "lifting",
        **dict.fromkeys(["activation", "loss", "module", "options"], ""),
    },
)
