"""Replaces the layers of one library by their twins of the other, in a copy of a module.

First all layers are found and built without values, and everything that is wrong is listed. Only then values are
copied: each distinct tensor of a layer once, so that what was tied is tied again.
"""

import copy
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, ClassVar, Literal, Protocol

import torch
from torch import Tensor, nn

from .._torch_compat.modules import HOOKS
from ..errors import BurnlikeError, NoCounterpartError
from ..module.identity.field_ids import keep_id, known_id, noting_at, place_id
from ..module.identity.field_metadata import change_field, fields_of, meta_of, set_meta
from ..module.identity.lazy_parameter import initialize_param
from ..module.identity.param_id import ParamId
from ..module.identity.plain_attributes import DEEPEST, plain_names
from ..module.identity.torch_wrappers import own_class, unwrap
from ..module.transforms.placement import copy_with
from ..module.tree.traversal import slots_of
from ..nn.counterpart import Counterpart
from ..nn.layer import Layer
from .counterparts import of_burnlike, of_torch

Place = Literal["root", "sequential", "program"]
Call = Literal["same", "one_tensor", "other"]
_CALLED_ALIKE: Mapping[Place, tuple[Call, ...]] = {
    "root": ("same", "one_tensor", "other"),
    "sequential": ("same", "one_tensor"),
    "program": ("same",),
}
"""How much of the call a twin must share with its layer, by what calls it: the user of the result, only
`nn.Sequential`, or a `forward` that was written for the layer."""

_CONTAINERS = (nn.Module, nn.Sequential, nn.ModuleList, nn.ModuleDict, nn.ParameterList, nn.ParameterDict)
_KEPT = (nn.Identity, nn.Flatten, nn.Unflatten)
"""Layers of torch without numbers of their own, which Burn's programs write as a line of `forward`."""

_ORIGIN = "_torch_layer"


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


class Twin:
    """A layer, its twin without values, and of which tensors those of the twin are made."""

    def __init__(self, path: str, layer: nn.Module, made: nn.Module, forms: Mapping[str, Form]) -> None:
        self.path = path
        self.layer = layer
        self.made = made
        self.forms = forms


class Direction(Protocol):
    """The two directions: which layers there are, and how the twin of one is made."""

    target: ClassVar[str]

    def twin_name(self, pair: Counterpart) -> str:
        """The class of the twin."""
        ...

    def counterpart_of(self, layer: nn.Module) -> Counterpart | None:
        """The pair of the layer, None for what is no layer with a twin."""
        ...

    def is_layer(self, kind: type) -> bool:
        """Whether it is a class of layers of the library that is left."""
        ...

    def hooks_of(self, layer: nn.Module) -> list[Any]:
        """The hooks that the twin would not have."""
        ...

    def twin(self, path: str, layer: nn.Module, pair: Counterpart) -> Twin:
        """The twin on the meta device.

        Raises:
            BurnlikeError: there is none with the layer's options.
        """
        ...

    def finish(self, twin: Twin, pair: Counterpart) -> None:
        """Note what is known of ids, and set what no tensor of the layer gives; the tensors have their values."""
        ...


