"""TensorBase: the two slots of a tensor, and the two ways in which an operation makes its result."""

import dataclasses
from typing import TYPE_CHECKING, Any, Final, Generic, Literal, Protocol, TypeAlias, overload

import torch
from typing_extensions import TypeVar

from ..._torch_compat.compiler import new
from ...backend import Autodiff, Backend, backend_for
from ...errors import TensorTypeError
from .kinds import D1, D2, D3, D4, D5, D6, D7, D8, Bool, Float, Int, Kind, Number, X
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
T_co = TypeVar("T_co", covariant=True)


@dataclasses.dataclass(slots=True, eq=False, repr=False, init=False)
class TensorBase(Generic[B, D, K]):
    """A torch tensor and its Spec. DDP, FSDP2 and dynamo walk dataclasses, so it is one.

    Attributes:
        inner: the torch tensor; shared, never copied. Never assign it: its kind, rank and backend are those of `spec`.
            Type checkers report that; a check at run time would take a fifth of the time of a small operation.
        spec: backend, kind, rank and element type.
    """

    inner: Final[torch.Tensor]
    spec: Final[Spec]

    def __init__(self, inner: torch.Tensor, backend: B | None = None, *, spec: Spec | None = None) -> None:
        """Wrap a torch tensor without a copy.

        Args:
            inner: of rank 1 to 8; its dtype says the kind.
            backend: the backend; by default the one of the tensor's device, `Autodiff` of it if it requires grad.
            spec: as `dataclasses.replace` hands it over; its backend is taken.

        Raises TensorTypeError: not a tensor, rank 0 or above 8, a dtype that has no kind, or another device.
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

    if TYPE_CHECKING:
        # Types of other ranks, for `Above` and `Below`: Python's types can't add 1 to a Literal, so each rank is there.
        # No tensor has rank 0: a rank of Any finds that one first. They are written by hand: a stub of this module
        # would be longer than the 34 lines that it could make.
        @overload
        def _below(self: "TensorBase[B, Literal[0], K]") -> "Tensor[B, Any, K]": ...
        @overload
        def _below(self: "TensorBase[B, D1, K]") -> None: ...
        @overload
        def _below(self: "TensorBase[B, D2, K]") -> "Tensor[B, D1, K]": ...
        @overload
        def _below(self: "TensorBase[B, D3, K]") -> "Tensor[B, D2, K]": ...
        @overload
        def _below(self: "TensorBase[B, D4, K]") -> "Tensor[B, D3, K]": ...
        @overload
        def _below(self: "TensorBase[B, D5, K]") -> "Tensor[B, D4, K]": ...
        @overload
        def _below(self: "TensorBase[B, D6, K]") -> "Tensor[B, D5, K]": ...
        @overload
        def _below(self: "TensorBase[B, D7, K]") -> "Tensor[B, D6, K]": ...
        @overload
        def _below(self: "TensorBase[B, D8, K]") -> "Tensor[B, D7, K]": ...
        def _below(self: Any) -> Any: ...
        @overload
        def _above(self: "TensorBase[B, Literal[0], K]") -> "Tensor[B, Any, K]": ...
        @overload
        def _above(self: "TensorBase[B, D8, K]") -> None: ...
        @overload
        def _above(self: "TensorBase[B, D1, K]") -> "Tensor[B, D2, K]": ...
        @overload
        def _above(self: "TensorBase[B, D2, K]") -> "Tensor[B, D3, K]": ...
        @overload
        def _above(self: "TensorBase[B, D3, K]") -> "Tensor[B, D4, K]": ...
        @overload
        def _above(self: "TensorBase[B, D4, K]") -> "Tensor[B, D5, K]": ...
        @overload
        def _above(self: "TensorBase[B, D5, K]") -> "Tensor[B, D6, K]": ...
        @overload
        def _above(self: "TensorBase[B, D6, K]") -> "Tensor[B, D7, K]": ...
        @overload
        def _above(self: "TensorBase[B, D7, K]") -> "Tensor[B, D8, K]": ...
        def _above(self: Any) -> Any: ...
        def _kind(self) -> K: ...
        def _same(self) -> "Tensor[B, D, K]": ...


class Typed(Protocol):
    """The interface of a Tensor, for functions that take one of a certain form."""

    @property
    def inner(self) -> torch.Tensor: ...
    @property
    def spec(self) -> Spec: ...


class Above(Typed, Protocol[T_co]):
    """A Tensor of one rank more than the Tensor `T_co`: `diag(x: Above[Tensor[B, E, K]]) -> Tensor[B, E, K]`."""

    def _below(self) -> T_co: ...


class Below(Typed, Protocol[T_co]):
    """A Tensor of one rank less than the Tensor `T_co`."""

    def _above(self) -> T_co: ...


class Numbers(Typed, Protocol[X]):
    """A Float or Int tensor; X is `float` or `int`, the numbers that fit its elements."""

    def _kind(self) -> Number[X]: ...


Numeric: TypeAlias = TensorBase[B, D, Float] | TensorBase[B, D, Int]
Floats: TypeAlias = TensorBase[B, D, Float]
Ints: TypeAlias = TensorBase[B, D, Int]
Bools: TypeAlias = TensorBase[B, D, Bool]
"""The receivers of the methods of these kinds, and of no others."""

FloatLike: TypeAlias = "Tensor[B, D, Float] | torch.Tensor"
"""An operand of a Float tensor that may be a torch tensor, such as a parameter."""
FloatOperand: TypeAlias = "Tensor[B, D, Float] | torch.Tensor | float"
IntOperand: TypeAlias = "Tensor[B, D, Int] | torch.Tensor | int"
BoolOperand: TypeAlias = "Tensor[B, D, Bool] | torch.Tensor | bool"
"""What an element-wise operation of a Float (an Int, a Bool) tensor takes as its other operand."""


def wrap(inner: torch.Tensor, spec: Spec) -> "Tensor[Any, Any, Any]":
    """The result of an operation whose type is known: `inner` has the dtype and rank of `spec`.

    The operations that are called most do the same by `new` themselves, as a call takes 25 ns.
    """
    out = new(spec.tensor)
    out.inner = inner
    out.spec = spec
    return out


def like(inner: torch.Tensor, spec: Spec) -> "Tensor[Any, Any, Any]":
    """The result of an operation that keeps rank and kind, but whose element type autocast may have changed."""
    out = new(spec.tensor)
    out.inner = inner
    out.spec = spec if inner.dtype is spec.dtype else spec.family[inner.dtype][spec.rank]
    return out


def derive(inner: torch.Tensor, spec: Spec) -> "Tensor[Any, Any, Any]":
    """The result of an operation on a tensor of `spec`; its dtype and rank are read from torch."""
    out = new(spec.tensor)
    out.inner = inner
    out.spec = spec.family[inner.dtype][inner.ndim]
    return out
