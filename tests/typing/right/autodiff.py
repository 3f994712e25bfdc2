"""Gradients are on the inner backend, or missing."""

from typing import TypeVar, assert_type

from burnlike import D1, D2, Autodiff, Backend, Cpu, Float, Gradients, Int, Tensor

B = TypeVar("B", bound=Backend)


def step(w: Tensor[Autodiff[Cpu], D2], rate: float) -> Tensor[Autodiff[Cpu], D2]:
    gradients = (w * w).sum().backward()
    assert_type(gradients, Gradients)
    grad = w.grad(gradients)
    assert_type(grad, Tensor[Cpu, D2, Float] | None)
    if grad is None:
        return w
    values = w.without_autodiff()
    assert_type(values, Tensor[Cpu, D2, Float])
    assert_type(Tensor.from_inner(values - grad * rate), Tensor[Autodiff[Cpu], D2, Float])
    return Tensor.from_inner(values - grad * rate).require_grad()


def on_the_decorator(x: Tensor[Autodiff[Cpu], D1], n: Tensor[Autodiff[Cpu], D1, Int], g: Gradients) -> None:
    assert_type(x.require_grad(), Tensor[Autodiff[Cpu], D1, Float])
    assert_type(x.set_require_grad(False).detach(), Tensor[Autodiff[Cpu], D1, Float])
    assert_type(x.grad_remove(g), Tensor[Cpu, D1, Float] | None)
    assert_type(n.without_autodiff(), Tensor[Cpu, D1, Int])
    assert_type(x.backend.inner_backend, Cpu)


def decorated(x: Tensor[Cpu, D2]) -> None:
    assert_type(x.autodiff(), Tensor[Autodiff[Cpu], D2, Float])
    assert_type(Autodiff(Cpu()), Autodiff[Cpu])
    assert_type(Tensor.zeros((2, 3), Autodiff(Cpu())).require_grad(), Tensor[Autodiff[Cpu], D2, Float])


def generic(loss: Tensor[Autodiff[B], D1], w: Tensor[Autodiff[B], D2]) -> Tensor[B, D2] | None:
    return w.grad(loss.backward())
