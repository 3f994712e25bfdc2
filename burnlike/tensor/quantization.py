"""Symmetric quantization: Float tensors as small integers with a scale for all, or one for each block."""

import dataclasses
from collections.abc import Sequence
from typing import Any, Generic, Literal, TypeAlias

import torch

from ..errors import TensorTypeError, TensorValueError
from .core.base import B, D, FloatLike, Floats, K, Tensor, TensorBase, derive, wrap
from .core.dtypes import FloatDType
from .core.kinds import Float, Int
from .core.operands import float_spec, operand_of
from .core.spec import Spec

QuantValue: TypeAlias = Literal["Q8F", "Q8S", "Q4F", "Q4S", "Q2F", "Q2S"]
# The smallest and the largest integer; S is symmetric around 0, F uses the full range of the bits.
_RANGES: dict[str, tuple[int, int]] = {
    "Q8F": (-128, 127),
    "Q8S": (-127, 127),
    "Q4F": (-8, 7),
    "Q4S": (-7, 7),
    "Q2F": (-2, 1),
    "Q2S": (-1, 1),
}


@dataclasses.dataclass(frozen=True, init=False, repr=False)
class Block:
    """One scale for each block of elements.

    Attributes:
        sizes: elements of a block along the last dimensions, in their order; 1 along those before.
    """

    sizes: tuple[int, ...]

    def __init__(self, *sizes: int) -> None:
        """Choose the sizes. Raises TensorValueError: none, or one below 1."""
        if not sizes or min(sizes) < 1:
            raise TensorValueError("Quantize", f"expected block sizes of 1 or more, got {list(sizes)}")
        object.__setattr__(self, "sizes", sizes)

    def __repr__(self) -> str:
        return f"Block({', '.join(map(str, self.sizes))})"


@dataclasses.dataclass(frozen=True, kw_only=True)
class QuantScheme:
    """A scheme of quantization. Always symmetric: zero is 0, and there is no zero point.

    Attributes:
        value: the integers: 8, 4 or 2 bits, `F` the full range (-128 .. 127), `S` a symmetric one (-127 .. 127).
        level: one scale for the tensor, or for each block.
        param: the element type of the scales.
    """

    value: QuantValue = "Q8F"
    level: Literal["Tensor"] | Block = "Tensor"
    param: FloatDType = FloatDType.F32

    def __post_init__(self) -> None:
        if self.value not in _RANGES:
            raise TensorValueError("Quantize", f"value: expected one of {', '.join(_RANGES)}, got {self.value!r}")
        if self.level != "Tensor" and not isinstance(self.level, Block):
            raise TensorValueError("Quantize", f"level: expected 'Tensor' or a Block, got {self.level!r}")

    @property
    def range(self) -> tuple[int, int]:
        """The smallest and the largest integer."""
        return _RANGES[self.value]


class QTensor(Generic[B, D]):
    """A quantized tensor. `dequantize()` gives the Float tensor that all operations take.

    Attributes:
        values: the integers, in int8 whatever the scheme's bits.
        scales: `[1]`, or one for each block: `[size // block, ..]`.
        scheme: how it was quantized.
    """

    __slots__ = ("scales", "scheme", "values")

    def __init__(self, values: "Tensor[B, D, Int]", scales: "Tensor[B, Any, Float]", scheme: QuantScheme) -> None:
        self.values = values
        self.scales = scales
        self.scheme = scheme

    @property
    def shape(self) -> torch.Size:
        """The sizes."""
        return self.values.inner.shape

    @property
    def backend(self) -> B:
        """The backend that its operations run on."""
        return self.values.backend

    def dequantize(self) -> "Tensor[B, D, Float]":
        """Value times scale, in the backend's float type. `[..] -> [..]`, never tracked."""
        spec: Spec = self.values.spec.float
        block = _block(self.scheme, self.shape)
        return wrap(spec.ops.dequantize(self.values.inner, self.scales.inner, block, spec.dtype), spec)

    def __repr__(self) -> str:
        return f"QTensor(shape={list(self.shape)}, scheme={self.scheme}, backend={self.backend!r})"


