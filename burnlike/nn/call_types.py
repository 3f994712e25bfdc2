"""Types of the results of layers for type checkers; `torch.nn.Module` says `Any` of every call.

At run time these classes are empty. A layer has one of them before its base. `tests/nn/test_call_types.py` calls every
layer and compares.
"""

from typing import TYPE_CHECKING, Any, Literal, overload

from torch import Tensor as TorchTensor
from typing_extensions import TypeVar

if TYPE_CHECKING:
    from ..tensor.core.base import B, K
    from ..tensor.core.kinds import Float, Int
    from ..tensor.tensor import Tensor

T = TypeVar("T", bound="TorchTensor | Tensor[Any, Any, Any]", default=TorchTensor)


class KeepsType:
    """A layer whose result has the backend, rank and kind of its first input."""

    if TYPE_CHECKING:

        def __call__(self, x: T, *others: Any, **named: Any) -> T: ...


class GivesLoss:
    """A layer whose result is one number, a Float tensor of rank 1."""

    if TYPE_CHECKING:

        @overload
        def __call__(self, x: Tensor[B, Any, Any], *others: Any, **named: Any) -> Tensor[B, Literal[1], Float]: ...
        @overload
        def __call__(self, x: TorchTensor, *others: Any, **named: Any) -> TorchTensor: ...
        def __call__(self, x: Any, *others: Any, **named: Any) -> Any: ...


class ChangesRank:
    """A layer whose result has the backend and kind of its first input, and a rank that its config says."""

    if TYPE_CHECKING:

        @overload
        def __call__(self, x: Tensor[B, Any, K], *others: Any, **named: Any) -> Tensor[B, Any, K]: ...
        @overload
        def __call__(self, x: TorchTensor, *others: Any, **named: Any) -> TorchTensor: ...
        def __call__(self, x: Any, *others: Any, **named: Any) -> Any: ...


class EmbedsIndices:
    """A layer from integers to one more dimension of floats."""

    if TYPE_CHECKING:

        @overload
        def __call__(self, x: Tensor[B, Literal[1], Int]) -> Tensor[B, Literal[2], Float]: ...
        @overload
        def __call__(self, x: Tensor[B, Literal[2], Int]) -> Tensor[B, Literal[3], Float]: ...
        @overload
        def __call__(self, x: TorchTensor) -> TorchTensor: ...
        def __call__(self, x: Any) -> Any: ...
