"""Statistics, cross products, sampling by weights, sorting, and the k greatest elements."""

from typing import Any, NoReturn

import torch

from ...errors import TensorTypeError, TensorValueError
from ..core.arguments import axis
from ..core.base import B, D, FloatLike, Floats, K, Numeric, Tensor, TensorBase, like, wrap
from ..core.kinds import Float, Int
from ..core.operands import computed, fail, operand


class StatsMethods(TensorBase[B, D, K]):
    """Statistics, sampling, sorting and the k greatest. NaN is the greatest; equal elements come in any order."""

    __slots__ = ()

    def var(self: "Floats[B, D]", dim: int) -> "Tensor[B, D, Float]":
        """Variances along `dim`, divided by n - 1. `[.., n] -> [.., 1]`. Torch: `torch.var(x, dim, keepdim=True)`."""
        spec = self.spec
        return like(spec.ops.var(self.inner, axis("Var", dim, spec.rank), True), spec)

    def var_bias(self: "Floats[B, D]", dim: int) -> "Tensor[B, D, Float]":
        """Variances along `dim`, divided by n. `[.., n] -> [.., 1]`.
        Torch: `torch.var(x, dim, correction=0, keepdim=True)`.
        """
        spec = self.spec
        return like(spec.ops.var(self.inner, axis("Var", dim, spec.rank), False), spec)

    def var_mean(self: "Floats[B, D]", dim: int) -> "tuple[Tensor[B, D, Float], Tensor[B, D, Float]]":
        """`var` and means along `dim`. `[.., n] -> 2 of [.., 1]`. Torch: `torch.var_mean(x, dim, keepdim=True)`."""
        spec = self.spec
        var, mean = spec.ops.var_mean(self.inner, axis("Var", dim, spec.rank), True)
        return like(var, spec), like(mean, spec)

    def var_mean_bias(self: "Floats[B, D]", dim: int) -> "tuple[Tensor[B, D, Float], Tensor[B, D, Float]]":
        """`var_bias` and means along `dim`. `[.., n] -> 2 of [.., 1]`.
        Torch: `torch.var_mean(x, dim, correction=0, keepdim=True)`.
        """
        spec = self.spec
        var, mean = spec.ops.var_mean(self.inner, axis("Var", dim, spec.rank), False)
        return like(var, spec), like(mean, spec)

    def median(self: "Floats[B, D]", dim: int) -> "Tensor[B, D, Float]":
        """The lower medians along `dim`: element (n - 1) // 2 in ascending order. `[.., n, ..] -> [.., 1, ..]`.
        Torch: `torch.median(x, dim, keepdim=True).values`. Differs: NaN counts as the greatest (torch: as the median).
        """
        return wrap(self.spec.ops.median(self.inner, _filled("Median", self, dim)), self.spec)

    def median_with_indices(self: "Floats[B, D]", dim: int) -> "tuple[Tensor[B, D, Float], Tensor[B, D, Int]]":
        """The lower medians along `dim`, and where they are. `[.., n, ..] -> ([.., 1, ..], [.., 1, ..])`.
        Torch: `torch.median(x, dim, keepdim=True)`.
        Differs: NaN counts as the greatest; any of equal elements is meant.
        """
        spec = self.spec
        dim = _filled("Median With Indices", self, dim)
        values, indices = spec.ops.median_with_indices(self.inner, dim, spec.int.dtype)
        return wrap(values, spec), wrap(indices, spec.int)

    def cov(self: "Floats[B, D]", dim: int, correction: int) -> "Tensor[B, D, Float]":
        """Covariances of the variables; `dim` counts the n observations. `[v, n] -> [v, v]` for dim 1.

        Of a higher rank: centred along `dim`, `dim` and 0 swapped, then X^T X / (n - correction) of the last two
        dimensions. `[a, b, n] -> [n, a, a]` for dim 2.

        Torch: `torch.cov(x, correction=correction)` for rank 2 and dim 1. Differs: `dim` and `correction` are named.
        Raises TensorValueError: rank 1, or a correction below 0 or above n.
        """
        spec = self.spec
        dim = axis("Cov", dim, spec.rank)
        if spec.rank == 1:
            raise TensorValueError("Cov", "expected rank 2 or more, got rank 1; use unsqueeze, or var(0)")
        if not 0 <= correction <= self.inner.shape[dim]:
            raise TensorValueError(
                "Cov", f"expected a correction from 0 to {self.inner.shape[dim]}, the observations, got {correction}"
            )
        return like(spec.ops.cov(self.inner, dim, correction), spec)

    def cross(self: "Floats[B, D]", other: "FloatLike[B, D]", dim: int) -> "Tensor[B, D, Float]":
        """Products of 3-vectors along `dim`. `[.., 3, ..] x [.., 3, ..] -> [.., 3, ..]`, other sizes equal or 1.
        Torch: `torch.linalg.cross(x, other, dim=dim)`. Differs: `dim` is required.
        """
        spec = self.spec
        dim = axis("Cross", dim, spec.rank)
        value = operand("cross", spec, other)
        if not isinstance(value, torch.Tensor):
            raise TensorTypeError("Cross", f"expected a Float tensor of rank {spec.rank}, got {value}")
        if self.inner.shape[dim] != 3 or value.shape[dim] != 3:
            raise TensorValueError(
                "Cross",
                f"expected size 3 in dimension {dim}, got shapes {list(self.inner.shape)} and {list(value.shape)}",
            )
        return like(computed("cross", spec.ops.cross, self.inner, value, dim), spec)

    def categorical(self: "Floats[B, D]", num_samples: int) -> "Tensor[B, D, Int]":
        """Indices drawn by the weights in the last dimension, with replacement. `[.., n] -> [.., num_samples]`.

        Weights are 0 or more, finite, and sum to more than 0. On the CPU others are refused; on other devices
        torch checks them where they are, without waiting, and ends the program.

        Torch: `torch.multinomial(x, num_samples, replacement=True)`. Differs: always with replacement; any rank.
        Raises TensorValueError: weights as above, no weights, or `num_samples` below 1.
        """
        spec = self.spec
        if isinstance(num_samples, bool) or not hasattr(num_samples, "__index__"):
            raise TensorTypeError("Categorical", f"expected num_samples as an int, got {type(num_samples).__name__}")
        if num_samples < 1:
            raise TensorValueError("Categorical", f"expected at least 1 sample, got {num_samples}")
        if not self.inner.shape[-1]:
            raise TensorValueError("Categorical", "expected at least one weight in the last dimension, got none")
        try:
            return wrap(spec.ops.categorical(self.inner, num_samples, spec.int.dtype), spec.int)
        except RuntimeError as error:
            raise TensorValueError(
                "Categorical",
                f"expected finite weights of 0 or more, with a sum above 0 along the last dimension; torch: {error}",
            ) from error

    def sort(self: "Numeric[B, D]", dim: int) -> "Tensor[B, D, K]":
        """The elements along `dim`, ascending. `[..] -> [..]`. Torch: `torch.sort(x, dim).values`."""
        spec = self.spec
        return wrap(spec.ops.sort(self.inner, axis("Sort", dim, spec.rank), False), spec)

    def sort_descending(self: "Numeric[B, D]", dim: int) -> "Tensor[B, D, K]":
        """The elements along `dim`, descending. `[..] -> [..]`. Torch: `torch.sort(x, dim, descending=True).values`."""
        spec = self.spec
        return wrap(spec.ops.sort(self.inner, axis("Sort", dim, spec.rank), True), spec)

    def sort_with_indices(self: "Numeric[B, D]", dim: int) -> "tuple[Tensor[B, D, K], Tensor[B, D, Int]]":
        """The elements along `dim`, ascending, and where each was. `[..] -> 2 of [..]`. Torch: `torch.sort(x, dim)`.
        Differs: the indices are of the backend's int type.
        """
        spec = self.spec
        dim = axis("Sort With Indices", dim, spec.rank)
        values, indices = spec.ops.sort_with_indices(self.inner, dim, False, spec.int.dtype)
        return wrap(values, spec), wrap(indices, spec.int)

    def sort_descending_with_indices(self: "Numeric[B, D]", dim: int) -> "tuple[Tensor[B, D, K], Tensor[B, D, Int]]":
        """`sort_descending`, and where each was. `[..] -> 2 of [..]`. Torch: `torch.sort(x, dim, descending=True)`.
        Differs: the indices are of the backend's int type.
        """
        spec = self.spec
        dim = axis("Sort With Indices", dim, spec.rank)
        values, indices = spec.ops.sort_with_indices(self.inner, dim, True, spec.int.dtype)
        return wrap(values, spec), wrap(indices, spec.int)

    def argsort(self: "Numeric[B, D]", dim: int) -> "Tensor[B, D, Int]":
        """The indices that sort along `dim`, ascending. `[..] -> [..]`. Torch: `torch.argsort(x, dim)`.
        Differs: indices are of the backend's int type.
        """
        spec = self.spec
        dim = axis("Argsort", dim, spec.rank)
        return wrap(spec.ops.argsort(self.inner, dim, False, spec.int.dtype), spec.int)

    def argsort_descending(self: "Numeric[B, D]", dim: int) -> "Tensor[B, D, Int]":
        """The indices that sort along `dim`, descending. `[..] -> [..]`.
        Torch: `torch.argsort(x, dim, descending=True)`. Differs: indices are of the backend's int type.
        """
        spec = self.spec
        dim = axis("Argsort", dim, spec.rank)
        return wrap(spec.ops.argsort(self.inner, dim, True, spec.int.dtype), spec.int)

    def topk(self: "Numeric[B, D]", k: int, dim: int) -> "Tensor[B, D, K]":
        """The `k` greatest along `dim`, descending. `[.., n] -> [.., k]`. Torch: `torch.topk(x, k, dim).values`."""
        spec = self.spec
        dim = axis("Top K", dim, spec.rank)
        try:
            return wrap(spec.ops.topk(self.inner, k, dim), spec)
        except Exception as error:
            _refuse(error, self.inner, k, dim)

    def topk_with_indices(self: "Numeric[B, D]", k: int, dim: int) -> "tuple[Tensor[B, D, K], Tensor[B, D, Int]]":
        """`topk`, and where each is. `[.., n] -> 2 of [.., k]`. Torch: `torch.topk(x, k, dim)`.
        Differs: the indices are of the backend's int type.
        """
        spec = self.spec
        dim = axis("Top K", dim, spec.rank)
        try:
            values, indices = spec.ops.topk_with_indices(self.inner, k, dim, spec.int.dtype)
        except Exception as error:
            _refuse(error, self.inner, k, dim)
        return wrap(values, spec), wrap(indices, spec.int)

    def argtopk(self: "Numeric[B, D]", k: int, dim: int) -> "Tensor[B, D, Int]":
        """The indices of the `k` greatest elements along `dim`, the greatest first. `[.., n, ..] -> [.., k, ..]`.
        Torch: `torch.topk(x, k, dim).indices`.
        Differs: of equal elements the first ones, in their order; indices are of the backend's int type.
        """
        spec = self.spec
        dim = axis("Top K", dim, spec.rank)
        try:
            return wrap(spec.ops.argtopk(self.inner, k, dim, spec.int.dtype), spec.int)
        except Exception as error:
            _refuse(error, self.inner, k, dim)


def _filled(operation: str, tensor: Any, dim: int) -> int:
    """`dim` as 0 .. rank-1, with at least one element."""
    dim = axis(operation, dim, tensor.spec.rank)
    if not tensor.inner.shape[dim]:
        raise TensorValueError(operation, f"expected at least one element along dimension {dim}, got none")
    return dim


def _refuse(error: Exception, inner: torch.Tensor, k: Any, dim: int) -> NoReturn:
    """Say what is wrong with `k`, or what torch says."""
    size = inner.shape[dim]
    if not isinstance(k, int):
        raise TensorTypeError("Top K", f"expected k as an int, got {type(k).__name__}") from error
    if not 0 <= k <= size:
        reason = f"expected k from 0 to {size}, the size of dimension {dim}, got {k}"
        raise TensorValueError("Top K", reason) from error
    fail("top_k", error, inner)
