"""Windows of cosines, for the frames of a signal."""

from typing import TYPE_CHECKING, Any

from ..core.base import B2, wrap
from ..core.created import created
from ..core.kinds import D1, Float
from ..creation.filled import ElementType

if TYPE_CHECKING:
    from ..tensor import Tensor

# Weights of 1, cos(a), cos(2a) with a = 2 pi n / N.
_HANN = (0.5, -0.5)
_HAMMING = (25 / 46, -21 / 46)
_BLACKMAN = (0.42, -0.5, 0.08)


def hann_window(size: int, periodic: bool, backend: B2, dtype: ElementType = None) -> "Tensor[B2, D1, Float]":
    """0.5 - 0.5 cos(2 pi n / N), N = size if `periodic`, else size - 1. `-> [size]`.

    Torch: `torch.hann_window`.
    Differs: `periodic` is required.
    """
    return _window("Hann Window", _HANN, size, periodic, backend, dtype)


def hamming_window(size: int, periodic: bool, backend: B2, dtype: ElementType = None) -> "Tensor[B2, D1, Float]":
    """25/46 - 21/46 cos(2 pi n / N), N = size if `periodic`, else size - 1. `-> [size]`.

    Torch: `torch.hamming_window`.
    Differs: torch's weights are 0.54 and 0.46; `periodic` is required.
    """
    return _window("Hamming Window", _HAMMING, size, periodic, backend, dtype)


def blackman_window(size: int, periodic: bool, backend: B2, dtype: ElementType = None) -> "Tensor[B2, D1, Float]":
    """0.42 - 0.5 cos(a) + 0.08 cos(2a), a = 2 pi n / N, N = size if `periodic`, else size - 1. `-> [size]`.

    Torch: `torch.blackman_window`.
    Differs: `periodic` is required.
    """
    return _window("Blackman Window", _BLACKMAN, size, periodic, backend, dtype)


def _window(
    operation: str, weights: tuple[float, ...], size: int, periodic: bool, backend: Any, dtype: ElementType
) -> Any:
    spec, _ = created(operation, (size,), backend, Float, dtype)
    return wrap(spec.module.cosine_window(weights, size, bool(periodic), spec.dtype, backend.device), spec)
