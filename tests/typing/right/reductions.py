"""Full reductions have rank 1; those along a dimension keep the rank; indices are Int."""

from typing import assert_type

from burnlike import D1, D2, D3, Bool, Cpu, Float, Int, Tensor


def full(x: Tensor[Cpu, D3], n: Tensor[Cpu, D2, Int], b: Tensor[Cpu, D2, Bool]) -> None:
    assert_type(x.sum(), Tensor[Cpu, D1, Float])
    assert_type(n.sum(), Tensor[Cpu, D1, Int])
    assert_type(x.mean(), Tensor[Cpu, D1, Float])
    assert_type(x.prod(), Tensor[Cpu, D1, Float])
    assert_type(n.max(), Tensor[Cpu, D1, Int])
    assert_type(x.min(), Tensor[Cpu, D1, Float])
    assert_type(x.any(), Tensor[Cpu, D1, Bool])
    assert_type(b.all(), Tensor[Cpu, D1, Bool])


def along_a_dimension(x: Tensor[Cpu, D3], n: Tensor[Cpu, D2, Int], b: Tensor[Cpu, D2, Bool]) -> None:
    assert_type(x.sum_dim(1), Tensor[Cpu, D3, Float])
    assert_type(n.sum_dim(-1), Tensor[Cpu, D2, Int])
    assert_type(x.mean_dim(0).max_dim(1), Tensor[Cpu, D3, Float])
    assert_type(x.cumsum(0), Tensor[Cpu, D3, Float])
    assert_type(x.var(0), Tensor[Cpu, D3, Float])
    assert_type(x.var_mean(0), tuple[Tensor[Cpu, D3, Float], Tensor[Cpu, D3, Float]])
    assert_type(b.any_dim(0), Tensor[Cpu, D2, Bool])


def indices(x: Tensor[Cpu, D3], n: Tensor[Cpu, D2, Int]) -> None:
    assert_type(x.argmax(1), Tensor[Cpu, D3, Int])
    assert_type(n.argmin(0), Tensor[Cpu, D2, Int])
    assert_type(x.argsort(1), Tensor[Cpu, D3, Int])
    assert_type(x.topk(2, 1), Tensor[Cpu, D3, Float])
    assert_type(x.topk_with_indices(2, 1), tuple[Tensor[Cpu, D3, Float], Tensor[Cpu, D3, Int]])
    assert_type(n.max_dim_with_indices(0), tuple[Tensor[Cpu, D2, Int], Tensor[Cpu, D2, Int]])
    assert_type(x.sort_with_indices(0), tuple[Tensor[Cpu, D3, Float], Tensor[Cpu, D3, Int]])
    values, places = x.topk_with_indices(2, 1)
    assert_type(x.gather(1, places).add(values), Tensor[Cpu, D3, Float])
