"""TensorBase: the two slots of a tensor, and the two ways in which an operation makes its result."""

import dataclasses
from typing import TYPE_CHECKING, Any, Generic, TypeAlias

import torch
from typing_extensions import TypeVar

from ...backend import Autodiff, Backend, backend_for
from ...errors import TensorTypeError
from .kinds import Bool, Float, Int, Kind
from .spec import Spec, family_of, find_spec

if TYPE_CHECKING:
    from ..tensor import Tensor
else:
    Tensor = None  # for annotations: the class is made of the files that name it in theirs

B = TypeVar("B", bound=Backend, default=Any)
D = TypeVar("D", bound=int, default=Any)
K = TypeVar("K", bound=Kind, default=Float)
# For static methods and conversions: type parameters of the call, not of the class.
B2 = TypeVar("B2", bound=Backend)
E = TypeVar("E", bound=int)
K2 = TypeVar("K2", bound=Kind)


@dataclasses.dataclass(slots=True, eq=False, repr=False, init=False)
class TensorBase(Generic[B, D, K]):
    """A torch tensor and its Spec. DDP, FSDP2 and dynamo walk dataclasses, so it is one.

    Attributes:
        inner: the torch tensor; shared, never copied.
        spec: backend, kind, rank and element type.
    """

    inner: torch.Tensor
    spec: Spec

    def __init__(self, inner: torch.Tensor, backend: B | None = None, *, spec: Spec | None = None) -> None:
        """Wrap a torch tensor without a copy.

        Args:
            inner: of rank 1 to 8; its dtype says the kind.
            backend: the backend; by default the one of the tensor's device, `Autodiff` of it if it requires grad.
            spec: as `dataclasses.replace` hands it over; its backend is taken.

        Raises:
            TensorTypeError: not a tensor, rank 0 or above 8, a dtype that has no kind, or another device.
        """
        if not isinstance(inner, torch.Tensor):
            if isinstance(inner, TensorBase):
                raise TensorTypeError("Tensor", "expected a torch.Tensor, got a Tensor: it can be used as it is")
            raise TensorTypeError(
                "Tensor", f"expected a torch.Tensor, got {type(inner).__name__}; use Tensor.from_data(data, backend)"
            )
        if backend is None:
            if spec is not None and spec.backend.device == inner.device:
                backend = spec.backend  # pyright: ignore[reportAssignmentType]
            else:
                default = backend_for(inner.device)
                backend = Autodiff(default) if inner.requires_grad else default  # pyright: ignore[reportAssignmentType]
        spec = find_spec(inner, family_of(backend))  # pyright: ignore[reportArgumentType]
        if inner.device != spec.backend.device:
            raise TensorTypeError(
                "Tensor", f"the tensor is on '{inner.device}', the backend on '{spec.backend.device}'; move one of them"
            )
        self.spec = spec
        self.inner = inner if spec.tracks or not inner.requires_grad else spec.ops.detach(inner)

    @property
    def backend(self) -> B:
        """The backend that its operations run on. Torch: none."""
        return self.spec.backend  # pyright: ignore[reportReturnType]


Numeric: TypeAlias = TensorBase[B, D, Float] | TensorBase[B, D, Int]
"""The receiver of a method of Float and Int tensors, and of no others."""

FloatOperand: TypeAlias = "Tensor[B, D, Float] | torch.Tensor | float"
IntOperand: TypeAlias = "Tensor[B, D, Int] | torch.Tensor | int"
BoolOperand: TypeAlias = "Tensor[B, D, Bool] | torch.Tensor | bool"
"""What an element-wise operation of a Float (an Int, a Bool) tensor takes as its other operand."""


def wrap(inner: torch.Tensor, spec: Spec) -> "Tensor[Any, Any, Any]":
    """The result of an operation whose type is known: `inner` has the dtype and rank of `spec`."""
    out = object.__new__(spec.tensor)
    out.inner = inner
    out.spec = spec
    return out


def like(inner: torch.Tensor, spec: Spec) -> "Tensor[Any, Any, Any]":
    """The result of an operation that keeps rank and kind, but whose element type autocast may have changed."""
    out = object.__new__(spec.tensor)
    out.inner = inner
    out.spec = spec if inner.dtype is spec.dtype else spec.family[inner.dtype][spec.rank]
    return out


def derive(inner: torch.Tensor, spec: Spec) -> "Tensor[Any, Any, Any]":
    """The result of an operation on a tensor of `spec`; its dtype and rank are read from torch."""
    out = object.__new__(spec.tensor)
    out.inner = inner
    out.spec = spec.family[inner.dtype][inner.ndim]
    return out
