"""Padding and triangles."""

import dataclasses
from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

from ...errors import TensorTypeError, TensorValueError
from ..core.base import B, D, K, Numeric, Tensor, TensorBase, wrap
from ..core.operands import scalar


@dataclasses.dataclass(frozen=True)
class PadMode:
    """The values that padding adds: `Constant(value)`, `Reflect` or `Edge`.

    Attributes:
        name: one of the three.
        value: of `Constant`.

    Example:
        >>> PadMode.Constant(1.0)
        PadMode(name='Constant', value=1.0)
    """

    name: str
    value: float = 0.0

    Reflect: ClassVar["PadMode"]
    Edge: ClassVar["PadMode"]

    @staticmethod
    def Constant(value: float) -> "PadMode":
        """One number everywhere."""
        return PadMode("Constant", value)


PadMode.Reflect = PadMode("Reflect")
PadMode.Edge = PadMode("Edge")

Pairs = Sequence[tuple[int, int]] | Sequence[Sequence[int]] | tuple[int, int, int, int]
Mode = PadMode | float | str


class PaddingMethods(TensorBase[B, D, K]):
    """Padding and triangles."""

    __slots__ = ()

    def pad(self: "Numeric[B, D]", padding: Pairs, mode: Mode) -> "Tensor[B, D, K]":
        """Elements around the tensor. `[.., n] -> [.., before + n + after]`. Torch: `torch.nn.functional.pad`.

        Args:
            padding: (before, after) for each of the last dimensions, in their order; or (left, right, top, bottom).
            mode: a PadMode, its name, or a number, which means a constant.

        Differs: the pairs are in the order of the dimensions; each mode takes any rank.
        Raises TensorValueError: more pairs than dimensions, a negative size, or no element to reflect or repeat.
        """
        spec = self.spec
        pairs, mode = _pairs(padding, spec.rank), _mode(mode)
        if not any(before or after for before, after in pairs):
            return self  # pyright: ignore[reportReturnType]
        if mode.name == "Constant":
            return wrap(spec.ops.pad_constant(self.inner, pairs, scalar("pad", spec, mode.value)), spec)
        for size, pair in zip(self.inner.shape[spec.rank - len(pairs) :], pairs, strict=True):
            if mode.name == "Reflect" and max(pair) > 0 and max(pair) >= size:
                raise TensorValueError("Pad", f"Reflect padding must be smaller than the dimension: {pair} of {size}")
            if mode.name == "Edge" and max(pair) > 0 and size == 0:
                raise TensorValueError("Pad", "Edge padding needs at least one element in a dimension, got 0")
        pad = spec.ops.pad_reflect if mode.name == "Reflect" else spec.ops.pad_edge
        return wrap(pad(self.inner, pairs), spec)

    def triu(self: "Numeric[B, D]", diagonal: int) -> "Tensor[B, D, K]":
        """Zeros below a diagonal of the last two dimensions. `[.., a, b] -> [.., a, b]`. Torch: `torch.triu`.
        Differs: the diagonal is given, 0 for the main one.
        """
        spec = self.spec
        if spec.rank < 2:
            raise TensorValueError("Tri", f"expected a rank of 2 or more, got {spec.rank}")
        return wrap(spec.ops.triu(self.inner, diagonal), spec)

    def tril(self: "Numeric[B, D]", diagonal: int) -> "Tensor[B, D, K]":
        """Zeros above a diagonal of the last two dimensions. `[.., a, b] -> [.., a, b]`. Torch: `torch.tril`.
        Differs: the diagonal is given, 0 for the main one.
        """
        spec = self.spec
        if spec.rank < 2:
            raise TensorValueError("Tri", f"expected a rank of 2 or more, got {spec.rank}")
        return wrap(spec.ops.tril(self.inner, diagonal), spec)


def _pairs(padding: Any, rank: int) -> list[tuple[int, int]]:
    """(before, after) of the last dimensions, checked."""
    flat = list(padding)
    if len(flat) == 4 and all(isinstance(size, int) for size in flat):
        left, right, top, bottom = flat
        flat = [(top, bottom), (left, right)]
    try:
        pairs = [(before, after) for before, after in flat]
    except (TypeError, ValueError):
        raise TensorTypeError("Pad", f"expected pairs or (left, right, top, bottom), got {padding!r}") from None
    if len(pairs) > rank:
        raise TensorValueError("Pad", f"Padding has {len(pairs)} pairs, the tensor {rank} dimensions")
    if any(size < 0 for pair in pairs for size in pair):
        raise TensorValueError("Pad", f"expected sizes of 0 or above, got {pairs}")
    return pairs


def _mode(mode: Any) -> PadMode:
    if isinstance(mode, PadMode):
        return mode
    if isinstance(mode, int | float):
        return PadMode.Constant(mode)
    if isinstance(mode, Mapping) and list(mode) == ["Constant"]:  # as Burn's configs write it
        return PadMode.Constant(mode["Constant"])
    pad_modes = {"reflect": PadMode.Reflect, "edge": PadMode.Edge, "constant": PadMode.Constant(0.0)}
    pad_mode = pad_modes.get(mode.lower()) if isinstance(mode, str) else None
    if pad_mode is None:
        raise TensorValueError("Pad", f"expected Reflect, Edge, a constant, or a PadMode, got {mode!r}")
    return pad_mode
