"""Tensors made from data and ranges, or of a shape: filled with one value or random."""

from collections.abc import Callable, Sequence
from typing import Any, TypeAlias, overload

import torch
from typing_extensions import TypeVar

from ..._torch_compat.transforms import readable
from ...errors import TensorTypeError, TensorValueError
from ..core.arguments import check_rank, created, sizes_of
from ..core.base import B2, B, D, Floats, K, Tensor, TensorBase, wrap
from ..core.dtypes import DType
from ..core.kinds import D1, D2, Bool, Float, Int, Kind
from ..core.operands import scalar
from ..core.table import F, overloads
from ..host.data import TensorData, shape_of
from ..host.distribution import Distribution, draw

KF = TypeVar("KF", bound=Kind, default=Float)
V = TypeVar("V")
ElementType: TypeAlias = torch.dtype | DType | str | None
L1: TypeAlias = Sequence[V]
L2: TypeAlias = Sequence[L1[V]]
L3: TypeAlias = Sequence[L2[V]]
L4: TypeAlias = Sequence[L3[V]]


def _of_shape(arguments: str) -> Callable[[F], F]:
    """The overloads of a function of a shape: its rank is that of the tuple, the kind Float unless it is given."""
    named = f"({{0}}, {arguments}, *, dtype: ElementType = ...) -> Tensor[B2, {{1}}, Float]"
    of_kind = f"({{0}}, {arguments}, kind: type[KF], dtype: ElementType = ...) -> Tensor[B2, {{1}}, KF]"
    ranked, any_rank = ("shape: S{n}", "D{n}"), ("shape: Sequence[int]", "Any")
    return overloads(*(form.format(*words) for words in (ranked, any_rank) for form in (named, of_kind)))


def _of_lists(element: str, kind: str, *, chosen: bool = False) -> Callable[[F], F]:
    """The overloads of a function of nested lists: their depth is the rank; the kind may be `chosen` by an argument."""
    dtype = ", *, dtype: ElementType = ..." if chosen else ""
    signatures: list[str] = []
    for data, rank in (*((f"L{n}[{element}]", f"D{n}") for n in range(1, 5)), ("Any", "Any")):
        signatures.append(f"(data: {data}, backend: B2{dtype}) -> Tensor[B2, {rank}, {kind}]")
        if chosen:
            signatures.append(
                f"(data: {data}, backend: B2, kind: type[KF], dtype: ElementType = ...) -> Tensor[B2, {rank}, KF]"
            )
    return overloads(*signatures)


