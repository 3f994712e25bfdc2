"""Fourier transforms of signals, and the windows that go with them. Complex numbers are two real tensors."""

import torch

from ...errors import TensorTypeError, TensorValueError
from ..core.axes import axis
from ..core.base import B2, E, Tensor, derive
from ..core.kinds import Float
from ..core.operands import float_spec, tensor_operand


def rfft(
    signal: "Tensor[B2, E, Float]", dim: int, n: int | None = None
) -> "tuple[Tensor[B2, E, Float], Tensor[B2, E, Float]]":
    """The Fourier transform of real numbers along `dim`: real and imaginary parts. `[.., n, ..] -> [.., n/2+1, ..]`.

    Args:
        signal: what to transform.
        dim: the dimension.
        n: the length, a power of two, to which the signal is cut or filled with zeros; by default its own.

    Torch: `torch.fft.rfft(x, n, dim)`.
    Differs: two real tensors; lengths are powers of two.

    Raises:
        TensorValueError: the length is no power of two.
    """
    spec = float_spec("rfft", signal)
    place = axis("Rfft", dim, spec.rank)
    length = _power_of_two("Rfft", signal.inner.shape[place] if n is None else n)
    real, imaginary = spec.module.rfft(signal.inner, place, length)
    return derive(real, spec), derive(imaginary, spec)


def irfft(
    spectrum_re: "Tensor[B2, E, Float]",
    spectrum_im: "Tensor[B2, E, Float] | torch.Tensor",
    dim: int,
    n: int | None = None,
) -> "Tensor[B2, E, Float]":
    """The real signal whose `rfft` along `dim` is given. `[.., n/2+1, ..] -> [.., n, ..]`.

    Args:
        spectrum_re: the real part.
        spectrum_im: the imaginary part, of the same shape.
        dim: the dimension.
        n: the length of the result, a power of two; by default 2 (size - 1).

    Torch: `torch.fft.irfft(x, n, dim)`.
    Differs: two real tensors; lengths are powers of two.

    Raises:
        TensorValueError: the length is no power of two, or the shapes differ.
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
    signal_re: "Tensor[B2, E, Float]",
    signal_im: "Tensor[B2, E, Float] | torch.Tensor",
    dim: int,
    n: int | None = None,
) -> "tuple[Tensor[B2, E, Float], Tensor[B2, E, Float]]":
    """The Fourier transform of complex numbers along `dim`: real and imaginary parts. `[.., n, ..] -> [.., n, ..]`.

    Args:
        signal_re: the real part.
        signal_im: the imaginary part, of the same shape.
        dim: the dimension.
        n: the length, a power of two, to which the signal is cut or filled with zeros; by default its own.

    Torch: `torch.fft.fft(x, n, dim)`.
    Differs: two real tensors; lengths are powers of two.

    Raises:
        TensorValueError: the length is no power of two, or the shapes differ.
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
