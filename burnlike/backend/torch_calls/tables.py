"""The tables of one backend as the translations use them, and how operands become what the tables take."""

import math
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import torch
from torch import Tensor

from ...errors import BackendError

Sizes = Sequence[int]
Translation = Callable[..., Any]
TRANSLATIONS: dict[str, Translation] = {}
"""By the name of the aten operator, without its overload. Each takes `Tables` and the operator's arguments."""

WRITES: dict[str, Translation] = {}
"""Operators that write into one of their arguments, of which torch has no form without that."""


def translates(*names: str) -> Callable[[Translation], Translation]:
    """Decorates the translation of these operators."""

    def register(function: Translation) -> Translation:
        for name in names:
            assert name not in TRANSLATIONS, name
            TRANSLATIONS[name] = function
        return function

    return register


def translate(**translations: Translation) -> None:
    """Register translations that are one expression, by the name of the operator."""
    for name, function in translations.items():
        translates(name)(function)


class Tables:
    """The tables of a backend. Tensors of rank 0, which they don't know, are `[1]` for them."""

    float: Any
    int: Any
    bool: Any
    module: Any
    activation: Any

    def __init__(self, backend: Any, mode: Any) -> None:
        self.backend = backend
        self.mode = mode
        """Within `with t.mode:` torch's own functions are the backend's again, as outside of a translation."""

    def __getattr__(self, name: str) -> Any:
        # At first use, and kept: a backend may make its tables when they are asked for.
        table = self.__dict__[name] = getattr(self.backend, f"{name}_ops")
        return table

    def of(self, kind: Tensor | torch.dtype) -> Any:
        """The table for a tensor or an element type.

        Raises:
            BackendError: complex numbers, which no table has.
        """
        dtype = kind.dtype if isinstance(kind, Tensor) else kind
        if dtype.is_floating_point:
            return self.float
        if dtype.is_complex:
            raise BackendError(f"{self.backend!r}: complex numbers ({dtype}) have no functions in a backend's tables")
        return self.bool if dtype is torch.bool else self.int

    def cast(self, tensor: Tensor, dtype: torch.dtype) -> Tensor:
        """The values in another element type."""
        return tensor if tensor.dtype is dtype else self.of(tensor).cast(tensor, dtype)

    def full(self, shape: Sizes, value: Any, dtype: torch.dtype, device: torch.device) -> Tensor:
        """`shape`, all `value`, of any rank."""
        filled = self.of(dtype).full(list(shape) or [1], kind_of(dtype)(value), dtype, device)
        return filled if len(shape) else scalar(filled)

    def apply(self, tensor: Tensor, function: str, *args: Any, dtype: torch.dtype | None = None) -> Tensor:
        """A function of the tensor's table, of its values in `dtype` if one is given, in the rank that torch gives."""
        x = at_least_1(tensor)
        x = x if dtype is None else self.cast(x, dtype)
        return like_rank(getattr(self.of(x), function)(x, *args), tensor)

    def ranked(self, tensor: Tensor, rank: Any) -> Tensor:
        """The elements with `rank` dimensions or more, at least one: those of size 1 come first."""
        x = at_least_1(tensor)
        return self.reshape(x, [1] * (rank - x.ndim) + list(x.shape))

    def reshape(self, tensor: Tensor, shape: Sizes) -> Tensor:
        """The elements as `shape`, of any rank."""
        if tensor.ndim == 0 or len(shape) == 0:
            return tensor.reshape(tuple(shape))
        return tensor if tuple(shape) == tuple(tensor.shape) else self.of(tensor).reshape(tensor, list(shape))


def tensors_in(value: Any) -> Iterator[Tensor]:
    """The tensors in nested lists, tuples and values of dicts."""
    if isinstance(value, Tensor):
        yield value
    elif isinstance(value, list | tuple | dict):
        for item in value.values() if isinstance(value, dict) else value:
            yield from tensors_in(item)


def kind_of(dtype: torch.dtype) -> Callable[[Any], Any]:
    """The type of Python's numbers for an element type."""
    return float if dtype.is_floating_point else bool if dtype is torch.bool else int


def scalar(tensor: Tensor) -> Tensor:
    """`[1]` as torch's rank 0."""
    return tensor.reshape(())


def at_least_1(tensor: Tensor) -> Tensor:
    """A tensor of rank 0 as `[1]`."""
    return tensor.reshape(1) if tensor.ndim == 0 else tensor


def like_rank(result: Tensor, operand: Tensor) -> Tensor:
    """The result of a function of `at_least_1(operand)` in the rank that torch gives it."""
    return scalar(result) if operand.ndim == 0 else result


def float_dtype(dtype: torch.dtype) -> torch.dtype:
    """The dtype that a function of numbers gives for an element type: torch's default for integers."""
    return dtype if dtype.is_floating_point else torch.get_default_dtype()


def aligned(t: Tables, dtype: torch.dtype, *values: Any) -> tuple[list[Any], bool]:
    """Operands in one element type and one rank, scalars as numbers of it; and whether torch's result has rank 0."""
    rank = max(value.ndim for value in values if isinstance(value, Tensor))
    kind = kind_of(dtype)
    tensors = [t.ranked(t.cast(at_least_1(it), dtype), rank) if isinstance(it, Tensor) else kind(it) for it in values]
    return tensors, rank == 0


def dims_of(tensor: Tensor, dim: Any) -> list[int]:
    """The dimensions that a reduction names, all where it names none, each 0 or above."""
    rank = max(tensor.ndim, 1)
    if dim is None or (isinstance(dim, Sequence) and not dim):
        return list(range(rank))
    return [it % rank for it in ([dim] if isinstance(dim, int) else dim)]


def without(t: Tables, tensor: Tensor, dims: Sequence[int], keepdim: bool, operand: Tensor) -> Tensor:
    """A result that kept `dims` with size 1, as torch gives it."""
    if operand.ndim == 0:
        return scalar(tensor)
    if keepdim:
        return tensor
    return t.reshape(tensor, [size for place, size in enumerate(tensor.shape) if place not in dims])


def count_of(tensor: Tensor, dims: Sequence[int]) -> int:
    """The number of elements that a reduction over `dims` takes together."""
    return math.prod(at_least_1(tensor).shape[dim] for dim in dims)
