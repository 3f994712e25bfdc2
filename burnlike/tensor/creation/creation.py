"""Creation: tensors made from data, from ranges, filled with one value, or random."""

from collections.abc import Callable, Sequence
from typing import Any, Protocol, TypeAlias, cast, overload

from typing_extensions import TypeVar

from ...errors import TensorTypeError, TensorValueError
from ..core.arguments import check_rank, created, sizes_of
from ..core.base import B2, K2, B, D, K, Tensor, wrap
from ..core.kinds import D1, D2, D3, D4, D5, D6, D7, D8, S1, S2, S3, S4, S5, S6, S7, Bool, Float, Int, Kind
from ..host.data import TensorData, shape_of
from .filled import KF, ElementType, FilledMethods

V = TypeVar("V", covariant=True)
KL = TypeVar("KL", bound=Kind)
L1: TypeAlias = Sequence[V]
L2: TypeAlias = Sequence[L1[V]]
L3: TypeAlias = Sequence[L2[V]]
L4: TypeAlias = Sequence[L3[V]]


class FromLists(Protocol[V, KL]):
    """A call that makes a tensor of nested lists of V: their depth is the rank."""

    @overload
    def __call__(self, data: L1[V], backend: B2) -> "Tensor[B2, D1, KL]": ...
    @overload
    def __call__(self, data: L2[V], backend: B2) -> "Tensor[B2, D2, KL]": ...
    @overload
    def __call__(self, data: L3[V], backend: B2) -> "Tensor[B2, D3, KL]": ...
    @overload
    def __call__(self, data: L4[V], backend: B2) -> "Tensor[B2, D4, KL]": ...
    @overload
    def __call__(self, data: Any, backend: B2) -> "Tensor[B2, Any, KL]": ...


def _from_lists(_: type[V], _kind: type[K2]) -> Callable[[Callable[..., Any]], FromLists[V, K2]]:
    return lambda function: cast(FromLists[V, K2], staticmethod(function))


