"""Fourier transforms, their frames and windows, against torch's."""

import math
from typing import Any

import pytest
import torch

from burnlike import Autodiff, Cpu, Tensor
from burnlike.errors import TensorTypeError, TensorValueError
from burnlike.tensor import StftOptions, signal

from ..made import typed

CPU = Cpu()
DOUBLE = {"dtype": torch.float64}


@pytest.mark.parametrize(("size", "n"), [(8, None), (1, None), (6, 8), (6, 4), (6, 16), (5, 1)])
def test_transforms_cut_or_fill_to_the_length(size: int, n: int | None) -> None:
    real, imaginary = torch.randn(3, size, 2, **DOUBLE), torch.randn(3, size, 2, **DOUBLE)
    length = n or size
    wanted = torch.fft.rfft(real, length, 1)
    found = [part.inner for part in signal.rfft(typed(real), -2, n)]
    torch.testing.assert_close(torch.complex(*found), wanted)
    found = [part.inner for part in signal.cfft(typed(real), typed(imaginary), 1, n)]
    torch.testing.assert_close(torch.complex(*found), torch.fft.fft(torch.complex(real, imaginary), length, 1))


def test_irfft_restores_the_signal_whose_rfft_it_gets() -> None:
    x = torch.randn(2, 16)
    real, imaginary = signal.rfft(typed(x), 1)
    torch.testing.assert_close(signal.irfft(real, imaginary, 1).inner, x)
    spectrum = torch.complex(real.inner, imaginary.inner)
    for n in (8, 32):
        torch.testing.assert_close(signal.irfft(real, imaginary, 1, n).inner, torch.fft.irfft(spectrum, n, 1))


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_halves_are_transformed_in_float32_and_keep_their_dtype(dtype: torch.dtype) -> None:
    x = torch.randn(2, 8).to(dtype)
    real, imaginary = signal.rfft(typed(x), 1)
    assert real.dtype is imaginary.dtype is dtype
    wanted = torch.fft.rfft(x.float(), dim=1)
    torch.testing.assert_close(real.inner, wanted.real.to(dtype))
    torch.testing.assert_close(imaginary.inner, wanted.imag.to(dtype))
    assert signal.irfft(real, imaginary, 1).dtype is dtype
    assert signal.cfft(typed(x), typed(x), 1)[0].dtype is dtype
    frames = signal.stft(typed(x), None, StftOptions(4))
    assert frames.dtype is signal.istft(frames, None, None, StftOptions(4)).dtype is dtype


def test_lengths_that_are_no_power_of_two_are_refused() -> None:
    x = typed(torch.ones(6))
    with pytest.raises(TensorValueError, match="n must be a power of two, got 6; n=8 fills with zeros, n=4 cuts"):
        signal.rfft(x, 0)
    with pytest.raises(TensorValueError, match="power of two, got 10"):
        signal.irfft(x, x, 0)
    with pytest.raises(TensorValueError, match="power of two, got 12"):
        signal.cfft(x, x, 0, 12)
    with pytest.raises(TensorValueError, match="n must be >= 1, got 0"):
        signal.rfft(x, 0, 0)
    with pytest.raises(TensorValueError, match="n must be >= 1, got 0"):
        signal.irfft(typed(torch.ones(1)), typed(torch.ones(1)), 0)
    assert signal.irfft(typed(torch.ones(1)), typed(torch.zeros(1)), 0, 1).inner.tolist() == [1]
    with pytest.raises(TensorValueError, match="empty"):
        signal.irfft(typed(torch.ones(0)), typed(torch.ones(0)), 0, 4)


def test_parts_of_different_shapes_kinds_and_dims_outside_are_refused() -> None:
    x = typed(torch.ones(4))
    for transform in (signal.cfft, signal.irfft):
        with pytest.raises(TensorValueError, match="same shape"):
            transform(x, typed(torch.ones(2)), 0)
    with pytest.raises(TensorValueError, match="dimension 1 is outside"):
        signal.rfft(x, 1)
    with pytest.raises(TensorTypeError, match="Float"):
        signal.rfft(typed(torch.ones(4, dtype=torch.int64)), 0)  # pyright: ignore


