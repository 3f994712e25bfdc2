"""Record: the tensors and plain values of a module, an optimizer or a run, by name."""

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Self

import torch
from torch import Tensor, nn

from ..errors import RecordError
from ..module import ParamGroup, ParamId
from ..module.param_group import selected
from .mappers import saved_form

if TYPE_CHECKING:
    from .report import LoadReport


@dataclass(frozen=True, slots=True, eq=False)
class Record:
    """Named tensors and plain values, apart from any file format and any class.

    Making one copies nothing: it refers to the tensors as they are, so save it before they change. Only a save mapper
    that copies takes memory, from the making of the record on.

    Attributes:
        tensors: name -> tensor. In a record loaded from a file each access reads the tensor into fresh memory.
        values: name -> number, text, bool, None, or lists and maps of those.
        ids: name -> ParamId, for those tensors that are parameters.
        aliases: other name of a tied tensor -> its name in `tensors`.
        source: where it comes from, for messages.
        states: names of the tensors that are running statistics or other buffers.
        layout: how formats that nest arrange it, see `burnlike.record.layout`; None where that isn't known.
        metadata: what the file that it was read from says about itself.

    Raises:
        RecordError: a tensor is none, or ids or aliases name tensors that are not there.
    """

    tensors: Mapping[str, Tensor] = field(default_factory=dict)
    values: Mapping[str, Any] = field(default_factory=dict)
    ids: Mapping[str, ParamId] = field(default_factory=dict)
    aliases: Mapping[str, str] = field(default_factory=dict)
    source: str = "the record"
    states: Collection[str] = ()
    layout: Any = None
    metadata: Mapping[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if isinstance(self.tensors, dict):
            for name, tensor in self.tensors.items():
                if not isinstance(name, str) or not isinstance(tensor, Tensor):
                    raise RecordError(
                        f"Record.tensors: expected text -> torch.Tensor, got {name!r} -> {type(tensor).__name__}; "
                        "put numbers and texts into values"
                    )
        for label, names in (("ids", self.ids), ("aliases", self.aliases.values())):
            for name in names:
                if name not in self.tensors:
                    raise RecordError(f"Record.{label} names {name!r}, which is not among its tensors")
        for alias in self.aliases:
            if alias in self.tensors:
                raise RecordError(f"Record.aliases: {alias!r} is also the name of a tensor of its own")

    @classmethod
    def from_module(cls, module: nn.Module, group: ParamGroup | None = None) -> Self:
        """The parameters and persistent buffers of any `nn.Module`, tied tensors once; copies nothing.

        A parameter with a save mapper is there in the form that the mapper makes; a lazy one gets its values.

        Args:
            module: the module.
            group: which of them; None is all. A record of some is loaded with `strict=False`.

        Raises:
            ParamPathError: the group names a path that the module does not have.
            RecordError: a save mapper raised or gave no tensor.
        """
        found = selected(module, group)
        return cls(
            tensors={param.path: saved_form(param) for param in found},
            ids={param.path: param.id for param in found},
            aliases={alias: param.path for param in found for alias in param.aliases},
            source=f"the record of {type(module).__name__}",
            states=frozenset(param.path for param in found if param.kind == "state"),
        )

    def load_into(
        self,
        module: nn.Module,
        strict: bool = True,
        device: torch.device | str | None = None,
        by_id: bool = False,
    ) -> "LoadReport":
        """Put the tensors into `module`; see `burnlike.record.load`."""
        from .loading import load_into

        return load_into(self, module, strict, device, by_id)
