"""Shape, dtype and device of a tensor; and moving it."""

from collections.abc import Callable, Sequence
from types import EllipsisType
from typing import Any, Self, overload

import torch

from ...backend import Autodiff, AutodiffBackend, Backend, backend_for
from ...backend.torch_backend import named_device
from ...errors import TensorTypeError, TensorValueError
from ..core.base import B2, B, D, K, Tensor, TensorBase, wrap
from ..core.kinds import D1, D2, D3, D4, D5, D6, D7, D8, S1, S2, S3, S4, S5, S6, S7, S8
from ..core.spec import family_of, find_spec

Pattern = Sequence[int | EllipsisType | None]


class MetadataMethods(TensorBase[B, D, K]):
    """Shape, dtype and device of a tensor; and moving it."""

    __slots__ = ()

    @property
    def shape(self) -> torch.Size:
        """The sizes. Torch: `x.shape`."""
        return self.inner.shape

    @property
    def dtype(self) -> torch.dtype:
        """The element type. Torch: `x.dtype`."""
        return self.spec.dtype

    @property
    def device(self) -> torch.device:
        """The device of the elements. Torch: `x.device`."""
        return self.inner.device

    def rank(self) -> D:
        """The number of dimensions. Torch: `x.ndim`. Differs: never 0."""
        return self.spec.rank  # pyright: ignore[reportReturnType]

    @overload
    def dims(self: "MetadataMethods[B, D1, K]") -> S1: ...
    @overload
    def dims(self: "MetadataMethods[B, D2, K]") -> S2: ...
    @overload
    def dims(self: "MetadataMethods[B, D3, K]") -> S3: ...
    @overload
    def dims(self: "MetadataMethods[B, D4, K]") -> S4: ...
    @overload
    def dims(self: "MetadataMethods[B, D5, K]") -> S5: ...
    @overload
    def dims(self: "MetadataMethods[B, D6, K]") -> S6: ...
    @overload
    def dims(self: "MetadataMethods[B, D7, K]") -> S7: ...
    @overload
    def dims(self: "MetadataMethods[B, D8, K]") -> S8: ...
    @overload
    def dims(self) -> tuple[int, ...]: ...
    def dims(self) -> tuple[int, ...]:
        """The sizes as a tuple, of which type checkers know the length. Torch: `tuple(x.shape)`."""
        return tuple(self.inner.shape)

    @overload
    def to_device(self, device: B2) -> "Tensor[B2, D, K]": ...
    @overload
    def to_device(self, device: torch.device | str) -> "Tensor[Any, D, K]": ...
    def to_device(self, device: Any) -> Any:
        """The same elements on another backend or device; itself where it is there. `[..] -> [..]`.

        Args:
            device: a backend, whose element types are not applied, or a torch device or its name, which means the usual
                backend of it, tracking if this tensor's does.

        Torch: `x.to(device)`. Differs: a backend that does not track gives a tensor without history.
        Raises DeviceError: this machine does not have the device.
        """
        spec = self.spec
        target = device if isinstance(device, Backend) else _backend_on(device, spec.backend)
        if target == spec.backend:
            return self
        inner, family = self.inner, family_of(target)
        if inner.device != target.device:
            inner = spec.ops.to_device(inner, target.device)
        if inner.requires_grad and not target.ad_enabled and isinstance(spec.backend, AutodiffBackend):
            inner = spec.backend.to_inner(inner)
        return wrap(inner, family[spec.dtype][spec.rank])

    def inplace(self, func: "Callable[[Self], Self]") -> Self:
        """`func(self)`. Torch: none. Differs: Burn stores the result in the variable; bind it yourself."""
        return func(self)

    def extract(self) -> Self:
        """The tensor itself. Torch: none.
        Differs: Burn leaves an empty tensor in the variable; here nothing changes.
        """
        return self

    def can_mut(self) -> bool:
        """False: whether a buffer has one owner is not known. Torch: none."""
        return False

    def into_primitive(self) -> torch.Tensor:
        """The torch tensor. Torch: none."""
        return self.inner

    @staticmethod
    def from_primitive(primitive: torch.Tensor, backend: B2) -> "Tensor[B2, Any, Any]":
        """A torch tensor as a typed one, without a copy; its dtype says the kind. Torch: none.

        Raises TensorTypeError: rank 0 or above 8, a dtype that has no kind, or another device than the backend's.
        """
        return find_spec(primitive, family_of(backend)).tensor(primitive, backend)

    def assert_shape(self, pattern: Pattern) -> None:
        """Check the sizes: None stands for any size, `...` for any number of dimensions. Torch: none.

        Raises TensorValueError: they are others.
        """
        assert_shape(self, pattern)


def assert_shape(tensor: Any, pattern: Pattern, name: str = "tensor") -> None:
    """Check the sizes of a tensor: None stands for any size, `...` (once) for any number of dimensions. Torch: none.

    Example:
        >>> import torch
        >>> assert_shape(torch.zeros(2, 3, 4), [2, ..., 4])
        >>> assert_shape(torch.zeros(2, 3), [None, 3])

    Raises TensorValueError: they are others; the message has `name`. Raises TensorTypeError: `...` twice.
    """
    dims = list(tensor.shape)
    wanted = list(pattern)
    text = ", ".join(".." if it is ... else "_" if it is None else str(it) for it in wanted)
    operation = f"assert_shape!({name}, [{text}])"
    if ... in wanted:
        place = wanted.index(...)
        if ... in wanted[place + 1 :]:
            raise TensorTypeError(operation, "expected `...` at most once")
        wanted[place : place + 1] = [None] * (len(dims) - len(wanted) + 1)
    if len(wanted) != len(dims):
        count = f"at least {len(pattern) - 1}" if ... in pattern else len(pattern)
        raise TensorValueError(operation, f"expected {count} dimensions, got {len(dims)} (dims {dims})")
    for place, (size, actual) in enumerate(zip(wanted, dims, strict=True)):
        if size is not None and size != actual:
            raise TensorValueError(operation, f"axis {place} expected {size}, got {actual} (dims {dims})")


def debug_assert_shape(tensor: Any, pattern: Pattern, name: str = "tensor") -> None:
    """`assert_shape`, but nothing where Python runs with `-O`. Torch: none."""
    if __debug__:
        assert_shape(tensor, pattern, name)


def _backend_on(device: torch.device | str, current: Backend) -> Backend:
    target_device = named_device(device)
    if target_device == current.device:
        return current
    target = backend_for(target_device)
    return Autodiff(target) if current.ad_enabled else target