def test_transforms_have_derivatives() -> None:
    ops = CPU.module_ops
    x, y = torch.randn(2, 8, requires_grad=True, **DOUBLE), torch.randn(2, 8, requires_grad=True, **DOUBLE)
    assert torch.autograd.gradcheck(lambda a: ops.rfft(a, 1, 8), (x,))
    assert torch.autograd.gradcheck(lambda a, b: ops.cfft(a, b, 1, 4), (x, y))
    assert torch.autograd.gradcheck(lambda a, b: ops.irfft(a, b, 1, 16), (x, y))
    window = torch.hann_window(4, **DOUBLE).requires_grad_()
    assert torch.autograd.gradcheck(lambda a, w: ops.stft(a, w, 4, 2, 4, True, True), (x, window))
    frames = torch.randn(2, 3, 3, 2, requires_grad=True, **DOUBLE)
    weights = torch.rand(4, **DOUBLE).add(0.5).requires_grad_()
    assert torch.autograd.gradcheck(lambda a, w: ops.istft(a, w, 4, 2, 4, False, True, 6), (frames, weights))


def test_derivatives_reach_a_tracked_tensor() -> None:
    x = Tensor(torch.randn(8, requires_grad=True), Autodiff(CPU))
    real, imaginary = signal.rfft(x, 0)
    (real.inner.square() + imaginary.inner.square()).sum().backward()
    # Parseval: bins 1 to 3 stand for two each, so the sum is half of n sum x^2 and the ends count half again.
    spectrum = torch.fft.rfft(x.inner.detach())
    spectrum[1:-1] = spectrum[1:-1] / 2
    torch.testing.assert_close(x.inner.grad, 2 * 8 * torch.fft.irfft(spectrum))


@pytest.mark.parametrize("onesided", [True, False])
@pytest.mark.parametrize("center", [True, False])
@pytest.mark.parametrize(("hop", "win_length"), [(2, None), (3, 6), (1, 5), (8, 8)])
def test_stft_is_torch_in_another_layout(hop: int, win_length: int | None, center: bool, onesided: bool) -> None:
    x, window = torch.randn(2, 24, **DOUBLE), torch.rand(win_length or 8, **DOUBLE)
    options = StftOptions(8, hop, win_length, center, onesided)
    wanted = torch.stft(
        x, 8, hop, win_length, window, center, onesided=onesided, return_complex=True, pad_mode="reflect"
    )
    found = signal.stft(typed(x), typed(window), options)
    assert found.spec.rank == 4
    torch.testing.assert_close(found.inner, torch.view_as_real(wanted.transpose(1, 2)))


@pytest.mark.parametrize("onesided", [True, False])
@pytest.mark.parametrize("center", [True, False])
def test_istft_restores_the_signal(center: bool, onesided: bool) -> None:
    x, window = torch.randn(2, 24, **DOUBLE), torch.rand(6, **DOUBLE) + 0.5
    options = StftOptions(8, 2, 6, center, onesided)
    frames = signal.stft(typed(x), typed(window), options)
    restored = signal.istft(frames, typed(window), 24, options).inner
    assert restored.shape == x.shape
    inside = slice(None) if center else slice(1, 23)  # the window is 0 at both ends of a frame
    torch.testing.assert_close(restored[:, inside], x[:, inside])


