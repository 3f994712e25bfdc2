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
        **dict.fromkeys(["activation", "grid", "linalg", "loss", "module", "options", "quantization", "signal"], ""),
        "checkpoint": "checkpointing",
        "TensorData": "data",
        **dict.fromkeys(["PrintOptions", "set_print_options"], "display"),
        "Distribution": "distribution",
        **dict.fromkeys(["DType", "FloatDType", "IntDType", "dtype_name"], "dtypes"),
        **dict.fromkeys(["GridOptions", "IndexPos"], "grid"),
        "DimIter": "joining",
        **dict.fromkeys(["D1", "D2", "D3", "D4", "D5", "D6", "D7", "D8", "Bool", "Float", "Int", "Kind"], "kinds"),
        "lift": "lifting",
        "Norm": "linalg_operands",
        **dict.fromkeys(["assert_shape", "debug_assert_shape"], "metadata"),
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
        "PadMode": "padding",
        **dict.fromkeys(["Block", "QTensor", "QuantScheme"], "quantization"),
        "IndexingUpdateOp": "scattering",
        "StftOptions": "short_time",
        **dict.fromkeys(["Slice", "s"], "slices"),
        "Tensor": "tensor",
        "Tolerance": "tolerance",
        "Transaction": "transaction",
    },
)
