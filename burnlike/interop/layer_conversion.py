"""Conversion of single layers: of torch's to burnlike's (`FromTorch`), and of burnlike's to torch's (`ToTorch`).

And of modules that are more than a layer of their class: own methods, hooks and parts; objects of registered classes.
"""

import copy
import inspect
from collections.abc import Collection, Container, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from types import CellType, FunctionType, MethodType
from typing import Any

import torch
from torch import Tensor, nn

from .. import nn as layers
from .._torch_compat.modules import HOOKS
from ..errors import NoCounterpartError
from ..module.attributes.plain_attributes import DEEPEST, plain_names
from ..module.identity.field_metadata import (
    KEPT as FIELDS,
    change_field,
    fields_of,
    keep_id,
    known_id,
    meta_of,
    noting_at,
    place_id,
    set_meta,
)
from ..module.identity.param_id import ParamId
from ..nn.tensor_source import TensorRecipe, whole
from ..nn.torch_counterpart import AnyLibrary, Counterpart
from .fused.forwards import is_written_in, stock_forward
from .registered_classes import INPLACE, READERS, Linear, plain_class, registered
from .torch_counterparts import KEPT, burnlike_layers, of_burnlike, of_torch, torch_layers

ORIGIN = "_torch_layer"
"""The attribute in which a burnlike layer keeps the `TorchLayer` that it was made of."""


@dataclass(frozen=True, slots=True)
class TorchLayer:
    """The origin of a layer that was made of a layer of torch, for the way back.

    Attributes:
        options: torch's attributes that burnlike has in another form, as `padding=0` for `Valid`.
        ids: numbers of the ids of tensors that are several in burnlike, by torch's name.
    """

    kind: type[nn.Module]
    inplace: bool = False
    options: Mapping[str, Any] = field(default_factory=dict, compare=False)
    ids: Mapping[str, int] = field(default_factory=dict, compare=False)


@dataclass(slots=True)
class Twin:
    """A layer, its `counterpart` (on the meta device until its tensors are), and how these are made."""

    layer: nn.Module
    counterpart: nn.Module
    recipes: dict[str, TensorRecipe]


class FromTorch:
    """The direction from torch's layers to burnlike's; the tensors' values are copied later."""

    target = "burnlike"

    def twin_name(self, pair: Counterpart) -> str:
        return f"burnlike.nn.{pair.layer}"

    def counterpart_of(self, layer: nn.Module) -> Counterpart | None:
        """The pair of the layer, None for what is no layer with a twin."""
        if type(layer) in KEPT:
            return None
        if (registration := registered(type(layer))) is not None:
            return registration.pair_of(layer)
        return next((it.of(layer) for it in of_torch().get(type(layer), ()) if it.fits(layer)), None)

    def other_class(self, layer: nn.Module) -> type[nn.Module] | None:
        """The class that is registered as the twin of the layer's, None if none is."""
        registration = registered(type(layer))
        return registration.ours if registration is not None and registration.theirs is type(layer) else None

    def is_layer(self, kind: type) -> bool:
        """True for a class of torch, or of code that torch recorded, which reads weights in torch's layout."""
        return kind in torch_layers() or issubclass(kind, torch.jit.ScriptModule | torch.fx.GraphModule)

    def tensor_names(self, pair: Counterpart) -> Container[str]:
        """The names of the tensors that a layer of torch has; a class that is derived from it may add others."""
        return {*(tensor.name for tensor in pair.tensors.values()), *pair.ignored, *pair.constants.values()}

    def plain(self, twin: nn.Module, pair: Counterpart) -> nn.Module:
        """A layer of torch as `twin`, on the meta device, with nothing that a class may add."""
        return pair.build(twin, torch.device("meta"))

    def twin(self, layer: nn.Module, pair: Counterpart, tensors: Mapping[str, Tensor]) -> Twin:
        """The twin of the layer with these tensors; a BurnlikeError if there is none with the layer's options."""
        if (registration := registered(type(layer))) is not None:
            registration.expect(layer)
        plain = copy.copy(layer)
        if _is_inplace(layer, pair):
            # Configs have no such option; the class of INPLACE, below, is what writes.
            plain.__dict__["inplace"] = False
        twin = pair.config(plain).init("meta")
        if _is_inplace(layer, pair):
            change_class(twin, INPLACE[type(twin)])
        places = pair.places(tensors)
        _check_names(
            {*tensors} - {place.name for place in places.values()} - {*pair.ignored, *pair.constants.values()},
            tensors_of(twin).keys() - places.keys(),
            self.target,
        )
        for name in tensors:
            meta = meta_of(*owner_of(layer, name))
            if meta.load_mapper is not None or meta.save_mapper is not None:
                raise NoCounterpartError(f"'{name}' has a load or save mapper; remove it before")
        return Twin(layer, twin, whole(places))

    def show_to(self, readers: Collection[type], twin: nn.Module) -> None:
        """Let the methods of these classes read the weight of a twin in torch's layout."""
        if isinstance(twin, layers.Linear) and readers:
            if type(twin) is layers.Linear:
                change_class(twin, Linear)
            twin.__dict__[READERS] = tuple(readers)

    def finish(self, twin: Twin, pair: Counterpart) -> None:
        """Carry over ids, buffers and options, once the tensors have their values."""
        layer, counterpart = twin.layer, twin.counterpart
        ids_of_wholes: dict[str, int] = {}
        for path, place in pair.places(tensors_of(layer)).items():
            source, target = owner_of(layer, place.name), owner_of(counterpart, path)
            param_id = known_id(*source, noting_at(*source))
            if not place.is_whole:
                if param_id is not None:
                    # Its parts have ids of their own; the way back gives it this one again.
                    ids_of_wholes[place.name] = param_id.value
                ids = fields_of(source[0]).get(source[1], {}).get("parts")
                param_id = ParamId(ids[place.chunk[0]]) if ids else None
            _describe(source, target, param_id)
        for path, name in pair.constants.items():
            if (buffer := _buffer_of(layer, name)) is not None:
                setattr(counterpart, path, buffer.clone())
        for name in pair.ignored:
            if (buffer := _buffer_of(layer, name)) is not None:
                counterpart._buffers[hidden(name)] = buffer.clone()
                counterpart._non_persistent_buffers_set.add(hidden(name))
        inplace, plain = _is_inplace(layer, pair), _options(self.plain(counterpart, pair))
        # By type as well, since 0 == False, and 1 == 1.0, would come back as the other.
        pairs = {name: (value, plain.get(name, value)) for name, value in _options(layer).items()}
        options = {name: one for name, (one, built) in pairs.items() if type(one) is not type(built) or one != built}
        if ids_of_wholes or inplace or options or len(of_burnlike()[plain_class(type(counterpart))]) > 1:
            counterpart.__dict__[ORIGIN] = TorchLayer(pair.torch, inplace, options, ids_of_wholes)


