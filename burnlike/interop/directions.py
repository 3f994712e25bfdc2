"""How the twin of one layer is made: of torch's layers those of burnlike, and of burnlike's those of torch."""

import copy
from collections.abc import Collection, Container, Mapping
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor, nn

from .. import nn as layers
from ..errors import NoCounterpartError
from ..module.identity.field_ids import keep_id, known_id, noting_at, place_id
from ..module.identity.field_metadata import change_field, fields_of, meta_of, set_meta
from ..module.identity.param_id import ParamId
from ..nn.layer import Layer
from ..nn.tensor_source import whole
from ..nn.torch_counterpart import Counterpart
from .registered_twins import registered
from .torch_counterparts import of_burnlike, of_torch
from .twin_classes import INPLACE, READERS, Linear, plain_class
from .twins import KEPT, ORIGIN, Direction, Twin, buffer_of, change_class, hidden, owner_of, tensors_of

_MADE_OF_LAYERS = (
    *("burnlike.nn.containers.", "burnlike.nn.operations.", "burnlike.nn.blocks."),
    "burnlike.nn.dropout.drop_path",
)
"""What computes with any library's layers is copied as it is, as modules of users are."""


@dataclass(frozen=True, slots=True)
class TorchLayer:
    """What a layer of burnlike's keeps of the torch layer that it was made of, for the way back.

    Attributes:
        kind: torch's class.
        inplace: whether torch's layer writes into its input.
        options: torch's attributes that burnlike has in another form, as `padding=0` for `Valid`.
        ids: numbers of the ids of tensors that are several in burnlike, by torch's name.
    """

    kind: type[nn.Module]
    inplace: bool = False
    options: Mapping[str, Any] = field(default_factory=dict, compare=False)
    ids: Mapping[str, int] = field(default_factory=dict, compare=False)


class FromTorch(Direction):
    """From torch's layers to burnlike's."""

    target = "burnlike"

    def twin_name(self, pair: Counterpart) -> str:
        """See `Direction`."""
        return f"burnlike.nn.{pair.layer}"

    def counterpart_of(self, layer: nn.Module) -> Counterpart | None:
        """See `Direction`."""
        if type(layer) in KEPT:
            return None
        if (known := registered(type(layer))) is not None:
            return known.pair_of(layer)
        return next((it.of(layer) for it in of_torch().get(type(layer), ()) if it.fits(layer)), None)

    def other_class(self, layer: nn.Module) -> type[nn.Module] | None:
        """See `Direction`."""
        known = registered(type(layer))
        return None if known is None or known.theirs is not type(layer) else known.ours

    def is_layer(self, kind: type) -> bool:
        """See `Direction`."""
        return kind.__module__.startswith("torch.")

    def tensor_names(self, pair: Counterpart) -> Container[str]:
        """See `Direction`."""
        return {*(it.name for it in pair.tensors.values()), *pair.ignored, *pair.constants.values()}

    def plain(self, twin: nn.Module, pair: Counterpart) -> nn.Module:
        """See `Direction`."""
        return pair.build(twin, torch.device("meta"))

    def twin(self, path: str, layer: nn.Module, pair: Counterpart, tensors: Mapping[str, Tensor]) -> Twin:
        """See `Direction`."""
        if (known := registered(type(layer))) is not None:
            known.expect(layer)
        plain = copy.copy(layer)
        if _is_inplace(layer, pair):
            plain.__dict__["inplace"] = False
        made = pair.config(plain).init("meta")
        if _is_inplace(layer, pair):
            change_class(made, INPLACE[type(made)])
        places = pair.places(tensors)
        used = {it.name for it in places.values()} | {*pair.ignored, *pair.constants.values()}
        if own := sorted(tensors.keys() - used):
            raise NoCounterpartError(f"'{own[0]}' was added to it; keep it in the module around")
        if missing := sorted(tensors_of(made).keys() - places.keys()):
            raise NoCounterpartError(f"it lacks what burnlike has as '{missing[0]}'")
        for name in tensors:
            meta = meta_of(*owner_of(layer, name))
            if meta.load_mapper is not None or meta.save_mapper is not None:
                raise NoCounterpartError(f"'{name}' has a load or save mapper; remove it before")
        return Twin(path, layer, made, whole(places))

    def finish(self, twin: Twin, pair: Counterpart) -> None:
        """See `Direction`."""
        layer, made = twin.layer, twin.made
        ids_of_wholes: dict[str, int] = {}
        for path, place in pair.places(tensors_of(layer)).items():
            source, target = owner_of(layer, place.name), owner_of(made, path)
            param_id, (index, count) = _known_id(*source), place.chunk
            if count > 1:
                if param_id is not None:
                    ids_of_wholes[place.name] = param_id.value
                ids = fields_of(source[0]).get(source[1], {}).get("parts")
                param_id = ParamId(ids[index]) if ids else None
            _describe(source, target, param_id)
        for path, name in pair.constants.items():
            if (buffer := buffer_of(layer, name)) is not None:
                setattr(made, path, buffer.clone())
        for name in pair.ignored:
            if (buffer := buffer_of(layer, name)) is not None:
                made._buffers[hidden(name)] = buffer.clone()
                made._non_persistent_buffers_set.add(hidden(name))
        inplace, plain = _is_inplace(layer, pair), _options(self.plain(made, pair))
        options = {name: value for name, value in _options(layer).items() if _differs(value, plain.get(name, value))}
        if ids_of_wholes or inplace or options or len(of_burnlike()[plain_class(type(made))]) > 1:
            made.__dict__[ORIGIN] = TorchLayer(pair.torch, inplace, options, ids_of_wholes)

    def show_to(self, readers: Collection[type], made: nn.Module) -> None:
        """See `Direction`."""
        if isinstance(made, layers.Linear) and readers:
            if type(made) is layers.Linear:
                change_class(made, Linear)
            made.__dict__[READERS] = tuple(readers)


