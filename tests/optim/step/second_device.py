"""A second device for machines that have one: `second`, whose tensors lie in the memory of the CPU, out of its reach.

Importing it registers the device with torch, for good; so it is for programs of their own. To torch it is as far away
as a GPU: an operation of tensors on both devices is an error, and only copies go from one to the other.
"""

from collections.abc import Sequence
from typing import Any

import torch
from torch.utils import backend_registration
from torch.utils._pytree import tree_leaves, tree_map

from burnlike.backend.torch_backend import TorchBackend

NAME = "second"


class OnSecond(torch.Tensor):
    """A tensor of the device; `held` has its values."""

    held: torch.Tensor

    @staticmethod
    def __new__(cls, held: torch.Tensor) -> "OnSecond":
        """A tensor with these values."""
        made: Any = torch._C._acc.create_empty_tensor(tuple(held.shape), held.dtype)  # pyright: ignore
        made.__class__ = cls
        made.held = held.contiguous()  # as torch takes it to be; a contiguous view still shares memory
        return made


class Second(TorchBackend):
    """The backend of the device; the functions of its tables are torch's, as Cpu's are."""

    def __init__(self) -> None:
        """The usual element types."""
        super().__init__(torch.device(NAME, 0), torch.float32, torch.int64)

    def sync(self) -> None:
        """Nothing to wait for."""


def _values(it: Any) -> Any:
    return it.held if isinstance(it, OnSecond) else it


def _run(op: Any, *args: Any, **kwargs: Any) -> Any:
    """Any operation: on the values, by the CPU."""
    tensors = [it for it in tree_leaves((args, kwargs)) if isinstance(it, torch.Tensor)]
    if any(not isinstance(it, OnSecond) and it.dim() for it in tensors):
        raise RuntimeError(f"{op}: expected all tensors on one device, got '{NAME}' and another one")
    where = kwargs.pop("device", None)
    found = op(*tree_map(_values, args), **tree_map(_values, kwargs))
    written = [it.alias_info is not None and it.alias_info.is_write for it in op._schema.arguments]
    changed = [arg for arg, is_written in zip(args, written, strict=False) if is_written]
    if changed:
        return changed[0] if op._schema.returns else None
    if where is not None and torch.device(where).type == "cpu":
        return found
    return tree_map(lambda it: OnSecond(it) if isinstance(it, torch.Tensor) else it, found)


def _copy(source: torch.Tensor, target: torch.Tensor, non_blocking: bool = False) -> torch.Tensor:
    _values(target).copy_(_values(source))
    return target


def _convert(self: torch.Tensor, *, dtype: torch.dtype | None = None, device: Any = None, **_: Any) -> torch.Tensor:
    values = _values(self).to(dtype=dtype, copy=True)
    there = self.device if device is None else torch.device(device)
    return values if there.type == "cpu" else OnSecond(values)


def _empty(size: Sequence[int], *_: Any, dtype: torch.dtype | None = None, **__: Any) -> torch.Tensor:
    return OnSecond(torch.empty(size, dtype=dtype))


backend_registration._setup_privateuseone_for_python_backend(NAME)
_EVERY_OP = torch.library.Library("_", "IMPL")  # of every library of operations; kept, for it ends with its object
_EVERY_OP.fallback(_run, "PrivateUse1")
_ATEN = torch.library.Library("aten", "IMPL")
for _name, _function in {
    "_copy_from": _copy,
    "_to_copy": _convert,
    "empty.memory_format": _empty,
    "empty_strided": _empty,
    "detach": lambda self: OnSecond(_values(self)),
    "alias": lambda self: OnSecond(_values(self)),
}.items():
    _ATEN.impl(_name, _function, "PrivateUse1")
torch.__future__.set_overwrite_module_params_on_conversion(True)  # as a module's parameters change their class
