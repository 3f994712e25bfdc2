"""Fourier transforms and windows; coordinates of grids, and images resampled at other places."""

import math
from collections.abc import Sequence
from typing import Protocol

import torch
import torch.nn.functional as F
from torch import Tensor

from .creation import at_least_float32

# Where windows add up to less than this, the inverse transform divides by this.
_SMALLEST_WINDOW_SUM = 1e-10


class SignalOps(Protocol):
    """Fourier transforms and windows, on Float tensors. Complex numbers are two real tensors.

    Functions:
        rfft: The transform along dim, truncated or filled with zeros to `length`: real and imaginary, length // 2 + 1.
        irfft: The real signal of `length` along dim whose rfft is given.
        cfft: The transform of complex numbers along dim, truncated or filled with zeros to `length`.
        stft: `[B, T] -> [B, frames, freqs, 2]`; window `[win_length]`, None for ones.
        istft: `[B, frames, freqs, 2] -> [B, T]` by overlap and add; `length` cuts or fills with zeros.
        cosine_window: `[size]`: the sum of weights[k] cos(2 pi k n / N), N = size if periodic, else size - 1; 1 at
            size 1.
    """

    def rfft(self, tensor: Tensor, dim: int, length: int, /) -> tuple[Tensor, Tensor]: ...
    def irfft(self, real: Tensor, imaginary: Tensor, dim: int, length: int, /) -> Tensor: ...
    def cfft(self, real: Tensor, imaginary: Tensor, dim: int, length: int, /) -> tuple[Tensor, Tensor]: ...
    def stft(
        self,
        signal: Tensor,
        window: Tensor | None,
        n_fft: int,
        hop: int,
        win_length: int,
        center: bool,
        onesided: bool,
        /,
    ) -> Tensor: ...
    def istft(
        self,
        spectrum: Tensor,
        window: Tensor | None,
        n_fft: int,
        hop: int,
        win_length: int,
        center: bool,
        onesided: bool,
        length: int | None,
        /,
    ) -> Tensor: ...
    def cosine_window(
        self, weights: tuple[float, ...], size: int, periodic: bool, dtype: torch.dtype, device: torch.device, /
    ) -> Tensor: ...


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
    """True if a dimension other than `dim` is empty; the FFT library refuses that."""
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


class GridOps(Protocol):
    """Coordinates and sampling.

    Functions:
        meshgrid: N vectors of any kind -> N tensors of rank N; cartesian: dimensions 0 and 1 swapped; sparse: sizes 1.
        meshgrid_stack: N vectors of any kind -> `[N, ..]`, or `[.., N]` if last.
        affine_grid_2d: `[batch or 1, 2, 3] -> [batch, height, width, 2]`: coordinates -1 to 1 at the corners,
            transformed.
        grid_sample_2d: `[N, C, H, W]` at `[N, H', W', 2]` -> `[N, C, H', W']`; modes as torch names them.
        interpolate: `[batch, channels, h, w] -> [batch, channels, *size]`; the modes are those of `InterpolateOptions`.
    """

    def meshgrid(self, tensors: Sequence[Tensor], cartesian: bool, sparse: bool, /) -> list[Tensor]: ...
    def meshgrid_stack(self, tensors: Sequence[Tensor], last: bool, /) -> Tensor: ...
    def affine_grid_2d(self, transform: Tensor, batch: int, height: int, width: int, /) -> Tensor: ...
    def grid_sample_2d(
        self, tensor: Tensor, grid: Tensor, mode: str, padding: str, align_corners: bool, /
    ) -> Tensor: ...
    def interpolate(self, tensor: Tensor, size: Sequence[int], mode: str, align_corners: bool, /) -> Tensor: ...


class TorchGridOps:
    """Implements `GridOps`."""

    @staticmethod
    def meshgrid(tensors: Sequence[Tensor], cartesian: bool, sparse: bool, /) -> list[Tensor]:
        if sparse:
            rank = len(tensors)
            grids = [
                tensor.reshape([-1 if place == axis else 1 for place in range(rank)])
                for axis, tensor in enumerate(tensors)
            ]
            return [grid.transpose(0, 1) for grid in grids] if cartesian and rank > 1 else grids
        return list(torch.meshgrid(*tensors, indexing="xy" if cartesian else "ij"))

    @staticmethod
    def meshgrid_stack(tensors: Sequence[Tensor], last: bool, /) -> Tensor:
        return torch.stack(torch.meshgrid(*tensors, indexing="ij"), -1 if last else 0)

    @staticmethod
    def affine_grid_2d(transform: Tensor, batch: int, height: int, width: int, /) -> Tensor:
        wide = at_least_float32(transform).expand(batch, 2, 3)
        return torch.affine_grid_generator(wide, [batch, 1, height, width], True).to(transform.dtype)

    @staticmethod
    def grid_sample_2d(tensor: Tensor, grid: Tensor, mode: str, padding: str, align_corners: bool, /) -> Tensor:
        wide, places = at_least_float32(tensor), at_least_float32(grid)
        return F.grid_sample(wide, places, mode, padding, align_corners).to(tensor.dtype)

    @staticmethod
    def interpolate(tensor: Tensor, size: Sequence[int], mode: str, align_corners: bool, /) -> Tensor:
        if mode == "Lanczos3":
            return _lanczos(_lanczos(tensor, 2, size[0], align_corners), 3, size[1], align_corners)
        corners = None if mode.startswith("Nearest") else align_corners
        return F.interpolate(tensor, size=list(size), mode=_MODES[mode], align_corners=corners)


_MODES = {"Nearest": "nearest", "NearestExact": "nearest-exact", "Bilinear": "bilinear", "Bicubic": "bicubic"}


def _lanczos(tensor: Tensor, dim: int, size: int, align_corners: bool) -> Tensor:
    """One dimension: the 6 elements around each place, those inside of the input, weighted to a sum of 1."""
    length = tensor.shape[dim]
    step, start = length / size, 0.5
    if align_corners:
        step, start = (length - 1) / max(size - 1, 1), 0.0
    place = (torch.arange(size, device=tensor.device, dtype=torch.float64) + start) * step - start
    index = place.floor().long()[:, None] + torch.arange(-2, 4, device=tensor.device)
    distance = place[:, None] - index
    weight = torch.sinc(distance) * torch.sinc(distance / 3)
    weight = torch.where((distance.abs() < 3) & (index >= 0) & (index < length), weight, 0.0)
    weight = (weight / weight.sum(1, keepdim=True)).to(tensor.dtype)
    taken = tensor.index_select(dim, index.clamp(0, length - 1).flatten()).unflatten(dim, (size, 6))
    return (taken * weight.reshape(size, 6, *[1] * (3 - dim))).sum(dim + 1)
