"""Param, the handle through which visitors, records and optimizers see one tensor of a module tree."""

from dataclasses import dataclass, field
from typing import Literal

import torch
from torch import nn

from .param_id import ParamId

Kind = Literal["weight", "state"]


@dataclass(frozen=True, slots=True, eq=False)
class Param:
    """One parameter or persistent buffer of a module tree.

    The handle holds no tensor: it reads the module each time, so it stays right when the tensor is replaced.

    Attributes:
        id: the identity, kept when the tensor is replaced.
        path: canonical dotted path, without the names that wrappers put in (`_orig_mod`, DDP's `module`).
        kind: `weight` for an `nn.Parameter`, `state` for a persistent buffer (running statistics).
        owners: each (module, attribute name) that holds this tensor, the first one first.
        aliases: the other canonical paths of a tied tensor.
    """

    id: ParamId
    path: str
    kind: Kind
    owners: tuple[tuple[nn.Module, str], ...] = field(repr=False)
    aliases: tuple[str, ...] = ()

    @property
    def tensor(self) -> torch.Tensor:
        """The tensor as it is now."""
        module, name = self.owners[0]
        return (module._parameters if self.kind == "weight" else module._buffers)[name]  # pyright: ignore[reportReturnType]

    @property
    def trainable(self) -> bool:
        """Whether an optimizer may change it: a weight that requires grad."""
        return self.kind == "weight" and self.tensor.requires_grad

    def assign(self, tensor: torch.Tensor) -> None:
        """Put `tensor` in the place of the present one, at every path of a tied tensor; id and trainability stay."""
        if self.kind == "weight":
            replacement = nn.Parameter(tensor.detach(), requires_grad=self.trainable)
            for module, name in self.owners:
                module._parameters[name] = replacement
        else:
            for module, name in self.owners:
                module._buffers[name] = tensor.detach()

    def adopt(self, param_id: ParamId) -> None:
        """Give the parameter another id, that of the record it is loaded from."""
        module, name = self.owners[0]
        stored_ids(module)[name] = param_id


def stored_ids(module: nn.Module) -> dict[str, ParamId]:
    """The ids kept on `module` itself, by attribute name; made when missing.

    They lie in the module's `__dict__`, not on the tensors: deepcopy, `.to("meta")`, `load_state_dict(assign=True)`,
    FSDP2 and quantization replace tensors and drop their attributes, but keep this.
    """
    return module.__dict__.setdefault("_param_ids", {})


def ensure_id(module: nn.Module, name: str) -> ParamId:
    """The id of the attribute `name` of `module`, drawn if it has none yet."""
    ids = stored_ids(module)
    if name not in ids:
        ids[name] = ParamId.new()
    return ids[name]
