"""Fourier transforms and windows; coordinates of grids, and images resampled at other places."""

from collections.abc import Sequence
from typing import Protocol

import torch
from torch import Tensor


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
