"""Making tensors, reading them to the host, and other element types, in torch."""

import ctypes
from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor


class TorchCreationOps:
    """Implements `CreationOps`."""

    zeros_like: Any = staticmethod(torch.zeros_like)
    ones_like: Any = staticmethod(torch.ones_like)
    empty_like: Any = staticmethod(torch.empty_like)
    full_like: Any = staticmethod(torch.full_like)
    truth: Any = staticmethod(bool)

    @staticmethod
    def from_data(data: Any, shape: Sequence[int], dtype: torch.dtype, device: torch.device, /) -> Tensor:
        if isinstance(data, bytes):  # row-major elements of `dtype`
            flat = torch.frombuffer(bytearray(data), dtype=dtype) if data else torch.empty(0, dtype=dtype)
            return flat.to(device).reshape(list(shape))
        if isinstance(data, list | tuple):
            # By way of float64, so that no digit is lost; integers torch checks itself.
            read = torch.tensor(data, dtype=torch.float64 if dtype.is_floating_point else dtype)
            return read.to(device=device, dtype=dtype).reshape(list(shape))
        return torch.as_tensor(data).detach().to(device=device, dtype=dtype, copy=True).reshape(list(shape))

    @staticmethod
    def empty(shape: Sequence[int], dtype: torch.dtype, device: torch.device, /) -> Tensor:
        return torch.empty(shape, dtype=dtype, device=device)

    @staticmethod
    def zeros(shape: Sequence[int], dtype: torch.dtype, device: torch.device, /) -> Tensor:
        return torch.zeros(shape, dtype=dtype, device=device)

    @staticmethod
    def ones(shape: Sequence[int], dtype: torch.dtype, device: torch.device, /) -> Tensor:
        return torch.ones(shape, dtype=dtype, device=device)

    @staticmethod
    def full(shape: Sequence[int], value: float | int, dtype: torch.dtype, device: torch.device, /) -> Tensor:
        return torch.full(shape, value, dtype=dtype, device=device)

    @staticmethod
    def to_device(tensor: Tensor, device: torch.device, /) -> Tensor:
        return tensor.to(device)

    @staticmethod
    def to_host(tensor: Tensor, /) -> Tensor:
        return tensor.detach().to("cpu", non_blocking=True, copy=True)

    @staticmethod
    def read_bytes(tensor: Tensor, /) -> bytes:
        host = tensor.detach().to("cpu").contiguous()
        # NumPy may be missing, and has no bfloat16.
        return ctypes.string_at(host.data_ptr(), host.numel() * host.itemsize) if host.numel() else b""

    @staticmethod
    def read_list(tensor: Tensor, /) -> list[Any]:
        return tensor.detach().tolist()

    @staticmethod
    def read_item(tensor: Tensor, /) -> Any:
        return tensor.item()

    @staticmethod
    def cast(tensor: Tensor, dtype: torch.dtype, /) -> Tensor:
        return tensor.to(dtype)


class TorchNumericCreationOps:
    """Implements `NumericCreationOps`."""

    @staticmethod
    def eye(size: int, dtype: torch.dtype, device: torch.device, /) -> Tensor:
        return torch.eye(size, dtype=countable(dtype), device=device).to(dtype)

    @staticmethod
    def uniform(shape: Sequence[int], low: float, high: float, dtype: torch.dtype, device: torch.device, /) -> Tensor:
        return torch.empty(shape, dtype=_drawn(dtype), device=device).uniform_(low, high).to(dtype)

    @staticmethod
    def normal(shape: Sequence[int], mean: float, std: float, dtype: torch.dtype, device: torch.device, /) -> Tensor:
        return torch.empty(shape, dtype=_drawn(dtype), device=device).normal_(mean, std).to(dtype)

    @staticmethod
    def bernoulli(shape: Sequence[int], probability: float, dtype: torch.dtype, device: torch.device, /) -> Tensor:
        return torch.empty(shape, dtype=_drawn(dtype), device=device).bernoulli_(probability).to(dtype)


def countable(dtype: torch.dtype) -> torch.dtype:
    """int64 in place of the wide unsigned types, in which torch does not count."""
    return torch.int64 if dtype in (torch.uint16, torch.uint32, torch.uint64) else dtype


def _drawn(dtype: torch.dtype) -> torch.dtype:
    """Numbers are drawn as floats also for integers, which are then truncated."""
    return dtype if dtype.is_floating_point else torch.float64


def at_least_float32(tensor: Tensor) -> Tensor:
    """The tensor itself if float32 or float64, else in float32."""
    return tensor.float() if tensor.dtype in (torch.float16, torch.bfloat16) else tensor
