"""Operands of an operation have one backend, one rank and one kind; Bool tensors have no arithmetic."""

from burnlike import D1, D2, D3, Autodiff, Bool, Cpu, Cuda, Float, Int, Tensor


def mixed_kinds(x: Tensor[Cpu, D2], n: Tensor[Cpu, D2, Int], b: Tensor[Cpu, D2, Bool]) -> None:
    x + n  # error
    n + x  # error
    x + b  # error
    x.add(n)  # error
    n + 1.5  # error


def mixed_ranks(x: Tensor[Cpu, D2], y: Tensor[Cpu, D3]) -> None:
    x + y  # error


def mixed_backends(x: Tensor[Cpu, D2], y: Tensor[Cuda, D2], z: Tensor[Autodiff[Cpu], D2]) -> None:
    x + y  # error
    x + z  # error
    z + x  # error


def of_bool(b: Tensor[Cpu, D2, Bool]) -> None:
    b + b  # error
    b.add(b)  # error
    b.sum()  # error
    b + True  # error


def wrong_variable(x: Tensor[Cpu, D2], n: Tensor[Cpu, D2, Int]) -> None:
    y: Tensor[Cpu, D1, Float] = x  # error
    z: Tensor[Cpu, D2, Float] = n  # error