class QuantizationMethods(TensorBase[B, D, K]):
    """Symmetric quantization."""

    __slots__ = ()

    def quantize(self: "Floats[B, D]", scheme: QuantScheme, scales: "FloatLike[B, Any]") -> QTensor[B, D]:
        """round(x * (1 / scale)) within the scheme's range, ties away from zero. `[..] -> QTensor [..]`.
        Scales are one for the tensor, or one for each block in row-major order.
        Torch: none. Differs: a `QTensor`, not a Tensor; operations take what its `dequantize()` gives.
        Raises TensorValueError: sizes that the blocks don't divide, or another number of scales.
        Raises TensorTypeError: scales that are no Float tensor.
        """
        spec = float_spec("quantize", self)
        block = _block(scheme, self.inner.shape)
        shape = [1] if block is None else [size // each for size, each in zip(self.inner.shape, block, strict=True)]
        scale_values = operand_of("quantize", scales, spec, any_rank=True)
        if scale_values.numel() != torch.Size(shape).numel():
            raise TensorValueError(
                "Quantize",
                f"expected {torch.Size(shape).numel()} scales, {shape}, got shape {list(scale_values.shape)}",
            )
        scales_spec = spec.family[scheme.param.value][len(shape)]
        fitting = spec.ops.cast(spec.ops.reshape(scale_values, shape), scheme.param.value)
        values = spec.ops.quantize(self.inner, fitting, block, *scheme.range)
        return QTensor(derive(values, spec), wrap(fitting, scales_spec), scheme)

    def quantize_dynamic(self: "Floats[B, D]", scheme: QuantScheme) -> QTensor[B, D]:
        """`quantize` with the scales of the tensor's own range. `[..] -> QTensor [..]`. Torch: none.
        Differs: as `quantize`; symmetric only.
        Raises TensorValueError: sizes that the blocks don't divide, or no elements.
        """
        spec = float_spec("quantize_dynamic", self)
        if self.inner.numel() == 0:
            raise TensorValueError("Quantize Dynamic", f"a tensor of shape {list(self.inner.shape)} has no range")
        block = _block(scheme, self.inner.shape)
        low, high = scheme.range
        scales = spec.ops.quantization_scales(self.inner, block, high - low, scheme.param.value)
        values = spec.ops.quantize(self.inner, scales, block, low, high)
        return QTensor(derive(values, spec), derive(scales, spec), scheme)

    def dequantize(self: "Floats[B, D]") -> "Tensor[B, D, Float]":
        """The tensor itself: only a `QTensor` is quantized. Torch: `x.dequantize()`."""
        float_spec("dequantize", self)
        return self  # pyright: ignore[reportReturnType]


def compute_q_params(
    scheme: QuantScheme, minimum: "Tensor[B, D, Float]", maximum: "Tensor[B, D, Float]"
) -> "Tensor[B, D, Float]":
    """The scales of ranges: 2 * max(|min|, |max|) / (largest - smallest integer). `[..], [..] -> [..]`. Torch: none."""
    low, high = scheme.range
    largest = minimum.abs().max_pair(maximum.abs())
    return largest.mul(2.0).div(float(high - low)).cast(scheme.param)


def _block(scheme: QuantScheme, shape: Sequence[int]) -> tuple[int, ...] | None:
    """The block's size in each dimension of `shape`; None for one scale."""
    if not isinstance(scheme, QuantScheme):  # pyright: ignore[reportUnnecessaryIsInstance]
        raise TensorTypeError("Quantize", f"expected a QuantScheme, such as QuantScheme(), got {scheme!r}")
    if not isinstance(scheme.level, Block):
        return None
    sizes = scheme.level.sizes
    block = (*[1] * (len(shape) - len(sizes)), *sizes)
    if len(block) != len(shape) or any(size % each for size, each in zip(shape, block, strict=True)):
        raise TensorValueError(
            "Quantize",
            f"expected sizes that {scheme.level!r} divides, got shape {list(shape)}; pad it or choose another",
        )
    return block
