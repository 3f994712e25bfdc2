"""Weights of gates put together, and their gradients apart."""

import pytest
import torch
from torch import Tensor

from burnlike.ops import join_gates, native_status
from burnlike.ops.join_gates import join_gates_reference


def drawn(dtype: torch.dtype, rows: int, columns: int, gates: int = 3) -> list[Tensor]:
    torch.manual_seed(0)
    shapes = [(rows, columns)] * gates + [(columns,)] * gates
    return [torch.randn(shape).to(dtype).requires_grad_() for shape in shapes]


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.bfloat16, torch.float16])
@pytest.mark.parametrize(("rows", "columns"), [(1, 1), (3, 5), (16, 16), (33, 48), (100, 130), (0, 4), (4, 0)])
def test_it_moves_each_value_and_each_gradient_to_its_place(dtype: torch.dtype, rows: int, columns: int) -> None:
    tensors = drawn(dtype, rows, columns)
    before = native_status().calls["join_gates"], native_status().calls["join_gates_backward"]
    results, expected = join_gates(tensors, 3), join_gates_reference(tensors, 3)
    grads = [torch.randn_like(it) for it in results]
    torch.testing.assert_close(results, expected, rtol=0, atol=0)
    found = torch.autograd.grad(results, tensors, grads)
    torch.testing.assert_close(found, torch.autograd.grad(expected, tensors, grads), rtol=0, atol=0)
    after = native_status().calls["join_gates"], native_status().calls["join_gates_backward"]
    assert after == (before[0] + 1, before[1] + 1)


def test_derivatives_of_derivatives() -> None:
    tensors = drawn(torch.float64, 3, 4)

    def function(*given: Tensor) -> tuple[Tensor, ...]:
        return tuple(it.square() for it in join_gates(given, 3))

    assert torch.autograd.gradcheck(function, tensors)
    assert torch.autograd.gradgradcheck(function, tensors)


def test_others_are_left_to_torch() -> None:
    before = native_status().calls["join_gates"]
    tensors = drawn(torch.float32, 3, 4)
    expected = join_gates_reference(tensors, 3)
    with torch.no_grad():
        strided = [it.clone().mT.contiguous().mT if it.dim() == 2 else it for it in tensors]
    torch.testing.assert_close(join_gates(strided, 3), expected)
    compiled = torch.compile(lambda *given: join_gates(given, 3), fullgraph=True, backend="eager")
    torch.testing.assert_close([*compiled(*tensors)], expected)
    batched = torch.func.vmap(lambda *given: tuple(join_gates(given, 3)))(*(torch.stack((it, it)) for it in tensors))
    torch.testing.assert_close([it[1] for it in batched], expected)
    assert native_status().calls["join_gates"] == before


@pytest.mark.parametrize(
    ("shapes", "gates", "message"),
    [
        ([(2, 3), (2, 3)], 0, "of each kind"),
        ([(2, 3)], 2, "of each kind"),
        ([(2, 3), (3, 2)], 2, "one shape"),
        ([(2, 3, 1), (2, 3, 1)], 2, "matrices and vectors"),
        ([(), ()], 2, "matrices and vectors"),
    ],
)
def test_the_kernel_refuses_other_lists(shapes: list[tuple[int, ...]], gates: int, message: str) -> None:
    with pytest.raises(RuntimeError, match=message):
        torch.ops.burnlike.join_gates.default([torch.zeros(it) for it in shapes], gates)


def test_the_backward_kernel_refuses_other_gradients() -> None:
    kernel = torch.ops.burnlike.join_gates_backward.default
    for grads, gates, message in (
        ([torch.zeros(5, 2)], 2, "rows of 2 gates"),
        ([torch.zeros(4, 2).mT], 2, "contiguous"),
        ([torch.zeros(4, 2), torch.zeros(4, 2).double()], 2, "one dtype"),
    ):
        with pytest.raises(RuntimeError, match=message):
            kernel(grads, gates)
