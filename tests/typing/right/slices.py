"""Forms of slices, updates, operators of comparison and logic."""

from typing import assert_type

import torch

from burnlike import D1, D2, D3, D4, Bool, Cpu, Float, Int, Tensor
from burnlike.tensor import IndexingUpdateOp, Slice, s


def forms(x: Tensor[Cpu, D2]) -> None:
    assert_type(x.slice(s[0:2, ::-1]), Tensor[Cpu, D2, Float])
    assert_type(x.slice([0, slice(1, 2)]), Tensor[Cpu, D2, Float])
    assert_type(x.slice([[0, None, 2], Slice(1)]), Tensor[Cpu, D2, Float])
    assert_type(x.slice([[0, 2], [0, 3]]), Tensor[Cpu, D2, Float])
    assert_type(x.slice("0..2;-1"), Tensor[Cpu, D2, Float])
    assert_type(x.slice_dim(0, [0, 2]), Tensor[Cpu, D2, Float])


def updates(x: Tensor[Cpu, D2], n: Tensor[Cpu, D2, Int], rows: Tensor[Cpu, D1, Int]) -> None:
    assert_type(x.scatter(1, n, x, "Add"), Tensor[Cpu, D2, Float])
    assert_type(x.scatter(1, n, x, IndexingUpdateOp.Max), Tensor[Cpu, D2, Float])
    assert_type(n.select_assign(1, rows, n, "Mul"), Tensor[Cpu, D2, Int])
    assert_type(x.scatter_nd(n, x, "Assign"), Tensor[Cpu, D2, Float])


def ranks(x: Tensor[Cpu, D2], n: Tensor[Cpu, D2, Int], places: Tensor[Cpu, D3, Int]) -> None:
    assert_type(x.take(0, n), Tensor[Cpu, D3, Float])
    assert_type(x.take(0, places), Tensor[Cpu, D4, Float])
    assert_type(n.one_hot_fill(3, 1.0, 0.0, -1), Tensor[Cpu, D3, Int])


def operators(x: Tensor[Cpu, D2], n: Tensor[Cpu, D2, Int], b: Tensor[Cpu, D2, Bool], raw: torch.Tensor) -> None:
    assert_type(x == x, Tensor[Cpu, D2, Bool])
    assert_type(x != 3.0, Tensor[Cpu, D2, Bool])
    assert_type(x < raw, Tensor[Cpu, D2, Bool])
    assert_type(n >= 2, Tensor[Cpu, D2, Bool])
    assert_type((~b & b) | (b ^ True), Tensor[Cpu, D2, Bool])


def masks(backend: Cpu) -> None:
    assert_type(Tensor.triu_mask((2, 3), 0, backend), Tensor[Cpu, D2, Bool])
    assert_type(Tensor.tril_mask((1, 1, 2, 3), 0, backend), Tensor[Cpu, D4, Bool])
