"""What the functions for layers can be told: frozen values that check themselves.

A size is one int for all dimensions or one per dimension; padding is that, or a `(begin, end)` pair per dimension.
"""

import dataclasses
from dataclasses import KW_ONLY, dataclass
from typing import Any, ClassVar, Literal, Self, TypeAlias

from ..errors import TensorTypeError, TensorValueError, nearest
from .sizes import Padding, Sizes, both_ends, each, expansions, frozen_padding, frozen_size, frozen_sizes

InterpolateMode: TypeAlias = Literal["Nearest", "NearestExact", "Bilinear", "Bicubic", "Lanczos3"]
GridSampleMode: TypeAlias = Literal["Nearest", "Bilinear", "Bicubic"]
GridSamplePaddingMode: TypeAlias = Literal["Zeros", "Border", "Reflection"]


class _Options:
    """Checks of fields, by their name; each says which class of options it is about.

    Attributes:
        expanded: number of dimensions -> the sizes, one for each dimension; what functions read.
    """

    expanded: "ClassVar[dict[int, tuple[Any, ...]]]"

    def _freeze(self, **least: int) -> None:
        for name, smallest in least.items():
            object.__setattr__(self, name, frozen_sizes(type(self).__name__, name, getattr(self, name), smallest))

    def _freeze_padding(self) -> None:
        object.__setattr__(self, "padding", frozen_padding(type(self).__name__, getattr(self, "padding")))  # noqa: B009

    def _expand(self, *names: str) -> None:
        found = expansions({name: getattr(self, name) for name in names})
        object.__setattr__(self, "expanded", found)

    def _positive(self, *names: str) -> None:
        for name in names:
            frozen_size(type(self).__name__, name, getattr(self, name), 1)

    def _one_of(self, name: str, known: tuple[str, ...]) -> None:
        value = getattr(self, name)
        if value not in known:
            hint = nearest(value, known) if isinstance(value, str) else ""
            raise TensorValueError(type(self).__name__, f"{name}: expected one of {list(known)}, got {value!r}{hint}")

    def _with(self, **changes: Any) -> Self:
        replace: Any = dataclasses.replace
        return replace(self, **changes)


@dataclass(frozen=True, kw_only=True)
class ConvOptions(_Options):
    """How a convolution moves over its input.

    Attributes:
        stride: steps between windows.
        padding: zeros around the input.
        dilation: steps between the elements of a window.
        groups: parts into which the channels fall.
        padding_end: padding of the ends where it is not that of the beginnings.
    """

    stride: Sizes = 1
    padding: Padding = 0
    dilation: Sizes = 1
    groups: int = 1
    padding_end: Sizes | None = None

    def __post_init__(self) -> None:
        self._freeze(stride=1, dilation=1)
        self._freeze_padding()
        self._positive("groups")
        if self.padding_end is not None:
            ends: Any = frozen_sizes("ConvOptions", "padding_end", self.padding_end, 0)
            begins: Any = self.padding
            count = max(len(it) if type(it) is tuple else 1 for it in (begins, ends))
            begin, _ = both_ends(each("ConvOptions", "padding", begins, count))
            pairs = tuple(zip(begin, each("ConvOptions", "padding_end", ends, count), strict=True))
            object.__setattr__(self, "padding", pairs)
            object.__setattr__(self, "padding_end", None)
        self._expand("stride", "padding", "dilation")


@dataclass(frozen=True, kw_only=True)
class ConvTransposeOptions(_Options):
    """How a transposed convolution spreads its input.

    Attributes:
        stride: steps between windows of the output.
        padding: what is cut off at both ends of the output.
        padding_out: what is added at the end of the output; torch's `output_padding`.
        dilation: steps between the elements of a window.
        groups: parts into which the channels fall.
    """

    stride: Sizes = 1
    padding: Sizes = 0
    padding_out: Sizes = 0
    dilation: Sizes = 1
    groups: int = 1

    def __post_init__(self) -> None:
        self._freeze(stride=1, padding=0, padding_out=0, dilation=1)
        self._positive("groups")
        self._expand("stride", "padding", "padding_out", "dilation")


