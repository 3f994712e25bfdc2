"""Fourier transforms without complex numbers, which tables don't have: products with matrices of cosines and sines.

For derivatives only: they take n^2 steps where a transform takes n log n.
"""

import math

import torch
from torch import Tensor

from ..tables.creation import at_least_float32
from ..tables.signal import centered, frames_of, signal_of


def _waves(rows: int, columns: int, length: int, like: Tensor) -> tuple[Tensor, Tensor]:
    """cos and -sin of 2 pi k n / length, `[rows, columns]`."""
    places = torch.arange(rows, device=like.device)[:, None] * torch.arange(columns, device=like.device)
    angles = (places % length).double() * (2 * math.pi / length)
    return angles.cos().to(like.dtype), -angles.sin().to(like.dtype)


def _cut(tensor: Tensor, dim: int, length: int) -> Tensor:
    """`tensor` with `dim` last, truncated to `length`; zeros behind the end add nothing."""
    moved = tensor.movedim(dim, -1)
    return moved[..., :length]


def rfft(tensor: Tensor, dim: int, length: int) -> tuple[Tensor, Tensor]:
    x = _cut(tensor, dim, length)
    cosines, sines = _waves(x.shape[-1], length // 2 + 1, length, tensor)
    return (x @ cosines).movedim(-1, dim), (x @ sines).movedim(-1, dim)


def cfft(real: Tensor, imaginary: Tensor, dim: int, length: int) -> tuple[Tensor, Tensor]:
    x, y = _cut(real, dim, length), _cut(imaginary, dim, length)
    cosines, sines = _waves(x.shape[-1], length, length, real)
    return (x @ cosines - y @ sines).movedim(-1, dim), (x @ sines + y @ cosines).movedim(-1, dim)


def irfft(real: Tensor, imaginary: Tensor, dim: int, length: int) -> Tensor:
    x, y = _cut(real, dim, length // 2 + 1), _cut(imaginary, dim, length // 2 + 1)
    bins = x.shape[-1]
    cosines, sines = _waves(bins, length, length, real)
    # All but the first, and for even lengths the last of them, stand for two conjugate ones.
    place = torch.arange(bins, device=real.device)
    weights = torch.where((place == 0) | (2 * place == length), 1.0, 2.0).to(real.dtype) / length
    return ((x * weights) @ cosines + (y * weights) @ sines).movedim(-1, dim)


def stft(
    signal: Tensor, window: Tensor | None, n_fft: int, hop: int, win_length: int, center: bool, onesided: bool
) -> Tensor:
    frames = frames_of(signal, window, n_fft, hop, win_length, center)
    cosines, sines = _waves(n_fft, n_fft // 2 + 1 if onesided else n_fft, n_fft, frames)
    return torch.stack([frames @ cosines, frames @ sines], -1).to(signal.dtype)


def istft(
    spectrum: Tensor,
    window: Tensor | None,
    n_fft: int,
    hop: int,
    win_length: int,
    center: bool,
    onesided: bool,
    length: int | None,
) -> Tensor:
    wide = at_least_float32(spectrum)
    frames = irfft(wide[..., 0], wide[..., 1], 2, n_fft)
    weights = centered(window, n_fft, win_length, wide)
    return signal_of(frames, weights, hop, center, length).to(spectrum.dtype)


REFERENCES = {f"module_ops.{function.__name__}": function for function in (rfft, irfft, cfft, stft, istft)}
"""By the function of `SignalOps` that they compute as well, and whose derivative they give."""