class CreationMethods(TensorBase[B, D, K]):
    """Creation: tensors made from data, from ranges, of one value or random. By default of the backend's dtype."""

    __slots__ = ()

    @staticmethod
    @_of_shape("backend: B2")
    def empty(shape: Any, backend: Any, kind: Any = Float, dtype: ElementType = None) -> Any:
        """Undefined values. `shape -> shape`. Torch: `torch.empty`. Differs: dtype is the backend's for `kind`."""
        spec, sizes = created("Empty", shape, backend, kind, dtype)
        return wrap(spec.ops.empty(sizes, spec.dtype, spec.backend.device), spec)

    @staticmethod
    @_of_shape("backend: B2")
    def zeros(shape: Any, backend: Any, kind: Any = Float, dtype: ElementType = None) -> Any:
        """Zeros, False for Bool. `shape -> shape`. Torch: `torch.zeros`. Differs: dtype is the backend's for `kind`."""
        spec, sizes = created("Zeros", shape, backend, kind, dtype)
        return wrap(spec.ops.zeros(sizes, spec.dtype, spec.backend.device), spec)

    @staticmethod
    @_of_shape("backend: B2")
    def ones(shape: Any, backend: Any, kind: Any = Float, dtype: ElementType = None) -> Any:
        """Ones, True for Bool. `shape -> shape`. Torch: `torch.ones`. Differs: dtype is the backend's for `kind`."""
        spec, sizes = created("Ones", shape, backend, kind, dtype)
        return wrap(spec.ops.ones(sizes, spec.dtype, spec.backend.device), spec)

    @staticmethod
    @_of_shape("fill_value: float, backend: B2")
    def full(shape: Any, fill_value: Any, backend: Any, kind: Any = Float, dtype: ElementType = None) -> Any:
        """A tensor of `fill_value`, converted to the element type. `shape -> shape`. Torch: `torch.full`.
        Differs: names the backend; the dtype is the backend's for `kind`, unless given, never the value's.
        """
        spec, sizes = created("Full", shape, backend, kind, dtype)
        return wrap(spec.ops.full(sizes, scalar("full", spec, fill_value), spec.dtype, spec.backend.device), spec)

    def empty_like(self) -> "Tensor[B, D, K]":
        """Undefined values in the shape, dtype and backend of this tensor. `[..] -> [..]`.
        Torch: `torch.empty_like`.
        """
        return wrap(self.spec.ops.empty_like(self.inner), self.spec)

    def zeros_like(self) -> "Tensor[B, D, K]":
        """Zeros (False) in the shape, dtype and backend of this tensor. `[..] -> [..]`. Torch: `torch.zeros_like`."""
        return wrap(self.spec.ops.zeros_like(self.inner), self.spec)

    def ones_like(self) -> "Tensor[B, D, K]":
        """Ones (True) in the shape, dtype and backend of this tensor. `[..] -> [..]`. Torch: `torch.ones_like`."""
        return wrap(self.spec.ops.ones_like(self.inner), self.spec)

    def full_like(self, fill_value: float) -> "Tensor[B, D, K]":
        """`fill_value` in the shape, dtype and backend of this tensor. `[..] -> [..]`. Torch: `torch.full_like`."""
        spec = self.spec
        return wrap(spec.ops.full_like(self.inner, scalar("full_like", spec, fill_value)), spec)

    @staticmethod
    @_of_shape("distribution: Distribution, backend: B2")
    def random(shape: Any, distribution: Any, backend: Any, kind: Any = Float, dtype: ElementType = None) -> Any:
        """Random numbers, drawn from the backend's generator (`backend.seed`). `shape -> shape`, Float or Int.

        `Distribution.Default` is uniform in [0, 1) for Float and in [0, 255) for Int; Int numbers are drawn as floating
        point and truncated.

        Torch: `torch.rand`, `torch.randn`, `torch.randint`, `torch.bernoulli`.
        Differs: one function for all distributions; names the backend.
        """
        spec, sizes = created("Random", shape, backend, kind, dtype)
        return wrap(draw(distribution, spec.ops, sizes, spec.dtype, spec.backend.device), spec)

    def random_like(self: "Floats[B, D]", distribution: Distribution) -> "Tensor[B, D, Float]":
        """Random numbers in the shape and dtype of this tensor. `[..] -> [..]`.
        Torch: `torch.rand_like`, `torch.randn_like`.
        """
        spec = self.spec
        return wrap(draw(distribution, spec.ops, self.inner.shape, spec.dtype, spec.backend.device), spec)

    @staticmethod
    @_of_lists("float", "Float", chosen=True)
    def from_data(data: Any, backend: Any, kind: Any = Float, dtype: ElementType = None) -> Any:
        """A tensor with a copy of nested lists, TensorData, an array or a torch tensor. `shape -> shape`.
        Torch: `torch.tensor`.
        Differs: the numbers are converted to the backend's dtype for `kind`, unless one is given. An Int tensor takes
        whole numbers that its dtype has; values on other devices than the CPU are not read, and become the nearest.
        Raises TensorValueError: other numbers; `round().int()` of a Float tensor, or `cast`, converts those.
        """
        return _from_data("From Data", data, backend, kind, dtype)

    @staticmethod
    @_of_lists("float", "Float")
    def from_floats(data: Any, backend: Any) -> "Tensor[Any, Any, Float]":
        """A Float tensor of nested lists. `shape -> shape`. Torch: `torch.tensor`.
        Differs: the dtype is the backend's; no digit is lost on the way to float64, where Burn passes through float32.
        """
        return _from_data("From Floats", data, backend, Float, None)

    @staticmethod
    @_of_lists("int", "Int")
    def from_ints(data: Any, backend: Any) -> "Tensor[Any, Any, Int]":
        """An Int tensor of nested lists. `shape -> shape`. Torch: `torch.tensor`. Differs: the backend's dtype."""
        return _from_data("From Ints", data, backend, Int, None)

    @staticmethod
    @_of_lists("bool", "Bool")
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

    @staticmethod
    @overloads(
        "(shape: S{n}, backend: B2) -> Tensor[B2, D{m}, Int]",
        "(shape: Sequence[int], backend: B2) -> Tensor[B2, Any, Int]",
    )
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
    try:
        if spec.kind is Int and not isinstance(data, bytes):
            _refuse_losses(operation, data, spec.dtype)
        return wrap(spec.ops.from_data(data, sizes, spec.dtype, spec.backend.device), spec)
    except TensorValueError:
        raise
    except (TypeError, ValueError, RuntimeError, OverflowError) as error:
        fault = TensorTypeError if isinstance(error, TypeError) else TensorValueError
        raise fault(operation, f"can't be read as numbers: {str(error).splitlines()[0]}") from error


def _refuse_losses(operation: str, data: Any, dtype: torch.dtype) -> None:
    """Refuse numbers that integers of `dtype` would cut or wrap; torch itself refuses those too large in lists."""
    if not isinstance(data, list | tuple):
        _refuse_losses_of_array(operation, torch.as_tensor(data).detach(), dtype)
        return
    for item in data:
        if isinstance(item, list | tuple):
            _refuse_losses(operation, item, dtype)
        elif isinstance(item, float) and not (item.is_integer() and item <= torch.iinfo(dtype).max):
            raise TensorValueError(operation, f"an Int can't be {item}; use kind=Float, or round it")


def _refuse_losses_of_array(operation: str, values: torch.Tensor, dtype: torch.dtype) -> None:
    if values.dtype in (dtype, torch.bool) or not readable(values) or not values.numel():
        return
    low, high = torch.iinfo(dtype).min, torch.iinfo(dtype).max
    if not values.is_floating_point():
        limits = torch.iinfo(values.dtype)
        if low <= limits.min and limits.max <= high:
            return
        if limits.min == 0 and limits.bits > 8:  # torch has no `aminmax` of these
            values = values.double()
    least, most = (it.item() for it in values.aminmax())
    lost = [it for it in (least, most) if not low <= it <= high]  # NaN, too
    if not lost and values.is_floating_point() and not torch.equal(values, values.trunc()):
        lost = values[values != values.trunc()][:1].tolist()
    if lost:
        raise TensorValueError(
            operation,
            f"{lost[0]} is no whole number of {low}..{high}, those of {dtype}; round it, or use another dtype or kind",
        )


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
