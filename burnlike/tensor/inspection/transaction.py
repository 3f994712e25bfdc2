"""Transaction: several reads at once, so that the host waits for a device once and not once per tensor."""

from typing import Any

from ...backend import Backend
from ...errors import TensorError, TensorTypeError
from ..core.base import TensorBase
from ..host.data import TensorData
from .reading import attempt


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
        """Put a tensor on the list; the transaction itself is returned.

        Raises:
            TensorTypeError: not a Tensor.
        """
        if not isinstance(tensor, TensorBase):
            raise TensorTypeError("Transaction", f"expected a Tensor, got {type(tensor).__name__}")
        self._tensors.append(tensor)
        return self

    def execute(self) -> list[TensorData]:
        """The elements of all tensors in host memory, in the order in which they were registered."""
        on_host = [it.spec.ops.to_host(it.inner) for it in self._tensors]
        backends: list[Backend] = []
        for it in self._tensors:
            if it.spec.backend not in backends:
                backends.append(it.spec.backend)
        for backend in backends:
            backend.sync()
        return [
            TensorData(it.spec.ops.read_bytes(host), tuple(host.shape), it.spec.dtype)
            for it, host in zip(self._tensors, on_host, strict=True)
        ]

    def try_execute(self) -> list[TensorData] | TensorError:
        """As `execute`, but returns the error."""
        return attempt(self.execute)

    async def execute_async(self) -> list[TensorData]:
        """As `execute`, to be awaited."""
        return self.execute()
