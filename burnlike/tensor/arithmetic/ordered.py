"""Sorting, and the k greatest elements."""

from typing import Any, NoReturn

import torch

from ...errors import TensorTypeError, TensorValueError
from ..core.axes import axis
from ..core.base import B, D, K, Numeric, Tensor, TensorBase, wrap
from ..core.kinds import Int
from ..core.operands import fail


class OrderedMethods(TensorBase[B, D, K]):
    """Sorting, and the k greatest. NaN is greater than all numbers; equal elements come in any order."""

    __slots__ = ()

    def sort(self: "Numeric[B, D]", dim: int) -> "Tensor[B, D, K]":
        """The elements along `dim`, ascending. `[..] -> [..]`. Torch: `torch.sort(x, dim).values`.

        Differs: values only.
        """
        spec = self.spec
        return wrap(spec.ops.sort(self.inner, axis("Sort", dim, spec.rank), False), spec)

    def sort_descending(self: "Numeric[B, D]", dim: int) -> "Tensor[B, D, K]":
        """The elements along `dim`, descending. `[..] -> [..]`. Torch: `torch.sort(x, dim, descending=True).values`.

        Differs: values only.
        """
        spec = self.spec
        return wrap(spec.ops.sort(self.inner, axis("Sort", dim, spec.rank), True), spec)

    def sort_with_indices(self: "Numeric[B, D]", dim: int) -> "tuple[Tensor[B, D, K], Tensor[B, D, Int]]":
        """The elements along `dim`, ascending, and where each was. `[..] -> ([..], [..])`.

        Torch: `torch.sort(x, dim)`.
        """
        spec = self.spec
        dim = axis("Sort With Indices", dim, spec.rank)
        values, indices = spec.ops.sort_with_indices(self.inner, dim, False, spec.places.dtype)
        return wrap(values, spec), wrap(indices, spec.places)

    def sort_descending_with_indices(self: "Numeric[B, D]", dim: int) -> "tuple[Tensor[B, D, K], Tensor[B, D, Int]]":
        """The elements along `dim`, descending, and where each was. `[..] -> ([..], [..])`.

        Torch: `torch.sort(x, dim, descending=True)`.
        """
        spec = self.spec
        dim = axis("Sort With Indices", dim, spec.rank)
        values, indices = spec.ops.sort_with_indices(self.inner, dim, True, spec.places.dtype)
        return wrap(values, spec), wrap(indices, spec.places)

    def argsort(self: "Numeric[B, D]", dim: int) -> "Tensor[B, D, Int]":
        """The indices that sort the elements along `dim` in ascending order. `[..] -> [..]`.

        Torch: `torch.argsort(x, dim)`.
        """
        spec = self.spec
        dim = axis("Argsort", dim, spec.rank)
        return wrap(spec.ops.argsort(self.inner, dim, False, spec.places.dtype), spec.places)

    def argsort_descending(self: "Numeric[B, D]", dim: int) -> "Tensor[B, D, Int]":
        """The indices that sort the elements along `dim` in descending order. `[..] -> [..]`.

        Torch: `torch.argsort(x, dim, descending=True)`.
        """
        spec = self.spec
        dim = axis("Argsort", dim, spec.rank)
        return wrap(spec.ops.argsort(self.inner, dim, True, spec.places.dtype), spec.places)

    def topk(self: "Numeric[B, D]", k: int, dim: int) -> "Tensor[B, D, K]":
        """The `k` greatest along `dim`, descending. `[.., n, ..] -> [.., k, ..]`.

        Torch: `torch.topk(x, k, dim).values`.
        Differs: values only.
        """
        spec = self.spec
        dim = axis("Top K", dim, spec.rank)
        try:
            return wrap(spec.ops.topk(self.inner, k, dim), spec)
        except Exception as error:
            _refuse(error, self.inner, k, dim)

    def topk_with_indices(self: "Numeric[B, D]", k: int, dim: int) -> "tuple[Tensor[B, D, K], Tensor[B, D, Int]]":
        """The `k` greatest along `dim`, descending, and where each is. `[.., n, ..] -> ([.., k, ..], [.., k, ..])`.

        Torch: `torch.topk(x, k, dim)`.
        """
        spec = self.spec
        dim = axis("Top K", dim, spec.rank)
        try:
            values, indices = spec.ops.topk_with_indices(self.inner, k, dim, spec.places.dtype)
        except Exception as error:
            _refuse(error, self.inner, k, dim)
        return wrap(values, spec), wrap(indices, spec.places)

    def argtopk(self: "Numeric[B, D]", k: int, dim: int) -> "Tensor[B, D, Int]":
        """The indices of the `k` greatest elements along `dim`, the greatest first. `[.., n, ..] -> [.., k, ..]`.

        Torch: `torch.topk(x, k, dim).indices`.
        Differs: of equal elements the first ones, in their order.
        """
        spec = self.spec
        dim = axis("Top K", dim, spec.rank)
        try:
            return wrap(spec.ops.argtopk(self.inner, k, dim, spec.places.dtype), spec.places)
        except Exception as error:
            _refuse(error, self.inner, k, dim)


def _refuse(error: Exception, inner: torch.Tensor, k: Any, dim: int) -> NoReturn:
    """Say what is wrong with `k`, or what torch says."""
    size = inner.shape[dim]
    if not isinstance(k, int):
        raise TensorTypeError("Top K", f"expected k as an int, got {type(k).__name__}") from error
    if not 0 <= k <= size:
        reason = f"expected k from 0 to {size}, the size of dimension {dim}, got {k}"
        raise TensorValueError("Top K", reason) from error
    fail("top_k", error, inner)
