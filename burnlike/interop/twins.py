"""What a conversion knows of one layer: its twin, and which tensors those of the twin are made of."""

from abc import ABC, abstractmethod
from collections.abc import Collection, Container, Mapping

from torch import Tensor, nn

from ..nn.tensor_source import TensorRecipe
from ..nn.torch_counterpart import Counterpart

ORIGIN = "_torch_layer"
"""Where a layer of burnlike's has what it keeps of the torch layer that it was made of."""

KEPT = (nn.Identity, nn.Flatten, nn.Unflatten, nn.Softmax, nn.LogSoftmax, *(
    getattr(nn, f"{name}Pad{dims}d")
    for name in ("Zero", "Constant", "Reflection", "Replication", "Circular") for dims in (1, 2, 3)
))  # fmt: skip
"""Layers of torch without numbers of their own, which Burn's programs write as a line of `forward`."""


class Twin:
    """A layer, its twin without values, and of which tensors those of the twin are made."""

    def __init__(self, path: str, layer: nn.Module, made: nn.Module, recipes: Mapping[str, TensorRecipe]) -> None:
        self.path = path
        self.layer = layer
        self.made = made
        self.recipes = recipes


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
    def other_class(self, layer: nn.Module) -> type[nn.Module] | None:
        """The class that is registered as the twin of the layer's, None if none is."""

    @abstractmethod
    def tensor_names(self, pair: Counterpart) -> Container[str]:
        """The names of the tensors that a layer of the library that is left has, of all that a class may add."""

    @abstractmethod
    def plain(self, twin: nn.Module, pair: Counterpart) -> nn.Module:
        """A layer of the library that is left, on the meta device, with nothing that a class may add."""

    @abstractmethod
    def twin(self, path: str, layer: nn.Module, pair: Counterpart, tensors: Mapping[str, Tensor]) -> Twin:
        """The twin on the meta device.

        Args:
            path: of the layer.
            layer: to be converted.
            pair: of the layer.
            tensors: the layer's own, by path.

        Raises:
            BurnlikeError: there is none with the layer's options.
        """

    @abstractmethod
    def show_to(self, readers: Collection[type], made: nn.Module) -> None:
        """Let the methods of these classes read the tensors of a twin in the layout of the library that is left."""

    @abstractmethod
    def finish(self, twin: Twin, pair: Counterpart) -> None:
        """Note what is known of ids, and set what no tensor of the layer gives; the tensors have their values."""


def change_class(module: nn.Module, kind: type[nn.Module]) -> None:
    """Let `module` be an object of `kind`."""
    object.__setattr__(module, "__class__", kind)  # a burnlike Module takes an attribute that is set for a field


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


def hidden(name: str) -> str:
    """The name of a buffer of torch's in a twin that does without it, which keeps it out of records."""
    return f"_{name}"


def owner_of(module: nn.Module, name: str) -> tuple[nn.Module, str]:
    """The module that has the tensor `name`, and its name there."""
    above, _, last = name.rpartition(".")
    return module.get_submodule(above), last
