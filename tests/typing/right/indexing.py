"""Slices and selections keep the rank; `select_dim` takes one dimension away, `take` adds those of its indices."""

from typing import assert_type

from burnlike import D1, D2, D3, Bool, Cpu, Float, Int, Tensor


def selected(x: Tensor[Cpu, D3], rows: Tensor[Cpu, D1, Int], places: Tensor[Cpu, D3, Int]) -> None:
    assert_type(x.slice([slice(0, 2), slice(1, 3)]), Tensor[Cpu, D3, Float])
    assert_type(x.slice_dim(0, slice(0, 2)), Tensor[Cpu, D3, Float])
    assert_type(x.select(0, rows), Tensor[Cpu, D3, Float])
    assert_type(x.gather(0, places), Tensor[Cpu, D3, Float])
    assert_type(x.narrow(0, 0, 2), Tensor[Cpu, D3, Float])
    assert_type(x.take(0, rows), Tensor[Cpu, D3, Float])


def of_other_kinds(n: Tensor[Cpu, D2, Int], b: Tensor[Cpu, D2, Bool], rows: Tensor[Cpu, D1, Int]) -> None:
    assert_type(n.select(0, rows), Tensor[Cpu, D2, Int])
    assert_type(b.select(0, rows), Tensor[Cpu, D2, Bool])
    assert_type(b.select_dim(0, 1), Tensor[Cpu, D1, Bool])
    assert_type(n.slice_fill([slice(0, 1)], 3), Tensor[Cpu, D2, Int])
    assert_type(n.slice_assign([slice(0, 1)], n), Tensor[Cpu, D2, Int])
    assert_type(n.one_hot(4), Tensor[Cpu, D3, Int])
