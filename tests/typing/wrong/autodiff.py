"""Backward passes and gradients exist on Autodiff only."""

from burnlike import D1, D2, Autodiff, Cpu, Cuda, Gradients, Int, Tensor


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
