"""Tensors of a shape, or like another tensor, filled with one value or random."""

from collections.abc import Callable, Sequence
from typing import Any, Protocol, cast, overload

import torch
from typing_extensions import TypeVar

from ..core.arguments import created
from ..core.base import B2, B, D, Floats, K, Tensor, TensorBase, wrap
from ..core.dtypes import DType
from ..core.kinds import D1, D2, D3, D4, D5, D6, D7, D8, S1, S2, S3, S4, S5, S6, S7, S8, Float, Kind
from ..core.operands import scalar
from ..host.distribution import Distribution

KF = TypeVar("KF", bound=Kind, default=Float)
ElementType = torch.dtype | DType | str | None


class FillsShape(Protocol):
    """A call that makes a tensor of a shape: the rank is that of the tuple, the kind Float unless it is given."""

    @overload
    def __call__(self, shape: S1, backend: B2, *, dtype: ElementType = ...) -> "Tensor[B2, D1, Float]": ...
    @overload
    def __call__(self, shape: S1, backend: B2, kind: type[KF], dtype: ElementType = ...) -> "Tensor[B2, D1, KF]": ...
    @overload
    def __call__(self, shape: S2, backend: B2, *, dtype: ElementType = ...) -> "Tensor[B2, D2, Float]": ...
    @overload
    def __call__(self, shape: S2, backend: B2, kind: type[KF], dtype: ElementType = ...) -> "Tensor[B2, D2, KF]": ...
    @overload
    def __call__(self, shape: S3, backend: B2, *, dtype: ElementType = ...) -> "Tensor[B2, D3, Float]": ...
    @overload
    def __call__(self, shape: S3, backend: B2, kind: type[KF], dtype: ElementType = ...) -> "Tensor[B2, D3, KF]": ...
    @overload
    def __call__(self, shape: S4, backend: B2, *, dtype: ElementType = ...) -> "Tensor[B2, D4, Float]": ...
    @overload
    def __call__(self, shape: S4, backend: B2, kind: type[KF], dtype: ElementType = ...) -> "Tensor[B2, D4, KF]": ...
    @overload
    def __call__(self, shape: S5, backend: B2, *, dtype: ElementType = ...) -> "Tensor[B2, D5, Float]": ...
    @overload
    def __call__(self, shape: S5, backend: B2, kind: type[KF], dtype: ElementType = ...) -> "Tensor[B2, D5, KF]": ...
    @overload
    def __call__(self, shape: S6, backend: B2, *, dtype: ElementType = ...) -> "Tensor[B2, D6, Float]": ...
    @overload
    def __call__(self, shape: S6, backend: B2, kind: type[KF], dtype: ElementType = ...) -> "Tensor[B2, D6, KF]": ...
    @overload
    def __call__(self, shape: S7, backend: B2, *, dtype: ElementType = ...) -> "Tensor[B2, D7, Float]": ...
    @overload
    def __call__(self, shape: S7, backend: B2, kind: type[KF], dtype: ElementType = ...) -> "Tensor[B2, D7, KF]": ...
    @overload
    def __call__(self, shape: S8, backend: B2, *, dtype: ElementType = ...) -> "Tensor[B2, D8, Float]": ...
    @overload
    def __call__(self, shape: S8, backend: B2, kind: type[KF], dtype: ElementType = ...) -> "Tensor[B2, D8, KF]": ...
    @overload
    def __call__(self, shape: Sequence[int], backend: B2, *, dtype: ElementType = ...) -> "Tensor[B2, Any, Float]": ...
    @overload
    def __call__(
        self, shape: Sequence[int], backend: B2, kind: type[KF], dtype: ElementType = ...
    ) -> "Tensor[B2, Any, KF]": ...


def fills_shape(function: Callable[..., Any]) -> FillsShape:
    """Make a static method of `function`, of the type that all share."""
    return cast(FillsShape, staticmethod(function))


