"""Making tensors, reading them to the host, and other element types."""

# pyright: reportReturnType=false

from collections.abc import Sequence
from typing import Any, Protocol

import torch
from torch import Tensor

from .arithmetic import Scalar


class CreationOps(Protocol):
    """Making tensors, other element types, and reading tensors back to the host; of Float, Int and Bool tensors.

    Functions:
        to_device: The same values on `device`; `tensor` itself if it is there.
        to_host: A copy in host memory, complete once the backend's `sync()` has returned.
        read_bytes: All elements in row-major order, little-endian. Waits for them.
        read_list: All elements as nested lists of Python numbers. Waits for them.
        read_item: The only element as a Python number. Waits for it.
        cast: The values in another element type: Float to Int truncates, to Bool is x != 0.
        truth: Whether the only element is not 0, on the host.
    """

    def from_data(self, data: Any, shape: Sequence[int], dtype: torch.dtype, device: torch.device, /) -> Tensor:
        """A new tensor with the values of nested lists, an array or a torch tensor, converted to `dtype`; bytes are
        row-major elements of `dtype`.
        """

    def empty(self, shape: Sequence[int], dtype: torch.dtype, device: torch.device, /) -> Tensor: ...
    def zeros(self, shape: Sequence[int], dtype: torch.dtype, device: torch.device, /) -> Tensor: ...
    def ones(self, shape: Sequence[int], dtype: torch.dtype, device: torch.device, /) -> Tensor: ...
    def full(self, shape: Sequence[int], value: Scalar, dtype: torch.dtype, device: torch.device, /) -> Tensor: ...
    def empty_like(self, tensor: Tensor, /) -> Tensor: ...
    def zeros_like(self, tensor: Tensor, /) -> Tensor: ...
    def ones_like(self, tensor: Tensor, /) -> Tensor: ...
    def full_like(self, tensor: Tensor, value: Scalar, /) -> Tensor: ...
    def to_device(self, tensor: Tensor, device: torch.device, /) -> Tensor: ...
    def to_host(self, tensor: Tensor, /) -> Tensor: ...
    def read_bytes(self, tensor: Tensor, /) -> bytes: ...
    def read_list(self, tensor: Tensor, /) -> list[Any]: ...
    def read_item(self, tensor: Tensor, /) -> Any: ...
    def cast(self, tensor: Tensor, dtype: torch.dtype, /) -> Tensor: ...
    def truth(self, tensor: Tensor, /) -> bool: ...


class NumericCreationOps(Protocol):
    """Making tensors of numbers, Float and Int.

    Functions:
        eye: The identity, `[size, size]`.
        uniform: Numbers of low .. high, `high` excluded; Int: drawn as such, then truncated.
        normal: Numbers of a normal distribution; Int: drawn as such, then truncated.
        bernoulli: 1 with `probability`, else 0.
    """

    def eye(self, size: int, dtype: torch.dtype, device: torch.device, /) -> Tensor: ...
    def uniform(
        self, shape: Sequence[int], low: float, high: float, dtype: torch.dtype, device: torch.device, /
    ) -> Tensor: ...
    def normal(
        self, shape: Sequence[int], mean: float, std: float, dtype: torch.dtype, device: torch.device, /
    ) -> Tensor: ...
    def bernoulli(
        self, shape: Sequence[int], probability: float, dtype: torch.dtype, device: torch.device, /
    ) -> Tensor: ...
