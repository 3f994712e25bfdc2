"""How layers of `torch.nn` and of burnlike stand for each other: which class, which config, which tensor is which.

Each family has a file `counterparts.py` with a `COUNTERPARTS` list of these; `burnlike.interop` converts by them.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Literal

import torch
from torch import Tensor, nn

from ..config import ModuleConfig
from ..errors import NoCounterpartError

Call = Literal["same", "one_tensor", "other"]
Build = Callable[[Any, torch.device], nn.Module]


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
            (no bias) is left out. A `*` stands for the numbers of the layers in a stack, on both sides.
        ignored: torch's buffers that burnlike does without; a twin has them as `_name`, which is no part of records.
        constants: path of each plain tensor of the burnlike layer, to torch's buffer of the same values; `config` and
            `build` give them their values where the device has them.
        layer: the name of the burnlike class.
        call: whether both layers are called alike and return the same, so that one may take the other's place in a
            program: `same`; `one_tensor`, only where one tensor is all that is given; or `other`.
        fits: whether a layer of torch's class is of this pair, where several pairs have the class.
        tensors_by: `tensors` of one layer, of either library, where an option decides which is which; `of` asks it.
    """

    layer: str
    torch: type[nn.Module]
    config: Callable[[Any], ModuleConfig]
    build: Build
    tensors: Mapping[str, TorchTensor] = field(default_factory=dict)
    ignored: tuple[str, ...] = ()
    constants: Mapping[str, str] = field(default_factory=dict)
    call: Call = "same"
    fits: Callable[[Any], bool] = lambda layer: True
    tensors_by: Callable[[Any], Mapping[str, TorchTensor]] | None = None

    def of(self, layer: nn.Module) -> "Counterpart":
        """The pair with the tensors of `layer`, which is of either library."""
        return self if self.tensors_by is None else replace(self, tensors=self.tensors_by(layer), tensors_by=None)

    def to_burn(self, tensors: Mapping[str, Tensor]) -> dict[str, Tensor]:
        """burnlike's tensors by path, from torch's by name."""
        return {path: it.taken_from(tensors[it.name]) for path, it in self.places(tensors).items()}

    def to_torch(self, tensors: Mapping[str, Tensor]) -> dict[str, Tensor]:
        """torch's tensors by name, from burnlike's by path; those of `ignored` are not among them.

        Raises:
            NoCounterpartError: one of torch's tensors has parts, of which some are not there.
        """
        return {name: joined(parts, tensors) for name, parts in self.parts(tensors).items()}

    def places(self, names: Iterable[str]) -> dict[str, TorchTensor]:
        """Path of each of burnlike's tensors that lies in torch's tensors `names` -> where."""
        known = set(names)
        return {path: it for path, it in self._numbered(known) if it.name in known}

    def parts(self, paths: Iterable[str]) -> dict[str, list[tuple[str, bool]]]:
        """Name of each of torch's tensors -> those of burnlike's tensors `paths` in it, and if they are transposed.

        Raises:
            NoCounterpartError: some parts of a tensor are not there.
        """
        known = set(paths)
        return parts_of((path, place) for path, place in self._numbered(known) if path in known)

    def _numbered(self, names: set[str]) -> Iterator[tuple[str, TorchTensor]]:
        """The entries of `tensors`, those with a `*` for each number in `names`."""
        numbers = sorted({part for name in names for part in name.split(".") if part.isdecimal()}, key=int)
        for path, place in self.tensors.items():
            for number in numbers if "*" in path else [""]:
                yield path.replace("*", number), replace(place, name=place.name.replace("*", number))


def parts_of(places: Iterable[tuple[str, TorchTensor]]) -> dict[str, list[tuple[str, bool]]]:
    """Name of each of torch's tensors -> those of burnlike's tensors in it, in order, and if they are transposed.

    Args:
        places: path of each of burnlike's tensors, and where it is.

    Raises:
        NoCounterpartError: some parts of a tensor are not there.
    """
    found: dict[str, list[tuple[str, bool] | None]] = {}
    for path, place in places:
        index, count = place.chunk
        found.setdefault(place.name, [None] * count)[index] = (path, place.transposed)
    for name, parts in found.items():
        if None in parts:
            there = len(parts) - parts.count(None)
            raise NoCounterpartError(f"torch's '{name}' has {len(parts)} parts, of which {there} are there")
    return found  # pyright: ignore[reportReturnType]


def joined(parts: list[tuple[str, bool]], tensors: Mapping[str, Tensor]) -> Tensor:
    """torch's tensor, made of burnlike's: paths, and whether they are transposed."""
    found = [tensors[path].mT if transposed else tensors[path] for path, transposed in parts]
    return found[0].contiguous() if len(found) == 1 else torch.cat(found)


def fixed(size: Any) -> Any:
    """A size of torch's, where a list is a tuple."""
    return tuple(size) if isinstance(size, list) else size


def refuse(layer: nn.Module, reason: str) -> NoCounterpartError:
    """The error of an option that the other side does not have."""
    return NoCounterpartError(f"{type(layer).__name__}: {reason}")
