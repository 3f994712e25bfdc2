"""Fourier transforms of signals, and the windows that go with them. Complex numbers are two real tensors."""

from dataclasses import dataclass
from typing import Any

import torch

from ..errors import TensorTypeError, TensorValueError
from .core.arguments import axis, created
from .core.base import B2, E, FloatLike, Tensor, derive, wrap
from .core.kinds import D1, D2, D4, Float
from .core.operands import computed, float_spec, ranked_spec, tensor_operand
from .core.spec import Spec
from .creation.creation import ElementType


def rfft(
    signal: "Tensor[B2, E, Float]", dim: int, n: int | None = None
) -> "tuple[Tensor[B2, E, Float], Tensor[B2, E, Float]]":
    """The Fourier transform of real numbers along `dim`: real and imaginary parts. `[.., n, ..] -> [.., n/2+1, ..]`.
    The signal is cut or filled with zeros to `n`, a power of two; by default its own length.
    Torch: `torch.fft.rfft(x, n, dim)`. Differs: two real tensors; lengths are powers of two.
    Raises TensorValueError: the length is no power of two.
    """
    spec = float_spec("rfft", signal)
    place = axis("Rfft", dim, spec.rank)
    length = _power_of_two("Rfft", signal.inner.shape[place] if n is None else n)
    real, imaginary = spec.module.rfft(signal.inner, place, length)
    return derive(real, spec), derive(imaginary, spec)


def irfft(
    spectrum_re: "Tensor[B2, E, Float]", spectrum_im: "FloatLike[B2, E]", dim: int, n: int | None = None
) -> "Tensor[B2, E, Float]":
    """The real signal whose `rfft` along `dim` is given. `[.., n/2+1, ..] -> [.., n, ..]`.
    The result has length `n`, a power of two; by default 2 (size - 1).
    Torch: `torch.fft.irfft(x, n, dim)`. Differs: two real tensors; lengths are powers of two.
    Raises TensorValueError: the length is no power of two, or the shapes differ.
    """
    spec = float_spec("irfft", spectrum_re)
    imaginary = _imaginary("Irfft", spectrum_re, spectrum_im)
    place = axis("Irfft", dim, spec.rank)
    size = spectrum_re.inner.shape[place]
    if size == 0:
        raise TensorValueError("Irfft", "the spectrum is empty along the dimension")
    length = _power_of_two("Irfft", 2 * (size - 1) if n is None else n)
    return derive(spec.module.irfft(spectrum_re.inner, imaginary, place, length), spec)


def cfft(
    signal_re: "Tensor[B2, E, Float]", signal_im: "FloatLike[B2, E]", dim: int, n: int | None = None
) -> "tuple[Tensor[B2, E, Float], Tensor[B2, E, Float]]":
    """The Fourier transform of complex numbers along `dim`: real and imaginary parts. `[.., n, ..] -> [.., n, ..]`.
    The signal is cut or filled with zeros to `n`, a power of two; by default its own length.
    Torch: `torch.fft.fft(x, n, dim)`. Differs: two real tensors; lengths are powers of two.
    Raises TensorValueError: the length is no power of two, or the shapes differ.
    """
    spec = float_spec("cfft", signal_re)
    imaginary = _imaginary("Cfft", signal_re, signal_im)
    place = axis("Cfft", dim, spec.rank)
    length = _power_of_two("Cfft", signal_re.inner.shape[place] if n is None else n)
    real, other = spec.module.cfft(signal_re.inner, imaginary, place, length)
    return derive(real, spec), derive(other, spec)


def _imaginary(operation: str, real: "Tensor[B2, E, Float]", imaginary: object) -> torch.Tensor:
    inner = tensor_operand(operation, real.spec, imaginary)
    if inner.shape != real.inner.shape:
        raise TensorValueError(
            operation,
            "the real and the imaginary part must have the same shape,"
            f" got {list(real.inner.shape)} and {list(inner.shape)}",
        )
    return inner


def _power_of_two(operation: str, length: int) -> int:
    if not isinstance(length, int | torch.SymInt):
        raise TensorTypeError(operation, f"expected n as an int, got {type(length).__name__}")
    if length < 1:
        raise TensorValueError(operation, f"n must be >= 1, got {length}")
    if length & (length - 1):
        above = 1 << length.bit_length()
        raise TensorValueError(
            operation, f"n must be a power of two, got {length}; n={above} fills with zeros, n={above // 2} cuts"
        )
    return length


