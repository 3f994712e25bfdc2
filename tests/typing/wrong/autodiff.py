"""Backward passes and gradients exist on Autodiff only."""

from burnlike import D1, D2, Autodiff, Bool, Cpu, Cuda, Gradients, Int, Tensor


def on_cpu(x: Tensor[Cpu, D1], gradients: Gradients) -> None:
    x.backward()  # error
    x.grad(gradients)  # error
    x.grad_remove(gradients)  # error
    x.require_grad()  # error
    x.set_require_grad(True)  # error


def on_autodiff(x: Tensor[Autodiff[Cpu], D2], n: Tensor[Autodiff[Cpu], D2, Int], gradients: Gradients) -> None:
    n.backward()  # error
    n.require_grad()  # error
    x.grad(gradients).exp()  # error
    x.grad()  # error
    tracked: Tensor[Autodiff[Cpu], D2] | None = x.grad(gradients)  # error
    other: Tensor[Autodiff[Cuda], D2] = x  # error
    inner: Tensor[Cpu, D2] = x  # error


def kinds_are_float_unless_given() -> None:
    zeros: Tensor[Cpu, D2, Int] = Tensor.zeros((2, 3), Cpu())  # error
    ones: Tensor[Cpu, D2, Int] = Tensor.ones((2, 3), Cpu())  # error
    full: Tensor[Cpu, D2, Int] = Tensor.full((2, 3), 1.5, Cpu())  # error
    empty: Tensor[Cpu, D2, Bool] = Tensor.empty((2, 3), Cpu())  # error
    data: Tensor[Cpu, D2, Int] = Tensor.from_data([[1.5]], Cpu())  # error
    right: Tensor[Cpu, D2, Int] = Tensor.zeros((2, 3), Cpu(), Int)
