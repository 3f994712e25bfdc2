"""Reading elements back to the host, of one tensor or of several at once."""

from collections.abc import Callable
from typing import Any, Protocol, overload

from typing_extensions import TypeVar

from ...backend import Backend
from ...errors import TensorError, TensorTypeError, TensorValueError
from ..core.base import B, Bools, D, Floats, Ints, K, TensorBase
from ..host.data import TensorData

X = TypeVar("X", covariant=True)


class _Scalar(Protocol[X]):
    def into_scalar(self) -> X: ...


class ReadingMethods(TensorBase[B, D, K]):
    """Reading elements back to the host.

    An element type is given as a torch dtype, a short name (`"f32"`), or as `float`, `int` or `bool`. The `into_` forms
    are Burn's for a tensor that is not used again; here they do the same as the `to_` forms. The `try_` forms return
    the error instead of raising it.
    """

    __slots__ = ()

    def to_data(self) -> TensorData:
        """The elements in host memory. Waits for them. Torch: `x.cpu().numpy()`. Differs: holds bfloat16 too."""
        return TensorData(self.spec.ops.read_bytes(self.inner), tuple(self.inner.shape), self.spec.dtype)

    into_data = to_data

    def try_to_data(self) -> TensorData | TensorError:
        """As `to_data`, but returns the error. Torch: `x.cpu().numpy()`."""
        return attempt(self.to_data)

    try_into_data = try_to_data

    async def to_data_async(self) -> TensorData:
        """As `to_data`, to be awaited. Torch: `x.cpu().numpy()`. Differs: the read itself blocks."""
        return self.to_data()

    into_data_async = to_data_async

    def to_data_as(self, element: Any) -> TensorData:
        """The elements in host memory, converted to `element`. Torch: `x.to(dtype).cpu()`.
        Differs: NaN or a number out of range of an integer type is an error.
        Raises TensorValueError: a number that `element` does not hold.
        """
        return self.to_data().convert(element)

    def try_to_data_as(self, element: Any) -> TensorData | TensorError:
        """As `to_data_as`, but returns the error. Torch: `x.to(dtype).cpu()`."""
        return attempt(lambda: self.to_data_as(element))

    into_data_as = to_data_as
    try_into_data_as = try_to_data_as

    def to_data_dtype(self, dtype: Any) -> TensorData:
        """The same as `to_data_as`. Torch: `x.to(dtype).cpu()`."""
        return self.to_data_as(dtype)

    def try_to_data_dtype(self, dtype: Any) -> TensorData | TensorError:
        """As `to_data_as`, but returns the error. Torch: `x.to(dtype).cpu()`."""
        return attempt(lambda: self.to_data_as(dtype))

    into_data_dtype = to_data_dtype
    try_into_data_dtype = try_to_data_dtype

    def try_to_vec_as(self, element: Any) -> list[Any] | TensorError:
        """A flat list of Python numbers, converted to `element`, or the error. Torch: `x.flatten().tolist()`."""
        return attempt(lambda: self.to_data_as(element).to_vec())

    try_into_vec_as = try_to_vec_as

    @overload
    def into_scalar(self: "Floats[B, D]") -> float: ...
    @overload
    def into_scalar(self: "Ints[B, D]") -> int: ...
    @overload
    def into_scalar(self: "Bools[B, D]") -> bool: ...
    def into_scalar(self: Any) -> Any:
        """The only element as a Python number. `[1, ..] -> number`. Torch: `x.item()`.

        Raises TensorValueError: the tensor has another number of elements than 1.
        """
        inner = self.inner
        if inner.numel() != 1:
            raise TensorValueError(
                "Into Scalar", f"expected a tensor of one element, got shape {list(inner.shape)}; use to_data()"
            )
        return self.spec.ops.read_item(inner)

    item = into_scalar

    def __float__(self: Any) -> float:
        return float(self.into_scalar())

    def __int__(self: Any) -> int:
        return int(self.into_scalar())

    def try_into_scalar(self: "_Scalar[X]") -> X | TensorError:
        """As `into_scalar`, but returns the error. Torch: `x.item()`."""
        return attempt(self.into_scalar)

    async def into_scalar_async(self: "_Scalar[X]") -> X:
        """As `into_scalar`, to be awaited. Torch: `x.item()`. Differs: the read itself blocks."""
        return self.into_scalar()

    async def try_into_scalar_async(self: "_Scalar[X]") -> X | TensorError:
        """As `try_into_scalar`, to be awaited. Torch: `x.item()`. Differs: the read itself blocks."""
        return attempt(self.into_scalar)


def attempt(read: Callable[[], Any]) -> Any:
    """The result of `read`, or the error that it raised."""
    try:
        return read()
    except TensorError as error:
        return error
    except RuntimeError as error:  # the device failed
        return TensorValueError("Read", str(error).splitlines()[0])


class Transaction:
    """Tensors of any kind, rank and backend that are read together.

    Example:
        >>> import torch
        >>> from burnlike import Cpu, Tensor
        >>> loss, hits = Tensor(torch.tensor([0.5]), Cpu()), Tensor(torch.tensor([3, 4]), Cpu())
        >>> Transaction.default().register(loss).register(hits).execute()
        [TensorData([0.5], shape=[1], dtype=f32), TensorData([3, 4], shape=[2], dtype=i64)]
    """

    def __init__(self) -> None:
        self._tensors: list[TensorBase[Any, Any, Any]] = []

    @staticmethod
    def default() -> "Transaction":
        """A transaction without tensors."""
        return Transaction()

    def register(self, tensor: TensorBase[Any, Any, Any]) -> "Transaction":
        """Put a tensor on the list; the transaction itself is returned. Raises TensorTypeError: not a Tensor."""
        if not isinstance(tensor, TensorBase):
            raise TensorTypeError("Transaction", f"expected a Tensor, got {type(tensor).__name__}")
        self._tensors.append(tensor)
        return self

    def execute(self) -> list[TensorData]:
        """The elements of all tensors in host memory, in the order in which they were registered."""
        on_host = [tensor.spec.ops.to_host(tensor.inner) for tensor in self._tensors]
        backends: list[Backend] = []
        for tensor in self._tensors:
            if tensor.spec.backend not in backends:
                backends.append(tensor.spec.backend)
        for backend in backends:
            backend.sync()
        return [
            TensorData(tensor.spec.ops.read_bytes(host), tuple(host.shape), tensor.spec.dtype)
            for tensor, host in zip(self._tensors, on_host, strict=True)
        ]

    def try_execute(self) -> list[TensorData] | TensorError:
        """As `execute`, but returns the error."""
        return attempt(self.execute)

    async def execute_async(self) -> list[TensorData]:
        """As `execute`, to be awaited."""
        return self.execute()
