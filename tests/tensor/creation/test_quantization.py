"""Symmetric quantization; numbers of Burn's tests and of the formulas q = round(x / scale), x' = q * scale."""

from typing import Any

import pytest
import torch

from burnlike import Cpu, Tensor
from burnlike.errors import TensorTypeError, TensorValueError
from burnlike.tensor.core.dtypes import FloatDType
from burnlike.tensor.quantization import Block, QuantScheme

from ..made import floats

Q8S = QuantScheme(value="Q8S")


def test_given_scales() -> None:
    quantized = floats([-1.8, -1.0, 0.0, 0.5]).quantize(Q8S, floats([0.014173228]))
    assert quantized.values.inner.tolist() == [-127, -71, 0, 35]
    assert quantized.values.dtype is torch.int8
    assert quantized.scales.inner.tolist() == floats([0.014173228]).inner.tolist()


def test_scales_of_the_tensors_own_range() -> None:
    quantized = floats([5.0, 0.0, 4.0, -12.7]).quantize_dynamic(Q8S)
    assert quantized.values.inner.tolist() == [50, 0, 40, -127]
    torch.testing.assert_close(quantized.scales.inner, torch.tensor([0.1]))


@pytest.mark.parametrize("value", ["Q8F", "Q8S", "Q4F", "Q4S", "Q2F", "Q2S"])
@pytest.mark.parametrize("level", ["Tensor", Block(4), Block(2, 4)])
def test_dequantized_values_are_within_half_a_step(value: Any, level: Any) -> None:
    x = torch.randn(3, 4, 8)
    quantized = Tensor(x, Cpu()).quantize_dynamic(QuantScheme(value=value, level=level))
    low, high = quantized.scheme.range
    assert low <= int(quantized.values.inner.min())
    assert int(quantized.values.inner.max()) <= high
    scales = quantized.scales.inner
    if isinstance(level, Block):
        assert scales.shape == ((3, 4, 2) if level == Block(4) else (3, 2, 2))
        scales = scales.repeat_interleave(4, 2)
        scales = scales.repeat_interleave(2, 1) if level == Block(2, 4) else scales
    # A full range (-8 .. 7) has no integer for its largest positive value: that one is off by up to half a step more.
    error = (quantized.dequantize().inner - x).abs() / scales
    assert float(error.max()) <= (0.5 if value.endswith("S") else 0.5 + 0.5) + 1e-5


def test_block_scales_are_those_of_each_block() -> None:
    x = floats([[1.27, 0.0, 12.7, 0.1]])
    quantized = x.quantize_dynamic(QuantScheme(value="Q8S", level=Block(2)))
    torch.testing.assert_close(quantized.scales.inner, torch.tensor([[0.01, 0.1]]))
    assert quantized.values.inner.tolist() == [[127, 0, 127, 1]]
    again = x.quantize(quantized.scheme, floats([0.01, 0.1]))
    assert again.values.inner.tolist() == quantized.values.inner.tolist()


def test_zeros_stay_zeros() -> None:
    assert floats([0.0, 0.0]).quantize_dynamic(Q8S).dequantize().inner.tolist() == [0.0, 0.0]


def test_results_have_the_backends_float_type() -> None:
    backend = Cpu(float=torch.bfloat16)
    quantized = Tensor(torch.tensor([1.0, -2.0], dtype=torch.bfloat16), backend).quantize_dynamic(
        QuantScheme(param=FloatDType.F16)
    )
    assert quantized.scales.dtype is torch.float16
    assert quantized.dequantize().dtype is torch.bfloat16
    assert quantized.backend == backend
    assert quantized.shape == (2,)


def test_a_plain_tensor_dequantizes_to_itself() -> None:
    x = floats([1.0])
    assert x.dequantize() is x
    with pytest.raises(TensorTypeError, match="expected a Float tensor"):
        Tensor(torch.tensor([1]), Cpu()).dequantize()


def test_what_does_not_fit_is_refused() -> None:
    x = floats([[1.0, 2.0, 3.0]])
    with pytest.raises(TensorValueError, match=r"Block\(2\) divides, got shape \[1, 3\]"):
        x.quantize_dynamic(QuantScheme(level=Block(2)))
    with pytest.raises(TensorValueError, match=r"Block\(1, 1, 3\) divides"):
        x.quantize_dynamic(QuantScheme(level=Block(1, 1, 3)))
    with pytest.raises(TensorValueError, match="expected 1 scales"):
        x.quantize(Q8S, floats([1.0, 2.0]))
    with pytest.raises(TensorTypeError, match="expected a Float tensor"):
        Tensor(torch.tensor([1, 2]), Cpu()).quantize_dynamic(Q8S)
    with pytest.raises(TensorValueError, match="value: expected one of"):
        QuantScheme(value="Q5")  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]
    with pytest.raises(TensorTypeError, match="expected a QuantScheme"):
        x.quantize_dynamic("Q8S")  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]
    with pytest.raises(TensorValueError, match="block sizes of 1 or more"):
        Block(0)
    with pytest.raises(TensorValueError, match="has no range"):
        floats([]).quantize_dynamic(Q8S)


def test_ties_are_rounded_away_from_zero() -> None:
    x = floats([-3.0, 1.0, 2.0, 0.1]).quantize_dynamic(QuantScheme())
    assert x.dequantize().inner.tolist() == pytest.approx([-3.0117648, 1.0117648, 2.0, 0.0941176])
    halves = [0.5, -0.5, 1.5, -1.5, 2.5, 0.49999997, 126.5, 200.0, -200.0, float("inf"), float("nan")]
    wanted = [1, -1, 2, -2, 3, 0, 127, 127, -127, 127, 0]
    assert floats(halves).quantize(Q8S, floats([1.0])).values.inner.tolist() == wanted
    blocks = QuantScheme(value="Q8S", level=Block(1))
    assert floats(halves).quantize(blocks, floats([1.0] * len(halves))).values.inner.tolist() == wanted
