"""Short-time Fourier transforms: a signal cut into overlapping frames, each windowed and transformed."""

from dataclasses import dataclass
from typing import Any

import torch

from ...errors import TensorValueError
from ..core.base import B2, Tensor, derive, wrap
from ..core.created import created
from ..core.kinds import D1, D2, D4, Float
from ..core.operands import fail, ranked_spec, tensor_operand
from ..core.spec import Spec
from ..creation.filled import ElementType

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


@dataclass(frozen=True)
class StftOptions:
    """The frames into which `stft` and `istft` cut a signal. Use the same for both of a pair.

    Attributes:
        n_fft: samples of a frame, a power of two (the default is not: name one).
        hop_length: samples from one frame to the next, at most `win_length`; by default a quarter of `n_fft`.
        win_length: samples of the window, at most `n_fft`, centered in the frame; by default `n_fft`.
        center: whether n_fft / 2 mirrored samples are put on both ends first.
        onesided: whether only the n_fft / 2 + 1 frequencies from 0 up are kept.
    """

    n_fft: int = 400
    hop_length: int | None = None
    win_length: int | None = None
    center: bool = True
    onesided: bool = True

    @property
    def hop(self) -> int:
        """The hop length in effect."""
        return max(self.n_fft // 4, 1) if self.hop_length is None else self.hop_length

    @property
    def window_size(self) -> int:
        """The window length in effect."""
        return self.n_fft if self.win_length is None else self.win_length

    @property
    def frequencies(self) -> int:
        """The number of frequencies of a frame."""
        return self.n_fft // 2 + 1 if self.onesided else self.n_fft


def stft(
    signal: "Tensor[B2, D2, Float]", window: "Tensor[B2, D1, Float] | torch.Tensor | None", options: StftOptions
) -> "Tensor[B2, D4, Float]":
    """The Fourier transform of each frame of a signal. `[B, T] -> [B, frames, freqs, 2]`, last real and imaginary.

    Args:
        signal: B signals.
        window: `[win_length]`, what frames are multiplied by; None for ones.
        options: how frames are cut.

    Torch: `torch.view_as_real(torch.stft(...).transpose(1, 2))`.
    Differs: the layout; lengths are powers of two; frames overlap or touch.

    Raises:
        TensorValueError: options that don't fit together, or a signal shorter than a frame.
    """
    spec = ranked_spec("stft", signal, 2)
    _check("Stft", options)
    weights = _weights("Stft", spec, window, options)
    samples = signal.inner.shape[1]
    if options.center:
        if samples <= options.n_fft // 2:
            raise TensorValueError(
                "Stft",
                f"signal length ({samples}) must be > n_fft/2 ({options.n_fft // 2}) for the reflect pad of"
                " center=True; use center=False or a longer signal",
            )
        samples += options.n_fft // 2 * 2
    if samples < options.n_fft:
        raise TensorValueError("Stft", f"signal length ({samples}) must be >= n_fft ({options.n_fft})")
    return derive(
        spec.module.stft(
            signal.inner,
            weights,
            options.n_fft,
            options.hop,
            options.window_size,
            options.center,
            options.onesided,
        ),
        spec,
    )


def istft(
    stft_matrix: "Tensor[B2, D4, Float]",
    window: "Tensor[B2, D1, Float] | torch.Tensor | None",
    length: int | None,
    options: StftOptions,
) -> "Tensor[B2, D2, Float]":
    """The signal of a short-time transform: frames added where they overlap. `[B, frames, freqs, 2] -> [B, T]`.

    Args:
        stft_matrix: what `stft` gave.
        window: the window that `stft` was given; None for ones.
        length: T, by cutting or by zeros at the end; by default what the frames cover.
        options: those of `stft`.

    Torch: `torch.istft`.
    Differs: the layout; where windows add up to nothing the sum is divided by 1e-10, no error.

    Raises:
        TensorValueError: options that don't fit together, or a shape that is not theirs.
    """
    spec = ranked_spec("istft", stft_matrix, 4)
    _check("Istft", options)
    _, frames, frequencies, parts = stft_matrix.inner.shape
    if parts != 2:
        raise TensorValueError("Istft", f"the last dimension must be 2 (real, imaginary), got {parts}")
    if frames < 1:
        raise TensorValueError("Istft", "there must be at least one frame, got n_frames=0")
    if frequencies != options.frequencies:
        raise TensorValueError(
            "Istft",
            f"n_freqs ({frequencies}) is not that of n_fft={options.n_fft}, onesided={options.onesided}:"
            f" {options.frequencies}",
        )
    if length is not None and length < 0:
        raise TensorValueError("Istft", f"length must be >= 0, got {length}")
    weights = _weights("Istft", spec, window, options)
    try:
        return derive(
            spec.module.istft(
                stft_matrix.inner,
                weights,
                options.n_fft,
                options.hop,
                options.window_size,
                options.center,
                options.onesided,
                length,
            ),
            spec,
        )
    except Exception as error:
        fail("istft", error, stft_matrix.inner)


def _check(operation: str, options: StftOptions) -> None:
    n_fft, hop, size = options.n_fft, options.hop, options.window_size
    if n_fft < 1:
        raise TensorValueError(operation, f"n_fft must be >= 1, got {n_fft}")
    if n_fft & (n_fft - 1):
        raise TensorValueError(operation, f"n_fft must be a power of two, got {n_fft}")
    if hop < 1:
        raise TensorValueError(operation, f"hop_length must be >= 1, got {hop}")
    if not 1 <= size <= n_fft:
        raise TensorValueError(operation, f"win_length must be >= 1 and <= n_fft ({n_fft}), got {size}")
    if hop > size:
        raise TensorValueError(
            operation, f"hop_length ({hop}) must be <= win_length ({size}): frames must not leave samples out"
        )


def _weights(operation: str, spec: Spec, window: Any, options: StftOptions) -> torch.Tensor | None:
    if window is None:
        return None
    weights = tensor_operand(operation, spec.ranks[1], window)
    if weights.shape[0] != options.window_size:
        raise TensorValueError(
            operation, f"window length ({weights.shape[0]}) must be win_length ({options.window_size})"
        )
    return weights
