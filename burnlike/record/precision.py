"""The element types of tensors: torch's, the names that the safetensors format gives them, and those to store in."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

import torch

from .._dtypes import DTYPES, convertible, torch_dtypes
from .._patterns import compiled, pattern_problem
from ..errors import ArgumentError, BurnlikeError, DTypeError, RecordError, RecordFormatError

_DTYPES: dict[str, torch.dtype] = {dtype.record: getattr(torch, dtype.torch) for dtype in DTYPES if dtype.torch}
_NAMES = {dtype: name for name, dtype in _DTYPES.items()}


def file_dtype(dtype: torch.dtype, tensor_name: str) -> str:
    """The format's name of `dtype`."""
    if dtype not in _NAMES:
        remedy = "store torch.view_as_real(tensor)" if dtype.is_complex else "convert it first"
        raise DTypeError(f"'{tensor_name}' is {plain(dtype)}, which a safetensors file can't hold; {remedy}")
    return _NAMES[dtype]


def torch_dtype(name: str, tensor_name: str, path: str) -> torch.dtype:
    """torch's type for the format's `name`."""
    if name not in _DTYPES:
        raise RecordFormatError(f"{path}: '{tensor_name}' is {name}, a type that torch tensors can't have")
    return _DTYPES[name]


def kind_of(dtype: torch.dtype) -> str:
    """`float`, `complex`, `bool` or `int`: what a conversion must not change."""
    if dtype.is_floating_point or dtype.is_complex:
        return "complex" if dtype.is_complex else "float"
    return "bool" if dtype == torch.bool else "int"


def plain(dtype: torch.dtype) -> str:
    """The dtype without the prefix `torch.`."""
    return str(dtype).removeprefix("torch.")


def shown(dtype: torch.dtype, shape: Sequence[int]) -> str:
    """`float32 [2, 3]`, for messages."""
    return f"{plain(dtype)} {list(shape)}"


class PrecisionRule(Protocol):
    """The interface of a precision; yours needs only this method. Its `allow_overflow` may let finite values be inf."""

    def stored_dtype(self, name: str, dtype: torch.dtype) -> torch.dtype:
        """The type in which a tensor of this name and type is stored, of the same kind (float, int, bool, complex)."""
        ...


@dataclass(frozen=True, slots=True)
class Precision:
    """The types in which tensors are stored; values are rounded to nearest even, as `tensor.to` does.

    Bool and complex tensors are stored as they are. Integers are never narrowed unless every value fits.

    Attributes:
        float: type for floating-point tensors, None for as they are.
        int: type for integer tensors, None for as they are.
        keep: regular expressions; a tensor whose name one of them finds (`re.search`) is stored as it is. A tied tensor
            has several names.
        allow_overflow: store a finite value that is too large for `float` as inf (nan where the type has no inf) in
            place of raising PrecisionError.
    """

    float: torch.dtype | None
    int: torch.dtype | None = None
    keep: Sequence[str] = ()
    allow_overflow: bool = False

    def __post_init__(self) -> None:
        for kind, dtype in (("float", self.float), ("int", self.int)):
            allowed = torch_dtypes(convertible(kind))
            if dtype is not None and dtype not in allowed:
                got = plain(dtype) if isinstance(dtype, torch.dtype) else repr(dtype)
                raise DTypeError(f"Precision.{kind}: expected one of {', '.join(map(plain, allowed))}, got {got}")
        if isinstance(self.keep, str):
            raise RecordError(f"keep: expected a list of regular expressions, got a text; write keep=[{self.keep!r}]")
        object.__setattr__(self, "keep", tuple(self.keep))
        for pattern in self.keep:
            check_pattern("keep", pattern, RecordError)

    def stored_dtype(self, name: str, dtype: torch.dtype) -> torch.dtype:
        """The type in which a tensor of this name and type is stored."""
        for pattern in self.keep:
            if compiled(pattern).search(name):
                return dtype
        return {"float": self.float, "int": self.int}.get(kind_of(dtype)) or dtype


def check_pattern(option: str, pattern: str, error_type: type[BurnlikeError] = ArgumentError) -> None:
    if problem := pattern_problem(pattern):
        raise error_type(f"{option}: {problem}")


def stored_dtype_of(precision: PrecisionRule, names: Sequence[str], dtype: torch.dtype) -> torch.dtype:
    """The type in which a tensor is stored; `names` are the one that it is stored under, then those it is tied to.

    If the precision keeps the type under one of them, it stays; else the first name decides.
    """
    stored = precision.stored_dtype(names[0], dtype)
    for alias in names[1:]:
        if stored != dtype and precision.stored_dtype(alias, dtype) == dtype:
            stored = dtype
    is_dtype = isinstance(stored, torch.dtype)
    if is_dtype and kind_of(stored) == kind_of(dtype):
        return stored
    what = f"the Precision stores '{names[0]}' ({plain(dtype)}) as"
    raise DTypeError(
        f"{what} {plain(stored)}, which is of another kind"
        if is_dtype
        else f"{what} {stored!r}, expected a torch.dtype"
    )


FullPrecision = Precision(torch.float32)
"""Floating-point tensors are stored in float32."""
DoublePrecision = Precision(torch.float64)
"""Floating-point tensors are stored in float64."""
HalfPrecision = Precision(torch.float16)
"""Floating-point tensors are stored in float16, of IEEE: a value above 65504 is a PrecisionError."""
BFloat16Precision = Precision(torch.bfloat16)
"""Floating-point tensors are stored in bfloat16: float32's range, 8 significant bits."""
