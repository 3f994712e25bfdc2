"""The form of a parameter in a record, where it has mappers: what they make of its tensor and of the record's."""

from typing import NamedTuple

import torch
from torch import Tensor

from ...errors import RecordError
from ...module import Param


class ShapeAndType(NamedTuple):
    """The shape and type of a tensor, without its values."""

    dtype: torch.dtype
    shape: torch.Size


def saved_form(param: Param) -> Tensor:
    """The tensor as it is in a record: itself, or what its save mapper makes of it."""
    tensor = param.tensor.detach()
    return tensor if param.mappers.save is None else _call(param, "save", tensor)


def expected_form(param: Param) -> ShapeAndType | None:
    """The form that a record must have for `param`, computed on the meta device; None if only mapping can tell."""
    target = param.tensor
    load, save = param.mappers
    if load is None:
        return ShapeAndType(target.dtype, target.shape)
    if save is None:
        return None
    try:
        found = _call(param, "save", torch.empty(target.shape, dtype=target.dtype, device="meta"))
    except RecordError:  # it looks at values
        return None
    return ShapeAndType(found.dtype, found.shape)


def loaded_form(param: Param, values: Tensor) -> Tensor:
    return _call(param, "load", values)


@torch.no_grad()
def _call(param: Param, which: str, tensor: Tensor) -> Tensor:
    mapper = getattr(param.mappers, which)
    try:
        found = mapper(tensor)
    except Exception as error:
        raise RecordError(f"the {which} mapper of '{param.path}' failed: {error}; nothing was changed") from error
    if not isinstance(found, Tensor):
        raise RecordError(
            f"the {which} mapper of '{param.path}' gave {type(found).__name__}, expected a torch.Tensor;"
            " nothing was changed"
        )
    return found.detach()
