"""Conversion to other kinds and element types."""

import builtins
from typing import Any, overload

import torch

from ...errors import TensorTypeError, TensorValueError
from ..core.base import B2, B, D, E, Floats, K, Numeric, Tensor, TensorBase, wrap
from ..core.dtypes import DType, FloatDType, IntDType, as_dtype
from ..core.kinds import Bool, Float, Int, Kind
from ..core.spec import family_of


class ConversionMethods(TensorBase[B, D, K]):
    """Other kinds and element types."""

    __slots__ = ()

    @overload
    def cast(self, dtype: FloatDType) -> "Tensor[B, D, Float]": ...
    @overload
    def cast(self, dtype: IntDType) -> "Tensor[B, D, Int]": ...
    @overload
    def cast(self, dtype: DType) -> "Tensor[B, D, K]": ...
    @overload
    def cast(self, dtype: torch.dtype | str) -> "Tensor[B, D, Any]": ...
    def cast(self: Any, dtype: Any) -> Any:
        """The same values in another element type; the tensor itself where it has it. `[..] -> [..]`.

        `FloatDType` gives a Float tensor, `IntDType` an Int tensor, `DType` stays in the kind; a torch dtype or a name
        such as `"bf16"` gives the kind that has it. Floats lose what follows the point; those beyond an Int type
        become its smallest or largest number, and NaN becomes 0.
        Torch: `x.to(dtype)`.
        Differs: not to Bool: `bool()` is the only way; floats beyond an Int type have a defined result.
        Raises TensorTypeError: Bool, a `DType` of another kind, or an element type that has no kind.
        """
        spec = self.spec
        wanted = dtype if type(dtype) is torch.dtype else as_dtype("Cast", dtype)
        if wanted is torch.bool:
            raise TensorTypeError("Cast", "a cast to Bool does not exist; use bool(), which is True where x != 0")
        if wanted is spec.dtype:
            return self
        ranks = spec.family.get(wanted)
        if ranks is None:
            raise TensorTypeError("Cast", f"{wanted} has no kind; Float, Int and Bool tensors hold real numbers")
        target = ranks[spec.rank]
        if target.kind is not spec.kind and type(dtype) is DType:
            raise TensorTypeError(
                "Cast",
                f"expected an element type of {spec.kind.name} tensors, got {dtype}; a {target.kind.name}DType, a torch"
                " dtype or its name changes the kind too",
            )
        return wrap(spec.ops.cast(self.inner, wanted), target)

    def int(self: "ConversionMethods[B, D, Float] | ConversionMethods[B, D, Bool]") -> "Tensor[B, D, Int]":
        """Whole parts of Float as `cast` takes them, 0 and 1 of Bool, in the backend's int type. `[..] -> [..]`.
        Torch: `x.long()`. Differs: the backend's int type, whatever it is; floats beyond it become its ends, NaN 0.
        """
        return _convert(self, Int)

    def float(self: "ConversionMethods[B, D, Int] | ConversionMethods[B, D, Bool]") -> "Tensor[B, D, Float]":
        """The numbers of Int, 0 and 1 of Bool, in the backend's float type. `[..] -> [..]`. Torch: `x.float()`.
        Differs: the backend's float type, whatever it is.
        """
        return _convert(self, Float)

    def bool(self: "Numeric[B, D]") -> "Tensor[B, D, Bool]":
        """True for each element that is not 0, also for NaN. `[..] -> [..]`. Torch: `x.bool()`."""
        return _convert(self, Bool)

    def to_full_precision(self: "Floats[B, D]") -> "Tensor[B, D, Float]":
        """The tensor on the backend's `full_precision()`: float32, float64 stays. `[..] -> [..]`, differentiable.
        Torch: `x.float()`.
        Differs: the backend changes with it; Burn had this up to 0.13, and has `cast(FloatDType::F32)` since.
        """
        spec = self.spec
        if spec.kind is not Float:
            raise TensorTypeError("To Full Precision", f"expected a Float tensor, got one of kind {spec.kind.name}")
        backend = spec.backend.full_precision()
        dtype = spec.dtype if spec.dtype is torch.float64 else backend.float_dtype
        return wrap(spec.ops.cast(self.inner, dtype), family_of(backend)[dtype][spec.rank])

    @staticmethod
    def from_full_precision(tensor: "Tensor[Any, E, Float]", backend: B2) -> "Tensor[B2, E, Float]":
        """A tensor of `backend.full_precision()` in the float type of `backend`. `[..] -> [..]`, differentiable.
        Torch: `x.to(dtype)`. Differs: as `to_full_precision`. Raises TensorTypeError: another kind or backend.
        """
        spec, family = tensor.spec, family_of(backend)
        if spec.kind is not Float:
            raise TensorTypeError("From Full Precision", f"expected a Float tensor, got one of kind {spec.kind.name}")
        if spec.backend != backend.full_precision():
            raise TensorTypeError(
                "From Full Precision",
                f"expected a tensor on {backend.full_precision()!r}, got one on {spec.backend!r}; use to_device",
            )
        return wrap(spec.ops.cast(tensor.inner, backend.float_dtype), family[backend.float_dtype][spec.rank])

    def __bool__(self) -> "builtins.bool":
        if self.inner.numel() != 1:
            raise TensorValueError(
                "Bool", f"a tensor of shape {list(self.inner.shape)} has no single truth; reduce it by all() or any()"
            )
        return self.spec.ops.truth(self.inner)


def _convert(tensor: Any, kind: type[Kind]) -> Any:
    """The tensor in another kind, in the backend's element type for it."""
    spec = tensor.spec
    if spec.kind is kind:
        raise TensorTypeError(
            kind.name, f"the tensor is {kind.name} already, of {spec.dtype}; cast(dtype) changes its element type"
        )
    target = spec.float if kind is Float else spec.int if kind is Int else spec.bool
    return wrap(spec.ops.cast(tensor.inner, target.dtype), target)
