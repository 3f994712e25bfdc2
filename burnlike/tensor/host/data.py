"""TensorData: a tensor's elements on the host, as bytes, shape and element type; Tolerance: how near two may be."""

import dataclasses
import json
import math
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import torch

from ...errors import TensorError, TensorTypeError, TensorValueError
from ..core.dtypes import as_dtype, dtype_name
from .distribution import Distribution, draw
from .host_values import bytes_of, cast, natural_dtype, values_of

_NAME = "Tensor Data"
_SHOWN_DIFFERENCES = 5
_Bytes = bytes  # inside the class, the name is the attribute's


@dataclasses.dataclass(frozen=True)
class Tolerance:
    """x and y are near if x == y, or |x - y| < max(atol, rtol * max(|x|, |y|)).

    Attributes:
        rtol: of the larger of the two, 0 to 1.
        atol: 0 or above.
        by_size: what replaces one of them where numbers of so many bytes are compared, the last one first.

    Example:
        >>> Tolerance.relative(0.01).approx_eq(100.0, 100.9)
        True
        >>> tolerance = Tolerance.rel_abs(1e-4, 1e-5).set_half_precision_relative(1e-2)
        >>> [tolerance.approx_eq(100.0, 100.5, dtype) for dtype in (torch.float16, torch.float32)]
        [True, False]
    """

    rtol: float = 0.005
    atol: float = 1e-5
    by_size: tuple[tuple[int, str, float], ...] = ()

    def __post_init__(self) -> None:
        if not 0 <= self.rtol <= 1 or not self.atol >= 0:
            raise TensorValueError(
                "Tolerance", f"expected rtol of 0 to 1 and atol of 0 or above, got {self.rtol} and {self.atol}"
            )

    @staticmethod
    def default() -> "Tolerance":
        """Half a percent, or 1e-5 near 0."""
        return Tolerance()

    @staticmethod
    def balanced() -> "Tolerance":
        """The same as `default`."""
        return Tolerance()

    @staticmethod
    def strict() -> "Tolerance":
        """Equal, but for numbers of the size of float32's smallest."""
        return Tolerance(0.0, 64 * 2.0**-126)

    @staticmethod
    def permissive() -> "Tolerance":
        """A hundredth, of the number or at all."""
        return Tolerance(0.01, 0.01)

    @staticmethod
    def rel_abs(relative: float, absolute: float) -> "Tolerance":
        """Either of the two."""
        return Tolerance(relative, absolute)

    @staticmethod
    def relative(tolerance: float) -> "Tolerance":
        """A part of the larger number, and none near 0."""
        return Tolerance(tolerance, 0.0)

    @staticmethod
    def absolute(tolerance: float) -> "Tolerance":
        """The same for numbers of every size."""
        return Tolerance(0.0, tolerance)

    def set_relative(self, tolerance: float) -> "Tolerance":
        """This one with another `rtol`."""
        return self._with("rtol", tolerance)

    def set_absolute(self, tolerance: float) -> "Tolerance":
        """This one with another `atol`."""
        return self._with("atol", tolerance)

    def set_half_precision_relative(self, tolerance: float) -> "Tolerance":
        """This one with another `rtol` for float16 and bfloat16."""
        return self._with("rtol", tolerance, 2)

    def set_single_precision_relative(self, tolerance: float) -> "Tolerance":
        """This one with another `rtol` for float32."""
        return self._with("rtol", tolerance, 4)

    def set_double_precision_relative(self, tolerance: float) -> "Tolerance":
        """This one with another `rtol` for float64."""
        return self._with("rtol", tolerance, 8)

    def set_half_precision_absolute(self, tolerance: float) -> "Tolerance":
        """This one with another `atol` for float16 and bfloat16."""
        return self._with("atol", tolerance, 2)

    def set_single_precision_absolute(self, tolerance: float) -> "Tolerance":
        """This one with another `atol` for float32."""
        return self._with("atol", tolerance, 4)

    def set_double_precision_absolute(self, tolerance: float) -> "Tolerance":
        """This one with another `atol` for float64."""
        return self._with("atol", tolerance, 8)

    def _with(self, field: str, tolerance: float, size: int | None = None) -> "Tolerance":
        changed = dataclasses.replace(self, **{field: tolerance})
        if size is None:
            return dataclasses.replace(changed, by_size=tuple(it for it in self.by_size if it[1] != field))
        return dataclasses.replace(self, by_size=((size, field, tolerance), *self.by_size))

    def _of(self, field: str, dtype: torch.dtype) -> float:
        """`rtol` or `atol`, for numbers of this type."""
        candidates = (it for size, name, it in self.by_size if (size, name) == (dtype.itemsize, field))
        return next(candidates, getattr(self, field))

    def approx_eq(self, x: float, y: float, dtype: torch.dtype = torch.float64) -> bool:
        """True if the two are near, calculated in `dtype`. NaN is near to nothing."""
        return bool(self.near(torch.tensor(x, dtype=dtype), torch.tensor(y, dtype=dtype)))

    def near(self, left: torch.Tensor, right: torch.Tensor) -> torch.Tensor:
        """`approx_eq` of each element, calculated in the tensors' type."""
        relative, absolute = (torch.tensor(self._of(it, left.dtype), dtype=left.dtype) for it in ("rtol", "atol"))
        largest = torch.fmax(left.abs(), right.abs())
        return (left == right) | ((left - right).abs() < torch.maximum(absolute, relative * largest))