class ToTorch:
    """The direction from burnlike's layers to torch's, with the same methods as `FromTorch`."""

    target = "torch.nn"

    def twin_name(self, pair: Counterpart) -> str:
        return f"torch.nn.{pair.torch.__name__}"

    def counterpart_of(self, layer: nn.Module) -> Counterpart | None:
        if (registration := registered(type(layer))) is not None:
            return registration.pair_of(layer)
        pairs = of_burnlike().get(plain_class(type(layer)))
        if pairs is None:
            return None
        origin = layer.__dict__.get(ORIGIN)
        pair = pairs[origin.kind] if origin is not None and origin.kind in pairs else list(pairs.values())[-1]
        return pair.of(layer)

    def other_class(self, layer: nn.Module) -> type[nn.Module] | None:
        registration = registered(type(layer))
        return None if registration is None or registration.ours is not type(layer) else registration.theirs

    def is_layer(self, kind: type) -> bool:
        return kind in burnlike_layers() and not issubclass(kind, AnyLibrary)

    def tensor_names(self, pair: Counterpart) -> Container[str]:
        return pair.tensors

    def plain(self, twin: nn.Module, pair: Counterpart) -> nn.Module:
        return pair.config(twin).init("meta")

    def twin(self, layer: nn.Module, pair: Counterpart, tensors: Mapping[str, Tensor]) -> Twin:
        twin = pair.build(layer, torch.device("meta"))
        recipes = pair.recipes(tensors)
        _check_names(
            {*tensors} - {source.name for recipe in recipes.values() for source in recipe.sources},
            tensors_of(twin).keys() - recipes.keys() - {*pair.ignored, *pair.constants.values()},
            "torch",
        )
        return Twin(layer, twin, recipes)

    def show_to(self, readers: Collection[type], twin: nn.Module) -> None: ...

    def finish(self, twin: Twin, pair: Counterpart) -> None:
        layer, counterpart = twin.layer, twin.counterpart
        origin = layer.__dict__.get(ORIGIN) or TorchLayer(type(counterpart))
        for name, recipe in pair.recipes(tensors_of(layer)).items():
            target, sources = owner_of(counterpart, name), [owner_of(layer, source.name) for source in recipe.sources]
            ids = [known_id(*source, noting_at(*source)) for source in sources]
            param_id = ids[0]
            if len(sources) > 1:
                param_id = ParamId(origin.ids[name]) if name in origin.ids else None
                change_field(*target, {"parts": tuple(it.value for it in ids if it is not None)})
            _describe(sources[0], target, param_id)
        device = next((it.device for it in tensors_of(layer).values()), torch.device("cpu"))
        for name in pair.ignored:
            if (buffer := _buffer_of(counterpart, name)) is not None:
                kept_buffer = _buffer_of(layer, hidden(name))
                value = torch.zeros_like(buffer, device=device) if kept_buffer is None else kept_buffer.clone()
                setattr(*owner_of(counterpart, name), value)
        for path, name in pair.constants.items():
            if (constant := getattr(layer, path)) is not None:
                setattr(counterpart, name, constant.clone())
        if origin.inplace:
            counterpart.__dict__["inplace"] = True
        for name, value in origin.options.items():
            # torch's own form of an option, such as `padding=0` for `Valid`, while it still says the same.
            means, now = _meant(counterpart, pair), getattr(counterpart, name)
            setattr(counterpart, name, value)
            if _meant(counterpart, pair) != means:  # the twin was changed
                setattr(counterpart, name, now)


