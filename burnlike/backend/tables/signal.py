"""Fourier transforms and windows."""

from typing import Protocol

import torch
from torch import Tensor


class SignalOps(Protocol):
    """Fourier transforms and windows, on Float tensors. Complex numbers are two real tensors."""

    @staticmethod
    def rfft(tensor: Tensor, dim: int, length: int, /) -> tuple[Tensor, Tensor]:
        """The transform along dim, truncated or filled with zeros to `length`: real and imaginary, length // 2 + 1."""
        ...

    @staticmethod
    def irfft(real: Tensor, imaginary: Tensor, dim: int, length: int, /) -> Tensor:
        """The real signal of `length` along dim whose rfft is given."""
        ...

    @staticmethod
    def cfft(real: Tensor, imaginary: Tensor, dim: int, length: int, /) -> tuple[Tensor, Tensor]:
        """The transform of complex numbers along dim, truncated or filled with zeros to `length`."""
        ...

    @staticmethod
    def stft(
        signal: Tensor, window: Tensor | None, n_fft: int, hop: int, win_length: int, center: bool, onesided: bool, /
    ) -> Tensor:
        """`[B, T] -> [B, frames, freqs, 2]`; window `[win_length]`, None for ones."""
        ...

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
        """`[B, frames, freqs, 2] -> [B, T]` by overlap and add; `length` cuts or fills with zeros."""
        ...

    @staticmethod
    def cosine_window(
        weights: tuple[float, ...], size: int, periodic: bool, dtype: torch.dtype, device: torch.device, /
    ) -> Tensor:
        """`[size]`: the sum of weights[k] cos(2 pi k n / N), N = size if periodic, else size - 1; 1 at size 1."""
        ...
