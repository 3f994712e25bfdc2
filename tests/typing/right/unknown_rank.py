"""Where the rank is not known (a shape that is a list, a generic rank), programs stay free of complaints."""

from typing import Any, TypeVar, assert_type

from burnlike import D1, D2, D3, Backend, Bool, Cpu, Float, Int, Tensor

B = TypeVar("B", bound=Backend)
D = TypeVar("D", bound=int)


def any_rank(x: Tensor[Cpu, Any], n: Tensor[Cpu, Any, Int], shape: list[int]) -> None:
    assert_type(x.reshape(shape), Tensor[Cpu, Any, Float])
    assert_type(x.reshape(2, 3), Tensor[Cpu, D2, Float])
    assert_type(x.sum(), Tensor[Cpu, D1, Float])
    assert_type(x.sum_dim(0) + x, Tensor[Cpu, Any, Float])
    assert_type(n.argmax(0), Tensor[Cpu, Any, Int])
    assert_type(x.greater_elem(0.0), Tensor[Cpu, Any, Bool])
    assert_type(Tensor.zeros(shape, Cpu()), Tensor[Cpu, Any, Float])
    assert_type(Tensor.cat([x, x], 0), Tensor[Cpu, Any, Float])
    rows: Tensor[Cpu, D2] = x  # to say the rank is enough, and mypy needs it before the rank is changed
    assert_type(rows + x, Tensor[Cpu, D2, Float])
    assert_type(rows.unsqueeze_dim(0), Tensor[Cpu, D3, Float])


def generic_rank(x: Tensor[B, D]) -> None:
    assert_type(x.squeeze_dim(0), Tensor[B, Any, Float])
    assert_type(x.unsqueeze_dim(0), Tensor[B, Any, Float])
    assert_type(x.reshape(-1).sum_dim(0), Tensor[B, D1, Float])
