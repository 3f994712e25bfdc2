"""A tensor is never changed: what it wraps can't be replaced."""

import torch

from burnlike import D1, D2, D3, Cpu, Tensor


def program(x: Tensor[Cpu, D2], rows: list[Tensor[Cpu, D2]]) -> None:
    x.inner = torch.zeros(1)  # error
    del x.inner  # error: pyright (mypy knows no deleting of Final)
    x.spec = rows[0].spec  # error
    found: Tensor[Cpu, D2] = Tensor.stack(rows, 0)  # error
    other: Tensor[Cpu, D1] = Tensor.stack(rows, 0)  # error
    right: Tensor[Cpu, D3] = Tensor.stack(rows, 0)
