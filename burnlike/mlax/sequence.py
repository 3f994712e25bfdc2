"""ModuleSeq and the other containers of an `mlax.Module`; layers in series or in parallel, with MLAX's keys."""

from collections.abc import Iterable, Iterator
from typing import Any

from torch import nn

from ..errors import ArgumentError
from ..module.containers.sequences import Container, ModuleDict, ModuleTuple, ModuleVec
from ..module.containers.user_containers import holds_part
from ..module.tree.param import Param
from ..random.key import Key
from .applying import call_options, forward_arguments, restore_mode, set_mode, unpaired
from .data import Unbound, share
from .module import Module
from .parameter import Parameter


class _Items(Module, Container):  # pyright: ignore[reportIncompatibleMethodOverride]
    """Containers whose items can be Parameters."""

    def _entry(self, name: str) -> Any:
        return unbound(self, name) if self._holds(name) else super()._entry(name)

    def _released(self, name: str) -> Any:
        """The item as it is to be returned when it is taken out."""
        return unbound(self, name) if self._holds(name) else getattr(self, name)


class FixedSeq(_Items, ModuleTuple):  # pyright: ignore[reportIncompatibleMethodOverride]
    """A fixed sequence of modules, Parameters, None and constants; a tuple assigned to a Module becomes one."""


class NamedItems(_Items, ModuleDict):  # pyright: ignore[reportIncompatibleMethodOverride]
    """Modules, Parameters, None and constants by name; a dict assigned to a Module becomes one."""

    def pop(self, name: str, *default: Any) -> Any:  # pyright: ignore[reportIncompatibleMethodOverride]
        if name not in self:
            return super().pop(name, *default)
        item = self._released(name)
        del self[name]
        return item


class MixedSeq(_Items, ModuleVec):  # pyright: ignore[reportIncompatibleMethodOverride]
    """A list that holds None or constants beside modules and Parameters; assigned to a Module, it becomes one."""

    def pop(self, index: int = -1) -> Any:
        """Remove the item at `index` and return it; a Parameter then is no longer this module's."""
        item = self._released(self._name_at(index))
        del self[index]
        return item

    def _places_of(self, values: list[Any]) -> list[int | None]:
        owners = [value.owners[0] if isinstance(value, Parameter) else (None, "") for value in values]
        return [int(name) if owner is self else None for owner, name in owners]


class ModuleSeq(MixedSeq):
    """A list of modules and Parameters; a list assigned to a Module becomes one.

    Names in `state_dict` are the indices; ids go along when items are inserted and removed. A slice is a ModuleSeq that
    shares the items. It is a TypeError, with the index, if an item is neither.
    """

    def __init__(self, submodules: Iterable[Any] = ()) -> None:
        self.__dict__["_count"] = 0  # without the base's, so that a subclass may assign fields before
        is_sequence = isinstance(submodules, ModuleTuple)
        items = map(submodules._shown, submodules._names()) if is_sequence else submodules
        self._fill(list(items))

    def __getitem__(self, index: Any) -> Any:
        if isinstance(index, slice):
            return ModuleSeq([self._shown(name) for name in self._names()[index]])
        return super().__getitem__(index)

    def __setitem__(self, index: Any, value: Any) -> None:
        if not isinstance(index, slice):
            _check_item(range(len(self))[index], value)
        super().__setitem__(index, value)

    def _check(self, items: list[Any], first: int) -> None:
        for index, item in enumerate(items, first):
            _check_item(index, item)


def as_items(value: list[Any] | tuple[Any, ...] | dict[Any, Any], where: str) -> Any:
    """The module that a list, tuple or dict of parts becomes as a field."""
    if isinstance(value, dict):
        return NamedItems(value, where=where)
    if isinstance(value, tuple):
        return FixedSeq(value)
    return ModuleSeq(value) if all(map(_is_item, value)) else MixedSeq(value)


def unbound(owner: nn.Module, name: str) -> Parameter:
    """A Parameter of its own that shares with the field `name` of `owner` its tensors, id and all else."""
    holder = Unbound()
    share(owner, name, holder, "value")
    return Parameter.at(((holder, "value"),))


def _is_item(value: Any) -> bool:
    return isinstance(value, nn.Module | Param) or holds_part(value)


