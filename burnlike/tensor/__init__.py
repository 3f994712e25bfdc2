"""The typed tensor: `Tensor[B, D, K]`, its kinds and ranks, and the free functions that take it."""

from typing import TYPE_CHECKING

from .._lazy import attach

if TYPE_CHECKING:
    from .kinds import D1, D2, D3, D4, D5, D6, D7, D8, Bool, Float, Int, Kind
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
    "Bool",
    "ConvOptions",
    "ConvTransposeOptions",
    "DeformConvOptions",
    "Float",
    "GridSampleOptions",
    "Int",
    "InterpolateOptions",
    "Kind",
    "MaxPoolOptions",
    "Tensor",
    "UnfoldOptions",
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
        "Tensor": "tensor",
    },
)
