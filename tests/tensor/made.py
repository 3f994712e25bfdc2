"""Typed tensors from numbers, for tests."""

from typing import Any

import torch

from burnlike import Cpu, Tensor


def typed(data: Any, backend: Any = None) -> Any:
    """Of a torch tensor or of nested lists, on the CPU without tracking unless a backend is given."""
    inner = data if isinstance(data, torch.Tensor) else torch.tensor(data)
    return Tensor(inner, backend or Cpu())


def floats(data: Any, dtype: torch.dtype = torch.float32) -> Any:
    return typed(torch.tensor(data, dtype=dtype))


def ints(data: Any, dtype: torch.dtype = torch.int32) -> Any:
    return typed(torch.tensor(data, dtype=dtype))


def bools(data: Any) -> Any:
    return typed(torch.tensor(data, dtype=torch.bool))


def counted(*shape: int) -> Any:
    """Int, 0, 1, 2, ... in the order of the elements."""
    return typed(torch.arange(torch.Size(shape).numel()).reshape(shape))
