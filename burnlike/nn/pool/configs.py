"""The configs of pools. Imports no torch."""

from typing import TYPE_CHECKING

from msgspec.structs import force_setattr

from ...config import ModuleConfig
from ...config.bounds import Size
from ..padding import PaddingConfig1d, PaddingConfig2d, PaddingConfig3d, Size2d, Size3d

if TYPE_CHECKING:
    import torch

    from .adaptive_avg_pool import AdaptiveAvgPool1d, AdaptiveAvgPool2d, AdaptiveAvgPool3d
    from .avg_pool import AvgPool1d, AvgPool2d
    from .max_pool import MaxPool1d, MaxPool2d, MaxPool3d


class MaxPool1dConfig(ModuleConfig, tag="MaxPool1d"):
    """The largest element of each window.

    Attributes:
        kernel_size: of the window.
        stride: from one window to the next; None is set to kernel_size.
        padding: `Valid` (none), `Same` (ceil(size / stride) outputs), one size for both ends, or `[left, right]`.
        dilation: from one element of a window to the next; `Same` does not count it, as in Burn.
        ceil_mode: whether a last window may reach over the end.
    """

    kernel_size: Size
    stride: Size | None = None
    padding: PaddingConfig1d = "Valid"
    dilation: Size = 1
    ceil_mode: bool = False

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.stride is None:
            force_setattr(self, "stride", self.kernel_size)

    def init(self, device: "torch.device | str | None" = None) -> "MaxPool1d":
        from .max_pool import MaxPool1d

        return MaxPool1d(self, device)


class MaxPool2dConfig(ModuleConfig, tag="MaxPool2d"):
    """The largest element of each window.

    Attributes:
        kernel_size: of the window; one size, or `[height, width]`, as in strides and dilation.
        strides: from one window to the next; None is set to kernel_size.
        padding: `Valid` (none), `Same` (ceil(size / stride) outputs), one size for all sides, or
            `[top, left, bottom, right]`.
        dilation: from one element of a window to the next; `Same` does not count it, as in Burn.
        ceil_mode: whether a last window may reach over the end.
    """

    kernel_size: Size2d
    strides: Size2d | None = None
    padding: PaddingConfig2d = "Valid"
    dilation: Size2d = 1
    ceil_mode: bool = False

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.strides is None:
            force_setattr(self, "strides", self.kernel_size)

    def init(self, device: "torch.device | str | None" = None) -> "MaxPool2d":
        from .max_pool import MaxPool2d

        return MaxPool2d(self, device)


class MaxPool3dConfig(ModuleConfig, tag="MaxPool3d"):
    """The largest element of each window.

    Attributes:
        kernel_size: of the window; one size, or `[depth, height, width]`, as in strides and dilation.
        strides: from one window to the next; None is set to kernel_size.
        padding: `Valid` (none), `Same` (ceil(size / stride) outputs), one size for all sides, or
            `[depth, height, width]`, each for both ends.
        dilation: from one element of a window to the next; `Same` does not count it, as in MaxPool2d.
        ceil_mode: whether a last window may reach over the end.
    """

    kernel_size: Size3d
    strides: Size3d | None = None
    padding: PaddingConfig3d = "Valid"
    dilation: Size3d = 1
    ceil_mode: bool = False

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.strides is None:
            force_setattr(self, "strides", self.kernel_size)

    def init(self, device: "torch.device | str | None" = None) -> "MaxPool3d":
        from .max_pool import MaxPool3d

        return MaxPool3d(self, device)


class AvgPool1dConfig(ModuleConfig, tag="AvgPool1d"):
    """The average of each window.

    Attributes:
        kernel_size: of the window.
        stride: from one window to the next; None is set to kernel_size.
        padding: `Valid` (none), `Same` (ceil(size / stride) outputs), one size for both ends, or `[left, right]`.
        count_include_pad: whether the zeros of the padding count in the average.
        ceil_mode: whether a last window may reach over the end.
    """

    kernel_size: Size
    stride: Size | None = None
    padding: PaddingConfig1d = "Valid"
    count_include_pad: bool = True
    ceil_mode: bool = False

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.stride is None:
            force_setattr(self, "stride", self.kernel_size)

    def init(self, device: "torch.device | str | None" = None) -> "AvgPool1d":
        from .avg_pool import AvgPool1d

        return AvgPool1d(self, device)


class AvgPool2dConfig(ModuleConfig, tag="AvgPool2d"):
    """The average of each window.

    Attributes:
        kernel_size: of the window; one size, or `[height, width]`, as in strides.
        strides: from one window to the next; None is set to kernel_size.
        padding: `Valid` (none), `Same` (ceil(size / stride) outputs), one size for all sides, or
            `[top, left, bottom, right]`.
        count_include_pad: whether the zeros of the padding count in the average.
        ceil_mode: whether a last window may reach over the end.
    """

    kernel_size: Size2d
    strides: Size2d | None = None
    padding: PaddingConfig2d = "Valid"
    count_include_pad: bool = True
    ceil_mode: bool = False

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.strides is None:
            force_setattr(self, "strides", self.kernel_size)

    def init(self, device: "torch.device | str | None" = None) -> "AvgPool2d":
        from .avg_pool import AvgPool2d

        return AvgPool2d(self, device)


class AdaptiveAvgPool1dConfig(ModuleConfig, tag="AdaptiveAvgPool1d"):
    """Averages over windows that share the input evenly.

    Attributes:
        output_size: of the output.
    """

    output_size: Size

    def init(self, device: "torch.device | str | None" = None) -> "AdaptiveAvgPool1d":
        from .adaptive_avg_pool import AdaptiveAvgPool1d

        return AdaptiveAvgPool1d(self, device)


class AdaptiveAvgPool2dConfig(ModuleConfig, tag="AdaptiveAvgPool2d"):
    """Averages over windows that share the input evenly.

    Attributes:
        output_size: of the output; one size, or `[height, width]`.
    """

    output_size: Size2d

    def init(self, device: "torch.device | str | None" = None) -> "AdaptiveAvgPool2d":
        from .adaptive_avg_pool import AdaptiveAvgPool2d

        return AdaptiveAvgPool2d(self, device)


class AdaptiveAvgPool3dConfig(ModuleConfig, tag="AdaptiveAvgPool3d"):
    """Averages over windows that share the input evenly.

    Attributes:
        output_size: of the output; one size, or `[depth, height, width]`.
    """

    output_size: Size3d

    def init(self, device: "torch.device | str | None" = None) -> "AdaptiveAvgPool3d":
        from .adaptive_avg_pool import AdaptiveAvgPool3d

        return AdaptiveAvgPool3d(self, device)