@dataclasses.dataclass(frozen=True, repr=False)
class TensorData:
    """A tensor's elements on the host. Two are equal if bytes, shape and dtype are.

    An element type can be given as a torch dtype, by its short name (`"f32"`), or as `float`, `int` or `bool` (the
    first two of 64 bits).

    Attributes:
        bytes: the elements in row-major order, little-endian.
        shape: the sizes.
        dtype: the element type.

    Example:
        >>> TensorData.from_nested([[1.0, 2.0], [3.0, 4.0]]).to_vec()
        [1.0, 2.0, 3.0, 4.0]
    """

    bytes: _Bytes
    shape: tuple[int, ...]
    dtype: torch.dtype

    def __post_init__(self) -> None:
        object.__setattr__(self, "shape", tuple(self.shape))
        needed = math.prod(self.shape) * self.dtype.itemsize
        if min(self.shape, default=0) < 0 or len(self.bytes) != needed:
            raise TensorValueError(
                _NAME, f"shape {list(self.shape)} of {self.dtype} takes {needed} bytes, got {len(self.bytes)}"
            )

    @staticmethod
    def new(values: Sequence[float], shape: Sequence[int], dtype: Any = None) -> "TensorData":
        """Numbers in row-major order. Without a dtype: float32, int64 or bool, after what they are.

        Raises TensorValueError: another count than the shape has, or a number that the dtype does not hold.
        """
        if len(values) != math.prod(shape):
            raise TensorValueError(_NAME, f"shape {list(shape)} takes {math.prod(shape)} numbers, got {len(values)}")
        element_type = natural_dtype(values) if dtype is None else as_dtype(_NAME, dtype)
        return TensorData(bytes_of(values, element_type), tuple(shape), element_type)

    @staticmethod
    def from_nested(data: Any, dtype: Any = None) -> "TensorData":
        """Nested lists of numbers. Without a dtype: float32, int64 or bool, after what they are.

        Raises TensorValueError: lists of different lengths side by side.
        """
        shape = shape_of(_NAME, data)
        values: list[Any] = [data]
        for size in shape:
            if any(not isinstance(row, list | tuple) or len(row) != size for row in values):
                raise TensorValueError(_NAME, f"rows of different lengths; the first ones have {list(shape)}")
            values = [value for row in values for value in row]
        return TensorData.new(values, shape, dtype)

    @staticmethod
    def from_bytes(content: "_Bytes | bytearray", shape: Sequence[int], dtype: Any) -> "TensorData":
        """Elements as they are in memory. Raises TensorValueError: another number of bytes than the shape takes."""
        return TensorData(_Bytes(content), tuple(shape), as_dtype(_NAME, dtype))

    @staticmethod
    def try_from_bytes(content: "_Bytes | bytearray", shape: Sequence[int], dtype: Any) -> "TensorData | TensorError":
        """As `from_bytes`, but returns the error."""
        try:
            return TensorData.from_bytes(content, shape, dtype)
        except TensorError as error:
            return error

    @staticmethod
    def zeros(shape: Sequence[int], dtype: Any = torch.float32) -> "TensorData":
        return TensorData.full_dtype(shape, 0, dtype)

    @staticmethod
    def ones(shape: Sequence[int], dtype: Any = torch.float32) -> "TensorData":
        return TensorData.full_dtype(shape, 1, dtype)

    @staticmethod
    def full(shape: Sequence[int], value: float) -> "TensorData":
        """All `value`: float32, int64 or bool, after what it is."""
        return TensorData.full_dtype(shape, value, None)

    @staticmethod
    def full_dtype(shape: Sequence[int], value: float, dtype: Any) -> "TensorData":
        """All `value`, as `dtype`."""
        one = TensorData.new([value], [1], dtype)
        return TensorData(one.bytes * math.prod(shape), tuple(shape), one.dtype)

    @staticmethod
    def random(shape: Sequence[int], distribution: Distribution, dtype: Any = torch.float32) -> "TensorData":
        """Random numbers, drawn from torch's generator of the CPU."""
        from ...backend import Cpu

        element_type, cpu = as_dtype(_NAME, dtype), Cpu()
        drawn = draw(distribution, cpu.float_ops, list(shape), element_type, cpu.device)
        return TensorData(cpu.float_ops.read_bytes(drawn), tuple(shape), element_type)

    def rank(self) -> int:
        return len(self.shape)

    def num_elements(self) -> int:
        return math.prod(self.shape)

    def as_bytes(self) -> _Bytes:
        return self.bytes

    into_bytes = as_bytes

    def to_vec(self, element: Any = None) -> list[Any]:
        """The elements as a flat list of Python numbers. Raises TensorTypeError: they are no `element`s."""
        if element is not None and as_dtype(_NAME, element) is not self.dtype:
            raise TensorTypeError(_NAME, f"the elements are {self.dtype}, not {element}; use convert(...) first")
        return values_of(self.bytes, self.dtype)

    into_vec = to_vec

    def iter(self, element: Any = None) -> Iterator[Any]:
        """The elements one by one, each converted to `element` if that is given."""
        return iter(self.to_vec() if element is None else self.convert(element).to_vec())

    def to_nested(self) -> Any:
        """The elements as nested lists of the shape; a number for an empty shape."""
        values = self.to_vec()
        for size in reversed(self.shape[1:]):
            count = len(values) // size if size else math.prod(self.shape[:-1])
            values = [values[start * size : (start + 1) * size] for start in range(count)]
        return values if self.shape else values[0]

    def convert(self, element: Any) -> "TensorData":
        """The elements as another type: floating point numbers lose their fraction in an integer type.

        Raises TensorValueError: NaN, or out of the range of an integer type.
        """
        element_type = as_dtype(_NAME, element)
        return (
            self
            if element_type is self.dtype
            else TensorData(cast(self.bytes, self.dtype, element_type), self.shape, element_type)
        )

    def convert_dtype(self, dtype: Any) -> "TensorData":
        """The same as `convert`."""
        return self.convert(dtype)

    def assert_eq(self, other: "TensorData", strict: bool = True) -> None:
        """Check that shapes and elements are the same; with `strict`, dtypes too. NaN is not the same as NaN.

        Raises AssertionError: they are not; the message shows the first differences.
        """
        if strict and self.dtype is not other.dtype:
            raise AssertionError(f"dtypes differ: {self.dtype} and {other.dtype}")
        right = other if other.dtype is self.dtype else other.convert(self.dtype)
        self._check_shape(other)
        left, right = self.to_vec(), right.to_vec()
        self._check([(x, y, x == y) for x, y in zip(left, right, strict=True)])

    def assert_approx_eq(self, other: "TensorData", tolerance: Tolerance | None = None) -> None:
        """Check that shapes are the same and elements near, by `Tolerance.default()` unless one is given.

        It is calculated in this one's type of floats. NaN is near to NaN.

        Raises AssertionError: they are not; the message shows the first differences.
        """
        self._check_shape(other)
        dtype = next((tensor.dtype for tensor in (self, other) if tensor.dtype.is_floating_point), torch.float64)
        left, right = (torch.tensor(it.to_vec(), dtype=torch.float64).to(dtype) for it in (self, other))
        near = (tolerance or Tolerance()).near(left, right) | (left.isnan() & right.isnan())
        self._check(list(zip(self.to_vec(), other.to_vec(), near.tolist(), strict=True)))

    def assert_within_range(self, low: float, high: float) -> None:
        """Check that each element is at least `low` and below `high`. Raises AssertionError: one is not."""
        self._assert_all(lambda it: low <= it < high, f"{low} <= x < {high}")

    def assert_within_range_inclusive(self, low: float, high: float) -> None:
        """Check that each element is at least `low` and at most `high`. Raises AssertionError: one is not."""
        self._assert_all(lambda it: low <= it <= high, f"{low} <= x <= {high}")

    def to_json(self) -> str:
        """The text that Burn writes: the bytes as a list of numbers, the shape, and the name of the dtype."""
        name: Any = {"Bool": "Native"} if self.dtype is torch.bool else dtype_name(self.dtype).upper()
        return json.dumps({"bytes": list(self.bytes), "shape": list(self.shape), "dtype": name}, separators=(",", ":"))

    @staticmethod
    def from_json(text: str) -> "TensorData":
        """Read what `to_json` or Burn wrote; other keys are ignored.

        Raises TensorValueError: no such object, an element type that torch lacks, or sizes that do not fit the bytes.
        """
        try:
            fields = json.loads(text)
            content, shape, name = _Bytes(fields["bytes"]), [int(size) for size in fields["shape"]], fields["dtype"]
        except (ValueError, KeyError, TypeError, OverflowError) as error:
            raise TensorValueError(
                _NAME, f'expected {{"bytes": [..], "shape": [..], "dtype": ".."}}: {error}'
            ) from error
        if name == {"Bool": "U32"}:
            return TensorData(content, tuple(shape), torch.uint32).convert(torch.bool)
        name = {"Flex32": "F32"}.get(name, name) if isinstance(name, str) else next(iter(name), "")
        return TensorData(content, tuple(shape), as_dtype(_NAME, name))

    def __repr__(self) -> str:
        values = self.to_vec() if self.num_elements() <= 16 else f"{self.num_elements()} elements"
        return f"TensorData({values}, shape={list(self.shape)}, dtype={dtype_name(self.dtype)})"

    def _check_shape(self, other: "TensorData") -> None:
        if self.shape != other.shape:
            raise AssertionError(f"shapes differ: {list(self.shape)} and {list(other.shape)}")

    def _check(self, pairs: Sequence[tuple[Any, Any, bool]]) -> None:
        """Raise for pairs of elements that are not the same, by what the third of each says."""
        wrong = [f"element {index}: {x} and {y}" for index, (x, y, same) in enumerate(pairs) if not same]
        if wrong:
            shown = "\n".join(wrong[:_SHOWN_DIFFERENCES])
            raise AssertionError(f"{len(wrong)} of {self.num_elements()} elements differ:\n{shown}")

    def _assert_all(self, holds: Callable[[Any], bool], text: str) -> None:
        wrong = [f"element {index}: {it}" for index, it in enumerate(self.to_vec()) if not holds(it)]
        if wrong:
            shown = "\n".join(wrong[:_SHOWN_DIFFERENCES])
            raise AssertionError(f"{len(wrong)} of {self.num_elements()} elements are not {text}:\n{shown}")


def shape_of(operation: str, data: Any) -> tuple[int, ...]:
    """The sizes of an array, a tensor, TensorData, or nested lists, of which the first ones are looked at."""
    shape = getattr(data, "shape", None)
    if shape is not None:
        return tuple(shape)
    sizes: list[int] = []
    while isinstance(data, list | tuple):
        sizes.append(len(data))
        if not data:
            break
        data = data[0]
    if not sizes:
        raise TensorTypeError(operation, f"expected nested lists or an array, got {type(data).__name__}")
    return tuple(sizes)
