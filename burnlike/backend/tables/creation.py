"""Making tensors, reading them to the host, and other element types."""

import ctypes
import math
from collections.abc import Callable, Sequence
from typing import Any, Protocol

import torch
from torch import Tensor

from ..._torch_compat.transforms import readable
from ...errors import TensorValueError

Scalar = float | int


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
        ...

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


class TorchCreationOps:
    """Implements `CreationOps`."""

    zeros_like: Any = staticmethod(torch.zeros_like)
    ones_like: Any = staticmethod(torch.ones_like)
    empty_like: Any = staticmethod(torch.empty_like)
    full_like: Any = staticmethod(lambda tensor, value, /: torch.full_like(tensor, element_of(tensor, value)))
    truth: Any = staticmethod(bool)
    empty: Any = staticmethod(lambda shape, dtype, device, /: torch.empty(shape, dtype=dtype, device=device))
    zeros: Any = staticmethod(lambda shape, dtype, device, /: torch.zeros(shape, dtype=dtype, device=device))
    ones: Any = staticmethod(lambda shape, dtype, device, /: torch.ones(shape, dtype=dtype, device=device))
    to_device: Any = staticmethod(lambda tensor, device, /: tensor.to(device))
    to_host: Any = staticmethod(lambda tensor, /: tensor.detach().to("cpu", non_blocking=True, copy=True))
    read_list: Any = staticmethod(lambda tensor, /: tensor.detach().tolist())
    read_item: Any = staticmethod(lambda tensor, /: tensor.item())

    @staticmethod
    def from_data(data: Any, shape: Sequence[int], dtype: torch.dtype, device: torch.device, /) -> Tensor:
        if isinstance(data, bytes):  # row-major elements of `dtype`
            flat = torch.frombuffer(bytearray(data), dtype=dtype) if data else torch.empty(0, dtype=dtype)
            return flat.to(device).reshape(list(shape))
        if isinstance(data, list | tuple):
            # By way of float64, so that no digit is lost; integers torch checks itself.
            read = torch.tensor(data, dtype=torch.float64 if dtype.is_floating_point else dtype)
            return read.to(device=device, dtype=dtype).reshape(list(shape))
        tensor = torch.as_tensor(data).detach().to(device=device, copy=True)
        return TorchCreationOps.cast(tensor, dtype).reshape(list(shape))

    @staticmethod
    def full(shape: Sequence[int], value: float | int, dtype: torch.dtype, device: torch.device, /) -> Tensor:
        return torch.full(shape, element(value, dtype), dtype=dtype, device=device)

    @staticmethod
    def read_bytes(tensor: Tensor, /) -> bytes:
        host = tensor.detach().to("cpu").contiguous()
        # NumPy may be missing, and has no bfloat16.
        return ctypes.string_at(host.data_ptr(), host.numel() * host.itemsize) if host.numel() else b""

    @staticmethod
    def cast(tensor: Tensor, dtype: torch.dtype, /) -> Tensor:
        if tensor.dtype.is_floating_point and not dtype.is_floating_point and dtype is not torch.bool:
            return _saturated(tensor, dtype)
        return tensor.to(dtype)


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


class TorchNumericCreationOps:
    """Implements `NumericCreationOps`."""

    @staticmethod
    def eye(size: int, dtype: torch.dtype, device: torch.device, /) -> Tensor:
        return torch.eye(size, dtype=countable(dtype), device=device).to(dtype)

    @staticmethod
    def uniform(shape: Sequence[int], low: float, high: float, dtype: torch.dtype, device: torch.device, /) -> Tensor:
        return TorchCreationOps.cast(torch.empty(shape, dtype=_drawn(dtype), device=device).uniform_(low, high), dtype)

    @staticmethod
    def normal(shape: Sequence[int], mean: float, std: float, dtype: torch.dtype, device: torch.device, /) -> Tensor:
        return TorchCreationOps.cast(torch.empty(shape, dtype=_drawn(dtype), device=device).normal_(mean, std), dtype)

    @staticmethod
    def bernoulli(shape: Sequence[int], probability: float, dtype: torch.dtype, device: torch.device, /) -> Tensor:
        return torch.empty(shape, dtype=_drawn(dtype), device=device).bernoulli_(probability).to(dtype)


def _saturated(tensor: Tensor, dtype: torch.dtype) -> Tensor:
    """Whole parts, those out of range as the nearest number in it, NaN as 0: torch, as C, leaves these undefined."""
    info = torch.iinfo(dtype)
    beyond = info.max + 1.0
    if readable(tensor) and tensor.numel():  # a look at the range costs less than the passes below
        smallest, largest = torch.aminmax(tensor)
        if info.min <= smallest.item() and largest.item() < beyond:
            return tensor.to(dtype)
    wide = at_least_float32(tensor) if info.bits <= 16 else tensor.double()
    if info.bits < 64:
        return torch.nan_to_num(wide, 0.0).clamp(info.min, info.max).to(dtype)
    # No float is the largest integer of 64 bits.
    inside = torch.where(wide < beyond, wide, 0.0).clamp_min(info.min).to(dtype).view(torch.int64)
    # -1 has the bits of the largest uint64, of which torch 2.11 has no `where`.
    highest = info.max if dtype == torch.int64 else -1
    return torch.where(wide >= beyond, highest, inside).view(dtype)


_EVERY_FLOAT = 65504.0  # all types of floats hold the numbers up to this


def element(value: Any, dtype: torch.dtype) -> Any:
    """A number as an element of `dtype`, beyond its range an infinity; operations of torch differ in refusing those."""
    if -_EVERY_FLOAT <= value <= _EVERY_FLOAT or not dtype.is_floating_point or not math.isfinite(value):
        return value
    info = torch.finfo(dtype)
    half_step = info.max * info.eps / (2 - info.eps) / 2
    if abs(value) <= info.max:
        return value
    return math.copysign(info.max if abs(value) < info.max + half_step else math.inf, value)


def element_of(tensor: Tensor, value: Any) -> Any:
    """A number as an element of a tensor, whose dtype is read for large numbers only: that takes as long as a check."""
    return value if -_EVERY_FLOAT <= value <= _EVERY_FLOAT else element(value, tensor.dtype)


def fitted(function: Callable[..., Tensor]) -> Callable[..., Tensor]:
    """`function` of a tensor and numbers, which are taken as elements of the tensor's type."""

    def call(tensor: Tensor, *numbers: float) -> Tensor:
        return function(tensor, *[element_of(tensor, number) for number in numbers])

    return call


def as_indices(indices: Tensor, size: int, dtype: torch.dtype) -> Tensor:
    """torch's indices of a dimension of `size` in the backend's type of integers, which must hold them."""
    if dtype is torch.int64:
        return indices
    if size - 1 > torch.iinfo(dtype).max:
        raise TensorValueError(
            "Indices", f"{dtype}, the backend's type of integers, does not hold the indices of {size} elements"
        )
    return indices.to(dtype)


def countable(dtype: torch.dtype) -> torch.dtype:
    """int64 in place of the wide unsigned types, in which torch does not count."""
    return torch.int64 if dtype in (torch.uint16, torch.uint32, torch.uint64) else dtype


def _drawn(dtype: torch.dtype) -> torch.dtype:
    """Numbers are drawn as floats also for integers, which are then truncated."""
    return dtype if dtype.is_floating_point else torch.float64


def at_least_float32(tensor: Tensor) -> Tensor:
    """The tensor itself if float32 or float64, else in float32."""
    return tensor.float() if tensor.dtype in (torch.float16, torch.bfloat16) else tensor