class Conversion:
    """One conversion of a module."""

    def __init__(self, module: nn.Module, direction: Direction) -> None:
        self._root = unwrap(module)
        self._direction = direction
        self._problems: dict[tuple[str, str], None] = {}
        self._twins: dict[int, tuple[Twin, Counterpart]] = {}
        self._seen: set[tuple[int, Place]] = set()
        self._sources: dict[int, Tensor] = {}
        self._made: dict[Form, Tensor] = {}

    @torch.inference_mode(False)  # else what is made could never be trained
    @torch.no_grad()
    def result(self) -> nn.Module:
        """The copy with twins for layers.

        Raises:
            NoCounterpartError: see `burnlike.interop.from_torch`.
            ModuleTreeError: likewise.
        """
        slots_of(self._root)  # raises for a module that holds itself
        uses: dict[int, dict[frozenset[Form], str]] = {}
        self._find(self._root, "", "root", uses)
        self._check_uses(uses)
        self._refuse()
        for twin, pair in self._twins.values():
            self._fill(twin)
            self._direction.finish(twin, pair)
        replaced: dict[int, Any] = {address: twin.made for address, (twin, _) in self._twins.items()}
        replaced |= {form[0].address: made for form, made in self._made.items() if form == (Part(form[0].address),)}
        return copy_with(self._root, replaced)

    def _find(self, module: nn.Module, path: str, place: Place, uses: dict[int, dict[frozenset[Form], str]]) -> None:
        """Build the twins of the layers in `module`, and note what is wrong, and in which forms tensors are needed."""
        if (id(module), place) in self._seen:
            return
        self._seen.add((id(module), place))
        kind, direction = type(module), self._direction
        if unwrap(module) is not module:
            self._problem(path, module, "a wrapper within the module; convert the module inside, and wrap the result")
        elif (pair := direction.counterpart_of(module)) is not None:
            self._find_layer(module, path, place, pair, uses)
        elif own_class(module) is not kind:
            remedy = "call burnlike.module.materialize or torch's remove_parametrizations before"
            self._problem(path, module, f"it is parametrized; {remedy}")
        elif kind not in _CONTAINERS and kind not in _KEPT and direction.is_layer(kind):
            remedy = "write what it computes as an nn.Module of your own, without this class"
            self._problem(path, module, f"{direction.target} has no such layer; {remedy}")
        elif base := next((it for it in kind.__mro__[1:] if it not in _CONTAINERS and direction.is_layer(it)), None):
            remedy = f"write it as an nn.Module that has a {base.__name__}"
            self._problem(path, module, f"derived from {base.__name__}, it may compute something else; {remedy}")
        else:
            for name, tensor in _tensors_held(module):
                self._sources[id(tensor)] = tensor
                form = frozenset({(Part(id(tensor)),)})
                uses.setdefault(id(tensor), {}).setdefault(form, f"{path}.{name}" if path else name)
            inner: Place = "sequential" if kind is nn.Sequential and place != "program" else "program"
            for name, child in module._modules.items():
                if child is not None:
                    self._find(child, f"{path}.{name}" if path else name, inner, uses)

    def _find_layer(
        self,
        layer: nn.Module,
        path: str,
        place: Place,
        pair: Counterpart,
        uses: dict[int, dict[frozenset[Form], str]],
    ) -> None:
        if pair.call not in _CALLED_ALIKE[place]:
            twin = self._direction.twin_name(pair)
            self._problem(
                path,
                layer,
                f"{twin} is called in another way, or returns something else, than the code around it expects; convert"
                f" this layer by itself, assign it, and change that code to {twin}'s call",
            )
            return
        if id(layer) in self._twins:
            return
        if self._direction.hooks_of(layer):
            self._problem(path, layer, "it has hooks, which may rely on its tensors; remove them before")
            return
        if len({part.training for part in layer.modules()}) > 1:
            self._problem(path, layer, "only a part of it is in training mode; call train() or eval() on the layer")
            return
        try:
            twin = self._direction.twin(path, layer, pair)
        except BurnlikeError as error:
            self._problem(path, layer, str(error).removeprefix(f"{type(layer).__name__}: "))
            return
        self._twins[id(layer)] = twin, pair
        tensors = {id(tensor): (name, tensor) for name, tensor in tensors_of(layer).items()}
        used: dict[int, set[Form]] = {}
        for form in twin.forms.values():
            for part in form:
                used.setdefault(part.address, set()).add(form)
            self._check_parts(form, path, layer, tensors)
        for address, forms in used.items():
            name, self._sources[address] = tensors[address]
            uses.setdefault(address, {}).setdefault(frozenset(forms), f"{path}.{name}" if path else name)

    def _check_parts(self, form: Form, path: str, layer: nn.Module, tensors: Mapping[int, tuple[str, Tensor]]) -> None:
        """See that tensors which become one can be one."""
        found = [tensors[part.address] for part in form]
        for what, values in (
            ("are trained only in part (requires_grad)", {it.requires_grad for _, it in found}),
            ("have different dtypes", {it.dtype for _, it in found}),
            ("are on different devices", {it.device for _, it in found}),
        ):
            if len(values) > 1:
                names = ", ".join(name for name, _ in found)
                self._problem(path, layer, f"{names} are one tensor in {self._direction.target}, and {what}")

    def _check_uses(self, uses: Mapping[int, Mapping[frozenset[Form], str]]) -> None:
        for places in uses.values():
            if len(places) > 1:
                first, other = list(places.values())[:2]
                self._problems[
                    other,
                    f"it is tied to '{first}', but {self._direction.target} has them in two layouts; untie them"
                    " before, by a clone of the tensor",
                ] = None

    def _problem(self, path: str, layer: nn.Module, reason: str) -> None:
        kind = own_class(layer).__name__
        self._problems[f"{path} ({kind})" if path else kind, reason] = None

    def _refuse(self) -> None:
        if not self._problems:
            return
        lines = [f"  {path}: {reason}" for path, reason in self._problems]
        target = self._direction.target
        error = NoCounterpartError(
            f"{type(self._root).__name__} can't be converted to {target}; nothing was converted\n" + "\n".join(lines)
        )
        error.problems = tuple(self._problems)
        raise error

    def _fill(self, twin: Twin) -> None:
        """Give the twin tensors with the values of the layer's, and its modes."""
        layer, made = twin.layer, twin.made
        weights = dict(made.named_parameters(remove_duplicate=False))
        for name, form in twin.forms.items():
            if form not in self._made:
                self._made[form] = self._joined(form, name in weights)
            owner, last = _owner(made, name)
            setattr(owner, last, self._made[form])
        for part in made.modules():
            part.training = layer.training

    def _joined(self, form: Form, is_weight: bool) -> Tensor:
        parts = []
        for part in form:
            tensor = self._sources[part.address]
            initialize_param(tensor)
            value, (index, count) = tensor.detach(), part.chunk
            value = value.chunk(count)[index] if count > 1 else value
            parts.append(value.mT if part.transposed else value)
        whole = len(form) == 1 and form[0] == Part(form[0].address)
        layout = torch.preserve_format if whole else torch.contiguous_format
        value = parts[0].clone(memory_format=layout) if len(parts) == 1 else torch.cat(parts)
        return nn.Parameter(value, self._sources[form[0].address].requires_grad) if is_weight else value


