"""Conversions change the kind and keep the rank."""

from typing import assert_type

from burnlike import D2, D3, Bool, Cpu, Float, Int, Tensor
from burnlike.tensor import FloatDType, IntDType


def kinds(x: Tensor[Cpu, D2], n: Tensor[Cpu, D3, Int], b: Tensor[Cpu, D2, Bool]) -> None:
    assert_type(x.int(), Tensor[Cpu, D2, Int])
    assert_type(x.bool(), Tensor[Cpu, D2, Bool])
    assert_type(n.float(), Tensor[Cpu, D3, Float])
    assert_type(n.bool(), Tensor[Cpu, D3, Bool])
    assert_type(b.int(), Tensor[Cpu, D2, Int])
    assert_type(b.float(), Tensor[Cpu, D2, Float])
    assert_type(b.float().exp().int().float(), Tensor[Cpu, D2, Float])


def element_types(x: Tensor[Cpu, D2], n: Tensor[Cpu, D3, Int], b: Tensor[Cpu, D2, Bool]) -> None:
    assert_type(x.cast(FloatDType.F16), Tensor[Cpu, D2, Float])
    assert_type(x.cast(IntDType.I32), Tensor[Cpu, D2, Int])
    assert_type(n.cast(FloatDType.F64), Tensor[Cpu, D3, Float])
    assert_type(n.cast(IntDType.U8), Tensor[Cpu, D3, Int])
    assert_type(b.cast(IntDType.I64), Tensor[Cpu, D2, Int])
    assert_type(b.cast(FloatDType.BF16), Tensor[Cpu, D2, Float])
    assert_type(x.to_full_precision(), Tensor[Cpu, D2, Float])
