"""Options of pools."""

from dataclasses import KW_ONLY, dataclass
from typing import Self

from ..core.sizes import Padding, Sizes
from .base import Options


@dataclass(frozen=True)
class _PoolOptions(Options):
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
