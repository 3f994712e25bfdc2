"""Fourier transforms and windows."""

# pyright: reportReturnType=false

from typing import Protocol

import torch
from torch import Tensor


class SignalOps(Protocol):
    """Fourier transforms and windows, on Float tensors. Complex numbers are two real tensors."""

    def rfft(self, tensor: Tensor, dim: int, length: int, /) -> tuple[Tensor, Tensor]:
        """The transform along dim, truncated or filled with zeros to `length`: real and imaginary, length // 2 + 1."""

    def irfft(self, real: Tensor, imaginary: Tensor, dim: int, length: int, /) -> Tensor:
        """The real signal of `length` along dim whose rfft is given."""

    def cfft(self, real: Tensor, imaginary: Tensor, dim: int, length: int, /) -> tuple[Tensor, Tensor]:
        """The transform of complex numbers along dim, truncated or filled with zeros to `length`."""

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
    ) -> Tensor:
        """`[B, T] -> [B, frames, freqs, 2]`; window `[win_length]`, None for ones."""

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
    ) -> Tensor:
        """`[B, frames, freqs, 2] -> [B, T]` by overlap and add; `length` cuts or fills with zeros."""

    def cosine_window(
        self, weights: tuple[float, ...], size: int, periodic: bool, dtype: torch.dtype, device: torch.device, /
    ) -> Tensor:
        """`[size]`: the sum of weights[k] cos(2 pi k n / N), N = size if periodic, else size - 1; 1 at size 1."""
