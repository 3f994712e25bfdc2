"""transformers' functions of rotary positions: which pairs each turns, and the op in its place.

They differ in the pairs (halves, or neighbours), in the columns of the tables that they read, in whether the tables may
be narrower than heads, whose last values are then left, and in the dtype of the results. Which of `ROTATIONS` one is, a
trial shows.
"""

import inspect
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from ... import ops
from ..._torch_compat.fake_tensors import is_fake
from ..._torch_compat.tensors import times_written
from ...ops._arguments import autocast_dtype
from ...ops._function import is_transformed
from .functions import takes
from .rebinding import helpers_unchanged, is_plain
from .trials import numbers, same_rotation

Turned = tuple[Tensor, Tensor]
_ARGUMENTS = ("q", "k", "cos", "sin", "unsqueeze_dim")


@dataclass(frozen=True, slots=True)
class Rotation:
    """A way to turn queries and keys by tables `[batch, sequence, r]`, some of whose columns may not be read.

    Attributes:
        neighbours: whether pairs are neighbours, or of both halves.
        repeated: whether the function itself repeats the first half of the columns, one for each pair of neighbours.
        half: whether tables have r / 2 columns, one for each pair.
        partial: whether r may be less than the width of heads.
        back: whether the results have the query's dtype, not that of its product with a table.
    """

    neighbours: bool = False
    repeated: bool = False
    half: bool = False
    partial: bool = False
    back: bool = False

    def tables(self) -> tuple[Tensor, ...]:
        """Tables to try it with: of columns that all differ where the op reads all."""
        table = numbers(2, 2, 3, 4 if self.half else 8)
        if self.neighbours and not self.repeated:
            table = table[..., ::2].repeat_interleave(2, -1)
        narrow = table[..., :4] if self.neighbours else table[..., :2].repeat(1, 1, 1, 2)
        return (table, narrow) if self.partial else (table,)

    def turned(self, query: Any, key: Any, cos: Any, sin: Any, unsqueeze_dim: Any = 1) -> Turned | None:
        """The queries and keys by the op; None for arguments that it does not take."""
        if not _takes(query, key, cos, sin, unsqueeze_dim):
            return None
        width, columns = query.shape[-1], cos.shape[-1] * (2 if self.half else 1)
        if columns % 2 or columns > width or (columns < width and not self.partial):
            return None
        dtype = query.dtype if self.back else torch.promote_types(query.dtype, cos.dtype)  # of the products
        if self.repeated:
            cos, sin = cos[..., : columns // 2], sin[..., : columns // 2]
        elif not self.half and (self.neighbours or columns < width):
            if not (_has_pairs(cos, self.neighbours) and _has_pairs(sin, self.neighbours)):
                return None
            cos, sin = (it[..., ::2] if self.neighbours else it[..., : columns // 2] for it in (cos, sin))
        if autocast_dtype(query) != query.dtype:  # else attention rounds the results to these 16 bits
            query, key = query.to(dtype), key.to(dtype)
        if unsqueeze_dim == 2:
            query, key = query.transpose(1, 2), key.transpose(1, 2)
        query, key = (it.to(dtype) for it in ops.rotary(query, key, cos, sin, interleaved=self.neighbours))
        return (query, key) if unsqueeze_dim == 1 else (query.transpose(1, 2), key.transpose(1, 2))


ROTATIONS = (
    Rotation(partial=True),  # GPT-NeoX
    Rotation(),  # Llama
    Rotation(back=True),  # OLMo, ModernBERT
    Rotation(neighbours=True, repeated=True, partial=True),  # GLM-4
    Rotation(neighbours=True, repeated=True, back=True),  # ERNIE
    Rotation(neighbours=True, repeated=True),  # Helium
    Rotation(neighbours=True, back=True),  # Cohere
    Rotation(neighbours=True, partial=True),  # GLM-4V
    Rotation(neighbours=True),  # BLT
    Rotation(half=True),  # GPT-OSS
)


def _takes(query: Any, key: Any, cos: Any, sin: Any, unsqueeze_dim: Any) -> bool:
    if unsqueeze_dim not in (1, 2) or not takes(query, key, cos, sin):
        return False
    if query.dtype != key.dtype or cos.dtype != sin.dtype or cos.shape != sin.shape:
        return False
    if (query.dim(), key.dim(), cos.dim()) != (4, 4, 3) or (cos.requires_grad or sin.requires_grad):
        return False
    if query.dtype.itemsize == 2 and autocast_dtype(query) not in (None, query.dtype):
        return False  # torch joins halves in autocast's dtype, or not at all
    batch, length, width = query.shape[0], query.shape[3 - unsqueeze_dim], query.shape[3]
    return (
        (key.shape[0], key.shape[3 - unsqueeze_dim], key.shape[3]) == (batch, length, width)
        and cos.shape[1] == length
        and cos.shape[0] in (1, batch)
        and cos.shape[2] > 0
    )


def _has_pairs(table: Tensor, neighbours: bool) -> bool:
    """True if both columns of each pair are equal, which the op for these needs, and all of transformers' tables are.

    What was found is kept with the tensor, as all layers get the same one. Code that is compiled or transformed can't
    depend on values, and on a GPU it would wait for them.
    """
    if torch.compiler.is_compiling() or is_fake(table) or not table.is_cpu or is_transformed():
        return False
    version = -1 if table.is_inference() else times_written(table)
    remembered = vars(table).get("_burnlike_pairs")
    if version >= 0 and remembered is not None and remembered[:2] == (version, neighbours):
        return remembered[2]
    first, second = (table[..., ::2], table[..., 1::2]) if neighbours else table.chunk(2, -1)
    has_pairs = torch.equal(first, second)
    vars(table)["_burnlike_pairs"] = (version, neighbours, has_pairs)
    return has_pairs


def rotation_of(function: Any) -> Rotation | None:
    """The rotation of a function with transformers' signature; None for other arguments, or another computation."""
    if not is_plain(function):
        return None
    parameters = inspect.signature(function).parameters
    if tuple(parameters) not in (_ARGUMENTS, _ARGUMENTS[:4]):
        return None
    with_dim = "unsqueeze_dim" in parameters
    if with_dim and parameters["unsqueeze_dim"].default != 1:
        return None
    return next((it for it in ROTATIONS if same_rotation(function, it.turned, it.tables, with_dim=with_dim)), None)


def rotating(stock: Any, rotation: Rotation) -> Callable[..., Any]:
    """The function with the op for what this takes, while its helpers are what they were."""
    are_helpers_same = helpers_unchanged(stock)

    def apply(q: Any, k: Any, cos: Any, sin: Any, *dim: Any, **keywords: Any) -> Any:
        if len(dim) == 1:
            keywords["unsqueeze_dim"], dim = dim[0], ()
        turned = None
        if not dim and keywords.keys() <= {"unsqueeze_dim"} and are_helpers_same():
            turned = rotation.turned(q, k, cos, sin, keywords.get("unsqueeze_dim", 1))
        return stock(q, k, cos, sin, *dim, **keywords) if turned is None else turned

    return apply
