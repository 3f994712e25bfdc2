"""Options of convolutions and of windows as columns."""

from dataclasses import dataclass
from typing import Any

from ..core.sizes import Padding, Sizes, both_ends, each, frozen_sizes
from .base import Options


@dataclass(frozen=True, kw_only=True)
class ConvOptions(Options):
    """Stride, padding, dilation and groups of a convolution.

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
class ConvTransposeOptions(Options):
    """Stride, padding, output padding, dilation and groups of a transposed convolution.

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
class DeformConvOptions(Options):
    """Stride, padding, dilation and groups of a deformable convolution.

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
class UnfoldOptions(Options):
    """Stride, padding and dilation of the windows of `unfold4d` and `fold4d`.

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
