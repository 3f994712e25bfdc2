"""The configs of pools. Imports no torch."""

from typing import TYPE_CHECKING, Any

from msgspec.structs import force_setattr

from ...config import ModuleConfig
from ...config.bounds import Size
from ...config.roles import Built
from ..padding import PaddingConfig1d, PaddingConfig2d, PaddingConfig3d, Size2d, Size3d
from ..roles import LayerFacts

if TYPE_CHECKING:
    from . import pool


class _WindowConfig(ModuleConfig[Built]):
    """The fields of pools with windows.

    Attributes:
        kernel_size: of the window; one size, or one for each dimension, such as `[height, width]`.
        stride: from one window to the next; None is set to kernel_size.
        strides: from one window to the next, as kernel_size; None is set to kernel_size.
        dilation: from one element of a window to the next; `Same` does not count it, as in Burn.
        count_include_pad: whether the zeros of the padding count in the average.
        ceil_mode: whether a last window may reach over the end.
    """

    facts = LayerFacts(keeps="channels")

    kernel_size: Any

    def __post_init__(self) -> None:
        super().__post_init__()
        stride = "stride" if "stride" in self.__struct_fields__ else "strides"
        if getattr(self, stride) is None:
            force_setattr(self, stride, self.kernel_size)


class _Window1dConfig(_WindowConfig[Built]):
    """The fields of pools over one dimension.

    Attributes:
        padding: `Valid` (none), `Same` (ceil(size / stride) outputs), one size for both ends, or `[left, right]`.
    """

    kernel_size: Size
    stride: Size | None = None
    padding: PaddingConfig1d = "Valid"


class _Window2dConfig(_WindowConfig[Built]):
    """The fields of pools over height and width.

    Attributes:
        padding: `Valid` (none), `Same` (ceil(size / stride) outputs), one size for all sides, or
            `[top, left, bottom, right]`.
    """

    kernel_size: Size2d
    strides: Size2d | None = None
    padding: PaddingConfig2d = "Valid"


class MaxPool1dConfig(_Window1dConfig["pool.MaxPool1d"], tag="MaxPool1d"):
    """The largest element of each window."""

    dilation: Size = 1
    ceil_mode: bool = False


class MaxPool2dConfig(_Window2dConfig["pool.MaxPool2d"], tag="MaxPool2d"):
    """The largest element of each window."""

    dilation: Size2d = 1
    ceil_mode: bool = False


class MaxPool3dConfig(_WindowConfig["pool.MaxPool3d"], tag="MaxPool3d"):
    """The largest element of each window.

    Attributes:
        padding: `Valid` (none), `Same` (ceil(size / stride) outputs), one size for all sides, or
            `[depth, height, width]`, each for both ends.
    """

    kernel_size: Size3d
    strides: Size3d | None = None
    padding: PaddingConfig3d = "Valid"
    dilation: Size3d = 1
    ceil_mode: bool = False


class AvgPool1dConfig(_Window1dConfig["pool.AvgPool1d"], tag="AvgPool1d"):
    """The average of each window."""

    count_include_pad: bool = True
    ceil_mode: bool = False


class AvgPool2dConfig(_Window2dConfig["pool.AvgPool2d"], tag="AvgPool2d"):
    """The average of each window."""

    count_include_pad: bool = True
    ceil_mode: bool = False


class _AdaptiveConfig(ModuleConfig[Built]):
    """The fields of adaptive pools.

    Attributes:
        output_size: of the output; one size, or one for each dimension, such as `[height, width]`.
    """

    facts = LayerFacts(keeps="channels")


class AdaptiveAvgPool1dConfig(_AdaptiveConfig["pool.AdaptiveAvgPool1d"], tag="AdaptiveAvgPool1d"):
    """Averages over windows that share the input evenly."""

    output_size: Size


class AdaptiveAvgPool2dConfig(_AdaptiveConfig["pool.AdaptiveAvgPool2d"], tag="AdaptiveAvgPool2d"):
    """Averages over windows that share the input evenly."""

    output_size: Size2d


class AdaptiveAvgPool3dConfig(_AdaptiveConfig["pool.AdaptiveAvgPool3d"], tag="AdaptiveAvgPool3d"):
    """Averages over windows that share the input evenly."""

    output_size: Size3d