Direction = FromTorch | ToTorch


def change_class(module: nn.Module, kind: type[nn.Module]) -> None:
    """Let `module` be an object of `kind`."""
    object.__setattr__(module, "__class__", kind)  # a burnlike Module takes an attribute that is set for a field


def tensors_of(layer: nn.Module) -> dict[str, Tensor]:
    """The parameters and persistent buffers of a layer by path; of burnlike's layers those are the paths of records."""
    tensors = dict(layer.named_parameters(remove_duplicate=False))
    for path, part in layer.named_modules():
        for name, tensor in part._buffers.items():
            if tensor is not None and name not in part._non_persistent_buffers_set:
                tensors[f"{path}.{name}" if path else name] = tensor  # pyright: ignore[reportArgumentType]
    return tensors  # pyright: ignore[reportReturnType]


def owner_of(module: nn.Module, name: str) -> tuple[nn.Module, str]:
    """The module that has the tensor `name`, and its name there."""
    above, _, last = name.rpartition(".")
    return module.get_submodule(above), last


def hidden(name: str) -> str:
    """The name of a buffer of torch's in a twin that does without it, which keeps it out of records."""
    return f"_{name}"


def _buffer_of(layer: nn.Module, name: str) -> Tensor | None:
    owner, last = owner_of(layer, name)
    return owner._buffers.get(last)


def _check_names(added: Collection[str], missing: Collection[str], target: str) -> None:
    """Refuse a layer with tensors that its class does not have, or without some that the twin has."""
    if added:
        raise NoCounterpartError(f"'{min(added)}' was added to it; keep it in the module around")
    if missing:
        raise NoCounterpartError(f"it lacks what {target} has as '{min(missing)}'")


def _describe(source: tuple[nn.Module, str], target: tuple[nn.Module, str], param_id: ParamId | None) -> None:
    """Let the tensor `target` have what is known of `source`, and the id, if there is one."""
    meta = meta_of(*source)
    if (meta.name, meta.trainable, meta.own_id) != (None, None, False):
        set_meta(*target, name=meta.name, trainable=meta.trainable, own_id=meta.own_id)
    param_id = param_id or place_id(*target)
    if param_id is not None:
        keep_id(*target, param_id, noting_at(*target))


def _options(layer: nn.Module) -> Mapping[str, Any]:
    return {
        name: value
        for name, value in layer.__dict__.items()
        if not name.startswith("_") and name not in ("training", "inplace") and not isinstance(value, Tensor)
    }


def _meant(layer: nn.Module, pair: Counterpart) -> Mapping[str, Any]:
    """The options of a layer of torch's, in the form that those of twins have."""
    return _options(pair.build(pair.config(layer).init("meta"), torch.device("meta")))


def _is_inplace(layer: Any, pair: Counterpart) -> bool:
    return getattr(layers, pair.layer) in INPLACE and layer.inplace


_NOT_COPIED = (FIELDS, ORIGIN, READERS)
_GROUPS = ("_parameters", "_buffers", "_modules")
_PARTS = {nn.modules.linear.NonDynamicallyQuantizableLinear}
"""Classes of parts of torch's layers that are no layers by themselves: the output projection of attention."""


def replaced_method(module: nn.Module) -> str:
    """The name of a method that was replaced on this object by a function; empty if there is none.

    The function may compute with the module that it was made for, also in a copy.
    """
    for name, value in module.__dict__.items():
        if inspect.isroutine(getattr(type(module), name, None)) and callable(value):
            return "" if isinstance(value, MethodType) and value.__self__ is module else name
    return ""


def function_around(module: nn.Module, parts: Collection[int]) -> str:
    """The attribute of `module` with a function that holds one of `parts`, given by `id()`; empty if there is none.

    A copy of the module has the same function, which computes with the original's parts.
    """
    for name, value in module.__dict__.items():
        if name not in _GROUPS and any(id(it) in parts for it in _held_by_functions([value], 0)):
            return name
    return ""


