"""Fourier transforms of signals, and the windows that go with them. Complex numbers are two real tensors."""

from .fourier import cfft, irfft, rfft
from .short_time import StftOptions, blackman_window, hamming_window, hann_window, istft, stft

__all__ = ["StftOptions", "blackman_window", "cfft", "hamming_window", "hann_window", "irfft", "istft", "rfft", "stft"]
