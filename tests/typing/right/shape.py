"""Operations that change the rank say so; those that do not, keep rank and kind."""

from typing import Any, assert_type

from burnlike import D1, D2, D3, D4, D5, Bool, Cpu, Float, Int, Tensor


def reshape(x: Tensor[Cpu, D2], n: Tensor[Cpu, D2, Int], shape: list[int]) -> None:
    assert_type(x.reshape((6,)), Tensor[Cpu, D1, Float])
    assert_type(x.reshape((1, 2, 3)), Tensor[Cpu, D3, Float])
    assert_type(x.reshape(-1), Tensor[Cpu, D1, Float])
    assert_type(x.reshape(3, 2), Tensor[Cpu, D2, Float])
    assert_type(n.reshape(1, 1, 2, 3), Tensor[Cpu, D4, Int])
    assert_type(x.reshape(shape), Tensor[Cpu, Any, Float])


def one_more(x: Tensor[Cpu, D2], b: Tensor[Cpu, D1, Bool]) -> None:
    assert_type(x.unsqueeze_dim(0), Tensor[Cpu, D3, Float])
    assert_type(b.unsqueeze_dim(-1), Tensor[Cpu, D2, Bool])
    assert_type(x.unsqueeze(rank=4), Tensor[Cpu, D4, Float])
    assert_type(b.unsqueeze(rank=5), Tensor[Cpu, D5, Bool])
    assert_type(x.unfold(0, 2, 1), Tensor[Cpu, D3, Float])
    assert_type(Tensor.stack([x, x], 0), Tensor[Cpu, D3, Float])
    assert_type(Tensor.stack([b, b], 0), Tensor[Cpu, D2, Bool])


def one_less(x: Tensor[Cpu, D3], n: Tensor[Cpu, D2, Int]) -> None:
    assert_type(x.squeeze_dim(1), Tensor[Cpu, D2, Float])
    assert_type(n.squeeze_dim(0), Tensor[Cpu, D1, Int])
    assert_type(x.select_dim(0, 1), Tensor[Cpu, D2, Float])


def same(x: Tensor[Cpu, D3], n: Tensor[Cpu, D2, Int]) -> None:
    assert_type(x.transpose(), Tensor[Cpu, D3, Float])
    assert_type(n.t(), Tensor[Cpu, D2, Int])
    assert_type(x.swap_dims(0, 1).permute((2, 0, 1)).flip([0]), Tensor[Cpu, D3, Float])
    assert_type(x.repeat_dim(0, 2).narrow(0, 0, 1), Tensor[Cpu, D3, Float])
    assert_type(Tensor.cat([n, n], 0), Tensor[Cpu, D2, Int])
    assert_type(x.chunk(2, 0), list[Tensor[Cpu, D3, Float]])
    assert_type(n.split(2, 0), list[Tensor[Cpu, D2, Int]])


def iterated(n: Tensor[Cpu, D2, Int]) -> None:
    for row in n.iter_dim(0):
        assert_type(row, Tensor[Cpu, D2, Int])


def expanded(x: Tensor[Cpu, D2]) -> None:
    assert_type(x.expand((4, 2, 3)), Tensor[Cpu, D3, Float])
    assert_type(x.expand((2, 3)), Tensor[Cpu, D2, Float])
