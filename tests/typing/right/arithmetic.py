"""Arithmetic keeps rank and kind."""

import torch
from typing_extensions import assert_type

from burnlike import D1, D2, Cpu, Float, Int, Tensor


def add(x: Tensor[Cpu, D2], n: Tensor[Cpu, D2, Int], raw: torch.Tensor) -> None:
    assert_type(x.add(x), Tensor[Cpu, D2, Float])
    assert_type(x + 1, Tensor[Cpu, D2, Float])
    assert_type(1.5 + x, Tensor[Cpu, D2, Float])
    assert_type(x + raw, Tensor[Cpu, D2, Float])
    assert_type(x + torch.nn.Parameter(raw), Tensor[Cpu, D2, Float])
    assert_type(n + n, Tensor[Cpu, D2, Int])
    assert_type(n + 1, Tensor[Cpu, D2, Int])
    assert_type(2 + n, Tensor[Cpu, D2, Int])
    assert_type((n + n).sum(), Tensor[Cpu, D1, Int])
    assert_type((x + x).sum(), Tensor[Cpu, D1, Float])