class CreationMethods(FilledMethods[B, D, K]):
    """Creation: tensors made from data, from ranges, filled with one value, or random."""

    __slots__ = ()

    @overload
    @staticmethod
    def from_data(data: L1[float], backend: B2, *, dtype: ElementType = ...) -> "Tensor[B2, D1, Float]": ...
    @overload
    @staticmethod
    def from_data(data: L1[float], backend: B2, kind: type[KF], dtype: ElementType = ...) -> "Tensor[B2, D1, KF]": ...
    @overload
    @staticmethod
    def from_data(data: L2[float], backend: B2, *, dtype: ElementType = ...) -> "Tensor[B2, D2, Float]": ...
    @overload
    @staticmethod
    def from_data(data: L2[float], backend: B2, kind: type[KF], dtype: ElementType = ...) -> "Tensor[B2, D2, KF]": ...
    @overload
    @staticmethod
    def from_data(data: L3[float], backend: B2, *, dtype: ElementType = ...) -> "Tensor[B2, D3, Float]": ...
    @overload
    @staticmethod
    def from_data(data: L3[float], backend: B2, kind: type[KF], dtype: ElementType = ...) -> "Tensor[B2, D3, KF]": ...
    @overload
    @staticmethod
    def from_data(data: L4[float], backend: B2, *, dtype: ElementType = ...) -> "Tensor[B2, D4, Float]": ...
    @overload
    @staticmethod
    def from_data(data: L4[float], backend: B2, kind: type[KF], dtype: ElementType = ...) -> "Tensor[B2, D4, KF]": ...
    @overload
    @staticmethod
    def from_data(data: Any, backend: B2, *, dtype: ElementType = ...) -> "Tensor[B2, Any, Float]": ...
    @overload
    @staticmethod
    def from_data(data: Any, backend: B2, kind: type[KF], dtype: ElementType = ...) -> "Tensor[B2, Any, KF]": ...
    @staticmethod
    def from_data(data: Any, backend: Any, kind: Any = Float, dtype: ElementType = None) -> Any:
        """A tensor with a copy of nested lists, TensorData, an array or a torch tensor. `shape -> shape`.
        Torch: `torch.tensor`.
        Differs: the numbers are converted to the backend's dtype for `kind`, unless one is given.
        """
        return _from_data("From Data", data, backend, kind, dtype)

    @_from_lists(float, Float)
    def from_floats(data: Any, backend: Any) -> "Tensor[Any, Any, Float]":
        """A Float tensor of nested lists. `shape -> shape`. Torch: `torch.tensor`.
        Differs: the dtype is the backend's; no digit is lost on the way to float64, where Burn passes through float32.
        """
        return _from_data("From Floats", data, backend, Float, None)

    @_from_lists(int, Int)
    def from_ints(data: Any, backend: Any) -> "Tensor[Any, Any, Int]":
        """An Int tensor of nested lists. `shape -> shape`. Torch: `torch.tensor`. Differs: the backend's dtype."""
        return _from_data("From Ints", data, backend, Int, None)

    @_from_lists(bool, Bool)
    def from_bool(data: Any, backend: Any) -> "Tensor[Any, Any, Bool]":
        """A Bool tensor of nested lists; all but 0 is True. `shape -> shape`.
        Torch: `torch.tensor(data, dtype=torch.bool)`.
        """
        return _from_data("From Bool", data, backend, Bool, None)

    @overload
    @staticmethod
    def eye(size: int, backend: B2, *, dtype: ElementType = ...) -> "Tensor[B2, D2, Float]": ...
    @overload
    @staticmethod
    def eye(size: int, backend: B2, kind: type[KF], dtype: ElementType = ...) -> "Tensor[B2, D2, KF]": ...
    @staticmethod
    def eye(size: int, backend: Any, kind: Any = Float, dtype: ElementType = None) -> Any:
        """Ones on the diagonal, else zeros. `-> [size, size]`, Float or Int. Torch: `torch.eye`. Differs: square."""
        spec, _ = created("Eye", (size, size), backend, kind, dtype)
        return wrap(spec.ops.eye(size, spec.dtype, spec.backend.device), spec)

    @staticmethod
    def arange(start: int, end: int, backend: B2, dtype: ElementType = None) -> "Tensor[B2, D1, Int]":
        """`start`, .. below `end`. `-> [end - start]`. Torch: `torch.arange`.
        Differs: Int only; both ends are given.
        """
        return _range("Arange", start, end, 1, backend, dtype)

    @staticmethod
    def arange_step(start: int, end: int, step: int, backend: B2, dtype: ElementType = None) -> "Tensor[B2, D1, Int]":
        """start, start + step, ... below `end`. `-> [n]`. Torch: `torch.arange`.
        Differs: Int only; `step` is 1 or more.
        """
        return _range("Arange Step", start, end, step, backend, dtype)

    @overload
    @staticmethod
    def cartesian_grid(shape: S1, backend: B2) -> "Tensor[B2, D2, Int]": ...
    @overload
    @staticmethod
    def cartesian_grid(shape: S2, backend: B2) -> "Tensor[B2, D3, Int]": ...
    @overload
    @staticmethod
    def cartesian_grid(shape: S3, backend: B2) -> "Tensor[B2, D4, Int]": ...
    @overload
    @staticmethod
    def cartesian_grid(shape: S4, backend: B2) -> "Tensor[B2, D5, Int]": ...
    @overload
    @staticmethod
    def cartesian_grid(shape: S5, backend: B2) -> "Tensor[B2, D6, Int]": ...
    @overload
    @staticmethod
    def cartesian_grid(shape: S6, backend: B2) -> "Tensor[B2, D7, Int]": ...
    @overload
    @staticmethod
    def cartesian_grid(shape: S7, backend: B2) -> "Tensor[B2, D8, Int]": ...
    @overload
    @staticmethod
    def cartesian_grid(shape: Sequence[int], backend: B2) -> "Tensor[B2, Any, Int]": ...
    @staticmethod
    def cartesian_grid(shape: Any, backend: Any) -> Any:
        """The coordinates of every cell. `[a, b, ..] -> [a, b, .., rank]`.
        Torch: `torch.stack(torch.meshgrid(..., indexing="ij"), -1)`.
        """
        sizes = list(sizes_of("Cartesian Grid", shape))
        rank = len(sizes)
        check_rank("Cartesian Grid", rank + 1)
        spec = created("Cartesian Grid", (0,) * (rank + 1), backend, Int)[0]
        ops, axes = spec.ops, []
        for dim, size in enumerate(sizes):
            axis = ops.arange(0, size, 1, spec.dtype, spec.backend.device)
            axes.append(ops.expand(ops.reshape(axis, [1] * dim + [size] + [1] * (rank - 1 - dim)), sizes))
        return wrap(ops.stack(axes, -1), spec)


def _from_data(operation: str, data: Any, backend: Any, kind: Any, dtype: ElementType) -> Any:
    shape = shape_of(operation, data)
    spec, sizes = created(operation, shape, backend, kind, dtype)
    if isinstance(data, TensorData):
        data = data.convert_dtype(spec.dtype).bytes
    elif type(data) is spec.tensor:
        data = data.inner
    elif spec.kind is Int:
        _refuse_fractions(operation, data)
    try:
        return wrap(spec.ops.from_data(data, sizes, spec.dtype, spec.backend.device), spec)
    except (TypeError, ValueError, RuntimeError, OverflowError) as error:
        fault = TensorTypeError if isinstance(error, TypeError) else TensorValueError
        raise fault(operation, f"can't be read as numbers: {str(error).splitlines()[0]}") from error


def _refuse_fractions(operation: str, data: Any) -> None:
    """Refuse numbers in nested lists that an Int would cut."""
    for item in data if isinstance(data, list | tuple) else ():
        if isinstance(item, list | tuple):
            _refuse_fractions(operation, item)
        elif isinstance(item, float) and not item.is_integer():
            raise TensorValueError(operation, f"an Int can't be {item}; use kind=Float, or round it")


def _range(operation: str, start: int, end: int, step: int, backend: Any, dtype: ElementType) -> Any:
    for value in (start, end, step):
        # A length that torch.compile left open counts as an int, and has no attributes to ask for.
        if not isinstance(value, int) and not hasattr(value, "__index__"):
            raise TensorValueError(operation, f"a range is of whole numbers, got {value!r}")
    spec, _ = created(operation, (0,), backend, Int, dtype)
    if step < 1:
        raise TensorValueError(operation, f"expected a step of 1 or more, got {step}")
    # A range that ends before it starts has no element.
    return wrap(spec.ops.arange(start, max(start, end), step, spec.dtype, spec.backend.device), spec)
