"""Functions that are generic over the backend and the rank."""

from typing import TypeVar, assert_type

from burnlike import D1, D2, D3, Autodiff, Backend, Bool, Cpu, Float, Int, Tensor
from burnlike.tensor import Kind

B = TypeVar("B", bound=Backend)
D = TypeVar("D", bound=int)
K = TypeVar("K", bound=Kind)


def scaled(x: Tensor[B, D], by: float) -> Tensor[B, D]:
    assert_type(x * by, Tensor[B, D, Float])
    return (x * by).exp() + x


def counted(b: Tensor[B, D, Bool]) -> Tensor[B, D1, Int]:
    return b.int().sum()


def reversed_rows(x: Tensor[B, D, K]) -> Tensor[B, D, K]:
    return x.flip([0])


def affine(x: Tensor[B, D2], weight: Tensor[B, D2], bias: Tensor[B, D1]) -> Tensor[B, D2]:
    return x.matmul(weight) + bias.unsqueeze_dim(0)


def filled(backend: B) -> Tensor[B, D3]:
    return Tensor.ones((1, 2, 3), backend)


def used(x: Tensor[Cpu, D2], y: Tensor[Autodiff[Cpu], D3], n: Tensor[Cpu, D2, Int], b: Tensor[Cpu, D3, Bool]) -> None:
    assert_type(scaled(x, 2.0), Tensor[Cpu, D2, Float])
    assert_type(scaled(y, 2.0), Tensor[Autodiff[Cpu], D3, Float])
    assert_type(counted(b), Tensor[Cpu, D1, Int])
    assert_type(reversed_rows(n), Tensor[Cpu, D2, Int])
    assert_type(affine(x, x, x.select_dim(0, 0)), Tensor[Cpu, D2, Float])
    assert_type(filled(Cpu()), Tensor[Cpu, D3, Float])
    assert_type(filled(Autodiff(Cpu())), Tensor[Autodiff[Cpu], D3, Float])
