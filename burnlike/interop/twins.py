"""What a conversion knows of one layer: its twin, and which tensors those of the twin are made of."""

from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from torch import Tensor, nn

from ..nn.counterpart import Counterpart


@dataclass(frozen=True, slots=True)
class Part:
    """One tensor of a layer, or a part of it, as it is found in a tensor of the twin.

    Attributes:
        address: of the tensor.
        chunk: which of how many equal parts of dimension 0.
        transposed: whether the twin has the transpose.
    """

    address: int
    chunk: tuple[int, int] = (0, 1)
    transposed: bool = False


Form = tuple[Part, ...]
"""The parts, in order, that a tensor of a twin is made of."""


class Twin:
    """A layer, its twin without values, and of which tensors those of the twin are made."""

    def __init__(self, path: str, layer: nn.Module, made: nn.Module, forms: Mapping[str, Form]) -> None:
        self.path = path
        self.layer = layer
        self.made = made
        self.forms = forms


class Direction(ABC):
    """One of the two directions: which layers there are, and how the twin of one is made.

    Attributes:
        target: the library that the layers are to be of.
    """

    target: str

    @abstractmethod
    def twin_name(self, pair: Counterpart) -> str:
        """The class of the twin."""

    @abstractmethod
    def counterpart_of(self, layer: nn.Module) -> Counterpart | None:
        """The pair of the layer, None for what is no layer with a twin."""

    @abstractmethod
    def is_layer(self, kind: type) -> bool:
        """Whether it is a class of layers of the library that is left."""

    @abstractmethod
    def hooks_of(self, layer: nn.Module) -> list[Any]:
        """The hooks that the twin would not have."""

    @abstractmethod
    def twin(self, path: str, layer: nn.Module, pair: Counterpart) -> Twin:
        """The twin on the meta device.

        Raises:
            BurnlikeError: there is none with the layer's options.
        """

    @abstractmethod
    def finish(self, twin: Twin, pair: Counterpart) -> None:
        """Note what is known of ids, and set what no tensor of the layer gives; the tensors have their values."""


def tensors_of(layer: nn.Module) -> dict[str, Tensor]:
    """The parameters and persistent buffers of a layer by path; of burnlike's layers those are the paths of records."""
    found = dict(layer.named_parameters(remove_duplicate=False))
    for path, part in layer.named_modules():
        for name, tensor in part._buffers.items():
            if tensor is not None and name not in part._non_persistent_buffers_set:
                found[f"{path}.{name}" if path else name] = tensor  # pyright: ignore[reportArgumentType]
    return found  # pyright: ignore[reportReturnType]


def buffer_of(layer: nn.Module, name: str) -> Tensor | None:
    """The buffer `name` of a layer, None if it has none."""
    owner, last = owner_of(layer, name)
    return owner._buffers.get(last)


def owner_of(module: nn.Module, name: str) -> tuple[nn.Module, str]:
    """The module that has the tensor `name`, and its name there."""
    above, _, last = name.rpartition(".")
    return module.get_submodule(above), last
