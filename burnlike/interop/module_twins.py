"""Replaces the layers of one library by their twins of the other, in a copy of a module.

First all layers are found and built without values, and everything that is wrong is listed. Only then values are
copied: each distinct tensor of a layer once, so that what was tied is tied again.
"""

from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any, Literal

import torch
from torch import Tensor, nn

from ..errors import BurnlikeError, NoCounterpartError
from ..module.identity.lazy_parameter import initialize_param
from ..module.identity.plain_attributes import DEEPEST, plain_names
from ..module.identity.torch_wrappers import own_class, unwrap
from ..module.transforms.placement import copy_with
from ..module.tree.traversal import slots_of
from ..nn.tensor_source import TensorRecipe, TensorSource
from ..nn.torch_counterpart import Call, Counterpart
from .other_classes import OtherClass, Parts, function_around, replaced_method, why_not
from .twins import KEPT, Direction, Twin, owner_of, tensors_of

Place = Literal["root", "sequential", "program"]
_CALLED_ALIKE: Mapping[Place, tuple[Call, ...]] = {
    "root": ("same", "one_tensor", "other"),
    "sequential": ("same", "one_tensor"),
    "program": ("same",),
}
"""How much of the call a twin must share with its layer, by what calls it: the user of the result, only
`nn.Sequential`, or a `forward` that was written for the layer."""

_CONTAINERS = (nn.Module, nn.Sequential, nn.ModuleList, nn.ModuleDict, nn.ParameterList, nn.ParameterDict)


