"""`SignalOps`, in torch."""

import math

import torch
import torch.nn.functional as F
from torch import Tensor

from .creation import at_least_float32

# Where windows add up to less than this, the inverse transform divides by this.
_SMALLEST_WINDOW_SUM = 1e-10


class TorchSignalOps:
    """Implements `SignalOps`. Half precision is transformed in float32, as torch's CPU has no other."""

    @staticmethod
    def rfft(tensor: Tensor, dim: int, length: int, /) -> tuple[Tensor, Tensor]:
        if _no_signals(tensor, dim):
            return _nothing(tensor, dim, length // 2 + 1), _nothing(tensor, dim, length // 2 + 1)
        return _parts(torch.fft.rfft(at_least_float32(tensor), length, dim), tensor)

    @staticmethod
    def irfft(real: Tensor, imaginary: Tensor, dim: int, length: int, /) -> Tensor:
        if _no_signals(real, dim):
            return _nothing(real, dim, length)
        spectrum = torch.complex(at_least_float32(real), at_least_float32(imaginary))
        return torch.fft.irfft(spectrum, length, dim).to(real.dtype)

    @staticmethod
    def cfft(real: Tensor, imaginary: Tensor, dim: int, length: int, /) -> tuple[Tensor, Tensor]:
        if _no_signals(real, dim):
            return _nothing(real, dim, length), _nothing(imaginary, dim, length)
        signal = torch.complex(at_least_float32(real), at_least_float32(imaginary))
        return _parts(torch.fft.fft(signal, length, dim), real)

    @staticmethod
    def stft(
        signal: Tensor, window: Tensor | None, n_fft: int, hop: int, win_length: int, center: bool, onesided: bool, /
    ) -> Tensor:
        frames = frames_of(signal, window, n_fft, hop, win_length, center)
        if _no_signals(frames, 2):
            bins = n_fft // 2 + 1 if onesided else n_fft
            return _nothing(frames, 2, bins)[..., None].expand(*frames.shape[:2], bins, 2).to(signal.dtype)
        spectrum = torch.fft.rfft(frames) if onesided else torch.fft.fft(frames)
        return torch.view_as_real(spectrum).to(signal.dtype)

    @staticmethod
    def istft(
        spectrum: Tensor,
        window: Tensor | None,
        n_fft: int,
        hop: int,
        win_length: int,
        center: bool,
        onesided: bool,
        length: int | None,
        /,
    ) -> Tensor:
        wide = at_least_float32(spectrum)
        weights = centered(window, n_fft, win_length, wide)
        half = torch.complex(wide[:, :, : n_fft // 2 + 1, 0], wide[:, :, : n_fft // 2 + 1, 1])
        empty = _no_signals(half, 2)
        frames = _nothing(half.real, 2, n_fft) if empty else torch.fft.irfft(half, n_fft)
        return signal_of(frames, weights, hop, center, length).to(spectrum.dtype)

    @staticmethod
    def cosine_window(
        weights: tuple[float, ...], size: int, periodic: bool, dtype: torch.dtype, device: torch.device, /
    ) -> Tensor:
        if size == 1:
            return torch.ones(1, dtype=dtype, device=device)
        # Calculated in float64: it is made once, and used in every frame.
        angles = torch.arange(size, dtype=torch.float64, device=device)
        angles = angles * (2 * math.pi / max(size if periodic else size - 1, 1))
        window = torch.full_like(angles, weights[0])
        for order, weight in enumerate(weights[1:], 1):
            window = window + weight * torch.cos(order * angles)
        return window.to(dtype)


def frames_of(signal: Tensor, window: Tensor | None, n_fft: int, hop: int, win_length: int, center: bool) -> Tensor:
    """The weighted pieces that `stft` transforms, `[B, frames, n_fft]`."""
    padded = at_least_float32(signal)
    if center and n_fft > 1:
        padded = F.pad(padded[:, None], (n_fft // 2, n_fft // 2), "reflect")[:, 0]
    return padded.unfold(1, n_fft, hop) * centered(window, n_fft, win_length, padded)


def signal_of(frames: Tensor, weights: Tensor, hop: int, center: bool, length: int | None) -> Tensor:
    """The signal of `[B, frames, n_fft]` that `istft` has transformed back, by overlap and add."""
    n_fft = frames.shape[2]
    weight_sums = _overlap_add((weights * weights).expand(1, frames.shape[1], n_fft), hop)
    signal = _overlap_add(frames * weights, hop) / weight_sums.clamp_min(_SMALLEST_WINDOW_SUM)
    if center:
        signal = signal[:, n_fft // 2 : signal.shape[1] - n_fft // 2]
    return signal if length is None else F.pad(signal, (0, max(length - signal.shape[1], 0)))[:, :length]


def _no_signals(tensor: Tensor, dim: int) -> bool:
    """Whether a dimension other than `dim` is empty; the FFT library refuses that."""
    return tensor.numel() == 0 and 0 in (*tensor.shape[:dim], *tensor.shape[dim + 1 :])


def _nothing(tensor: Tensor, dim: int, size: int) -> Tensor:
    """No elements, with `size` along `dim`."""
    return tensor.sum(dim, True).expand([size if place == dim else each for place, each in enumerate(tensor.shape)])


def _parts(spectrum: Tensor, like: Tensor) -> tuple[Tensor, Tensor]:
    return spectrum.real.to(like.dtype), spectrum.imag.to(like.dtype)


def centered(window: Tensor | None, n_fft: int, win_length: int, like: Tensor) -> Tensor:
    """The window, ones if None, with zeros on both sides up to `[n_fft]`."""
    if window is None:
        window = torch.ones(win_length, dtype=like.dtype, device=like.device)
    left = (n_fft - win_length) // 2
    return F.pad(window.to(like.dtype), (left, n_fft - win_length - left))


def _overlap_add(frames: Tensor, hop: int) -> Tensor:
    """`[B, frames, n_fft] -> [B, n_fft + (frames - 1) hop]`."""
    size = frames.shape[2] + (frames.shape[1] - 1) * hop
    added = F.fold(frames.transpose(1, 2), (1, size), (1, frames.shape[2]), stride=(1, hop))
    return added[:, 0, 0]
