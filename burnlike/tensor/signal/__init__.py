"""Fourier transforms of signals, and the windows that go with them. Complex numbers are two real tensors."""

from .fourier import cfft as cfft, irfft as irfft, rfft as rfft
from .short_time import (
    StftOptions as StftOptions,
    blackman_window as blackman_window,
    hamming_window as hamming_window,
    hann_window as hann_window,
    istft as istft,
    stft as stft,
)
