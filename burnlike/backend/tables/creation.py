"""Creation and reading."""

from collections.abc import Sequence
from typing import Any, Protocol

import torch
from torch import Tensor

Scalar = float | int


class CreationOps(Protocol):
    """Making tensors, and reading them back to the host; of Float, Int and Bool tensors."""

    @staticmethod
    def from_data(data: Any, shape: Sequence[int], dtype: torch.dtype, device: torch.device, /) -> Tensor:
        """A new tensor with the values of nested lists, an array or a torch tensor, converted to `dtype`."""
        ...

    @staticmethod
    def empty(shape: Sequence[int], dtype: torch.dtype, device: torch.device, /) -> Tensor:
        """`shape`, of undefined values."""
        ...

    @staticmethod
    def zeros(shape: Sequence[int], dtype: torch.dtype, device: torch.device, /) -> Tensor:
        """`shape`, all 0 or False."""
        ...

    @staticmethod
    def ones(shape: Sequence[int], dtype: torch.dtype, device: torch.device, /) -> Tensor:
        """`shape`, all 1 or True."""
        ...

    @staticmethod
    def full(shape: Sequence[int], value: Scalar, dtype: torch.dtype, device: torch.device, /) -> Tensor:
        """`shape`, all `value`."""
        ...

    @staticmethod
    def empty_like(tensor: Tensor, /) -> Tensor:
        """The shape, dtype and device of `tensor`, of undefined values."""
        ...

    @staticmethod
    def zeros_like(tensor: Tensor, /) -> Tensor:
        """The shape, dtype and device of `tensor`, all 0 or False."""
        ...

    @staticmethod
    def ones_like(tensor: Tensor, /) -> Tensor:
        """The shape, dtype and device of `tensor`, all 1 or True."""
        ...

    @staticmethod
    def full_like(tensor: Tensor, value: Scalar, /) -> Tensor:
        """The shape, dtype and device of `tensor`, all `value`."""
        ...

    @staticmethod
    def to_device(tensor: Tensor, device: torch.device, /) -> Tensor:
        """The same values on `device`; `tensor` itself if it is there."""
        ...

    @staticmethod
    def to_host(tensor: Tensor, /) -> Tensor:
        """A copy in host memory, complete once the backend's `sync()` has returned."""
        ...

    @staticmethod
    def read_bytes(tensor: Tensor, /) -> bytes:
        """All elements in row-major order, little-endian. Waits for them."""
        ...

    @staticmethod
    def read_list(tensor: Tensor, /) -> list[Any]:
        """All elements as nested lists of Python numbers. Waits for them."""
        ...

    @staticmethod
    def read_item(tensor: Tensor, /) -> Any:
        """The only element as a Python number. Waits for it."""
        ...


class NumericCreationOps(Protocol):
    """Making tensors of numbers, Float and Int."""

    @staticmethod
    def eye(size: int, dtype: torch.dtype, device: torch.device, /) -> Tensor:
        """The identity, `[size, size]`."""
        ...

    @staticmethod
    def arange(start: int, end: int, step: int, dtype: torch.dtype, device: torch.device, /) -> Tensor:
        """start, start + step, ... below `end`; step > 0; `[n]`."""
        ...

    @staticmethod
    def uniform(shape: Sequence[int], low: float, high: float, dtype: torch.dtype, device: torch.device, /) -> Tensor:
        """Numbers of low .. high, `high` excluded; Int: drawn as such, then truncated."""
        ...

    @staticmethod
    def normal(shape: Sequence[int], mean: float, std: float, dtype: torch.dtype, device: torch.device, /) -> Tensor:
        """Numbers of a normal distribution; Int: drawn as such, then truncated."""
        ...

    @staticmethod
    def bernoulli(shape: Sequence[int], probability: float, dtype: torch.dtype, device: torch.device, /) -> Tensor:
        """1 with `probability`, else 0."""
        ...