# Weights of 1, cos(a), cos(2a) with a = 2 pi n / N.
_HANN = (0.5, -0.5)
_HAMMING = (25 / 46, -21 / 46)
_BLACKMAN = (0.42, -0.5, 0.08)


def hann_window(size: int, periodic: bool, backend: B2, dtype: ElementType = None) -> "Tensor[B2, D1, Float]":
    """0.5 - 0.5 cos(2 pi n / N), N = size if `periodic`, else size - 1. `-> [size]`. Torch: `torch.hann_window`."""
    return _window("Hann Window", _HANN, size, periodic, backend, dtype)


def hamming_window(size: int, periodic: bool, backend: B2, dtype: ElementType = None) -> "Tensor[B2, D1, Float]":
    """25/46 - 21/46 cos(2 pi n / N), N = size if `periodic`, else size - 1. `-> [size]`. Torch: `torch.hamming_window`.
    Differs: torch's weights are 0.54 and 0.46; `periodic` is required.
    """
    return _window("Hamming Window", _HAMMING, size, periodic, backend, dtype)


def blackman_window(size: int, periodic: bool, backend: B2, dtype: ElementType = None) -> "Tensor[B2, D1, Float]":
    """0.42 - 0.5 cos(a) + 0.08 cos(2a), a = 2 pi n / N, N = size if `periodic`, else size - 1. `-> [size]`.
    Torch: `torch.blackman_window`. Differs: `periodic` is required.
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
    signal: "Tensor[B2, D2, Float]", window: "FloatLike[B2, D1] | None", options: StftOptions
) -> "Tensor[B2, D4, Float]":
    """The Fourier transform of each frame of a signal. `[B, T] -> [B, frames, freqs, 2]`, last real and imaginary.
    Frames are multiplied by the window, `[win_length]`; None for ones.
    Torch: `torch.view_as_real(torch.stft(...).transpose(1, 2))`.
    Differs: the layout; lengths are powers of two; frames overlap or touch.
    Raises TensorValueError: options that don't fit together, or a signal shorter than a frame.
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
    return derive(spec.module.stft(signal.inner, weights, *_frames(options)), spec)


def istft(
    stft_matrix: "Tensor[B2, D4, Float]", window: "FloatLike[B2, D1] | None", length: int | None, options: StftOptions
) -> "Tensor[B2, D2, Float]":
    """The signal of a short-time transform: frames added where they overlap. `[B, frames, freqs, 2] -> [B, T]`.
    Window and options are those of `stft`; T is `length`, by cutting or zeros at the end, or what the frames cover.
    Torch: `torch.istft`. Differs: the layout; where windows add up to nothing the sum is divided by 1e-10, no error.
    Raises TensorValueError: options that don't fit together, or a shape that is not theirs.
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
    return derive(computed("istft", spec.module.istft, stft_matrix.inner, weights, *_frames(options), length), spec)


def _frames(options: StftOptions) -> tuple[int, int, int, bool, bool]:
    """The options in the order of the tables' functions."""
    return options.n_fft, options.hop, options.window_size, options.center, options.onesided


def _check(operation: str, options: StftOptions) -> None:
    n_fft, hop, size = options.n_fft, options.hop, options.window_size
    for fits, reason in (
        (n_fft >= 1, f"n_fft must be >= 1, got {n_fft}"),
        (not n_fft & (n_fft - 1), f"n_fft must be a power of two, got {n_fft}"),
        (hop >= 1, f"hop_length must be >= 1, got {hop}"),
        (1 <= size <= n_fft, f"win_length must be >= 1 and <= n_fft ({n_fft}), got {size}"),
        (hop <= size, f"hop_length ({hop}) must be <= win_length ({size}): frames must not leave samples out"),
    ):
        if not fits:
            raise TensorValueError(operation, reason)


def _weights(operation: str, spec: Spec, window: Any, options: StftOptions) -> torch.Tensor | None:
    if window is None:
        return None
    weights = tensor_operand(operation, spec.ranks[1], window)
    if weights.shape[0] != options.window_size:
        raise TensorValueError(
            operation, f"window length ({weights.shape[0]}) must be win_length ({options.window_size})"
        )
    return weights
