# Written by `make docs` from creation.py (tools/tensor_stubs.py): do not edit.
# pyright: reportIncompatibleMethodOverride=false
"""Tensors made from data and ranges, or of a shape: filled with one value or random."""

from collections.abc import Sequence
from typing import Any, TypeAlias, overload

import torch
from typing_extensions import TypeVar

from ..core.base import B2, D3, D4, D5, D6, D7, D8, B, D, Floats, K, TensorBase
from ..core.dtypes import DType
from ..core.kinds import D1, D2, S1, S2, S3, S4, S5, S6, S7, S8, Bool, Float, Int, Kind
from ..host.distribution import Distribution
from ..tensor import Tensor

KF = TypeVar("KF", bound=Kind, default=Float)
V = TypeVar("V")
ElementType: TypeAlias = torch.dtype | DType | str | None
L1: TypeAlias = Sequence[V]
L2: TypeAlias = Sequence[L1[V]]
L3: TypeAlias = Sequence[L2[V]]
L4: TypeAlias = Sequence[L3[V]]

class CreationMethods(TensorBase[B, D, K]):
    """Creation: tensors made from data, from ranges, of one value or random. By default of the backend's dtype."""
    @overload
    @staticmethod
    def empty(shape: S1, backend: B2, *, dtype: ElementType = ...) -> Tensor[B2, D1, Float]: ...
    @overload
    @staticmethod
    def empty(shape: S1, backend: B2, kind: type[KF], dtype: ElementType = ...) -> Tensor[B2, D1, KF]: ...
    @overload
    @staticmethod
    def empty(shape: S2, backend: B2, *, dtype: ElementType = ...) -> Tensor[B2, D2, Float]: ...
    @overload
    @staticmethod
    def empty(shape: S2, backend: B2, kind: type[KF], dtype: ElementType = ...) -> Tensor[B2, D2, KF]: ...
    @overload
    @staticmethod
    def empty(shape: S3, backend: B2, *, dtype: ElementType = ...) -> Tensor[B2, D3, Float]: ...
    @overload
    @staticmethod
    def empty(shape: S3, backend: B2, kind: type[KF], dtype: ElementType = ...) -> Tensor[B2, D3, KF]: ...
    @overload
    @staticmethod
    def empty(shape: S4, backend: B2, *, dtype: ElementType = ...) -> Tensor[B2, D4, Float]: ...
    @overload
    @staticmethod
    def empty(shape: S4, backend: B2, kind: type[KF], dtype: ElementType = ...) -> Tensor[B2, D4, KF]: ...
    @overload
    @staticmethod
    def empty(shape: S5, backend: B2, *, dtype: ElementType = ...) -> Tensor[B2, D5, Float]: ...
    @overload
    @staticmethod
    def empty(shape: S5, backend: B2, kind: type[KF], dtype: ElementType = ...) -> Tensor[B2, D5, KF]: ...
    @overload
    @staticmethod
    def empty(shape: S6, backend: B2, *, dtype: ElementType = ...) -> Tensor[B2, D6, Float]: ...
    @overload
    @staticmethod
    def empty(shape: S6, backend: B2, kind: type[KF], dtype: ElementType = ...) -> Tensor[B2, D6, KF]: ...
    @overload
    @staticmethod
    def empty(shape: S7, backend: B2, *, dtype: ElementType = ...) -> Tensor[B2, D7, Float]: ...
    @overload
    @staticmethod
    def empty(shape: S7, backend: B2, kind: type[KF], dtype: ElementType = ...) -> Tensor[B2, D7, KF]: ...
    @overload
    @staticmethod
    def empty(shape: S8, backend: B2, *, dtype: ElementType = ...) -> Tensor[B2, D8, Float]: ...
    @overload
    @staticmethod
    def empty(shape: S8, backend: B2, kind: type[KF], dtype: ElementType = ...) -> Tensor[B2, D8, KF]: ...
    @overload
    @staticmethod
    def empty(shape: Sequence[int], backend: B2, *, dtype: ElementType = ...) -> Tensor[B2, Any, Float]: ...
    @overload
    @staticmethod
    def empty(shape: Sequence[int], backend: B2, kind: type[KF], dtype: ElementType = ...) -> Tensor[B2, Any, KF]:
        """Undefined values. `shape -> shape`. Torch: `torch.empty`. Differs: dtype is the backend's for `kind`."""
    @overload
    @staticmethod
    def zeros(shape: S1, backend: B2, *, dtype: ElementType = ...) -> Tensor[B2, D1, Float]: ...
    @overload
    @staticmethod
    def zeros(shape: S1, backend: B2, kind: type[KF], dtype: ElementType = ...) -> Tensor[B2, D1, KF]: ...
    @overload
    @staticmethod
    def zeros(shape: S2, backend: B2, *, dtype: ElementType = ...) -> Tensor[B2, D2, Float]: ...
    @overload
    @staticmethod
    def zeros(shape: S2, backend: B2, kind: type[KF], dtype: ElementType = ...) -> Tensor[B2, D2, KF]: ...
    @overload
    @staticmethod
    def zeros(shape: S3, backend: B2, *, dtype: ElementType = ...) -> Tensor[B2, D3, Float]: ...
    @overload
    @staticmethod
    def zeros(shape: S3, backend: B2, kind: type[KF], dtype: ElementType = ...) -> Tensor[B2, D3, KF]: ...
    @overload
    @staticmethod
    def zeros(shape: S4, backend: B2, *, dtype: ElementType = ...) -> Tensor[B2, D4, Float]: ...
    @overload
    @staticmethod
    def zeros(shape: S4, backend: B2, kind: type[KF], dtype: ElementType = ...) -> Tensor[B2, D4, KF]: ...
    @overload
    @staticmethod
    def zeros(shape: S5, backend: B2, *, dtype: ElementType = ...) -> Tensor[B2, D5, Float]: ...
    @overload
    @staticmethod
    def zeros(shape: S5, backend: B2, kind: type[KF], dtype: ElementType = ...) -> Tensor[B2, D5, KF]: ...
    @overload
    @staticmethod
    def zeros(shape: S6, backend: B2, *, dtype: ElementType = ...) -> Tensor[B2, D6, Float]: ...
    @overload
    @staticmethod
    def zeros(shape: S6, backend: B2, kind: type[KF], dtype: ElementType = ...) -> Tensor[B2, D6, KF]: ...
    @overload
    @staticmethod
    def zeros(shape: S7, backend: B2, *, dtype: ElementType = ...) -> Tensor[B2, D7, Float]: ...
    @overload
    @staticmethod
    def zeros(shape: S7, backend: B2, kind: type[KF], dtype: ElementType = ...) -> Tensor[B2, D7, KF]: ...
    @overload
    @staticmethod
    def zeros(shape: S8, backend: B2, *, dtype: ElementType = ...) -> Tensor[B2, D8, Float]: ...
    @overload
    @staticmethod
    def zeros(shape: S8, backend: B2, kind: type[KF], dtype: ElementType = ...) -> Tensor[B2, D8, KF]: ...
    @overload
    @staticmethod
    def zeros(shape: Sequence[int], backend: B2, *, dtype: ElementType = ...) -> Tensor[B2, Any, Float]: ...
    @overload
    @staticmethod
    def zeros(shape: Sequence[int], backend: B2, kind: type[KF], dtype: ElementType = ...) -> Tensor[B2, Any, KF]:
        """Zeros, False for Bool. `shape -> shape`. Torch: `torch.zeros`. Differs: dtype is the backend's for `kind`."""
    @overload
    @staticmethod
    def ones(shape: S1, backend: B2, *, dtype: ElementType = ...) -> Tensor[B2, D1, Float]: ...
    @overload
    @staticmethod
    def ones(shape: S1, backend: B2, kind: type[KF], dtype: ElementType = ...) -> Tensor[B2, D1, KF]: ...
    @overload
    @staticmethod
    def ones(shape: S2, backend: B2, *, dtype: ElementType = ...) -> Tensor[B2, D2, Float]: ...
    @overload
    @staticmethod
    def ones(shape: S2, backend: B2, kind: type[KF], dtype: ElementType = ...) -> Tensor[B2, D2, KF]: ...
    @overload
    @staticmethod
    def ones(shape: S3, backend: B2, *, dtype: ElementType = ...) -> Tensor[B2, D3, Float]: ...
    @overload
    @staticmethod
    def ones(shape: S3, backend: B2, kind: type[KF], dtype: ElementType = ...) -> Tensor[B2, D3, KF]: ...
    @overload
    @staticmethod
    def ones(shape: S4, backend: B2, *, dtype: ElementType = ...) -> Tensor[B2, D4, Float]: ...
    @overload
    @staticmethod
    def ones(shape: S4, backend: B2, kind: type[KF], dtype: ElementType = ...) -> Tensor[B2, D4, KF]: ...
    @overload
    @staticmethod
    def ones(shape: S5, backend: B2, *, dtype: ElementType = ...) -> Tensor[B2, D5, Float]: ...
    @overload
    @staticmethod
    def ones(shape: S5, backend: B2, kind: type[KF], dtype: ElementType = ...) -> Tensor[B2, D5, KF]: ...
    @overload
    @staticmethod
    def ones(shape: S6, backend: B2, *, dtype: ElementType = ...) -> Tensor[B2, D6, Float]: ...
    @overload
    @staticmethod
    def ones(shape: S6, backend: B2, kind: type[KF], dtype: ElementType = ...) -> Tensor[B2, D6, KF]: ...
    @overload
    @staticmethod
    def ones(shape: S7, backend: B2, *, dtype: ElementType = ...) -> Tensor[B2, D7, Float]: ...
    @overload
    @staticmethod
    def ones(shape: S7, backend: B2, kind: type[KF], dtype: ElementType = ...) -> Tensor[B2, D7, KF]: ...
    @overload
    @staticmethod
    def ones(shape: S8, backend: B2, *, dtype: ElementType = ...) -> Tensor[B2, D8, Float]: ...
    @overload
    @staticmethod
    def ones(shape: S8, backend: B2, kind: type[KF], dtype: ElementType = ...) -> Tensor[B2, D8, KF]: ...
    @overload
    @staticmethod
    def ones(shape: Sequence[int], backend: B2, *, dtype: ElementType = ...) -> Tensor[B2, Any, Float]: ...
    @overload
    @staticmethod
    def ones(shape: Sequence[int], backend: B2, kind: type[KF], dtype: ElementType = ...) -> Tensor[B2, Any, KF]:
        """Ones, True for Bool. `shape -> shape`. Torch: `torch.ones`. Differs: dtype is the backend's for `kind`."""
    @overload
    @staticmethod
    def full(shape: S1, fill_value: float, backend: B2, *, dtype: ElementType = ...) -> Tensor[B2, D1, Float]: ...
    @overload
    @staticmethod
    def full(
        shape: S1, fill_value: float, backend: B2, kind: type[KF], dtype: ElementType = ...
    ) -> Tensor[B2, D1, KF]: ...
    @overload
    @staticmethod
    def full(shape: S2, fill_value: float, backend: B2, *, dtype: ElementType = ...) -> Tensor[B2, D2, Float]: ...
    @overload
    @staticmethod
    def full(
        shape: S2, fill_value: float, backend: B2, kind: type[KF], dtype: ElementType = ...
    ) -> Tensor[B2, D2, KF]: ...
    @overload
    @staticmethod
    def full(shape: S3, fill_value: float, backend: B2, *, dtype: ElementType = ...) -> Tensor[B2, D3, Float]: ...
    @overload
    @staticmethod
    def full(
        shape: S3, fill_value: float, backend: B2, kind: type[KF], dtype: ElementType = ...
    ) -> Tensor[B2, D3, KF]: ...
    @overload
    @staticmethod
    def full(shape: S4, fill_value: float, backend: B2, *, dtype: ElementType = ...) -> Tensor[B2, D4, Float]: ...
    @overload
    @staticmethod
    def full(
        shape: S4, fill_value: float, backend: B2, kind: type[KF], dtype: ElementType = ...
    ) -> Tensor[B2, D4, KF]: ...
    @overload
    @staticmethod
    def full(shape: S5, fill_value: float, backend: B2, *, dtype: ElementType = ...) -> Tensor[B2, D5, Float]: ...
    @overload
    @staticmethod
    def full(
        shape: S5, fill_value: float, backend: B2, kind: type[KF], dtype: ElementType = ...
    ) -> Tensor[B2, D5, KF]: ...
    @overload
    @staticmethod
    def full(shape: S6, fill_value: float, backend: B2, *, dtype: ElementType = ...) -> Tensor[B2, D6, Float]: ...
    @overload
    @staticmethod
    def full(
        shape: S6, fill_value: float, backend: B2, kind: type[KF], dtype: ElementType = ...
    ) -> Tensor[B2, D6, KF]: ...
    @overload
    @staticmethod
    def full(shape: S7, fill_value: float, backend: B2, *, dtype: ElementType = ...) -> Tensor[B2, D7, Float]: ...
    @overload
    @staticmethod
    def full(
        shape: S7, fill_value: float, backend: B2, kind: type[KF], dtype: ElementType = ...
    ) -> Tensor[B2, D7, KF]: ...
    @overload
    @staticmethod
    def full(shape: S8, fill_value: float, backend: B2, *, dtype: ElementType = ...) -> Tensor[B2, D8, Float]: ...
    @overload
    @staticmethod
    def full(
        shape: S8, fill_value: float, backend: B2, kind: type[KF], dtype: ElementType = ...
    ) -> Tensor[B2, D8, KF]: ...
    @overload
    @staticmethod
    def full(
        shape: Sequence[int], fill_value: float, backend: B2, *, dtype: ElementType = ...
    ) -> Tensor[B2, Any, Float]: ...
    @overload
    @staticmethod
    def full(
        shape: Sequence[int], fill_value: float, backend: B2, kind: type[KF], dtype: ElementType = ...
    ) -> Tensor[B2, Any, KF]:
        """A tensor of `fill_value`, converted to the element type. `shape -> shape`. Torch: `torch.full`.
        Differs: names the backend; the dtype is the backend's for `kind`, unless given, never the value's.
        """
    def empty_like(self) -> Tensor[B, D, K]:
        """Undefined values in the shape, dtype and backend of this tensor. `[..] -> [..]`.
        Torch: `torch.empty_like`.
        """
    def zeros_like(self) -> Tensor[B, D, K]:
        """Zeros (False) in the shape, dtype and backend of this tensor. `[..] -> [..]`. Torch: `torch.zeros_like`."""
    def ones_like(self) -> Tensor[B, D, K]:
        """Ones (True) in the shape, dtype and backend of this tensor. `[..] -> [..]`. Torch: `torch.ones_like`."""
    def full_like(self, fill_value: float) -> Tensor[B, D, K]:
        """`fill_value` in the shape, dtype and backend of this tensor. `[..] -> [..]`. Torch: `torch.full_like`."""
    @overload
    @staticmethod
    def random(
        shape: S1, distribution: Distribution, backend: B2, *, dtype: ElementType = ...
    ) -> Tensor[B2, D1, Float]: ...
    @overload
    @staticmethod
    def random(
        shape: S1, distribution: Distribution, backend: B2, kind: type[KF], dtype: ElementType = ...
    ) -> Tensor[B2, D1, KF]: ...
    @overload
    @staticmethod
    def random(
        shape: S2, distribution: Distribution, backend: B2, *, dtype: ElementType = ...
    ) -> Tensor[B2, D2, Float]: ...
    @overload
    @staticmethod
    def random(
        shape: S2, distribution: Distribution, backend: B2, kind: type[KF], dtype: ElementType = ...
    ) -> Tensor[B2, D2, KF]: ...
    @overload
    @staticmethod
    def random(
        shape: S3, distribution: Distribution, backend: B2, *, dtype: ElementType = ...
    ) -> Tensor[B2, D3, Float]: ...
    @overload
    @staticmethod
    def random(
        shape: S3, distribution: Distribution, backend: B2, kind: type[KF], dtype: ElementType = ...
    ) -> Tensor[B2, D3, KF]: ...
    @overload
    @staticmethod
    def random(
        shape: S4, distribution: Distribution, backend: B2, *, dtype: ElementType = ...
    ) -> Tensor[B2, D4, Float]: ...
    @overload
    @staticmethod
    def random(
        shape: S4, distribution: Distribution, backend: B2, kind: type[KF], dtype: ElementType = ...
    ) -> Tensor[B2, D4, KF]: ...
    @overload
    @staticmethod
    def random(
        shape: S5, distribution: Distribution, backend: B2, *, dtype: ElementType = ...
    ) -> Tensor[B2, D5, Float]: ...
    @overload
    @staticmethod
    def random(
        shape: S5, distribution: Distribution, backend: B2, kind: type[KF], dtype: ElementType = ...
    ) -> Tensor[B2, D5, KF]: ...
    @overload
    @staticmethod
    def random(
        shape: S6, distribution: Distribution, backend: B2, *, dtype: ElementType = ...
    ) -> Tensor[B2, D6, Float]: ...
    @overload
    @staticmethod
    def random(
        shape: S6, distribution: Distribution, backend: B2, kind: type[KF], dtype: ElementType = ...
    ) -> Tensor[B2, D6, KF]: ...
    @overload
    @staticmethod
    def random(
        shape: S7, distribution: Distribution, backend: B2, *, dtype: ElementType = ...
    ) -> Tensor[B2, D7, Float]: ...
    @overload
    @staticmethod
    def random(
        shape: S7, distribution: Distribution, backend: B2, kind: type[KF], dtype: ElementType = ...
    ) -> Tensor[B2, D7, KF]: ...
    @overload
    @staticmethod
    def random(
        shape: S8, distribution: Distribution, backend: B2, *, dtype: ElementType = ...
    ) -> Tensor[B2, D8, Float]: ...
    @overload
    @staticmethod
    def random(
        shape: S8, distribution: Distribution, backend: B2, kind: type[KF], dtype: ElementType = ...
    ) -> Tensor[B2, D8, KF]: ...
    @overload
    @staticmethod
    def random(
        shape: Sequence[int], distribution: Distribution, backend: B2, *, dtype: ElementType = ...
    ) -> Tensor[B2, Any, Float]: ...
    @overload
    @staticmethod
    def random(
        shape: Sequence[int], distribution: Distribution, backend: B2, kind: type[KF], dtype: ElementType = ...
    ) -> Tensor[B2, Any, KF]:
        """Random numbers, drawn from the backend's generator (`backend.seed`). `shape -> shape`, Float or Int.

        `Distribution.Default` is uniform in [0, 1) for Float and in [0, 255) for Int; Int numbers are drawn as
        floating
        point and truncated.

        Torch: `torch.rand`, `torch.randn`, `torch.randint`, `torch.bernoulli`.
        Differs: one function for all distributions; names the backend.
        """
    def random_like(self: Floats[B, D], distribution: Distribution) -> Tensor[B, D, Float]:
        """Random numbers in the shape and dtype of this tensor. `[..] -> [..]`.
        Torch: `torch.rand_like`, `torch.randn_like`.
        """
    @overload
    @staticmethod
    def from_data(data: L1[float], backend: B2, *, dtype: ElementType = ...) -> Tensor[B2, D1, Float]: ...
    @overload
    @staticmethod
    def from_data(data: L1[float], backend: B2, kind: type[KF], dtype: ElementType = ...) -> Tensor[B2, D1, KF]: ...
    @overload
    @staticmethod
    def from_data(data: L2[float], backend: B2, *, dtype: ElementType = ...) -> Tensor[B2, D2, Float]: ...
    @overload
    @staticmethod
    def from_data(data: L2[float], backend: B2, kind: type[KF], dtype: ElementType = ...) -> Tensor[B2, D2, KF]: ...
    @overload
    @staticmethod
    def from_data(data: L3[float], backend: B2, *, dtype: ElementType = ...) -> Tensor[B2, D3, Float]: ...
    @overload
    @staticmethod
    def from_data(data: L3[float], backend: B2, kind: type[KF], dtype: ElementType = ...) -> Tensor[B2, D3, KF]: ...
    @overload
    @staticmethod
    def from_data(data: L4[float], backend: B2, *, dtype: ElementType = ...) -> Tensor[B2, D4, Float]: ...
    @overload
    @staticmethod
    def from_data(data: L4[float], backend: B2, kind: type[KF], dtype: ElementType = ...) -> Tensor[B2, D4, KF]: ...
    @overload
    @staticmethod
    def from_data(data: Any, backend: B2, *, dtype: ElementType = ...) -> Tensor[B2, Any, Float]: ...
    @overload
    @staticmethod
    def from_data(data: Any, backend: B2, kind: type[KF], dtype: ElementType = ...) -> Tensor[B2, Any, KF]:
        """A tensor with a copy of nested lists, TensorData, an array or a torch tensor. `shape -> shape`.
        Torch: `torch.tensor`.
        Differs: the numbers are converted to the backend's dtype for `kind`, unless one is given. An Int tensor takes
        whole numbers that its dtype has; values on other devices than the CPU are not read, and become the nearest.
        Raises TensorValueError: other numbers; `round().int()` of a Float tensor, or `cast`, converts those.
        """
    @overload
    @staticmethod
    def from_floats(data: L1[float], backend: B2) -> Tensor[B2, D1, Float]: ...
    @overload
    @staticmethod
    def from_floats(data: L2[float], backend: B2) -> Tensor[B2, D2, Float]: ...
    @overload
    @staticmethod
    def from_floats(data: L3[float], backend: B2) -> Tensor[B2, D3, Float]: ...
    @overload
    @staticmethod
    def from_floats(data: L4[float], backend: B2) -> Tensor[B2, D4, Float]: ...
    @overload
    @staticmethod
    def from_floats(data: Any, backend: B2) -> Tensor[B2, Any, Float]:
        """A Float tensor of nested lists. `shape -> shape`. Torch: `torch.tensor`.
        Differs: the dtype is the backend's; no digit is lost on the way to float64, where Burn passes through
        float32.
        """
    @overload
    @staticmethod
    def from_ints(data: L1[int], backend: B2) -> Tensor[B2, D1, Int]: ...
    @overload
    @staticmethod
    def from_ints(data: L2[int], backend: B2) -> Tensor[B2, D2, Int]: ...
    @overload
    @staticmethod
    def from_ints(data: L3[int], backend: B2) -> Tensor[B2, D3, Int]: ...
    @overload
    @staticmethod
    def from_ints(data: L4[int], backend: B2) -> Tensor[B2, D4, Int]: ...
    @overload
    @staticmethod
    def from_ints(data: Any, backend: B2) -> Tensor[B2, Any, Int]:
        """An Int tensor of nested lists. `shape -> shape`. Torch: `torch.tensor`. Differs: the backend's dtype."""
    @overload
    @staticmethod
    def from_bool(data: L1[bool], backend: B2) -> Tensor[B2, D1, Bool]: ...
    @overload
    @staticmethod
    def from_bool(data: L2[bool], backend: B2) -> Tensor[B2, D2, Bool]: ...
    @overload
    @staticmethod
    def from_bool(data: L3[bool], backend: B2) -> Tensor[B2, D3, Bool]: ...
    @overload
    @staticmethod
    def from_bool(data: L4[bool], backend: B2) -> Tensor[B2, D4, Bool]: ...
    @overload
    @staticmethod
    def from_bool(data: Any, backend: B2) -> Tensor[B2, Any, Bool]:
        """A Bool tensor of nested lists; all but 0 is True. `shape -> shape`.
        Torch: `torch.tensor(data, dtype=torch.bool)`.
        """
    @overload
    @staticmethod
    def eye(size: int, backend: B2, *, dtype: ElementType = ...) -> Tensor[B2, D2, Float]: ...
    @overload
    @staticmethod
    def eye(size: int, backend: B2, kind: type[KF], dtype: ElementType = ...) -> Tensor[B2, D2, KF]:
        """Ones on the diagonal, else zeros. `-> [size, size]`, Float or Int. Torch: `torch.eye`. Differs: square."""
    @staticmethod
    def arange(start: int, end: int, backend: B2, dtype: ElementType = None) -> Tensor[B2, D1, Int]:
        """`start`, .. below `end`. `-> [end - start]`. Torch: `torch.arange`.
        Differs: Int only; both ends are given.
        """
    @staticmethod
    def arange_step(start: int, end: int, step: int, backend: B2, dtype: ElementType = None) -> Tensor[B2, D1, Int]:
        """start, start + step, ... below `end`. `-> [n]`. Torch: `torch.arange`.
        Differs: Int only; `step` is 1 or more.
        """
    @overload
    @staticmethod
    def cartesian_grid(shape: S1, backend: B2) -> Tensor[B2, D2, Int]: ...
    @overload
    @staticmethod
    def cartesian_grid(shape: S2, backend: B2) -> Tensor[B2, D3, Int]: ...
    @overload
    @staticmethod
    def cartesian_grid(shape: S3, backend: B2) -> Tensor[B2, D4, Int]: ...
    @overload
    @staticmethod
    def cartesian_grid(shape: S4, backend: B2) -> Tensor[B2, D5, Int]: ...
    @overload
    @staticmethod
    def cartesian_grid(shape: S5, backend: B2) -> Tensor[B2, D6, Int]: ...
    @overload
    @staticmethod
    def cartesian_grid(shape: S6, backend: B2) -> Tensor[B2, D7, Int]: ...
    @overload
    @staticmethod
    def cartesian_grid(shape: S7, backend: B2) -> Tensor[B2, D8, Int]: ...
    @overload
    @staticmethod
    def cartesian_grid(shape: Sequence[int], backend: B2) -> Tensor[B2, Any, Int]:
        """The coordinates of every cell. `[a, b, ..] -> [a, b, .., rank]`.
        Torch: `torch.stack(torch.meshgrid(..., indexing="ij"), -1)`.
        """