class ToTorch(Direction):
    """From burnlike's layers to torch's."""

    target = "torch.nn"

    def twin_name(self, pair: Counterpart) -> str:
        """See `Direction`."""
        return f"torch.nn.{pair.torch.__name__}"

    def counterpart_of(self, layer: nn.Module) -> Counterpart | None:
        """See `Direction`."""
        if (known := registered(type(layer))) is not None:
            return known.pair_of(layer)
        pairs = of_burnlike().get(plain_class(type(layer)))
        if pairs is None:
            return None
        origin = _origin_of(layer)
        pair = pairs[origin.kind] if origin is not None and origin.kind in pairs else list(pairs.values())[-1]
        return pair.of(layer)

    def other_class(self, layer: nn.Module) -> type[nn.Module] | None:
        """See `Direction`."""
        known = registered(type(layer))
        return None if known is None or known.ours is not type(layer) else known.theirs

    def show_to(self, readers: Collection[type], made: nn.Module) -> None:
        """See `Direction`."""

    def is_layer(self, kind: type) -> bool:
        """See `Direction`."""
        if kind.__module__.startswith(_MADE_OF_LAYERS):
            return False
        return kind.__module__.startswith("burnlike.nn.") and issubclass(kind, nn.Module) and kind is not Layer

    def tensor_names(self, pair: Counterpart) -> Container[str]:
        """See `Direction`."""
        return pair.tensors

    def plain(self, twin: nn.Module, pair: Counterpart) -> nn.Module:
        """See `Direction`."""
        return pair.config(twin).init("meta")

    def twin(self, path: str, layer: nn.Module, pair: Counterpart, tensors: Mapping[str, Tensor]) -> Twin:
        """See `Direction`."""
        made = pair.build(layer, torch.device("meta"))
        recipes = pair.recipes(tensors)
        if own := sorted(tensors.keys() - {it.name for recipe in recipes.values() for it in recipe.sources}):
            raise NoCounterpartError(f"'{own[0]}' was added to it; keep it in the module around")
        if missing := sorted(tensors_of(made).keys() - recipes.keys() - {*pair.ignored, *pair.constants.values()}):
            raise NoCounterpartError(f"it lacks what torch has as '{missing[0]}'")
        return Twin(path, layer, made, recipes)

    def finish(self, twin: Twin, pair: Counterpart) -> None:
        """See `Direction`."""
        layer, made = twin.layer, twin.made
        origin = _origin_of(layer) or TorchLayer(type(made))
        for name, recipe in pair.recipes(tensors_of(layer)).items():
            target, sources = owner_of(made, name), [owner_of(layer, it.name) for it in recipe.sources]
            ids = [_known_id(*source) for source in sources]
            param_id = ids[0]
            if len(sources) > 1:
                param_id = ParamId(origin.ids[name]) if name in origin.ids else None
                change_field(*target, {"parts": tuple(it.value for it in ids if it is not None)})
            _describe(sources[0], target, param_id)
        device = next((it.device for it in tensors_of(layer).values()), torch.device("cpu"))
        for name in pair.ignored:
            if (buffer := buffer_of(made, name)) is not None:
                known = buffer_of(layer, hidden(name))
                value = torch.zeros_like(buffer, device=device) if known is None else known.clone()
                setattr(*owner_of(made, name), value)
        for path, name in pair.constants.items():
            if (constant := getattr(layer, path)) is not None:
                setattr(made, name, constant.clone())
        if origin.inplace:
            made.__dict__["inplace"] = True
        for name, value in origin.options.items():
            means, now = _meant(made, pair), getattr(made, name)
            setattr(made, name, value)
            if _meant(made, pair) != means:  # the twin was changed
                setattr(made, name, now)


def _known_id(module: nn.Module, name: str) -> ParamId | None:
    return known_id(module, name, noting_at(module, name))


def _describe(source: tuple[nn.Module, str], target: tuple[nn.Module, str], param_id: ParamId | None) -> None:
    """Let the tensor `target` have what is known of `source`, and the id, if there is one."""
    meta = meta_of(*source)
    if (meta.name, meta.trainable, meta.own_id) != (None, None, False):
        set_meta(*target, name=meta.name, trainable=meta.trainable, own_id=meta.own_id)
    param_id = param_id or place_id(*target)
    if param_id is not None:
        keep_id(*target, param_id, noting_at(*target))


def _options(layer: nn.Module) -> Mapping[str, Any]:
    """The options of a layer of torch's."""
    return {
        name: value
        for name, value in layer.__dict__.items()
        if not name.startswith("_") and name not in ("training", "inplace") and not isinstance(value, Tensor)
    }


def _differs(value: Any, other: Any) -> bool:
    return type(value) is not type(other) or value != other


def _meant(layer: nn.Module, pair: Counterpart) -> Mapping[str, Any]:
    """The options of a layer of torch's, in the form that those of twins have."""
    return _options(pair.build(pair.config(layer).init("meta"), torch.device("meta")))


def _origin_of(layer: nn.Module) -> TorchLayer | None:
    return layer.__dict__.get(ORIGIN)


def _is_inplace(layer: Any, pair: Counterpart) -> bool:
    return getattr(layers, pair.layer) in INPLACE and layer.inplace
