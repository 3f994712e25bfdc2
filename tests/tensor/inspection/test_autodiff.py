"""Tracking and gradients, against torch's own in float64."""

import threading
import warnings
from typing import Any

import pytest
import torch

import burnlike as bl
from burnlike import Autodiff, AutodiffBackend, Cpu, Tensor
from burnlike.errors import TensorTypeError, TensorValueError
from burnlike.tensor import checkpoint
from tests.backend.functional_autodiff import FunctionalAutodiff

DOUBLE = Cpu(float=torch.float64)
BACKEND = Autodiff(DOUBLE)


def leaf(*values: float) -> Tensor[Any, Any]:
    return Tensor(torch.tensor(values, dtype=torch.float64), BACKEND).require_grad()


def test_backward_gives_the_gradients_of_the_leaves_which_are_in_their_grad_too() -> None:
    x, y = leaf(1.0, 2.0), leaf(3.0, 5.0)
    grads = (x * y).sum().backward()
    assert x.grad(grads).inner.tolist() == [3.0, 5.0]
    assert y.grad(grads).inner.tolist() == [1.0, 2.0]
    assert x.grad(grads).backend == DOUBLE
    assert x.inner.grad is x.grad(grads).inner
    assert len(grads) == 2


def test_a_loss_of_any_shape_is_seeded_with_ones() -> None:
    x = leaf(1.0, 2.0)
    assert x.grad((x * x).backward()).inner.tolist() == [2.0, 4.0]


def test_what_was_in_grad_is_put_back_when_the_backward_pass_fails() -> None:
    x = leaf(1.0, 2.0)
    mark = x.inner.grad = torch.tensor([7.0, 7.0], dtype=torch.float64)

    class Fails(torch.autograd.Function):
        @staticmethod
        def forward(ctx: Any, value: torch.Tensor) -> torch.Tensor:
            return value.clone()

        @staticmethod
        def backward(ctx: Any, *grads: Any) -> Any:
            raise ArithmeticError("no derivative here")

    with pytest.raises(ArithmeticError, match="no derivative"):
        Tensor(Fails.apply(x.inner), BACKEND).backward()
    assert x.inner.grad is mark
    assert mark.tolist() == [7.0, 7.0]


def test_gradients_of_results_are_none_and_each_pass_has_its_own_container() -> None:
    x = leaf(1.0, 2.0)
    square = x * x
    grads = square.sum().backward()
    assert square.grad(grads) is None
    again = (x * 3.0).sum().backward()
    assert x.grad(grads).inner.tolist() == [2.0, 4.0]
    assert x.grad(again).inner.tolist() == [3.0, 3.0]


def test_grad_remove_takes_out_and_grad_replace_overwrites() -> None:
    x = leaf(1.0, 2.0)
    grads = (x * x).backward()
    x.grad_replace(grads, Tensor(torch.tensor([9.0, 8.0], dtype=torch.float64), DOUBLE))
    assert x.grad_remove(grads).inner.tolist() == [9.0, 8.0]
    assert x.grad(grads) is None
    assert len(grads) == 0
    with pytest.raises(TensorValueError, match=r"expected a gradient of shape \[2\], got \[1\]"):
        x.grad_replace(grads, Tensor(torch.ones(1, dtype=torch.float64), DOUBLE))


def test_a_consumed_graph_is_refused_before_anything_is_computed() -> None:
    x, y = leaf(2.0), leaf(3.0)
    shared = x * y
    fresh = (x * x).exp()
    shared.exp().backward()
    with pytest.raises(TensorValueError, match=r"consumed at .* by an earlier backward"):
        (shared * fresh).backward()
    # The branch of its own is whole.
    assert x.grad(fresh.backward()).inner.item() == pytest.approx(4.0 * torch.e**4)


def test_untracked_and_plain_tensors_have_no_backward() -> None:
    with pytest.raises(TensorValueError, match="not tracked"):
        Tensor(torch.ones(2), BACKEND).sum().backward()
    with pytest.raises(TensorTypeError, match=r"call autodiff\(\) first"):
        Tensor(torch.ones(2), DOUBLE).backward()  # pyright: ignore
    plain = Tensor(torch.ones(2, dtype=torch.float64), DOUBLE)
    with pytest.raises(TensorTypeError, match="autodiff"):
        plain.require_grad()
    assert plain.grad(bl.Gradients()) is None  # pyright: ignore


def test_a_hessian_by_two_backward_passes() -> None:
    def f(x: Any) -> Any:
        return (x * x * x).sum() + (x.exp() * x.sum()).sum()

    x = leaf(0.3, -0.7, 1.1)
    grad = x.grad(f(x).backward(create_graph=True))
    rows = []
    for index in range(3):
        seed = torch.zeros(3, dtype=torch.float64)
        seed[index] = 1.0
        rows.append(x.grad((grad * seed).sum().backward(create_graph=True)).inner.detach())
    expected = torch.autograd.functional.hessian(lambda t: (t**3).sum() + (t.exp() * t.sum()).sum(), x.inner.detach())
    torch.testing.assert_close(torch.stack(rows), expected)
    assert x.inner.grad is None


@pytest.mark.parametrize("steps", [1, 4])
def test_graphs_that_depend_on_data(steps: int) -> None:
    x = leaf(0.5, 2.0)
    y = x
    for _ in range(steps):
        y = y * x if bool((y.sum() < 10.0).inner) else y + x
    t = x.inner.detach().clone().requires_grad_()
    u = t
    for _ in range(steps):
        u = u * t if u.sum() < 10.0 else u + t
    u.sum().backward()
    assert torch.equal(x.grad(y.backward()).inner, t.grad)


