"""Methods of Module for the functions of `burnlike.module` and `burnlike.record`."""

from collections.abc import Callable
from os import PathLike
from typing import TYPE_CHECKING, Any, Self, TypeVar

import torch
from torch import nn

from .._lazy import resolve
from .groups.param_group import ParamGroup
from .printing.display import Content, display
from .printing.settings import DisplaySettings
from .transforms import mapping, modes, placement, visiting
from .tree import walk
from .tree.param import Param

T = TypeVar("T")

if TYPE_CHECKING:
    from ..record import LoadReport, Record, Recorder
    from ..record.nesting import RecordPart
    from ..record.precision import PrecisionRule
    from .adapters.configs import LoraConfig
    from .adapters.reparameterization import Reparameterization


class ModuleMethods(nn.Module):
    """The base of Module; each method is the function of its name, applied to the module."""

    def params(self) -> list[Param]:
        """The parameters and persistent buffers of the tree; see `burnlike.module.params`."""
        return walk.params(self)

    def param(self, path: str) -> Param:
        """The parameter at `path`; see `burnlike.module.param_at`."""
        return visiting.param_at(self, path)

    def visit(self, visitor: visiting.ModuleVisitor | Callable[[Param], T]) -> list[T]:
        """Call `visitor` with each Param of the tree; see `burnlike.module.visit`."""
        return visiting.visit(self, visitor)

    def map(self, mapper: mapping.Mapping, *rest: nn.Module) -> Self:
        """A new module with `mapper` applied to each tensor; see `burnlike.module.map`."""
        return mapping.map(self, mapper, *rest)

    def map_(self, mapper: mapping.Mapping, *rest: nn.Module) -> Self:
        """As `map`, in place; see `burnlike.module.map_`."""
        return mapping.map_(self, mapper, *rest)

    def num_params(self) -> int:
        """Count the values of all floating-point parameters and running statistics, tied tensors once."""
        return placement.num_params(self)

    def devices(self) -> list[torch.device]:
        """The devices of the parameters, each once."""
        return placement.devices(self)

    def to_device(self, device: torch.device | str) -> Self:
        """Move the module to `device`, in place, and return it."""
        return placement.to_device(self, device)

    def fork(self, device: torch.device | str) -> Self:
        """A copy on `device` with the same ids, to be trained there."""
        return placement.fork(self, device)

    def clone(self, new_ids: bool = False) -> Self:
        """A copy that shares no memory, by default with the same ids."""
        return placement.clone(self, new_ids)

    def valid(self) -> Self:
        """A view for validation that shares all memory; see `burnlike.module.valid`."""
        return modes.valid(self)

    def no_grad(self) -> Self:
        """Freeze every parameter for good, in place; returns the module."""
        return modes.no_grad(self)

    def freeze(self, group: ParamGroup | None = None) -> Self:
        """Freeze the parameters of `group`, or all, in place; see `burnlike.module.freeze`."""
        return modes.freeze(self, group)

    def unfreeze(self, group: ParamGroup | None = None) -> Self:
        """Make the parameters of `group`, or all, trainable, in place; see `burnlike.module.unfreeze`."""
        return modes.unfreeze(self, group)

    def custom_settings(self) -> DisplaySettings | None:
        """The display settings of modules of this class, where the caller sets none; override it."""
        return None

    def custom_content(self, content: Content) -> Content | None:
        """The content that `display` shows; override it to fill and return `content`; None shows all fields.

        Example:
            >>> import burnlike.module
            >>> class Scale(burnlike.module.Module):
            ...     factor = 1.0
            ...     def custom_content(self, content):
            ...         return content.add("factor", self.factor)
            >>> Scale()
            Scale {
              factor: 1
            }
        """
        return None

    def __repr__(self) -> str:
        return display(self)

    def apply_lora(self, config: "LoraConfig") -> Self:
        """Freeze the module and add trainable adapters to its matrices, in place; see `burnlike.module.apply_lora`."""
        return resolve("burnlike.module:apply_lora")(self, config)

    def apply_reparameterization(self, make: "Callable[[Param], Reparameterization | None]") -> Self:
        """Compute parameters by a reparameterization, in place; see `burnlike.module.apply_reparameterization`."""
        return resolve("burnlike.module:apply_reparameterization")(self, make)

    def materialize(self) -> Self:
        """Fold reparameterizations into their parameters, in place; see `burnlike.module.materialize`."""
        return resolve("burnlike.module:materialize")(self)

    def into_record(self, group: ParamGroup | None = None) -> "Record":
        """The module's tensors, or those of `group`, as a Record; copies nothing."""
        return resolve("burnlike.record:Record").from_module(self, group)

    def save(
        self,
        path: str | PathLike[str],
        recorder: "Recorder | None" = None,
        precision: "PrecisionRule | None" = None,
    ) -> str:
        """Write the module's record; by default in its own precision and the format that the extension of `path` says.

        See `burnlike.record.save`; returns the path written.
        """
        return resolve("burnlike.record:save")(self, path, precision, recorder)

    def load_record(self, record: "Record | RecordPart", **options: Any) -> "LoadReport":
        """Put the tensors of `record`, or a part of one, into this module; see `burnlike.record.load` for the rest."""
        return resolve("burnlike.record:Record").of(record).load_into(self, **options)

    def load(self, path: str | PathLike[str], **options: Any) -> "LoadReport":
        """Load the record at `path` into this module; see `burnlike.record.load` for the options and errors."""
        return resolve("burnlike.record:load")(self, path, **options)
