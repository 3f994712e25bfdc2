"""Einstein summation: what equations mean, and which are refused."""

import pytest
import torch

from burnlike import Autodiff, Cpu, Tensor
from burnlike.errors import TensorTypeError, TensorValueError

from ..made import typed

CPU = Cpu()
EQUATIONS = [
    ("ij,jk->ik", [(2, 3), (3, 4)]),
    ("ij,jk", [(2, 3), (3, 4)]),
    ("ba", [(2, 3)]),
    ("bA", [(2, 3)]),
    (" i j , j -> i ", [(2, 3), (3,)]),
    ("ii->i", [(3, 3)]),
    ("iij->j", [(3, 3, 2)]),
    ("ii,jk->ki", [(3, 3), (2, 4)]),
    ("bij,bjk->bik", [(2, 3, 4), (2, 4, 5)]),
    ("bij,bjk->bik", [(1, 3, 4), (2, 4, 5)]),
    ("ij,ij->", [(2, 3), (2, 3)]),
    ("ij->", [(2, 3)]),
    ("i,j,k->kji", [(2,), (3,), (4,)]),
    ("ij,jk,kl->il", [(2, 3), (3, 4), (4, 2)]),
    ("...ij,jk->...ik", [(2, 3, 4), (4, 5)]),
    ("...ij,jk->i...k", [(5, 2, 3, 4), (4, 5)]),
    ("...i,...i", [(2, 1, 3), (4, 3)]),
    ("i...,...j->ij...", [(2, 4, 5), (5, 3)]),
    ("...i->i", [(2, 4, 3)]),
    ("i->...i", [(3,)]),
    ("...,...->...", [(2, 3), (3,)]),
    ("ij,jk->ik", [(2, 1), (3, 4)]),
    ("ij,jk->ik", [(2, 0), (0, 4)]),
    ("ij,kl->", [(2, 3), (1, 4)]),
    ("ij,ik->", [(2, 3), (2, 4)]),
]


@pytest.mark.parametrize("dtype", [torch.float64, torch.int32, torch.uint8])
@pytest.mark.parametrize(("equation", "shapes"), EQUATIONS)
def test_einsum_is_torch_with_scalars_of_rank_1(
    equation: str, shapes: list[tuple[int, ...]], dtype: torch.dtype
) -> None:
    operands = [torch.randint(0, 3, shape).to(dtype) for shape in shapes]
    wanted = torch.einsum(equation, [it.double() for it in operands]).to(dtype)
    found = Tensor.einsum(equation, [typed(it) for it in operands])
    assert found.dtype is dtype
    assert torch.equal(found.inner, wanted if wanted.ndim else wanted.reshape(1))


@pytest.mark.parametrize("dtype", [torch.float32, torch.int16])
def test_an_empty_subscript_is_a_scalar_of_shape_1(dtype: torch.dtype) -> None:
    two, three, vector = (torch.tensor(data, dtype=dtype) for data in ([2], [3], [1, 2]))
    assert Tensor.einsum("", [typed(two)]).inner.tolist() == [2]
    assert Tensor.einsum(",i,", [typed(two), typed(vector), typed(three)]).inner.tolist() == [6, 12]
    assert Tensor.einsum(",->", [typed(two), typed(three)]).inner.tolist() == [6]


def test_off_diagonal_values_do_not_reach_a_diagonal() -> None:
    x = torch.tensor([[1.0, float("nan")], [float("inf"), 2.0]])
    assert Tensor.einsum("ii->i", [typed(x)]).inner.tolist() == [1.0, 2.0]


def test_einsum_has_derivatives() -> None:
    x, y = torch.randn(2, 3, 3, dtype=torch.float64), torch.randn(3, 4, dtype=torch.float64)
    backend = Autodiff(CPU)

    def run(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
        return Tensor.einsum("bii,ik->bk", [Tensor(a, backend), Tensor(b, backend)]).inner

    assert torch.autograd.gradcheck(run, (x.requires_grad_(), y.requires_grad_()))


@pytest.mark.parametrize(
    ("equation", "shapes", "message"),
    [
        ("i1", [(2,)], "invalid character '1' at 1"),
        ("i,j->k?", [(2,), (2,)], r"invalid character '\?' at 6"),
        ("i->i->i", [(2,)], "invalid character '-'"),
        ("i->i,i", [(2,)], "invalid character ','"),
        ("i\tj", [(2, 2)], "invalid character"),
        ("é", [(2,)], "invalid character 'é' at 0"),
        (". . .", [(2,)], "dot at 0 is not part of an ellipsis"),
        ("i->..", [(2,)], "dot at 3"),
        ("...i...", [(2,)], "more than one ellipsis in the same subscript"),
        ("....", [(2,)], "more than one ellipsis"),
        ("ij->k", [(2, 2)], "output subscript k does not appear in any input operand"),
        ("ij->ii", [(2, 2)], "output subscript i appears more than once"),
        ("ij,jk", [(2, 2)], "operand count does not match the equation"),
        ("ij", [(2,)], "rank of operand 0 does not match its subscripts"),
        ("ij...,k", [(2,), (2,)], "operand 0 has fewer dimensions than subscripts"),
        ("", [(2,)], r"scalar operand 0 must have shape \[1\]"),
        (",i", [(1, 1), (2,)], "scalar operand 0"),
        ("ii", [(2, 3)], "repeated subscripts must have equal dimensions"),
        ("ii", [(1, 3)], "repeated subscripts must have equal dimensions"),
        (
            "ij,jk->ik",
            [(2, 3), (4, 5)],
            "incompatible broadcast dimensions for label 'j': operand 0 has size 3, operand 1 has size 4",
        ),
        ("...i,...i", [(2, 3), (3, 3)], "incompatible broadcast dimensions for dimension -1 of the ellipsis"),
        ("abcd,efghi->abcdefghi", [(1,) * 4, (1,) * 5], "rank 9"),
    ],
)
def test_einsum_refuses_what_does_not_fit(equation: str, shapes: list[tuple[int, ...]], message: str) -> None:
    with pytest.raises(TensorValueError, match=message):
        Tensor.einsum(equation, [typed(torch.zeros(shape)) for shape in shapes])


def test_einsum_refuses_operands_that_differ_and_none() -> None:
    x = typed(torch.ones(2))
    with pytest.raises(TensorValueError, match="at least one operand"):
        Tensor.einsum("i", [])
    with pytest.raises(TensorTypeError, match="different kinds"):
        Tensor.einsum("i,i", [x, typed(torch.ones(2, dtype=torch.int64))])
    with pytest.raises(TensorTypeError, match="different element types"):
        Tensor.einsum("i,ij", [x, typed(torch.ones(2, 2, dtype=torch.float64))])
    with pytest.raises(TensorTypeError, match="different backends"):
        Tensor.einsum("i,i", [x, Tensor(torch.ones(2), Cpu(float=torch.float64))])
    with pytest.raises(TensorTypeError, match="Bool"):
        Tensor.einsum("i", [typed(torch.tensor([True]))])
    with pytest.raises(TensorTypeError, match="float"):
        Tensor.einsum("i,", [x, 2.0])  # pyright: ignore
    for rank in (0, 9):
        with pytest.raises(TensorTypeError, match=f"rank {rank} has no typed form"):
            Tensor.einsum("i,...", [x, torch.zeros([1] * rank)])  # pyright: ignore
    with pytest.raises(TensorTypeError, match="expected Tensors"):
        Tensor.einsum("i", [2.0])  # pyright: ignore
    with pytest.raises(TensorTypeError, match="as a string"):
        Tensor.einsum(["i"], [x])  # pyright: ignore