def test_leaves_detach_and_flags() -> None:
    x = leaf(1.0, 2.0)
    y = x * x
    assert x.is_require_grad()
    assert not y.is_require_grad()
    assert y.is_tracked()
    assert not y.detach().is_tracked()
    assert x.detach().is_require_grad()
    assert x.detach().inner is not x.inner
    assert not x.set_require_grad(False).is_tracked()
    assert x.require_grad() is x
    with pytest.raises(TensorValueError, match=r"detach\(\) it first"):
        y.require_grad()
    assert x.is_autodiff()
    assert not x.without_autodiff().is_autodiff()
    assert x.without_autodiff().backend == DOUBLE
    assert not x.without_autodiff().inner.requires_grad
    assert Tensor.from_inner(x.without_autodiff()).backend == BACKEND
    assert x.autodiff() is x
    assert x.clone().grad((x * x).backward()) is not None


def test_marking_a_leaf_does_not_change_the_tensor() -> None:
    x = Tensor(torch.ones(2, dtype=torch.float64), BACKEND)
    y = x.require_grad()
    assert y.is_tracked()
    assert not x.is_tracked()
    assert y.inner.data_ptr() == x.inner.data_ptr()


def test_checkpoint_recomputes_and_gives_the_same_gradients() -> None:
    calls = []

    def block(t: Any) -> Any:
        calls.append(1)
        return (t * t).exp()

    x = leaf(0.3, 0.4)
    grads = checkpoint(block, x).sum().backward()
    assert len(calls) == 2
    torch.testing.assert_close(x.grad(grads).inner, x.grad(block(x).sum().backward()).inner)


def test_exceptions_that_are_no_complaint_about_operands_pass_as_they_came() -> None:
    class Refuses(torch.Tensor):
        @classmethod
        def __torch_function__(cls, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
            if getattr(func, "__name__", "") == "mul":
                raise torch.OutOfMemoryError("no memory left")
            return super().__torch_function__(func, types, args, kwargs)

    x = Tensor(torch.ones(2).as_subclass(Refuses), Cpu())
    with pytest.raises(torch.OutOfMemoryError, match="no memory left"):
        x * 2.0


def test_reentrant_checkpointing_is_refused() -> None:
    weight = torch.nn.Parameter(torch.ones(2, dtype=torch.float64))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # torch's own remark, which comes first
        with pytest.raises(TensorTypeError, match="use_reentrant=False"):
            torch.utils.checkpoint.checkpoint(lambda t: t * weight, leaf(0.3, 0.4), use_reentrant=True)


def test_tracked_tensors_move_between_threads() -> None:
    x = leaf(1.0, 2.0)
    results: list[Any] = []
    tensors = [x * float(index) for index in range(1, 5)]

    def work(tensor: Any) -> None:
        results.append(tensor * tensor)

    threads = [threading.Thread(target=work, args=(tensor,)) for tensor in tensors]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    total = results[0]
    for result in results[1:]:
        total = total + result
    backward: list[Any] = []
    thread = threading.Thread(target=lambda: backward.append(total.sum().backward()))
    thread.start()
    thread.join()
    assert x.grad(backward[0]).inner.tolist() == [60.0, 120.0]


def test_on_a_backend_that_does_not_track_nothing_requires_grad() -> None:
    x = Tensor(torch.rand(2, 3))
    weight = torch.nn.Parameter(torch.rand(2, 3))
    square = torch.nn.Parameter(torch.rand(3, 3))
    results = [
        x + weight,
        weight + x,
        x.mul(weight),
        x.matmul(square),
        x.mask_where(Tensor(torch.rand(2, 3) > 0.5), weight),
        torch.add(x, weight),
        torch.nn.functional.linear(x, square),
        torch.nn.Linear(3, 4)(x),
        bl.nn.LinearConfig(d_input=3, d_output=4).init()(x),
        bl.nn.RmsNormConfig(d_model=3).init()(x),
        bl.nn.SwiGluConfig(d_input=3, d_output=4).init()(x),
        Tensor(weight, Cpu()),
        Tensor.cat([x, Tensor(weight, Cpu())], 0),
    ]
    for result in results:
        assert isinstance(result, Tensor)
        assert not result.inner.requires_grad
        assert result.backend == Cpu()
    assert weight.requires_grad


def test_layers_on_an_autodiff_backend_give_gradients_of_their_parameters() -> None:
    layer = bl.nn.LinearConfig(d_input=3, d_output=2).init()
    x = torch.rand(4, 3)
    grads = layer(Tensor(x, Autodiff(Cpu()))).sum().backward()
    torch.testing.assert_close(grads.get(layer.weight), x.sum(0)[:, None].expand(3, 2))
    assert layer.weight.grad is grads.get(layer.weight)


def test_both_implementations_satisfy_the_protocol_and_agree() -> None:
    for backend in (BACKEND, FunctionalAutodiff(DOUBLE)):
        assert isinstance(backend, AutodiffBackend)
        x = Tensor(torch.tensor([0.5, 1.5], dtype=torch.float64), backend).require_grad()
        grads = (x.exp() * x).sum().backward()
        values = x.inner.detach()
        torch.testing.assert_close(x.grad(grads).inner, values.exp() * (values + 1))
        assert x.grad(grads).backend == DOUBLE
        tracked = x.grad((x * x * x).sum().backward(create_graph=True))
        torch.testing.assert_close(x.grad(tracked.sum().backward()).inner, 6 * values)