class FromTorch:
    """From torch's layers to burnlike's."""

    target = "burnlike"

    def twin_name(self, pair: Counterpart) -> str:
        """See `Direction`."""
        return f"burnlike.nn.{pair.layer}"

    def counterpart_of(self, layer: nn.Module) -> Counterpart | None:
        """See `Direction`."""
        return of_torch().get(type(layer))

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
            plain.inplace = False  # pyright: ignore[reportAttributeAccessIssue]
        made = pair.config(plain).init("meta")
        places = pair.places(tensors)
        used = {it.name for it in places.values()} | {*pair.ignored}
        assert tensors.keys() <= used, tensors.keys() - used
        assert places.keys() == tensors_of(made).keys()
        for name in tensors:
            meta = meta_of(*_owner(layer, name))
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
            source, target = _owner(layer, place.name), _owner(made, path)
            param_id, (index, count) = _known_id(*source), place.chunk
            if count > 1:
                if param_id is not None:
                    whole[place.name] = param_id.value
                ids = fields_of(source[0]).get(source[1], {}).get("parts")
                param_id = ParamId(ids[index]) if ids else None
            _describe(source, target, param_id)
        inplace = getattr(layer, "inplace", False)
        if inplace:
            made.register_forward_hook(write_into_input)
        buffers = {name: tensor.tolist() for name in pair.ignored if (tensor := _buffer(layer, name)) is not None}
        if whole or inplace or buffers or len(of_burnlike()[type(made)]) > 1:
            made.__dict__[_ORIGIN] = TorchLayer(type(layer), inplace, buffers, whole)