@dataclass(frozen=True, kw_only=True)
class DeformConvOptions(_Options):
    """How a deformable convolution moves over its input.

    Attributes:
        stride: steps between windows.
        padding: zeros around the input.
        dilation: steps between the elements of a window.
        weight_groups: parts into which the channels fall.
        offset_groups: parts of the input channels that have offsets of their own.
    """

    stride: Sizes = 1
    padding: Sizes = 0
    dilation: Sizes = 1
    weight_groups: int = 1
    offset_groups: int = 1

    def __post_init__(self) -> None:
        self._freeze(stride=1, padding=0, dilation=1)
        self._positive("weight_groups", "offset_groups")
        self._expand("stride", "padding", "dilation")


@dataclass(frozen=True, kw_only=True)
class UnfoldOptions(_Options):
    """How the windows of `unfold4d` and `fold4d` lie.

    Attributes:
        stride: steps between windows.
        padding: zeros around the input.
        dilation: steps between the elements of a window.
    """

    stride: Sizes = 1
    padding: Sizes = 0
    dilation: Sizes = 1

    def __post_init__(self) -> None:
        self._freeze(stride=1, padding=0, dilation=1)
        self._expand("stride", "padding", "dilation")


@dataclass(frozen=True)
class _PoolOptions(_Options):
    kernel_size: Sizes
    _: KW_ONLY
    stride: Sizes | None = None
    padding: Padding = 0
    ceil_mode: bool = False

    def __post_init__(self) -> None:
        object.__setattr__(self, "stride", self.kernel_size if self.stride is None else self.stride)
        self._freeze(kernel_size=1, stride=1)
        self._freeze_padding()
        self._expand("kernel_size", "stride", "padding")

    def with_stride(self, stride: Sizes) -> Self:
        """The same with another stride."""
        return self._with(stride=stride)

    def with_padding(self, padding: Sizes) -> Self:
        """The same with this padding at both ends."""
        return self._with(padding=padding)

    def with_padding_pairs(self, padding: Padding) -> Self:
        """The same with a (begin, end) pair of padding for each dimension."""
        return self._with(padding=padding)

    def with_ceil_mode(self, ceil_mode: bool) -> Self:
        """The same, where a last window may or may not go over the end."""
        return self._with(ceil_mode=ceil_mode)


@dataclass(frozen=True)
class MaxPoolOptions(_PoolOptions):
    """The windows of a max pool.

    Attributes:
        kernel_size: the size of a window.
        stride: steps between windows; the kernel size if None.
        padding: what is added around the input; it is never the maximum.
        ceil_mode: whether a last window may go over the end.
        dilation: steps between the elements of a window.
    """

    _: KW_ONLY
    dilation: Sizes = 1

    def __post_init__(self) -> None:
        super().__post_init__()
        self._freeze(dilation=1)
        self._expand("kernel_size", "stride", "padding", "dilation")

    def with_dilation(self, dilation: Sizes) -> Self:
        """The same with another dilation."""
        return self._with(dilation=dilation)


@dataclass(frozen=True)
class AvgPoolOptions(_PoolOptions):
    """The windows of an average pool.

    Attributes:
        kernel_size: the size of a window.
        stride: steps between windows; the kernel size if None.
        padding: zeros around the input.
        ceil_mode: whether a last window may go over the end.
        count_include_pad: whether the zeros of the padding count in the average.
    """

    _: KW_ONLY
    count_include_pad: bool = True

    def with_count_include_pad(self, count_include_pad: bool) -> Self:
        """The same, where padding counts or does not count in the average."""
        return self._with(count_include_pad=count_include_pad)


@dataclass(frozen=True)
class InterpolateOptions(_Options):
    """How `interpolate` finds values between the given ones.

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
        """The same with the corners aligned or not."""
        return self._with(align_corners=align_corners)

    def with_output_size(self, output_size: Sizes) -> Self:
        """The same with this output size, and without a scale factor."""
        return self._with(output_size=output_size, scale_factor=None)

    def with_scale_factor(self, scale_factor: "float | tuple[float, float] | list[float]") -> Self:
        """The same with this scale factor, and without an output size."""
        return self._with(output_size=None, scale_factor=scale_factor)


@dataclass(frozen=True)
class GridSampleOptions(_Options):
    """How `grid_sample_2d` finds values.

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
        """The same with another padding mode."""
        return self._with(padding_mode=padding_mode)

    def with_align_corners(self, align_corners: bool) -> Self:
        """The same with the corners aligned or not."""
        return self._with(align_corners=align_corners)


@dataclass(frozen=True, kw_only=True)
class AttentionModuleOptions(_Options):
    """What `attention` does to the scores.

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
