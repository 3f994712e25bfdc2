import pytest
import torch
import torch.nn.functional as F
from torch import Tensor
from torch._subclasses.fake_tensor import FakeTensorMode

from burnlike.errors import DeviceError, DTypeError, ShapeError
from burnlike.ops import swiglu, swiglu_reference

HALVES = (torch.float32, torch.bfloat16, torch.float16)


def torch_swiglu(gate: Tensor, up: Tensor) -> Tensor:
    return F.silu(gate) * up


def test_agrees_with_torch_in_float64() -> None:
    gate, up = torch.randn(7, 50, dtype=torch.float64), torch.randn(7, 50, dtype=torch.float64)
    expected = torch_swiglu(gate, up)
    for actual in (swiglu(gate, up), swiglu(torch.cat([gate, up], -1)), swiglu_reference(gate, up)):
        torch.testing.assert_close(actual, expected)


def test_known_values() -> None:
    # 1 / (1 + e^-1) = 0.731058579, times 3; 2 / (1 + e^-2) = 1.761594156, times -1.
    y = swiglu(torch.tensor([1.0, 2.0]), torch.tensor([3.0, -1.0]))
    torch.testing.assert_close(y, torch.tensor([2.193175736, -1.761594156]))


@pytest.mark.parametrize("dtype", HALVES, ids=str)
def test_errors_are_no_larger_than_those_of_torch(dtype: torch.dtype) -> None:
    torch.manual_seed(0)
    inputs = [(3 * torch.randn(200, 256)).to(dtype).requires_grad_() for _ in range(2)]
    seed = torch.randn(200, 256).to(dtype)
    exact_inputs = [it.detach().double().requires_grad_() for it in inputs]
    exact_y = torch_swiglu(*exact_inputs)
    exact = [exact_y, *torch.autograd.grad(exact_y, exact_inputs, seed.double())]

    def errors(y: Tensor) -> list[float]:
        found = [y, *torch.autograd.grad(y, inputs, seed)]
        return [(one.double() - other).square().mean().item() for one, other in zip(found, exact, strict=True)]

    ours, theirs = errors(swiglu(*inputs)), errors(torch_swiglu(*inputs))
    assert all(one <= 1.02 * other for one, other in zip(ours, theirs, strict=True))


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


@pytest.mark.parametrize("packed", [True, False])
def test_second_derivatives_are_those_of_torch(packed: bool) -> None:
    torch.manual_seed(0)
    inputs = [torch.randn(3, 8, dtype=torch.float64, requires_grad=True) for _ in range(1 if packed else 2)]
    assert torch.autograd.gradgradcheck(swiglu, inputs)


def test_a_gradient_is_taken_of_one_of_two() -> None:
    gate, up = torch.randn(3, 8, requires_grad=True), torch.randn(3, 8)
    swiglu(gate, up).sum().backward()
    other = gate.detach().requires_grad_()
    torch_swiglu(other, up).sum().backward()
    torch.testing.assert_close(gate.grad, other.grad)


def test_meta_tensors_give_shapes() -> None:
    y = swiglu(torch.empty(2, 3, 8, device="meta", dtype=torch.bfloat16))
    assert (y.shape, y.dtype, y.device.type) == ((2, 3, 4), torch.bfloat16, "meta")


def test_wrong_arguments_are_named() -> None:
    with pytest.raises(ShapeError, match=r"swiglu: expected up of shape \[3, 8\], got \[8\]"):
        swiglu(torch.randn(3, 8), torch.ones(8))
    with pytest.raises(ShapeError, match=r"swiglu: expected gate \[..., 2 d\].*got \[3, 7\]"):
        swiglu(torch.randn(3, 7))
    with pytest.raises(ShapeError, match=r"got \[\]"):
        swiglu(torch.tensor(1.0))
    with pytest.raises(DTypeError, match=r"expected gate of dtype float32 or .*, got int64"):
        swiglu(torch.ones(3, 8, dtype=torch.int64))
    with pytest.raises(DTypeError, match=r"expected up of dtype float32, got bfloat16"):
        swiglu(torch.ones(3, 8), torch.ones(3, 8, dtype=torch.bfloat16))
    with pytest.raises(DeviceError, match=r"expected up on cpu, got meta"):
        swiglu(torch.ones(3, 8), torch.ones(3, 8, device="meta"))
    with FakeTensorMode(), pytest.raises(DeviceError, match=r"cpu or cuda device, got mps.*swiglu_reference"):
        swiglu(torch.empty(3, 8, device="mps"))


@pytest.mark.parametrize("dynamic", [False, True])
def test_compiles_for_changing_shapes(dynamic: bool) -> None:
    torch.compiler.reset()
    compiled = torch.compile(swiglu, fullgraph=True, dynamic=dynamic, backend="aot_eager")
    for rows in (2, 5, 9):
        x = torch.randn(rows, 16, requires_grad=True)
        y = compiled(x)
        torch.testing.assert_close(y, swiglu(x), rtol=0, atol=0)
        y.sum().backward()
        assert x.grad is not None
