"""Options of the functions for layers: frozen values that check themselves.

A size is one int for all dimensions or one per dimension; padding is that, or a `(begin, end)` pair per dimension.
"""

from dataclasses import KW_ONLY, dataclass
from typing import Literal, Self, TypeAlias

from ...errors import TensorTypeError, TensorValueError
from .base import Options, Sizes
from .windows import (
    AvgPoolOptions as AvgPoolOptions,
    ConvOptions as ConvOptions,
    ConvTransposeOptions as ConvTransposeOptions,
    DeformConvOptions as DeformConvOptions,
    MaxPoolOptions as MaxPoolOptions,
    UnfoldOptions as UnfoldOptions,
)

InterpolateMode: TypeAlias = Literal["Nearest", "NearestExact", "Bilinear", "Bicubic", "Lanczos3"]
GridSampleMode: TypeAlias = Literal["Nearest", "Bilinear", "Bicubic"]
GridSamplePaddingMode: TypeAlias = Literal["Zeros", "Border", "Reflection"]


@dataclass(frozen=True)
class InterpolateOptions(Options):
    """The way in which `interpolate` finds values between the given ones.

    Attributes:
        mode: `Nearest` (the element below), `NearestExact`, `Bilinear`, `Bicubic` or `Lanczos3`.
        align_corners: whether the corner elements stay where they are; no effect on the Nearest modes.
        output_size: height and width of the result.
        scale_factor: the result's sizes over the input's, instead of `output_size`.
    """

    mode: InterpolateMode = "Nearest"
    _: KW_ONLY
    align_corners: bool = True
    output_size: Sizes | None = None
    scale_factor: "float | tuple[float, float] | list[float] | None" = None

    def __post_init__(self) -> None:
        self._one_of("mode", ("Nearest", "NearestExact", "Bilinear", "Bicubic", "Lanczos3"))
        if self.output_size is not None and self.scale_factor is not None:
            raise TensorValueError(
                "InterpolateOptions", "expected output_size or scale_factor, got both; leave one out"
            )
        if self.output_size is not None:
            self._freeze(output_size=1)
        if self.scale_factor is not None:
            factors = self.scale_factor if isinstance(self.scale_factor, tuple | list) else (self.scale_factor,) * 2
            for factor in factors:
                if not isinstance(factor, int | float):
                    raise TensorTypeError("InterpolateOptions", f"scale_factor: expected numbers, got {factor!r}")
                if not 0 < factor < float("inf"):
                    raise TensorValueError("InterpolateOptions", f"scale_factor: expected more than 0, got {factor}")
            if len(factors) != 2:
                raise TensorValueError("InterpolateOptions", f"scale_factor: expected 2 numbers, got {list(factors)}")
            object.__setattr__(self, "scale_factor", tuple(float(factor) for factor in factors))

    def with_align_corners(self, align_corners: bool) -> Self:
        return self._with(align_corners=align_corners)

    def with_output_size(self, output_size: Sizes) -> Self:
        """The same with this output size, and without a scale factor."""
        return self._with(output_size=output_size, scale_factor=None)

    def with_scale_factor(self, scale_factor: "float | tuple[float, float] | list[float]") -> Self:
        """The same with this scale factor, and without an output size."""
        return self._with(output_size=None, scale_factor=scale_factor)


@dataclass(frozen=True)
class GridSampleOptions(Options):
    """The way in which `grid_sample_2d` finds values.

    Attributes:
        mode: `Nearest`, `Bilinear` or `Bicubic`.
        padding_mode: values outside: `Zeros`, those of the `Border`, or their `Reflection`.
        align_corners: whether -1 and 1 are the centers of the corner elements (True) or their outer edges.
    """

    mode: GridSampleMode = "Bilinear"
    _: KW_ONLY
    padding_mode: GridSamplePaddingMode = "Zeros"
    align_corners: bool = False

    def __post_init__(self) -> None:
        self._one_of("mode", ("Nearest", "Bilinear", "Bicubic"))
        self._one_of("padding_mode", ("Zeros", "Border", "Reflection"))

    def with_padding_mode(self, padding_mode: GridSamplePaddingMode) -> Self:
        return self._with(padding_mode=padding_mode)

    def with_align_corners(self, align_corners: bool) -> Self:
        return self._with(align_corners=align_corners)


@dataclass(frozen=True, kw_only=True)
class AttentionModuleOptions(Options):
    """The scale, cap and causal mask that `attention` applies to the scores.

    Attributes:
        scale: factor of the scores; 1/sqrt(head size) if None.
        softcap: scores become `softcap * tanh(scores / softcap)`; > 0.
        is_causal: whether a query sees only keys up to its own position, the last query being at the last key.
    """

    scale: float | None = None
    softcap: float | None = None
    is_causal: bool = False

    def __post_init__(self) -> None:
        if self.softcap is not None and not self.softcap > 0:
            raise TensorValueError("AttentionModuleOptions", f"softcap: expected more than 0, got {self.softcap}")