class Conversion:
    """One conversion of a module."""

    def __init__(self, module: nn.Module, direction: Direction) -> None:
        self._root = unwrap(module)
        self._originals = {id(it) for it in (*self._root.modules(), *self._root.parameters())}
        self._direction = direction
        self._problems: dict[tuple[str, str], None] = {}
        self._twins: dict[int, tuple[Twin, Counterpart]] = {}
        self._in_programs: set[int] = set()  # addresses of layers whose tensors a program may read
        self._programs: dict[type, None] = {}
        self._others: dict[int, OtherClass] = {}
        self._seen: set[tuple[int, Place]] = set()
        self._names: dict[int, str] = {}  # by the address of a tensor, its first path, which is its name in recipes
        self._sources: dict[str, Tensor] = {}
        # Name of a tensor -> the recipes with it that a place needs together -> the first such place.
        self._uses: dict[str, dict[frozenset[TensorRecipe], str]] = {}
        self._made: dict[TensorRecipe, Tensor] = {}

    @torch.inference_mode(False)  # else what is made could never be trained
    @torch.no_grad()
    def result(self) -> nn.Module:
        """The copy with twins for layers.

        Raises:
            NoCounterpartError: see `burnlike.interop.from_torch`.
            ModuleTreeError: likewise.
        """
        slots_of(self._root)  # raises for a module that holds itself
        self._find(self._root, "", "root")
        self._check_uses()
        self._refuse()
        for address, (twin, pair) in self._twins.items():
            self._fill(twin)
            self._direction.finish(twin, pair)
            if address in self._in_programs:
                self._direction.show_to(self._programs, twin.made)
        replaced: dict[int, Any] = {
            address: twin.made for address, (twin, _) in self._twins.items() if address not in self._others
        }
        replaced |= {
            id(tensor): self._made[recipe]
            for name, tensor in self._sources.items()
            if (recipe := TensorRecipe((TensorSource(name),))) in self._made
        }
        copied = copy_with(self._root, replaced)
        for other, module in [(it, copied.get_submodule(it.path)) for it in self._others.values()]:
            other.take(module)
        return copied

    def _find(self, module: nn.Module, path: str, place: Place) -> None:
        """Build the twins of the layers in `module`, and note what is wrong, and in which forms tensors are needed."""
        if (id(module), place) in self._seen:
            return
        self._seen.add((id(module), place))
        kind, direction = type(module), self._direction
        if unwrap(module) is not module:
            self._problem(path, module, "a wrapper within the module; convert the module inside, and wrap the result")
        elif name := replaced_method(module):
            remedy = f"take it back (del module.{name}; interop.unfuse), or write a class with it"
            self._problem(path, module, f"its {name} is not that of its class, and may compute otherwise; {remedy}")
        elif (pair := direction.counterpart_of(module)) is not None:
            self._find_layer(module, path, place, pair)
        elif own_class(module) is not kind:
            remedy = "call burnlike.module.materialize or torch's remove_parametrizations before"
            self._problem(path, module, f"it is parametrized; {remedy}")
        elif kind in KEPT:
            self._find_inside(module, path, "program")
        elif kind not in _CONTAINERS and direction.is_layer(kind):
            remedy = "write what it computes as an nn.Module of your own, without this class"
            self._problem(path, module, f"{direction.target} has no such layer; {remedy}")
        elif (other := direction.other_class(module)) is not None:
            self._others[id(module)] = OtherClass(path, other)
            self._find_inside(module, path, "root")
        elif base := next((it for it in kind.__mro__[1:] if it not in _CONTAINERS and direction.is_layer(it)), None):
            remedy = f"write it as an nn.Module that has a {base.__name__}, or name its twin by register_twin"
            self._problem(path, module, f"derived from {base.__name__}, it may compute something else; {remedy}")
        else:
            if kind not in _CONTAINERS and not kind.__module__.startswith("burnlike."):
                self._programs[kind] = None
            self._find_inside(module, path, "sequential" if kind is nn.Sequential and place != "program" else "program")

    def _find_inside(self, module: nn.Module, path: str, place: Place, without: nn.Module | None = None) -> None:
        """Look into a module whose tensors stay as they are.

        Args:
            module: a program.
            path: its path.
            place: of the modules in it.
            without: a layer whose tensors and modules are not looked at.
        """
        if name := function_around(module, self._originals):
            remedy = "make it a method, or a functools.partial of one"
            self._problem(
                path, module, f"its {name} is a function around the original's layers, also in a copy; {remedy}"
            )
        passed = set() if without is None else {*without._modules, *without._parameters, *without._buffers}
        for name, tensor in _tensors_held(module):
            if name not in passed:
                full = f"{path}.{name}" if path else name
                recipe = TensorRecipe((TensorSource(self._named(tensor, full)),))
                self._uses.setdefault(recipe.sources[0].name, {}).setdefault(frozenset({recipe}), full)
        for name, child in module._modules.items():
            if child is not None and name not in passed:
                self._find(child, f"{path}.{name}" if path else name, place)

    def _find_layer(self, layer: nn.Module, path: str, place: Place, pair: Counterpart) -> None:
        if pair.call not in _CALLED_ALIKE[place]:
            twin = self._direction.twin_name(pair)
            self._problem(
                path,
                layer,
                f"{twin} is called in another way, or returns something else, than the code around it expects; convert"
                f" this layer by itself, assign it, and change that code to {twin}'s call",
            )
            return
        if place == "program":
            self._in_programs.add(id(layer))
        if id(layer) in self._twins:
            return
        other = self._direction.other_class(layer)
        if problem := why_not(layer, whole=other is None):
            self._problem(path, layer, problem)
            return
        names = None if other is None else self._direction.tensor_names(pair)
        own = {name: tensor for name, tensor in tensors_of(layer).items() if names is None or name in names}
        try:
            twin = self._direction.twin(path, layer, pair, own)
            if other is not None:
                plain = self._direction.plain(twin.made, pair)
                self._others[id(layer)] = OtherClass(path, other, Parts(layer, twin.made, plain, pair.ignored))
                self._find_inside(layer, path, "program", without=plain)
        except BurnlikeError as error:
            self._problem(path, layer, str(error).removeprefix(f"{type(layer).__name__}: "))
            return
        self._twins[id(layer)] = twin, pair
        used: dict[str, set[TensorRecipe]] = {}
        for recipe in twin.recipes.values():
            self._check_parts([it.name for it in recipe.sources], path, layer, own)
            for source in recipe.sources:
                used.setdefault(source.name, set()).add(self._by_first_paths(recipe, path, own))
        for name, recipes in used.items():
            full = f"{path}.{name}" if path else name
            self._uses.setdefault(self._named(own[name], full), {}).setdefault(frozenset(recipes), full)

    def _named(self, tensor: Tensor, path: str) -> str:
        """The first path of a tensor, which is at `path`, too."""
        name = self._names.setdefault(id(tensor), path)
        self._sources[name] = tensor
        return name

    def _by_first_paths(self, recipe: TensorRecipe, path: str, tensors: Mapping[str, Tensor]) -> TensorRecipe:
        """The recipe of a layer at `path` with the first paths of the layer's tensors, so that tied ones are one."""
        prefix = f"{path}." if path else ""
        names = [self._named(tensors[it.name], f"{prefix}{it.name}") for it in recipe.sources]
        return recipe._replace(sources=tuple(map(_renamed, recipe.sources, names)))

    def _check_parts(self, names: list[str], path: str, layer: nn.Module, tensors: Mapping[str, Tensor]) -> None:
        """See that tensors which become one can be one."""
        found = [tensors[name] for name in names]
        for what, values in (
            ("are trained only in part (requires_grad)", {it.requires_grad for it in found}),
            ("have different dtypes", {it.dtype for it in found}),
            ("are on different devices", {it.device for it in found}),
        ):
            if len(values) > 1:
                self._problem(path, layer, f"{', '.join(names)} are one tensor in {self._direction.target}, and {what}")

    def _check_uses(self) -> None:
        for places in self._uses.values():
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
        own = tensors_of(layer)
        for name, recipe in twin.recipes.items():
            recipe = self._by_first_paths(recipe, twin.path, own)
            if recipe not in self._made:
                self._made[recipe] = self._filled(recipe, name in weights)
            setattr(*owner_of(made, name), self._made[recipe])
        for part in made.modules():
            part.training = layer.training

    def _filled(self, recipe: TensorRecipe, is_weight: bool) -> Tensor:
        tensors = {it.name: self._sources[it.name] for it in recipe.sources}
        for tensor in tensors.values():
            initialize_param(tensor)
        value = recipe.make({name: it.detach() for name, it in tensors.items()})
        if len(recipe.sources) == 1:
            source = recipe.sources[0]
            is_same = source.is_whole and not source.transposed
            value = value.clone(memory_format=torch.preserve_format if is_same else torch.contiguous_format)
        return nn.Parameter(value, self._sources[recipe.sources[0].name].requires_grad) if is_weight else value


def _renamed(source: TensorSource, name: str) -> TensorSource:
    return replace(source, name=name)


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
