"""Comparisons give Bool tensors of the same rank; masks choose."""

from typing import assert_type

import torch

from burnlike import D1, D2, Bool, Cpu, Float, Int, Tensor


def compared(x: Tensor[Cpu, D2], n: Tensor[Cpu, D2, Int], raw: torch.Tensor) -> None:
    assert_type(x.equal(x), Tensor[Cpu, D2, Bool])
    assert_type(x.greater(raw), Tensor[Cpu, D2, Bool])
    assert_type(n.lower_equal(n), Tensor[Cpu, D2, Bool])
    assert_type(n.lower_elem(3), Tensor[Cpu, D2, Bool])
    assert_type(x.greater_equal_elem(0.5), Tensor[Cpu, D2, Bool])
    assert_type(x.equal_elem(0.5), Tensor[Cpu, D2, Bool])
    assert_type(x.is_nan(), Tensor[Cpu, D2, Bool])
    assert_type(x.contains_nan(), Tensor[Cpu, D1, Bool])
    assert_type(x.is_close(x), Tensor[Cpu, D2, Bool])
    assert_type(x.all_close(x), bool)


def logic(b: Tensor[Cpu, D2, Bool]) -> None:
    assert_type(b.bool_and(b).bool_or(b).bool_not(), Tensor[Cpu, D2, Bool])
    assert_type(b.equal(b), Tensor[Cpu, D2, Bool])
    assert_type(b.argwhere(), Tensor[Cpu, D2, Int])
    assert_type(b.nonzero(), list[Tensor[Cpu, D1, Int]])


def masks(x: Tensor[Cpu, D2], n: Tensor[Cpu, D2, Int]) -> None:
    assert_type(x.mask_fill(x.lower_elem(0.0), 0.0), Tensor[Cpu, D2, Float])
    assert_type(n.mask_where(n.lower(n), n), Tensor[Cpu, D2, Int])
    assert_type(x.mask_select(x.is_nan()), Tensor[Cpu, D1, Float])
