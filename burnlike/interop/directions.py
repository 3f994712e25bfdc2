"""How the twin of one layer is made: of torch's layers those of burnlike, and of burnlike's those of torch."""

import copy
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor, nn

from .._torch_compat.modules import HOOKS
from ..errors import NoCounterpartError
from ..module.identity.field_ids import keep_id, known_id, noting_at, place_id
from ..module.identity.field_metadata import change_field, fields_of, meta_of, set_meta
from ..module.identity.param_id import ParamId
from ..nn.counterpart import Counterpart
from ..nn.layer import Layer
from .counterparts import of_burnlike, of_torch
from .twins import Direction, Part, Twin, buffer_of, owner_of, tensors_of

_ORIGIN = "_torch_layer"
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
        buffers: the values of buffers that burnlike does without.
        ids: numbers of the ids of tensors that are several in burnlike, by torch's name.
    """

    kind: type[nn.Module]
    inplace: bool = False
    buffers: Mapping[str, Any] = field(default_factory=dict, compare=False)
    ids: Mapping[str, int] = field(default_factory=dict, compare=False)


class FromTorch(Direction):
    """From torch's layers to burnlike's."""

    target = "burnlike"

    def twin_name(self, pair: Counterpart) -> str:
        """See `Direction`."""
        return f"burnlike.nn.{pair.layer}"

    def counterpart_of(self, layer: nn.Module) -> Counterpart | None:
        """See `Direction`."""
        return next((it.of(layer) for it in of_torch().get(type(layer), ()) if it.fits(layer)), None)

    def is_layer(self, kind: type) -> bool:
        """See `Direction`."""
        return kind.__module__.startswith("torch.")

    def hooks_of(self, layer: nn.Module) -> list[Any]:
        """See `Direction`."""
        return [hook for part in layer.modules() for hook in _hooks(part)]

    def twin(self, path: str, layer: nn.Module, pair: Counterpart) -> Twin:
        """See `Direction`."""
        tensors, plain = tensors_of(layer), copy.copy(layer)
        if getattr(layer, "inplace", False):
            plain.__dict__["inplace"] = False
        made = pair.config(plain).init("meta")
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
        forms = {
            path: (Part(id(tensors[place.name]), place.chunk, place.transposed),) for path, place in places.items()
        }
        return Twin(path, layer, made, forms)

    def finish(self, twin: Twin, pair: Counterpart) -> None:
        """See `Direction`."""
        layer, made = twin.layer, twin.made
        whole: dict[str, int] = {}
        for path, place in pair.places(tensors_of(layer)).items():
            source, target = owner_of(layer, place.name), owner_of(made, path)
            param_id, (index, count) = _known_id(*source), place.chunk
            if count > 1:
                if param_id is not None:
                    whole[place.name] = param_id.value
                ids = fields_of(source[0]).get(source[1], {}).get("parts")
                param_id = ParamId(ids[index]) if ids else None
            _describe(source, target, param_id)
        for path, name in pair.constants.items():
            if (buffer := buffer_of(layer, name)) is not None:
                setattr(made, path, buffer.clone())
        inplace = getattr(layer, "inplace", False)
        if inplace:
            made.register_forward_hook(write_into_input)
        buffers = {name: tensor.tolist() for name in pair.ignored if (tensor := buffer_of(layer, name)) is not None}
        if whole or inplace or buffers or len(of_burnlike()[type(made)]) > 1:
            made.__dict__[_ORIGIN] = TorchLayer(type(layer), inplace, buffers, whole)


class ToTorch(Direction):
    """From burnlike's layers to torch's."""

    target = "torch.nn"

    def twin_name(self, pair: Counterpart) -> str:
        """See `Direction`."""
        return f"torch.nn.{pair.torch.__name__}"

    def counterpart_of(self, layer: nn.Module) -> Counterpart | None:
        """See `Direction`."""
        pairs = of_burnlike().get(type(layer))
        if pairs is None:
            return None
        origin = _origin_of(layer)
        pair = pairs[origin.kind] if origin is not None and origin.kind in pairs else list(pairs.values())[-1]
        return pair.of(layer)

    def is_layer(self, kind: type) -> bool:
        """See `Direction`."""
        if kind.__module__.startswith(_MADE_OF_LAYERS):
            return False
        return kind.__module__.startswith("burnlike.nn.") and kind is not Layer

    def hooks_of(self, layer: nn.Module) -> list[Any]:
        """See `Direction`."""
        return [hook for part in layer.modules() for hook in _hooks(part) if hook is not write_into_input]

    def twin(self, path: str, layer: nn.Module, pair: Counterpart) -> Twin:
        """See `Direction`."""
        tensors = tensors_of(layer)
        made = pair.build(layer, torch.device("meta"))
        parts = pair.parts(tensors)
        if own := sorted(tensors.keys() - {name for names in parts.values() for name, _ in names}):
            raise NoCounterpartError(f"'{own[0]}' was added to it; keep it in the module around")
        if missing := sorted(tensors_of(made).keys() - parts.keys() - {*pair.ignored, *pair.constants.values()}):
            raise NoCounterpartError(f"it lacks what torch has as '{missing[0]}'")
        forms = {
            name: tuple(Part(id(tensors[path]), transposed=transposed) for path, transposed in found)
            for name, found in parts.items()
        }
        return Twin(path, layer, made, forms)

    def finish(self, twin: Twin, pair: Counterpart) -> None:
        """See `Direction`."""
        layer, made = twin.layer, twin.made
        origin = _origin_of(layer) or TorchLayer(type(made))
        for name, parts in pair.parts(tensors_of(layer)).items():
            target, sources = owner_of(made, name), [owner_of(layer, path) for path, _ in parts]
            ids = [_known_id(*source) for source in sources]
            param_id = ids[0]
            if len(parts) > 1:
                param_id = ParamId(origin.ids[name]) if name in origin.ids else None
                change_field(*target, {"parts": tuple(it.value for it in ids if it is not None)})
            _describe(sources[0], target, param_id)
        device = next((it.device for it in tensors_of(layer).values()), torch.device("cpu"))
        for name in pair.ignored:
            if (buffer := buffer_of(made, name)) is not None:
                value = torch.tensor(origin.buffers.get(name, 0), dtype=buffer.dtype, device=device)
                setattr(*owner_of(made, name), value)
        for path, name in pair.constants.items():
            if (constant := getattr(layer, path)) is not None:
                setattr(made, name, constant.clone())
        if origin.inplace:
            made.__dict__["inplace"] = True


def write_into_input(layer: nn.Module, inputs: tuple[Any, ...], output: Any) -> Any:
    """The forward hook of a twin whose torch layer has `inplace=True`: others may see what it writes."""
    return inputs[0].copy_(output) if isinstance(inputs[0], Tensor) else output


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


def _origin_of(layer: nn.Module) -> TorchLayer | None:
    return layer.__dict__.get(_ORIGIN)


def _hooks(module: nn.Module) -> Iterator[Any]:
    for registry in HOOKS:
        yield from (module.__dict__.get(registry) or {}).values()
