"""Resizing of images."""

from typing import Any, overload

import torch

from ...errors import TensorTypeError, TensorValueError
from ..core.base import B2, Tensor, like
from ..core.kinds import D4, Float
from ..core.operands import computed, ranked_spec
from ..options import InterpolateOptions
from ..options.base import Sizes, each, frozen_sizes


@overload
def interpolate(x: "Tensor[B2, D4, Float]", output_size: InterpolateOptions) -> "Tensor[B2, D4, Float]": ...
@overload
def interpolate(
    x: "Tensor[B2, D4, Float]", output_size: Sizes, options: InterpolateOptions
) -> "Tensor[B2, D4, Float]": ...
def interpolate(x: Any, output_size: Any, options: Any = None) -> Any:
    """Images of another size. `[batch, channels, h, w] -> [batch, channels, h_out, w_out]`. Torch: `F.interpolate`.

    Args:
        x: the images.
        output_size: height and width of the result, or the options alone, which then have a size or a scale factor.
        options: the mode and whether corners are aligned.

    Differs: rank 4 only; corners are aligned by default; Lanczos3.
    Raises TensorValueError: no size is given, or the result would be empty.
    """
    spec = ranked_spec("interpolate", x, 4)
    given = None if options is None else output_size
    options = output_size if options is None else options
    if not isinstance(options, InterpolateOptions):
        raise TensorTypeError("Interpolate", f"expected InterpolateOptions, got {type(options).__name__}")
    size = _output_size(x.inner.shape, given, options)
    function = spec.module.interpolate
    return like(computed("interpolate", function, x.inner, size, options.mode, options.align_corners), spec)


def _output_size(shape: torch.Size, given: Any, options: InterpolateOptions) -> tuple[int, ...]:
    factors: Any = options.scale_factor
    if given is not None:
        size: Any = frozen_sizes("Interpolate", "output_size", given, 1)
    elif options.output_size is not None:
        size = options.output_size
    elif factors is not None:
        size = frozen_sizes(
            "Interpolate", "output_size", [int(length * by) for length, by in zip(shape[2:], factors, strict=True)], 1
        )
    else:
        raise TensorValueError("Interpolate", "expected a size; use with_output_size or with_scale_factor")
    return each("Interpolate", "output_size", size, 2)
