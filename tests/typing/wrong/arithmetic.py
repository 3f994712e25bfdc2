"""Operands of an operation have one backend, one rank and one kind; Bool tensors have no arithmetic."""

from burnlike import D1, D2, D3, Autodiff, Bool, Cpu, Cuda, Float, Int, Tensor


def mixed_kinds(x: Tensor[Cpu, D2], n: Tensor[Cpu, D2, Int], b: Tensor[Cpu, D2, Bool]) -> None:
    x + n  # error
    n + x  # error
    x * b  # error
    b - x  # error
    x.add(n)  # error
    x.powf(n)  # error
    n + 1.5  # error
    1.5 + n  # error
    n.mul_scalar(0.5)  # error
    n.bitwise_and(x)  # error


def mixed_ranks(x: Tensor[Cpu, D2], y: Tensor[Cpu, D3]) -> None:
    x + y  # error
    y / x  # error
    x.sub(y)  # error
    x.equal(y)  # error


def mixed_backends(x: Tensor[Cpu, D2], y: Tensor[Cuda, D2], z: Tensor[Autodiff[Cpu], D2]) -> None:
    x + y  # error
    x + z  # error
    z + x  # error
    x.matmul(y)  # error


def of_bool(b: Tensor[Cpu, D2, Bool]) -> None:
    b + b  # error
    b.add(b)  # error
    b.sum()  # error
    b + True  # error
    b.matmul(b)  # error
    b.exp()  # error
    b.argmax(0)  # error
    b.greater(b)  # error
    -b  # error


def float_functions_of_int(n: Tensor[Cpu, D2, Int]) -> None:
    n.exp()  # error
    n.sqrt()  # error
    n.powf_scalar(0.5)  # error
    n.is_nan()  # error
    n.var(0)  # error


def int_functions_of_float(x: Tensor[Cpu, D2]) -> None:
    x.bitwise_and(x)  # error
    x.bitwise_not()  # error
    x.bool_not()  # error
    x.nonzero()  # error


def matrices(x: Tensor[Cpu, D3], w: Tensor[Cpu, D2]) -> None:
    x.matmul(w)  # error
    x @ w  # error


def with_other_things(x: Tensor[Cpu, D2]) -> None:
    x + "1"  # error
    x + None  # error
    x.add([1.0])  # error


def wrong_variables(x: Tensor[Cpu, D2], n: Tensor[Cpu, D2, Int]) -> None:
    y: Tensor[Cpu, D1, Float] = x  # error
    z: Tensor[Cpu, D2, Float] = n  # error
    s: Tensor[Cpu, D2] = x.sum()  # error
    i: Tensor[Cpu, D2] = x.argmax(0)  # error
