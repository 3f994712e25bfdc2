"""Arithmetic keeps rank and kind; scalars and torch tensors may be on either side."""

from typing import assert_type

import torch

from burnlike import D1, D2, D3, Cpu, Float, Int, Tensor


def of_float(x: Tensor[Cpu, D2], raw: torch.Tensor, weight: torch.nn.Parameter) -> None:
    assert_type(x.add(x), Tensor[Cpu, D2, Float])
    assert_type(x + 1, Tensor[Cpu, D2, Float])
    assert_type(x - x, Tensor[Cpu, D2, Float])
    assert_type(x * 0.5, Tensor[Cpu, D2, Float])
    assert_type(x / x, Tensor[Cpu, D2, Float])
    assert_type(x % 2.0, Tensor[Cpu, D2, Float])
    assert_type(-x, Tensor[Cpu, D2, Float])
    assert_type(1.5 + x, Tensor[Cpu, D2, Float])
    assert_type(1 - x, Tensor[Cpu, D2, Float])
    assert_type(2 * x, Tensor[Cpu, D2, Float])
    assert_type(1.0 / x, Tensor[Cpu, D2, Float])
    assert_type(x.powf(x), Tensor[Cpu, D2, Float])
    assert_type(x.powf_scalar(0.5), Tensor[Cpu, D2, Float])
    assert_type(x.powi_scalar(2), Tensor[Cpu, D2, Float])
    assert_type(x + raw, Tensor[Cpu, D2, Float])
    assert_type(x * weight, Tensor[Cpu, D2, Float])
    assert_type(x.sub(raw), Tensor[Cpu, D2, Float])


def of_int(n: Tensor[Cpu, D3, Int], raw: torch.Tensor) -> None:
    assert_type(n + n, Tensor[Cpu, D3, Int])
    assert_type(n - 1, Tensor[Cpu, D3, Int])
    assert_type(2 * n, Tensor[Cpu, D3, Int])
    assert_type(n / 2, Tensor[Cpu, D3, Int])
    assert_type(n % 2, Tensor[Cpu, D3, Int])
    assert_type(3 - n, Tensor[Cpu, D3, Int])
    assert_type(-n, Tensor[Cpu, D3, Int])
    assert_type(n.abs(), Tensor[Cpu, D3, Int])
    assert_type(n.mul(raw), Tensor[Cpu, D3, Int])
    assert_type(n.bitwise_and(n), Tensor[Cpu, D3, Int])
    assert_type(n.bitwise_or_scalar(1), Tensor[Cpu, D3, Int])
    assert_type(n.bitwise_not(), Tensor[Cpu, D3, Int])
    assert_type(n.matmul(n), Tensor[Cpu, D3, Int])


def elementary(x: Tensor[Cpu, D2]) -> None:
    assert_type(x.exp(), Tensor[Cpu, D2, Float])
    assert_type(x.log().sqrt().tanh().square().clamp(0.0, 1.0), Tensor[Cpu, D2, Float])
    assert_type(x.atan2(x), Tensor[Cpu, D2, Float])
    assert_type(x.sign().round().abs(), Tensor[Cpu, D2, Float])


def chain(x: Tensor[Cpu, D2], w: Tensor[Cpu, D2], b: Tensor[Cpu, D1]) -> Tensor[Cpu, D2]:
    assert_type(x.matmul(w), Tensor[Cpu, D2, Float])
    assert_type(x @ w, Tensor[Cpu, D2, Float])
    return (x.matmul(w) + b.unsqueeze_dim(0)).exp() / 2.0