class FilledMethods(TensorBase[B, D, K]):
    """Tensors of a shape or like another, of one value or random; ranks 1 to 8. By default of the backend's dtype."""

    __slots__ = ()

    @fills_shape
    def empty(shape: Any, backend: Any, kind: Any = Float, dtype: ElementType = None) -> Any:
        """Undefined values. `shape -> shape`. Torch: `torch.empty`. Differs: dtype is the backend's for `kind`."""
        spec, sizes = created("Empty", shape, backend, kind, dtype)
        return wrap(spec.ops.empty(sizes, spec.dtype, spec.backend.device), spec)

    @fills_shape
    def zeros(shape: Any, backend: Any, kind: Any = Float, dtype: ElementType = None) -> Any:
        """Zeros, False for Bool. `shape -> shape`. Torch: `torch.zeros`. Differs: dtype is the backend's for `kind`."""
        spec, sizes = created("Zeros", shape, backend, kind, dtype)
        return wrap(spec.ops.zeros(sizes, spec.dtype, spec.backend.device), spec)

    @fills_shape
    def ones(shape: Any, backend: Any, kind: Any = Float, dtype: ElementType = None) -> Any:
        """Ones, True for Bool. `shape -> shape`. Torch: `torch.ones`. Differs: dtype is the backend's for `kind`."""
        spec, sizes = created("Ones", shape, backend, kind, dtype)
        return wrap(spec.ops.ones(sizes, spec.dtype, spec.backend.device), spec)

    @overload
    @staticmethod
    def full(shape: S1, fill_value: float, backend: B2, *, dtype: ElementType = ...) -> "Tensor[B2, D1, Float]": ...
    @overload
    @staticmethod
    def full(
        shape: S1, fill_value: float, backend: B2, kind: type[KF], dtype: ElementType = ...
    ) -> "Tensor[B2, D1, KF]": ...
    @overload
    @staticmethod
    def full(shape: S2, fill_value: float, backend: B2, *, dtype: ElementType = ...) -> "Tensor[B2, D2, Float]": ...
    @overload
    @staticmethod
    def full(
        shape: S2, fill_value: float, backend: B2, kind: type[KF], dtype: ElementType = ...
    ) -> "Tensor[B2, D2, KF]": ...
    @overload
    @staticmethod
    def full(shape: S3, fill_value: float, backend: B2, *, dtype: ElementType = ...) -> "Tensor[B2, D3, Float]": ...
    @overload
    @staticmethod
    def full(
        shape: S3, fill_value: float, backend: B2, kind: type[KF], dtype: ElementType = ...
    ) -> "Tensor[B2, D3, KF]": ...
    @overload
    @staticmethod
    def full(shape: S4, fill_value: float, backend: B2, *, dtype: ElementType = ...) -> "Tensor[B2, D4, Float]": ...
    @overload
    @staticmethod
    def full(
        shape: S4, fill_value: float, backend: B2, kind: type[KF], dtype: ElementType = ...
    ) -> "Tensor[B2, D4, KF]": ...
    @overload
    @staticmethod
    def full(shape: S5, fill_value: float, backend: B2, *, dtype: ElementType = ...) -> "Tensor[B2, D5, Float]": ...
    @overload
    @staticmethod
    def full(
        shape: S5, fill_value: float, backend: B2, kind: type[KF], dtype: ElementType = ...
    ) -> "Tensor[B2, D5, KF]": ...
    @overload
    @staticmethod
    def full(shape: S6, fill_value: float, backend: B2, *, dtype: ElementType = ...) -> "Tensor[B2, D6, Float]": ...
    @overload
    @staticmethod
    def full(
        shape: S6, fill_value: float, backend: B2, kind: type[KF], dtype: ElementType = ...
    ) -> "Tensor[B2, D6, KF]": ...
    @overload
    @staticmethod
    def full(shape: S7, fill_value: float, backend: B2, *, dtype: ElementType = ...) -> "Tensor[B2, D7, Float]": ...
    @overload
    @staticmethod
    def full(
        shape: S7, fill_value: float, backend: B2, kind: type[KF], dtype: ElementType = ...
    ) -> "Tensor[B2, D7, KF]": ...
    @overload
    @staticmethod
    def full(shape: S8, fill_value: float, backend: B2, *, dtype: ElementType = ...) -> "Tensor[B2, D8, Float]": ...
    @overload
    @staticmethod
    def full(
        shape: S8, fill_value: float, backend: B2, kind: type[KF], dtype: ElementType = ...
    ) -> "Tensor[B2, D8, KF]": ...
    @overload
    @staticmethod
    def full(
        shape: Sequence[int], fill_value: float, backend: B2, *, dtype: ElementType = ...
    ) -> "Tensor[B2, Any, Float]": ...
    @overload
    @staticmethod
    def full(
        shape: Sequence[int], fill_value: float, backend: B2, kind: type[KF], dtype: ElementType = ...
    ) -> "Tensor[B2, Any, KF]": ...
    @staticmethod
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

    @overload
    @staticmethod
    def random(
        shape: S1, distribution: Distribution, backend: B2, *, dtype: ElementType = ...
    ) -> "Tensor[B2, D1, Float]": ...
    @overload
    @staticmethod
    def random(
        shape: S1, distribution: Distribution, backend: B2, kind: type[KF], dtype: ElementType = ...
    ) -> "Tensor[B2, D1, KF]": ...
    @overload
    @staticmethod
    def random(
        shape: S2, distribution: Distribution, backend: B2, *, dtype: ElementType = ...
    ) -> "Tensor[B2, D2, Float]": ...
    @overload
    @staticmethod
    def random(
        shape: S2, distribution: Distribution, backend: B2, kind: type[KF], dtype: ElementType = ...
    ) -> "Tensor[B2, D2, KF]": ...
    @overload
    @staticmethod
    def random(
        shape: S3, distribution: Distribution, backend: B2, *, dtype: ElementType = ...
    ) -> "Tensor[B2, D3, Float]": ...
    @overload
    @staticmethod
    def random(
        shape: S3, distribution: Distribution, backend: B2, kind: type[KF], dtype: ElementType = ...
    ) -> "Tensor[B2, D3, KF]": ...
    @overload
    @staticmethod
    def random(
        shape: S4, distribution: Distribution, backend: B2, *, dtype: ElementType = ...
    ) -> "Tensor[B2, D4, Float]": ...
    @overload
    @staticmethod
    def random(
        shape: S4, distribution: Distribution, backend: B2, kind: type[KF], dtype: ElementType = ...
    ) -> "Tensor[B2, D4, KF]": ...
    @overload
    @staticmethod
    def random(
        shape: S5, distribution: Distribution, backend: B2, *, dtype: ElementType = ...
    ) -> "Tensor[B2, D5, Float]": ...
    @overload
    @staticmethod
    def random(
        shape: S5, distribution: Distribution, backend: B2, kind: type[KF], dtype: ElementType = ...
    ) -> "Tensor[B2, D5, KF]": ...
    @overload
    @staticmethod
    def random(
        shape: S6, distribution: Distribution, backend: B2, *, dtype: ElementType = ...
    ) -> "Tensor[B2, D6, Float]": ...
    @overload
    @staticmethod
    def random(
        shape: S6, distribution: Distribution, backend: B2, kind: type[KF], dtype: ElementType = ...
    ) -> "Tensor[B2, D6, KF]": ...
    @overload
    @staticmethod
    def random(
        shape: S7, distribution: Distribution, backend: B2, *, dtype: ElementType = ...
    ) -> "Tensor[B2, D7, Float]": ...
    @overload
    @staticmethod
    def random(
        shape: S7, distribution: Distribution, backend: B2, kind: type[KF], dtype: ElementType = ...
    ) -> "Tensor[B2, D7, KF]": ...
    @overload
    @staticmethod
    def random(
        shape: S8, distribution: Distribution, backend: B2, *, dtype: ElementType = ...
    ) -> "Tensor[B2, D8, Float]": ...
    @overload
    @staticmethod
    def random(
        shape: S8, distribution: Distribution, backend: B2, kind: type[KF], dtype: ElementType = ...
    ) -> "Tensor[B2, D8, KF]": ...
    @overload
    @staticmethod
    def random(
        shape: Sequence[int], distribution: Distribution, backend: B2, *, dtype: ElementType = ...
    ) -> "Tensor[B2, Any, Float]": ...
    @overload
    @staticmethod
    def random(
        shape: Sequence[int], distribution: Distribution, backend: B2, kind: type[KF], dtype: ElementType = ...
    ) -> "Tensor[B2, Any, KF]": ...
    @staticmethod
    def random(shape: Any, distribution: Any, backend: Any, kind: Any = Float, dtype: ElementType = None) -> Any:
        """Random numbers, drawn from the backend's generator (`backend.seed`). `shape -> shape`, Float or Int.

        `Distribution.Default` is uniform in [0, 1) for Float and in [0, 255) for Int; Int numbers are drawn as floating
        point and truncated.

        Torch: `torch.rand`, `torch.randn`, `torch.randint`, `torch.bernoulli`.
        Differs: one function for all distributions; names the backend.
        """
        spec, sizes = created("Random", shape, backend, kind, dtype)
        return wrap(distribution.draw(spec.ops, sizes, spec.dtype, spec.backend.device), spec)

    def random_like(self: "Floats[B, D]", distribution: Distribution) -> "Tensor[B, D, Float]":
        """Random numbers in the shape and dtype of this tensor. `[..] -> [..]`.
        Torch: `torch.rand_like`, `torch.randn_like`.
        """
        spec = self.spec
        return wrap(distribution.draw(spec.ops, self.inner.shape, spec.dtype, spec.backend.device), spec)