class ToTorch:
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
        return pairs[origin.kind] if origin is not None and origin.kind in pairs else list(pairs.values())[-1]

    def is_layer(self, kind: type) -> bool:
        """See `Direction`."""
        return kind.__module__.startswith("burnlike.nn.") and kind is not Layer

    def hooks_of(self, layer: nn.Module) -> list[Any]:
        """See `Direction`."""
        return [hook for part in layer.modules() for hook in _hooks(part) if hook is not write_into_input]

    def twin(self, path: str, layer: nn.Module, pair: Counterpart) -> Twin:
        """See `Direction`."""
        tensors = tensors_of(layer)
        made = pair.build(layer, torch.device("meta"))
        parts = pair.parts(tensors)
        assert tensors.keys() == {name for names in parts.values() for name, _ in names}
        assert tensors_of(made).keys() == {*parts, *(name for name in pair.ignored if _buffer(made, name) is not None)}
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
            target, sources = _owner(made, name), [_owner(layer, path) for path, _ in parts]
            ids = [_known_id(*source) for source in sources]
            param_id = ids[0]
            if len(parts) > 1:
                param_id = ParamId(origin.ids[name]) if name in origin.ids else None
                change_field(*target, {"parts": tuple(it.value for it in ids if it is not None)})
            _describe(sources[0], target, param_id)
        device = next((it.device for it in tensors_of(layer).values()), torch.device("cpu"))
        for name in pair.ignored:
            if (buffer := _buffer(made, name)) is not None:
                value = torch.tensor(origin.buffers.get(name, 0), dtype=buffer.dtype, device=device)
                setattr(*_owner(made, name), value)
        if origin.inplace:
            made.inplace = True  # pyright: ignore[reportAttributeAccessIssue]


def write_into_input(layer: nn.Module, inputs: tuple[Any, ...], output: Any) -> Any:
    """The forward hook of a twin whose torch layer has `inplace=True`: others may see what it writes."""
    return inputs[0].copy_(output) if isinstance(inputs[0], Tensor) else output


def tensors_of(layer: nn.Module) -> dict[str, Tensor]:
    """The parameters and persistent buffers of a layer by path; of burnlike's layers those are the paths of records."""
    found = dict(layer.named_parameters(remove_duplicate=False))
    for path, part in layer.named_modules():
        for name, tensor in part._buffers.items():
            if tensor is not None and name not in part._non_persistent_buffers_set:
                found[f"{path}.{name}" if path else name] = tensor  # pyright: ignore[reportArgumentType]
    return found  # pyright: ignore[reportReturnType]


def _buffer(layer: nn.Module, name: str) -> Tensor | None:
    owner, last = _owner(layer, name)
    return owner._buffers.get(last)


def _owner(module: nn.Module, name: str) -> tuple[nn.Module, str]:
    """The module that has the tensor `name`, and its name there."""
    above, _, last = name.rpartition(".")
    return module.get_submodule(above), last


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


def _tensors_held(module: nn.Module) -> Iterator[tuple[str, Tensor]]:
    """The tensors of `module` itself, also those in plain attributes, with their names."""
    for group in (module._parameters, module._buffers):
        yield from ((name, it) for name, it in group.items() if it is not None)
    for name in plain_names(module.__dict__):
        yield from ((name, it) for it in _tensors_in(module.__dict__[name], 0))


def _tensors_in(value: Any, depth: int) -> Iterator[Tensor]:
    if isinstance(value, Tensor):
        yield value
    elif isinstance(value, list | tuple | dict) and depth < DEEPEST:
        for item in value.values() if isinstance(value, dict) else value:
            yield from _tensors_in(item, depth + 1)
