"""Indices are Int tensors, masks Bool tensors; Bool has no order and no one-hot code, and logic is for Bool only."""

from burnlike import D2, Bool, Cpu, Int, Tensor


def kinds(x: Tensor[Cpu, D2], n: Tensor[Cpu, D2, Int], b: Tensor[Cpu, D2, Bool]) -> None:
    b.greater(b)  # error
    _ = b < b  # error
    b.one_hot(2)  # error
    b.gather_nd(n)  # error
    b.scatter_nd(n, b, "Add")  # error
    x.nonzero()  # error
    x & x  # error
    ~n  # error


def operands(x: Tensor[Cpu, D2], n: Tensor[Cpu, D2, Int], b: Tensor[Cpu, D2, Bool]) -> None:
    x.equal(n)  # error
    _ = x == n  # error
    x.select(0, n)  # error
    x.gather(0, b)  # error
    x.mask_where(x, x)  # error
    x.mask_where(b, n)  # error
    x.mask_fill(x, 0.0)  # error
    x.scatter(1, n, x, "Sub")  # error