def _check_item(index: int, item: Any) -> None:
    if not _is_item(item):
        raise TypeError(f"item {index} of a ModuleSeq: expected a module or a Parameter, got {type(item).__name__}")


class _Layered(Module):
    def __init__(self, layers: Iterable[nn.Module]) -> None:
        self.layers = ModuleSeq(layers)

    def __len__(self) -> int:
        return len(self.layers)

    def __getitem__(self, index: int) -> nn.Module:
        return self.layers[index]

    def __iter__(self) -> Iterator[nn.Module]:
        return iter(self.layers)

    def _keys(self, rng: Any) -> list[Any]:
        """The key for each layer: made from its position, so that other layers don't change it."""
        return [rng.fold_in(index) if isinstance(rng, Key) else rng for index in range(len(self.layers))]

    def _called(self, inputs: list[Any] | None, x: Any, rng: Any, inference_mode: bool | None) -> list[Any]:
        """The output of each layer, for its item of `inputs`, or, without them, the output of the one before.

        Updated layers take their places.
        """
        keys, outputs = self._keys(rng), []
        if inputs is not None and len(inputs) != len(keys):
            raise ArgumentError(f"{type(self).__name__}: {len(keys)} layers need as many inputs, got {len(inputs)}")
        changed = set_mode(self, inference_mode)
        try:
            for index, key in enumerate(keys):
                layer = self.layers[index]
                mode = not self.training if inference_mode is None else inference_mode
                layer_input = x if inputs is None else inputs[index]
                x, updated = unpaired(layer(layer_input, **call_options(layer, key, mode, f"layer {index} ")), layer)
                outputs.append(x)
                if updated is not layer:
                    self.layers[index] = updated
        finally:
            restore_mode(changed, inference_mode)
        return outputs

    def _in_series(self, x: Any, rng: Any, inference_mode: bool | None) -> Any:
        return [x, *self._called(None, x, rng, inference_mode)][-1]

    def _in_parallel(self, x: Any, rng: Any, inference_mode: bool | None) -> list[Any]:
        return self._called(list(x), None, rng, inference_mode)


class _SplitKeys(_Layered):
    def _keys(self, rng: Any) -> list[Any]:
        """The keys as MLAX 0.2.2 gives them: one for each layer that needs one, and the key itself to a single one."""
        needing = [index for index, layer in enumerate(self.layers) if forward_arguments(layer)[1]]
        layer_keys = [rng] * len(needing)
        if isinstance(rng, Key) and len(needing) != 1:
            layer_keys = rng.split(len(needing))
        keys = dict(zip(needing, layer_keys, strict=True))
        return [keys.get(index) for index in range(len(self.layers))]


class Series(_Layered):
    """Layers, any iterable, one after the other. Each that takes a key gets that of its position, `rng.fold_in(index)`.

    A forward may return `y` or `(y, self)`.
    """

    def forward(self, x: Any, rng: Any = None, inference_mode: bool | None = None) -> tuple[Any, "Series"]:
        """The output of the last layer, and this module with updated layers."""
        return self._in_series(x, rng, inference_mode), self


class Parallel(_Layered):
    """Layers, any iterable, side by side, each with an input of its own. Keys are given as by `Series`.

    A forward may return `y` or `(y, self)`.
    """

    def forward(self, x: Iterable[Any], rng: Any = None, inference_mode: bool | None = None) -> Any:
        """The outputs as a list, and this module with updated layers; ValueError for more or fewer inputs than
        layers.
        """
        return self._in_parallel(x, rng, inference_mode), self


class SeriesRng(_SplitKeys):
    """As `Series`, with keys as MLAX 0.2.2 splits them: among the layers that need one, unsplit if it is just one."""

    def forward(self, x: Any, rng: Any, inference_mode: bool | None = None) -> tuple[Any, "SeriesRng"]:
        return self._in_series(x, rng, inference_mode), self


class ParallelRng(_SplitKeys):
    """As `Parallel`, with keys as MLAX 0.2.2 splits them: among the layers that need one, unsplit if it is just one."""

    def forward(self, x: Iterable[Any], rng: Any, inference_mode: bool | None = None) -> Any:
        return self._in_parallel(x, rng, inference_mode), self