def test_istft_cuts_or_fills_with_zeros_to_the_length() -> None:
    x = torch.randn(1, 8)
    options = StftOptions(4, 2, center=False)
    frames = signal.stft(typed(x), None, options)
    assert signal.istft(frames, None, None, options).inner.shape == (1, 8)
    torch.testing.assert_close(signal.istft(frames, None, 5, options).inner, x[:, :5])
    torch.testing.assert_close(signal.istft(frames, None, 10, options).inner, torch.cat([x, torch.zeros(1, 2)], 1))


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (StftOptions(), "n_fft must be a power of two, got 400"),
        (StftOptions(0, 1), "n_fft must be >= 1"),
        (StftOptions(4, 0), "hop_length must be >= 1"),
        (StftOptions(4, 5), r"hop_length \(5\) must be <= win_length \(4\)"),
        (StftOptions(4, 2, 8), "win_length must be >= 1 and <= n_fft"),
        (StftOptions(4, 1, 0), "win_length"),
        (StftOptions(32, 1, center=True), "reflect pad"),
        (StftOptions(16, 1, center=False), r"signal length \(10\) must be >= n_fft \(16\)"),
        (StftOptions(4, 1, 3), r"window length \(4\)"),
    ],
)
def test_stft_refuses_what_does_not_fit(options: StftOptions, message: str) -> None:
    with pytest.raises(TensorValueError, match=message):
        signal.stft(typed(torch.ones(1, 10)), typed(torch.ones(4)) if options.n_fft == 4 else None, options)


@pytest.mark.parametrize(
    ("shape", "message"),
    [((1, 2, 4, 2), "n_freqs"), ((1, 2, 3, 1), "must be 2"), ((1, 0, 3, 2), "at least one frame")],
)
def test_istft_refuses_other_shapes(shape: tuple[int, ...], message: str) -> None:
    with pytest.raises(TensorValueError, match=message):
        signal.istft(typed(torch.zeros(shape)), None, None, StftOptions(4))


@pytest.mark.parametrize("periodic", [True, False])
@pytest.mark.parametrize("size", [0, 1, 2, 7, 16])
def test_windows_follow_their_formulas(size: int, periodic: bool) -> None:
    backend = Cpu(float=torch.float64)
    hann = signal.hann_window(size, periodic, backend).inner
    torch.testing.assert_close(hann, torch.hann_window(size, periodic, **DOUBLE))
    torch.testing.assert_close(
        signal.blackman_window(size, periodic, backend).inner, torch.blackman_window(size, periodic, **DOUBLE)
    )
    steps = max(size if periodic else size - 1, 1)
    wanted = [25 / 46 - 21 / 46 * math.cos(2 * math.pi * n / steps) if size > 1 else 1.0 for n in range(size)]
    torch.testing.assert_close(signal.hamming_window(size, periodic, backend).inner, torch.tensor(wanted, **DOUBLE))


def test_windows_take_the_dtype_of_the_backend_or_their_own() -> None:
    assert signal.hann_window(4, True, CPU).dtype is torch.float32
    assert signal.hann_window(4, True, CPU, torch.bfloat16).dtype is torch.bfloat16
    with pytest.raises(TensorTypeError, match="Float"):
        signal.hann_window(4, True, CPU, torch.int32)
    with pytest.raises(TensorValueError, match="-1"):
        signal.hann_window(-1, True, CPU)


@pytest.mark.parametrize("backend", [CPU, Autodiff(CPU)])
def test_no_signals_transform_to_no_signals(backend: Any) -> None:
    x = Tensor(torch.zeros(0, 8, 0), backend)
    assert [list(part.shape) for part in signal.rfft(x, 1)] == [[0, 5, 0]] * 2
    assert [list(part.shape) for part in signal.cfft(x, x, -2, 4)] == [[0, 4, 0]] * 2
    assert list(signal.irfft(x, x, 1, 16).shape) == [0, 16, 0]
    silence = Tensor(torch.zeros(0, 8), backend)
    for onesided in (True, False):
        options = StftOptions(n_fft=4, hop_length=2, onesided=onesided)
        frames = signal.stft(silence, None, options)
        assert list(frames.shape) == [0, 5, 3 if onesided else 4, 2]
        assert list(signal.istft(frames, None, None, options).shape) == [0, 8]
