"""The greatest and the smallest elements, and their indices."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, overload

from ..core.axes import axis
from ..core.base import B, D, K, TensorBase, wrap
from ..core.kinds import D1, Float, Int
from ..core.operands import fail
from ..core.torch_arguments import along, whole
from .reductions import each_dim

if TYPE_CHECKING:
    from ..tensor import Tensor


class ExtremeMethods(TensorBase[B, D, K]):
    """The greatest and the smallest. NaN wins over all numbers; of equal elements the first is meant."""

    __slots__ = ()

    @overload
    def argmax(self: "ExtremeMethods[B, D, Float]", dim: int) -> "Tensor[B, D, Int]": ...
    @overload
    def argmax(self: "ExtremeMethods[B, D, Int]", dim: int) -> "Tensor[B, D, Int]": ...
    def argmax(self: Any, dim: Any, keepdim: None = None) -> Any:
        """The index of the greatest element along `dim`. `[.., n, ..] -> [.., 1, ..]`.

        Torch: `torch.argmax(x, dim, keepdim=True)`.
        Differs: `dim` stays, with size 1.
        """
        if keepdim is not None:
            raise along("argmax", dim)
        spec = self.spec
        places = spec.int if spec.kind is Float else spec
        if type(dim) is not int or not 0 <= dim < spec.rank:
            dim = axis("Argmax", dim, spec.rank)
        try:
            return wrap(spec.ops.argmax(self.inner, dim, places.dtype), places)
        except Exception as error:
            fail("argmax", error, self.inner)

    @overload
    def argmin(self: "ExtremeMethods[B, D, Float]", dim: int) -> "Tensor[B, D, Int]": ...
    @overload
    def argmin(self: "ExtremeMethods[B, D, Int]", dim: int) -> "Tensor[B, D, Int]": ...
    def argmin(self: Any, dim: Any, keepdim: None = None) -> Any:
        """The index of the smallest element along `dim`. `[.., n, ..] -> [.., 1, ..]`.

        Torch: `torch.argmin(x, dim, keepdim=True)`.
        Differs: `dim` stays, with size 1.
        """
        if keepdim is not None:
            raise along("argmin", dim)
        spec = self.spec
        places = spec.int if spec.kind is Float else spec
        if type(dim) is not int or not 0 <= dim < spec.rank:
            dim = axis("Argmin", dim, spec.rank)
        try:
            return wrap(spec.ops.argmin(self.inner, dim, places.dtype), places)
        except Exception as error:
            fail("argmin", error, self.inner)

    @overload
    def max(self: "ExtremeMethods[B, D, Float]") -> "Tensor[B, D1, Float]": ...
    @overload
    def max(self: "ExtremeMethods[B, D, Int]") -> "Tensor[B, D1, Int]": ...
    def max(self: Any, dim: None = None, keepdim: None = None) -> Any:
        """The greatest of all elements, of which there is at least one. `[..] -> [1]`.

        Torch: `torch.max(x)`.
        Differs: shape `[1]`; of equal elements the first alone has a gradient.
        """
        if dim is not None or keepdim is not None:
            raise whole("max", dim)
        spec = self.spec
        try:
            return wrap(spec.ops.max(self.inner), spec.ranks[1])
        except Exception as error:
            fail("max", error, self.inner)

    @overload
    def max_dim(self: "ExtremeMethods[B, D, Float]", dim: int) -> "Tensor[B, D, Float]": ...
    @overload
    def max_dim(self: "ExtremeMethods[B, D, Int]", dim: int) -> "Tensor[B, D, Int]": ...
    def max_dim(self: Any, dim: Any) -> Any:
        """The greatest along `dim`. `[.., n, ..] -> [.., 1, ..]`.

        Torch: `torch.amax(x, dim, keepdim=True)`.
        Differs: of equal elements the first alone has a gradient.
        """
        spec = self.spec
        if type(dim) is not int or not 0 <= dim < spec.rank:
            dim = axis("Max Dim", dim, spec.rank)
        try:
            return wrap(spec.ops.max_dim(self.inner, dim), spec)
        except Exception as error:
            fail("max_dim", error, self.inner)

    @overload
    def max_dims(self: "ExtremeMethods[B, D, Float]", dims: Sequence[int]) -> "Tensor[B, D, Float]": ...
    @overload
    def max_dims(self: "ExtremeMethods[B, D, Int]", dims: Sequence[int]) -> "Tensor[B, D, Int]": ...
    def max_dims(self: Any, dims: Any) -> Any:
        """The greatest over `dims`. `[.., n, ..] -> [.., 1, ..]`.

        Torch: `torch.amax(x, dims, keepdim=True)`.
        Differs: none given means none reduced; of equal elements the first alone has a gradient.
        """
        spec = self.spec
        found = each_dim("Max Dim", dims, spec.rank)
        try:
            return wrap(spec.ops.max_dim(self.inner, found), spec) if found else self
        except Exception as error:
            fail("max_dims", error, self.inner)

    @overload
    def max_dim_with_indices(
        self: "ExtremeMethods[B, D, Float]", dim: int
    ) -> "tuple[Tensor[B, D, Float], Tensor[B, D, Int]]": ...
    @overload
    def max_dim_with_indices(
        self: "ExtremeMethods[B, D, Int]", dim: int
    ) -> "tuple[Tensor[B, D, Int], Tensor[B, D, Int]]": ...
    def max_dim_with_indices(self: Any, dim: Any) -> Any:
        """The greatest along `dim`, and where it is. `[.., n, ..] -> ([.., 1, ..], [.., 1, ..])`.

        Torch: `torch.max(x, dim, keepdim=True)`.
        Differs: `dim` stays, with size 1.
        """
        spec = self.spec
        places = spec.int if spec.kind is Float else spec
        if type(dim) is not int or not 0 <= dim < spec.rank:
            dim = axis("Max Dim", dim, spec.rank)
        try:
            values, indices = spec.ops.max_dim_with_indices(self.inner, dim, places.dtype)
        except Exception as error:
            fail("max_dim_with_indices", error, self.inner)
        return wrap(values, spec), wrap(indices, places)

    @overload
    def min(self: "ExtremeMethods[B, D, Float]") -> "Tensor[B, D1, Float]": ...
    @overload
    def min(self: "ExtremeMethods[B, D, Int]") -> "Tensor[B, D1, Int]": ...
    def min(self: Any, dim: None = None, keepdim: None = None) -> Any:
        """The smallest of all elements, of which there is at least one. `[..] -> [1]`.

        Torch: `torch.min(x)`.
        Differs: shape `[1]`; of equal elements the first alone has a gradient.
        """
        if dim is not None or keepdim is not None:
            raise whole("min", dim)
        spec = self.spec
        try:
            return wrap(spec.ops.min(self.inner), spec.ranks[1])
        except Exception as error:
            fail("min", error, self.inner)

    @overload
    def min_dim(self: "ExtremeMethods[B, D, Float]", dim: int) -> "Tensor[B, D, Float]": ...
    @overload
    def min_dim(self: "ExtremeMethods[B, D, Int]", dim: int) -> "Tensor[B, D, Int]": ...
    def min_dim(self: Any, dim: Any) -> Any:
        """The smallest along `dim`. `[.., n, ..] -> [.., 1, ..]`.

        Torch: `torch.amin(x, dim, keepdim=True)`.
        Differs: of equal elements the first alone has a gradient.
        """
        spec = self.spec
        if type(dim) is not int or not 0 <= dim < spec.rank:
            dim = axis("Min Dim", dim, spec.rank)
        try:
            return wrap(spec.ops.min_dim(self.inner, dim), spec)
        except Exception as error:
            fail("min_dim", error, self.inner)

    @overload
    def min_dims(self: "ExtremeMethods[B, D, Float]", dims: Sequence[int]) -> "Tensor[B, D, Float]": ...
    @overload
    def min_dims(self: "ExtremeMethods[B, D, Int]", dims: Sequence[int]) -> "Tensor[B, D, Int]": ...
    def min_dims(self: Any, dims: Any) -> Any:
        """The smallest over `dims`. `[.., n, ..] -> [.., 1, ..]`.

        Torch: `torch.amin(x, dims, keepdim=True)`.
        Differs: none given means none reduced; of equal elements the first alone has a gradient.
        """
        spec = self.spec
        found = each_dim("Min Dim", dims, spec.rank)
        try:
            return wrap(spec.ops.min_dim(self.inner, found), spec) if found else self
        except Exception as error:
            fail("min_dims", error, self.inner)

    @overload
    def min_dim_with_indices(
        self: "ExtremeMethods[B, D, Float]", dim: int
    ) -> "tuple[Tensor[B, D, Float], Tensor[B, D, Int]]": ...
    @overload
    def min_dim_with_indices(
        self: "ExtremeMethods[B, D, Int]", dim: int
    ) -> "tuple[Tensor[B, D, Int], Tensor[B, D, Int]]": ...
    def min_dim_with_indices(self: Any, dim: Any) -> Any:
        """The smallest along `dim`, and where it is. `[.., n, ..] -> ([.., 1, ..], [.., 1, ..])`.

        Torch: `torch.min(x, dim, keepdim=True)`.
        Differs: `dim` stays, with size 1.
        """
        spec = self.spec
        places = spec.int if spec.kind is Float else spec
        if type(dim) is not int or not 0 <= dim < spec.rank:
            dim = axis("Min Dim", dim, spec.rank)
        try:
            values, indices = spec.ops.min_dim_with_indices(self.inner, dim, places.dtype)
        except Exception as error:
            fail("min_dim_with_indices", error, self.inner)
        return wrap(values, spec), wrap(indices, places)

    @overload
    def max_abs(self: "ExtremeMethods[B, D, Float]") -> "Tensor[B, D1, Float]": ...
    @overload
    def max_abs(self: "ExtremeMethods[B, D, Int]") -> "Tensor[B, D1, Int]": ...
    def max_abs(self: Any, dim: None = None, keepdim: None = None) -> Any:
        """The greatest magnitude of all elements, of which there is at least one. `[..] -> [1]`.

        Torch: `x.abs().max()`.
        Differs: shape `[1]`; of equal elements the first alone has a gradient.
        """
        if dim is not None or keepdim is not None:
            raise whole("max_abs", dim)
        spec = self.spec
        try:
            return wrap(spec.ops.max_abs(self.inner), spec.ranks[1])
        except Exception as error:
            fail("max_abs", error, self.inner)

    @overload
    def max_abs_dim(self: "ExtremeMethods[B, D, Float]", dim: int) -> "Tensor[B, D, Float]": ...
    @overload
    def max_abs_dim(self: "ExtremeMethods[B, D, Int]", dim: int) -> "Tensor[B, D, Int]": ...
    def max_abs_dim(self: Any, dim: Any) -> Any:
        """The greatest magnitude along `dim`. `[.., n, ..] -> [.., 1, ..]`.

        Torch: `x.abs().amax(dim, keepdim=True)`.
        Differs: of equal elements the first alone has a gradient.
        """
        spec = self.spec
        if type(dim) is not int or not 0 <= dim < spec.rank:
            dim = axis("Max Abs Dim", dim, spec.rank)
        try:
            return wrap(spec.ops.max_abs_dim(self.inner, dim), spec)
        except Exception as error:
            fail("max_abs_dim", error, self.inner)

    @overload
    def max_abs_dims(self: "ExtremeMethods[B, D, Float]", dims: Sequence[int]) -> "Tensor[B, D, Float]": ...
    @overload
    def max_abs_dims(self: "ExtremeMethods[B, D, Int]", dims: Sequence[int]) -> "Tensor[B, D, Int]": ...
    def max_abs_dims(self: Any, dims: Any) -> Any:
        """The greatest magnitude over `dims`. `[.., n, ..] -> [.., 1, ..]`.

        Torch: `x.abs().amax(dims, keepdim=True)`.
        Differs: none given means none reduced; of equal elements the first alone has a gradient.
        """
        spec = self.spec
        found = each_dim("Max Abs Dim", dims, spec.rank)
        try:
            return wrap(spec.ops.max_abs_dim(self.inner, found), spec) if found else self
        except Exception as error:
            fail("max_abs_dims", error, self.inner)
