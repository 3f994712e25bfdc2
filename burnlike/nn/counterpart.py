"""How layers of `torch.nn` and of burnlike stand for each other: which class, which config, which tensor is which.

Each family has a file `counterparts.py` with a `COUNTERPARTS` list of these; `burnlike.interop` converts by them.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor, nn

from ..config import ModuleConfig
from ..errors import BurnlikeError


class NoCounterpartError(BurnlikeError, ValueError):
    """A layer, or one of its options, exists on one side only."""


@dataclass(frozen=True, slots=True)
class TorchTensor:
    """Where the tensor of a burnlike layer is in its torch counterpart.

    Attributes:
        name: torch's name; several of burnlike's may lie in one, as chunks.
        chunk: which of how many equal chunks of dimension 0, as the gates of `nn.LSTM` are.
        transposed: whether burnlike has the transpose of the (chunk of the) tensor.
    """

    name: str
    chunk: tuple[int, int] = (0, 1)
    transposed: bool = False

    def taken_from(self, tensor: Tensor) -> Tensor:
        """burnlike's tensor, a view of torch's."""
        index, count = self.chunk
        part = tensor.chunk(count)[index] if count > 1 else tensor
        return part.mT if self.transposed else part


@dataclass(frozen=True, slots=True)
class Counterpart:
    """One layer of `torch.nn` and its twin.

    Attributes:
        torch: the class, exactly; a subclass may compute something else.
        config: the config of the twin; it raises `NoCounterpartError` for an option that only torch has.
        build: the torch layer of a burnlike layer, its tensors not filled in yet; it raises `NoCounterpartError` for an
            option that only burnlike has.
        tensors: path of each parameter and buffer in the burnlike layer, to where it is in torch's. What is not there
            (no bias) is left out.
        ignored: torch's buffers that burnlike does without.
        layer: the name of the burnlike class.
    """

    layer: str
    torch: type[nn.Module]
    config: Callable[[Any], ModuleConfig]
    build: Callable[[Any, torch.device], nn.Module]
    tensors: Mapping[str, TorchTensor] = field(default_factory=dict)
    ignored: tuple[str, ...] = ()

    def to_burn(self, tensors: Mapping[str, Tensor]) -> dict[str, Tensor]:
        """burnlike's tensors by path, from torch's by name."""
        return {path: it.taken_from(tensors[it.name]) for path, it in self.tensors.items() if it.name in tensors}

    def to_torch(self, tensors: Mapping[str, Tensor]) -> dict[str, Tensor]:
        """torch's tensors by name, from burnlike's by path; those of `ignored` are not among them."""
        chunks: dict[str, list[Tensor | None]] = {}
        for path, place in self.tensors.items():
            if path not in tensors:
                continue
            index, count = place.chunk
            parts = chunks.setdefault(place.name, [None] * count)
            parts[index] = tensors[path].mT if place.transposed else tensors[path]
        return {name: _joined(name, parts) for name, parts in chunks.items()}


def _joined(name: str, parts: list[Tensor | None]) -> Tensor:
    found = [part for part in parts if part is not None]
    if len(found) != len(parts):
        raise NoCounterpartError(f"torch's '{name}' has {len(parts)} parts, of which {len(found)} are there")
    return found[0].contiguous() if len(found) == 1 else torch.cat(found)


def refuse(layer: nn.Module, reason: str) -> NoCounterpartError:
    """The error of an option that the other side does not have."""
    return NoCounterpartError(f"{type(layer).__name__}: {reason}")
