"""Counterparts of layers in `torch.nn` and burnlike: which class, which config, which tensor is which.

A file of layers ends with the list `COUNTERPARTS` of these; `burnlike.interop` converts by them.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Literal

import torch
from torch import nn

from ..config import ModuleConfig
from ..errors import ConfigError, NoCounterpartError
from .tensor_source import TensorRecipe, TensorSource, inverse, whole

Call = Literal["same", "one_tensor", "other"]
Build = Callable[[Any, torch.device], nn.Module]


class AnyLibrary:
    """Marks a layer that computes with tensors and layers of any library: `interop.to_torch` keeps it as it is."""


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
    tensors: Mapping[str, TensorSource] = field(default_factory=dict)
    ignored: tuple[str, ...] = ()
    constants: Mapping[str, str] = field(default_factory=dict)
    call: Call = "same"
    fits: Callable[[Any], bool] = lambda layer: True
    tensors_by: Callable[[Any], Mapping[str, TensorSource]] | None = None

    def of(self, layer: nn.Module) -> "Counterpart":
        """The pair with the tensors of `layer`, which is of either library."""
        return self if self.tensors_by is None else replace(self, tensors=self.tensors_by(layer), tensors_by=None)

    def places(self, names: Iterable[str]) -> dict[str, TensorSource]:
        """Path of each of burnlike's tensors that lies in torch's tensors `names` -> where."""
        known_names = set(names)
        return {path: it for path, it in self._numbered(known_names) if it.name in known_names}

    def recipes(self, paths: Iterable[str]) -> dict[str, TensorRecipe]:
        """Name of each of torch's tensors -> how it is made of burnlike's tensors `paths`, but for `ignored`."""
        known_paths = set(paths)
        return inverse(whole({path: it for path, it in self._numbered(known_paths) if path in known_paths}))

    def _numbered(self, names: set[str]) -> Iterator[tuple[str, TensorSource]]:
        """The entries of `tensors`, those with a `*` for each number in `names`."""
        numbers = sorted({part for name in names for part in name.split(".") if part.isdecimal()}, key=int)
        for path, place in self.tensors.items():
            for number in numbers if "*" in path else [""]:
                yield path.replace("*", number), replace(place, name=place.name.replace("*", number))


def alike(
    config: type[ModuleConfig],
    theirs: type[nn.Module],
    tensors: Mapping[str, TensorSource] | None = None,
    only: Mapping[str, Any] | None = None,
    ignored: tuple[str, ...] = (),
    remedy: str = "",
    **renamed: str,
) -> Counterpart:
    """The pair of layers whose options are the fields of `config`, under the same names or `renamed`, `ours="theirs"`.

    Args:
        only: options that torch alone has, and the values that they may have.
        remedy: what the refusal of other values says of them.
    """
    names, options = {name: renamed.get(name, name) for name in config.__struct_fields__}, dict(only or {})

    def config_of(layer: nn.Module) -> ModuleConfig:
        expect_only(layer, None, remedy, **options)
        try:
            return config(**{ours: fixed(getattr(layer, its)) for ours, its in names.items()})
        except ConfigError as error:
            raise refuse(layer, f"its options have no counterpart: {error}") from error

    def build(layer: nn.Module, device: torch.device) -> nn.Module:
        arguments = {its: fixed(getattr(layer, ours)) for ours, its in names.items()}
        return theirs(**arguments, **options, **({"device": device} if tensors else {}))

    return Counterpart(config.__name__.removesuffix("Config"), theirs, config_of, build, tensors or {}, ignored)


def fixed(size: Any) -> Any:
    """A size of torch's, where a list is a tuple."""
    return tuple(size) if isinstance(size, list) else size


def expect_only(layer: nn.Module, of: nn.Module | None = None, remedy: str = "", **options: Any) -> None:
    """Refuse other values of the options that `layer`, or a part `of` it, has and the other library lacks."""
    for name, value in options.items():
        actual = getattr(of or layer, name, value)
        if isinstance(actual, torch.Tensor):
            raise refuse(layer, f"{name} has no counterpart{remedy}")
        if actual != value:
            if name == "reduction":
                remedy = f": that of forward is {value!r}; give it where the loss is called"
            raise refuse(layer, f"{name}={actual!r} has no counterpart{remedy}")


def refuse(layer: nn.Module, reason: str) -> NoCounterpartError:
    """The error of an option that the other side does not have."""
    return NoCounterpartError(f"{type(layer).__name__}: {reason}")
