"""Module, the base of burnlike's layers: an `nn.Module` whose parameters have their id from the start."""

from collections.abc import Callable
from os import PathLike
from typing import TYPE_CHECKING, Any, Self

import torch
from torch import nn

from .._lazy import resolve
from .param import Param, ensure_id, stored_ids
from .registry import params, visit

if TYPE_CHECKING:
    from ..record import LoadReport, Record, SafetensorsRecorder


class Module(nn.Module):
    """An `nn.Module` with Burn's module methods. No `forward` is forced.

    A parameter or buffer gets its ParamId when its name first gets a tensor, and keeps it when the tensor is replaced;
    removing the attribute ends it. Every function of `burnlike.module` and `burnlike.record` works on plain
    `nn.Module`s too, which get their ids at the first traversal.
    """

    def register_parameter(self, name: str, param: nn.Parameter | None) -> None:
        """As `nn.Module.register_parameter`; the name gets its ParamId."""
        super().register_parameter(name, param)
        if param is not None:
            ensure_id(self, name)

    def register_buffer(self, name: str, tensor: torch.Tensor | None, persistent: bool = True) -> None:
        """As `nn.Module.register_buffer`; the name of a persistent buffer gets its ParamId."""
        super().register_buffer(name, tensor, persistent)
        if persistent and tensor is not None:
            ensure_id(self, name)

    def __delattr__(self, name: str) -> None:
        super().__delattr__(name)
        stored_ids(self).pop(name, None)

    def params(self) -> list[Param]:
        """The parameters and persistent buffers of the tree; see `burnlike.module.params`."""
        return params(self)

    def num_params(self) -> int:
        """Count the values of all floating-point parameters and running statistics, tied tensors once."""
        return sum(p.tensor.numel() for p in params(self) if p.tensor.is_floating_point())

    def visit(self, visitor: Callable[[Param], object]) -> None:
        """Call `visitor` with each Param of the tree."""
        visit(self, visitor)

    def no_grad(self) -> Self:
        """Freeze every parameter: none requires grad from now on. Returns the module."""
        return self.requires_grad_(False)

    def into_record(self) -> "Record":
        """The module's tensors as a Record; copies nothing."""
        return resolve("burnlike.record:Record").from_module(self)

    def save(self, path: str | PathLike[str], recorder: "SafetensorsRecorder | None" = None) -> None:
        """Write the module's record to `path`, by default as safetensors in the module's own precision."""
        recorder_or_default = recorder or resolve("burnlike.record:SafetensorsRecorder")()
        recorder_or_default.save(self.into_record(), path)

    def load(self, path: str | PathLike[str], **options: Any) -> "LoadReport":
        """Load the record at `path` into this module; see `burnlike.record.load` for the options and errors."""
        return resolve("burnlike.record:load")(self, path, **options)
