"""The greatest and the smallest elements, and their indices."""

from collections.abc import Sequence

from ..core.axes import along, axis, whole
from ..core.base import B, D, K, Numeric, Tensor, TensorBase, wrap
from ..core.kinds import D1, Int
from ..core.operands import computed, fail
from .reductions import each_dim


class ExtremeMethods(TensorBase[B, D, K]):
    """The greatest and the smallest. NaN wins over all numbers; of equal elements the first is meant."""

    __slots__ = ()

    def argmax(self: "Numeric[B, D]", dim: int, keepdim: None = None) -> "Tensor[B, D, Int]":
        """The index of the greatest element along `dim`. `[.., n, ..] -> [.., 1, ..]`.

        Torch: `torch.argmax(x, dim, keepdim=True)`.
        Differs: `dim` stays, with size 1.
        """
        if keepdim is not None:
            raise along("argmax", dim)
        spec = self.spec
        if type(dim) is not int or not 0 <= dim < spec.rank:
            dim = axis("Argmax", dim, spec.rank)
        return wrap(computed("argmax", spec.ops.argmax, self.inner, dim, spec.places.dtype), spec.places)

    def argmin(self: "Numeric[B, D]", dim: int, keepdim: None = None) -> "Tensor[B, D, Int]":
        """The index of the smallest element along `dim`. `[.., n, ..] -> [.., 1, ..]`.

        Torch: `torch.argmin(x, dim, keepdim=True)`.
        Differs: `dim` stays, with size 1.
        """
        if keepdim is not None:
            raise along("argmin", dim)
        spec = self.spec
        if type(dim) is not int or not 0 <= dim < spec.rank:
            dim = axis("Argmin", dim, spec.rank)
        return wrap(computed("argmin", spec.ops.argmin, self.inner, dim, spec.places.dtype), spec.places)

    def max(self: "Numeric[B, D]", dim: None = None, keepdim: None = None) -> "Tensor[B, D1, K]":
        """The greatest of all elements, of which there is at least one. `[..] -> [1]`. Torch: `torch.max(x)`.

        Differs: shape `[1]`; of equal elements the first alone has a gradient.
        """
        if dim is not None or keepdim is not None:
            raise whole("max", dim)
        spec = self.spec
        try:
            return wrap(spec.ops.max(self.inner), spec.ranks[1])
        except Exception as error:
            fail("max", error, self.inner)

    def max_dim(self: "Numeric[B, D]", dim: int) -> "Tensor[B, D, K]":
        """The greatest along `dim`. `[.., n, ..] -> [.., 1, ..]`. Torch: `torch.amax(x, dim, keepdim=True)`.

        Differs: of equal elements the first alone has a gradient.
        """
        spec = self.spec
        if type(dim) is not int or not 0 <= dim < spec.rank:
            dim = axis("Max Dim", dim, spec.rank)
        try:
            return wrap(spec.ops.max_dim(self.inner, dim), spec)
        except Exception as error:
            fail("max_dim", error, self.inner)

    def max_dims(self: "Numeric[B, D]", dims: Sequence[int]) -> "Tensor[B, D, K]":
        """The greatest over `dims`. `[.., n, ..] -> [.., 1, ..]`. Torch: `torch.amax(x, dims, keepdim=True)`.

        Differs: none given means none reduced; of equal elements the first alone has a gradient.
        """
        spec = self.spec
        found = each_dim("Max Dim", dims, spec.rank)
        return wrap(computed("max_dims", spec.ops.max_dim, self.inner, found), spec) if found else self  # pyright: ignore[reportReturnType]

    def max_dim_with_indices(self: "Numeric[B, D]", dim: int) -> "tuple[Tensor[B, D, K], Tensor[B, D, Int]]":
        """The greatest along `dim`, and where it is. `[.., n, ..] -> ([.., 1, ..], [.., 1, ..])`.

        Torch: `torch.max(x, dim, keepdim=True)`.
        Differs: `dim` stays, with size 1.
        """
        spec = self.spec
        if type(dim) is not int or not 0 <= dim < spec.rank:
            dim = axis("Max Dim", dim, spec.rank)
        values, indices = computed(
            "max_dim_with_indices", spec.ops.max_dim_with_indices, self.inner, dim, spec.places.dtype
        )
        return wrap(values, spec), wrap(indices, spec.places)

    def min(self: "Numeric[B, D]", dim: None = None, keepdim: None = None) -> "Tensor[B, D1, K]":
        """The smallest of all elements, of which there is at least one. `[..] -> [1]`. Torch: `torch.min(x)`.

        Differs: shape `[1]`; of equal elements the first alone has a gradient.
        """
        if dim is not None or keepdim is not None:
            raise whole("min", dim)
        spec = self.spec
        try:
            return wrap(spec.ops.min(self.inner), spec.ranks[1])
        except Exception as error:
            fail("min", error, self.inner)

    def min_dim(self: "Numeric[B, D]", dim: int) -> "Tensor[B, D, K]":
        """The smallest along `dim`. `[.., n, ..] -> [.., 1, ..]`. Torch: `torch.amin(x, dim, keepdim=True)`.

        Differs: of equal elements the first alone has a gradient.
        """
        spec = self.spec
        if type(dim) is not int or not 0 <= dim < spec.rank:
            dim = axis("Min Dim", dim, spec.rank)
        try:
            return wrap(spec.ops.min_dim(self.inner, dim), spec)
        except Exception as error:
            fail("min_dim", error, self.inner)

    def min_dims(self: "Numeric[B, D]", dims: Sequence[int]) -> "Tensor[B, D, K]":
        """The smallest over `dims`. `[.., n, ..] -> [.., 1, ..]`. Torch: `torch.amin(x, dims, keepdim=True)`.

        Differs: none given means none reduced; of equal elements the first alone has a gradient.
        """
        spec = self.spec
        found = each_dim("Min Dim", dims, spec.rank)
        return wrap(computed("min_dims", spec.ops.min_dim, self.inner, found), spec) if found else self  # pyright: ignore[reportReturnType]

    def min_dim_with_indices(self: "Numeric[B, D]", dim: int) -> "tuple[Tensor[B, D, K], Tensor[B, D, Int]]":
        """The smallest along `dim`, and where it is. `[.., n, ..] -> ([.., 1, ..], [.., 1, ..])`.

        Torch: `torch.min(x, dim, keepdim=True)`.
        Differs: `dim` stays, with size 1.
        """
        spec = self.spec
        if type(dim) is not int or not 0 <= dim < spec.rank:
            dim = axis("Min Dim", dim, spec.rank)
        values, indices = computed(
            "min_dim_with_indices", spec.ops.min_dim_with_indices, self.inner, dim, spec.places.dtype
        )
        return wrap(values, spec), wrap(indices, spec.places)

    def max_abs(self: "Numeric[B, D]", dim: None = None, keepdim: None = None) -> "Tensor[B, D1, K]":
        """The greatest magnitude of all elements, of which there is at least one. `[..] -> [1]`.

        Torch: `x.abs().max()`.
        Differs: shape `[1]`; of equal elements the first alone has a gradient.
        """
        if dim is not None or keepdim is not None:
            raise whole("max_abs", dim)
        spec = self.spec
        return wrap(computed("max_abs", spec.ops.max_abs, self.inner), spec.ranks[1])

    def max_abs_dim(self: "Numeric[B, D]", dim: int) -> "Tensor[B, D, K]":
        """The greatest magnitude along `dim`. `[.., n, ..] -> [.., 1, ..]`. Torch: `x.abs().amax(dim, keepdim=True)`.

        Differs: of equal elements the first alone has a gradient.
        """
        spec = self.spec
        if type(dim) is not int or not 0 <= dim < spec.rank:
            dim = axis("Max Abs Dim", dim, spec.rank)
        return wrap(computed("max_abs_dim", spec.ops.max_abs_dim, self.inner, dim), spec)

    def max_abs_dims(self: "Numeric[B, D]", dims: Sequence[int]) -> "Tensor[B, D, K]":
        """The greatest magnitude over `dims`. `[.., n, ..] -> [.., 1, ..]`. Torch: `x.abs().amax(dims, keepdim=True)`.

        Differs: none given means none reduced; of equal elements the first alone has a gradient.
        """
        spec = self.spec
        found = each_dim("Max Abs Dim", dims, spec.rank)
        return wrap(computed("max_abs_dims", spec.ops.max_abs_dim, self.inner, found), spec) if found else self  # pyright: ignore[reportReturnType]
