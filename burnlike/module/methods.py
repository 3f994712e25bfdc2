"""Methods of Module for the functions of `burnlike.module` and `burnlike.record`."""

from collections.abc import Callable
from os import PathLike
from typing import TYPE_CHECKING, Any, Self, TypeVar

from torch import nn

from .._lazy import resolve
from .groups.param_group import ParamGroup
from .printing.display import Content, DisplaySettings, display
from .transforms import mapping, placement, visiting
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

    params = walk.params
    param = visiting.param_at
    visit = visiting.visit
    if TYPE_CHECKING:
        # mypy sees Any where a class has a decorated function of another file.
        def map(self, mapper: mapping.Mapping, *rest: nn.Module) -> Self: ...
        def map_(self, mapper: mapping.Mapping, *rest: nn.Module) -> Self: ...
    else:
        map = mapping.map
        map_ = mapping.map_
    num_params = placement.num_params
    devices = placement.devices
    to_device = placement.to_device
    fork = placement.fork
    clone = placement.clone
    valid = placement.valid
    no_grad = placement.no_grad
    freeze = placement.freeze
    unfreeze = placement.unfreeze

    def __repr__(self) -> str:
        return display(self)

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
        self, path: str | PathLike[str], recorder: "Recorder | None" = None, precision: "PrecisionRule | None" = None
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
