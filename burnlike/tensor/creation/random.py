"""Tensors of random numbers."""

from collections.abc import Sequence
from typing import Any, overload

from ..core.base import B2, B, D, K, Tensor, TensorBase, wrap
from ..core.created import created
from ..core.kinds import D1, D2, D3, D4, D5, D6, D7, D8, S1, S2, S3, S4, S5, S6, S7, S8, Float
from ..host.distribution import Distribution
from .filled import KF, ElementType


class RandomMethods(TensorBase[B, D, K]):
    """Tensors of random numbers."""

    __slots__ = ()

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

    def random_like(self: "RandomMethods[B, D, Float]", distribution: Distribution) -> "Tensor[B, D, Float]":
        """Random numbers in the shape, dtype and backend of this tensor. `[..] -> [..]`.

        Torch: `torch.rand_like`, `torch.randn_like`.
        """
        spec = self.spec
        return wrap(distribution.draw(spec.ops, self.inner.shape, spec.dtype, spec.backend.device), spec)