def _held_by_functions(values: Iterable[Any], depth: int, *, within: bool = False) -> Iterator[Any]:
    """The values in the closures and defaults of functions among `values`, also in lists and mappings."""
    for value in values if depth <= DEEPEST else ():
        if within:
            yield value
        if isinstance(value, FunctionType):
            cells = map(_content, value.__closure__ or ())
            held = [*cells, *(value.__defaults__ or ()), *(value.__kwdefaults__ or {}).values()]
            yield from _held_by_functions(held, depth + 1, within=True)
        elif isinstance(value, list | tuple | dict):
            items = value.values() if isinstance(value, dict) else value
            yield from _held_by_functions(items, depth + 1, within=within)


def _content(cell: CellType) -> Any:
    try:
        return cell.cell_contents
    except ValueError:  # a variable that has no value yet
        return None


def why_not(layer: nn.Module, *, whole: bool) -> str:
    """Why a layer may compute something else than its class; empty if not. `whole`: its class has no added parts."""
    parts = list(layer.modules()) if whole else [layer]
    library_classes = torch_layers() | burnlike_layers() | _PARTS
    owner, forward = stock_forward(type(layer))
    if any((part.__dict__.get(registry) or {}) for part in parts for registry in HOOKS):
        return "it has hooks, which may rely on its tensors; remove them before"
    if whole and (foreign := [part for part in parts if plain_class(type(part)) not in library_classes]):
        return f"a part of it, {type(foreign[0]).__name__}, may compute something else"
    if any("forward" in part.__dict__ or replaced_method(part) for part in parts):
        return "its forward is not that of its class, and may compute otherwise; take it back (del layer.forward)"
    if whole and not (forward and is_written_in(owner, forward)):
        return f"the forward of {type(layer).__name__} was replaced, and may compute otherwise"
    if len({part.training for part in parts}) > 1:
        return "only a part of it is in training mode; call train() or eval() on the layer"
    return ""


class OtherClass:
    """A module whose class was registered with another one (`kind`), of which its copy becomes an object.

    Args:
        layer: None for a module that calls layers; else one whose class is derived from a layer with a twin.
        made: the twin of the layer that its class is derived from.
        plain: a layer with nothing added.
        ignored: names that only one of the two libraries has.
    """

    def __init__(
        self,
        path: str,
        kind: type[nn.Module],
        layer: nn.Module | None = None,
        twin: nn.Module | None = None,
        plain: nn.Module | None = None,
        ignored: tuple[str, ...] = (),
    ) -> None:
        self.path, self._kind, self._made, self._plain = path, kind, twin, plain
        self._passed = {*_NOT_COPIED, *ignored, *map(hidden, ignored)}
        if layer is not None and twin is not None:
            taken = {*twin.__dict__, *(name for group in _GROUPS for name in twin.__dict__[group])}
            if both := sorted(taken & set(self._added(layer))):
                raise NoCounterpartError(f"its attribute '{both[0]}' has the name of one of the twin's; rename it")

    def take(self, module: nn.Module) -> None:
        """Make `module`, a copy, an object of the other class, with the twin's parts in place of the layer's."""
        if (twin := self._made) is not None:
            attributes = module.__dict__
            for name in self._added(module):
                for group in _GROUPS:
                    if name in attributes[group]:
                        twin.__dict__[group][name] = attributes[group][name]
                if name in attributes:
                    twin.__dict__[name] = attributes[name]
                if name in module._non_persistent_buffers_set:
                    twin._non_persistent_buffers_set.add(name)
                if name in fields_of(module):
                    change_field(twin, name, fields_of(module)[name])
            # The object stays: others have it already.
            object.__setattr__(module, "__dict__", twin.__dict__)
        change_class(module, self._kind)

    def _added(self, module: nn.Module) -> list[str]:
        """The names of what `module`, the layer or its copy, has beside a plain layer."""
        plain, attributes = vars(self._plain), vars(module)
        pairs = [(attributes, plain), *((attributes[group], plain[group]) for group in _GROUPS)]
        return [name for has, usual in pairs for name in has if name not in usual and name not in self._passed]


def tensors_held(module: nn.Module) -> Iterator[tuple[str, Tensor]]:
    """The tensors of `module` itself, also those in plain attributes, with their names."""
    for group in (module._parameters, module._buffers):
        yield from ((name, value) for name, value in group.items() if value is not None)
    for name in plain_names(module.__dict__):
        yield from ((name, it) for it in _tensors_in(module.__dict__[name], 0))


def _tensors_in(value: Any, depth: int) -> Iterator[Tensor]:
    if isinstance(value, Tensor):
        yield value
    elif isinstance(value, list | tuple | dict) and depth < DEEPEST:
        for item in value.values() if isinstance(value, dict) else value:
            yield from _tensors_in(item, depth + 1)
