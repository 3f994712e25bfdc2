import pytest
import torch
import torch.nn.functional as F
from torch import Tensor

from burnlike.errors import ShapeError
from burnlike.ops import swiglu

HALVES = (torch.float32, torch.bfloat16, torch.float16)


def torch_swiglu(gate: Tensor, up: Tensor) -> Tensor:
    return F.silu(gate) * up


def test_known_values() -> None:
    # 1 / (1 + e^-1) = 0.731058579, times 3; 2 / (1 + e^-2) = 1.761594156, times -1.
    y = swiglu(torch.tensor([1.0, 2.0]), torch.tensor([3.0, -1.0]))
    torch.testing.assert_close(y, torch.tensor([2.193175736, -1.761594156]))


@pytest.mark.parametrize("dtype", HALVES, ids=str)
@pytest.mark.parametrize("width", [1, 5, 64])
def test_halves_of_a_matrix_are_read_where_they_are_and_their_gradient_is_one_tensor(
    width: int, dtype: torch.dtype
) -> None:
    x = torch.randn(3, 4, 2 * width).to(dtype).requires_grad_()
    gate, up = (it.detach().clone().requires_grad_() for it in x.chunk(2, -1))
    packed, halves, two = swiglu(x), swiglu(*x.chunk(2, -1)), swiglu(gate, up)
    torch.testing.assert_close([packed, halves], [two, two], rtol=0, atol=0)
    seed = torch.randn(3, 4, 2 * width).to(dtype)[..., :width]
    (grad,) = torch.autograd.grad(packed, x, seed)
    assert grad.is_contiguous()
    (through_views,) = torch.autograd.grad(halves, x, seed)
    expected = torch.cat(torch.autograd.grad(two, (gate, up), seed), -1)
    torch.testing.assert_close([grad, through_views], [expected, expected], rtol=0, atol=0)


def test_rows_at_any_distance_and_at_none() -> None:
    torch.manual_seed(0)
    base = torch.randn(6, 5, 40, dtype=torch.float64)
    views = (
        base[:, :, 3:20],
        base[::2, :, :7],
        base[:, 1::2, :1],
        base.transpose(0, 1),
        base[..., ::3],
        base[:1].expand(4, 5, 40),
        base[:, :1, :1].expand(6, 5, 9),
        base[2],
        base[2, 3],
        base[2, 3, 4],
    )
    for gate in views:
        up = torch.randn(gate.shape, dtype=torch.float64)
        torch.testing.assert_close(swiglu(gate, up), torch_swiglu(gate, up))
        torch.testing.assert_close(swiglu(up, gate), torch_swiglu(up, gate))


def test_special_values_are_those_of_torch() -> None:
    special = torch.tensor([0.0, -0.0, torch.inf, -torch.inf, torch.nan, 90.0, -90.0, 1e38, -1e38, 1e-40])
    gate, up = (it.flatten() for it in torch.meshgrid(special, special, indexing="ij"))
    given = [gate.clone().requires_grad_(), up.clone().requires_grad_()]
    actual, expected = swiglu(*given), torch_swiglu(*given)
    torch.testing.assert_close(actual, expected, equal_nan=True, atol=1e-30, rtol=1e-6)
    grads = torch.autograd.grad(actual.sum(), given)
    torch.testing.assert_close(grads, torch.autograd.grad(expected.sum(), given), equal_nan=True, atol=1e-30, rtol=1e-6)


def saved_places(inputs: tuple[Tensor, ...]) -> list[int]:
    """Where the tensors lie that backward keeps."""
    saved: list[Tensor] = []
    with torch.autograd.graph.saved_tensors_hooks(lambda it: saved.append(it) or it, lambda it: it):
        swiglu(*inputs)
    return [it.data_ptr() for it in saved]


def test_only_the_inputs_are_saved() -> None:
    x = torch.randn(64, 64, requires_grad=True)
    for inputs in ((x, torch.randn(64, 64, requires_grad=True)), (x,), x.chunk(2, -1)):
        assert saved_places(inputs) == [it.data_ptr() for it in inputs]


def test_a_gradient_is_taken_of_one_of_two() -> None:
    gate, up = torch.randn(3, 8, requires_grad=True), torch.randn(3, 8)
    swiglu(gate, up).sum().backward()
    other = gate.detach().requires_grad_()
    torch_swiglu(other, up).sum().backward()
    torch.testing.assert_close(gate.grad, other.grad)


def test_wrong_arguments_are_named() -> None:
    with pytest.raises(ShapeError, match=r"swiglu: expected gate \[..., 2 d\].*got \[3, 7\]"):
        swiglu(torch.randn(3, 7))
    with pytest.raises(ShapeError, match=r"got \[\]"):
        swiglu(torch.tensor(1.0))
