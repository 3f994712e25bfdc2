"""The configs of resizing. Imports no torch."""

from collections.abc import Iterable
from typing import TYPE_CHECKING, Annotated, Any, Literal, TypeAlias

from ...config import Meta, ModuleConfig
from ...config.bounds import Positive, Size
from ...config.roles import Built
from ..padding import Size2d

if TYPE_CHECKING:
    from . import interpolate

InterpolateMode: TypeAlias = Literal["Nearest", "NearestExact", "Linear", "Cubic", "Lanczos"]
"""How values between the given ones are found: `Nearest` takes the element before, `NearestExact` the nearest one."""
_Factor2d: TypeAlias = Positive | Annotated[tuple[Positive, ...], Meta(min_length=2, max_length=2)]


class _InterpolateConfig(ModuleConfig[Built]):
    """The fields of both interpolations.

    Attributes:
        align_corners: whether the corner elements stay where they are; no effect on the Nearest modes.
    """

    output_size: Any = None
    scale_factor: Any = None
    mode: InterpolateMode = "Nearest"
    align_corners: bool = True

    def validate(self) -> Iterable[tuple[str, str]]:
        if (self.output_size is None) == (self.scale_factor is None):
            got = "neither" if self.output_size is None else "both"
            yield "output_size", f"expected exactly one of output_size and scale_factor, got {got}"


class Interpolate1dConfig(_InterpolateConfig["interpolate.Interpolate1d"], tag="Interpolate1d"):
    """A sequence of another length; exactly one of `output_size` and `scale_factor` is given.

    Attributes:
        output_size: length of the output.
        scale_factor: length of the output over that of the input; the output's is rounded down.
        mode: how values between the given ones are found.
    """

    output_size: Size | None = None
    scale_factor: Positive | None = None


class Interpolate2dConfig(_InterpolateConfig["interpolate.Interpolate2d"], tag="Interpolate2d"):
    """An image of another size; exactly one of `output_size` and `scale_factor` is given.

    Attributes:
        output_size: of the output; one size, or `[height, width]`.
        scale_factor: size of the output over that of the input, one or `[height, width]`; sizes are rounded down.
        mode: how values between the given ones are found; `Linear` is bilinear, `Cubic` bicubic.
    """

    output_size: Size2d | None = None
    scale_factor: _Factor2d | None = None
