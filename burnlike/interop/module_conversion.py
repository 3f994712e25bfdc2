"""`from_torch` and `to_torch`: a copy of a module in which each layer is replaced by its twin in the other library.

First all layers are found and built without values, and everything that is wrong is listed. Only then values are
copied: each distinct tensor of a layer once, so that what was tied is tied again.
"""

import os
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, Literal

import torch
from torch import Tensor, nn

from .._lazy import resolve
from ..errors import BurnlikeError, NoCounterpartError
from ..module.containers.sequences import ModuleDict, ModuleTuple
from ..module.torch_objects.lazy_parameter import initialize_param
from ..module.torch_objects.wrappers import own_class, unwrap
from ..module.transforms.placement import copy_with
from ..module.tree.traversal import slots_of
from ..nn.tensor_source import TensorRecipe, TensorSource
from ..nn.torch_counterpart import AnyLibrary, Call, Counterpart
from .layer_conversion import (
    Direction,
    FromTorch,
    OtherClass,
    ToTorch,
    Twin,
    function_around,
    owner_of,
    replaced_method,
    tensors_held,
    tensors_of,
    why_not,
)
from .torch_counterparts import KEPT

Place = Literal["root", "sequential", "program"]
_CALLED_ALIKE: Mapping[Place, tuple[Call, ...]] = {
    "root": ("same", "one_tensor", "other"),
    "sequential": ("same", "one_tensor"),
    "program": ("same",),
}
"""How much of the call a twin must share with its layer, by what calls it: the user of the result, only
`nn.Sequential`, or a `forward` that was written for the layer."""

_OF_ANY_LAYERS = (AnyLibrary, ModuleDict, ModuleTuple)
_CONTAINERS = (nn.Module, nn.Sequential, nn.ModuleList, nn.ModuleDict, nn.ParameterList, nn.ParameterDict)


def from_torch(module: nn.Module) -> Any:
    """A copy of `module` whose layers of `torch.nn` are those of burnlike, with the same numbers.

    Containers and classes of your own are copied as they are: your `forward` runs with burnlike's layers in place of
    torch's. `nn.Identity`, `nn.Flatten`, softmaxes and paddings stay. Methods of your classes that read the weight of a
    linear layer get torch's layout. The copy shares no memory with `module`. It keeps dtypes, devices, training mode,
    `requires_grad`, tied layers and tensors, and the ids that `module` has; where torch has one tensor for several of
    burnlike's (as gates), these get ids of their own. Gradients are not copied, nor attributes that you gave to layers
    of torch.

    Some layers are called in another way than their twins (`nn.LSTM`, `nn.MultiheadAttention`, ...). Such a layer is
    converted if it is `module` itself, and in `nn.Sequential` if only arguments beside the first differ. In a class of
    your own it is refused, unless `register_twin` names a twin of the class. An object whose `forward` is not that of
    its class is refused, too.

    Of a layer it gives burnlike's twin, else a module of the class of `module`. Of wrappers (DDP, torch.compile) the
    inner module is converted.

    Raises:
        NoCounterpartError: layers or options of theirs have no counterpart, or can't be replaced where they are; the
            message has all of them by path, and nothing was converted.
        ModuleTreeError: the module holds itself, is sharded by `fully_shard`, or has a field that can't be copied.
    """
    return _Conversion(module, FromTorch()).result()


def to_torch(module: nn.Module) -> Any:
    """The way back of `from_torch`: a copy of `module` whose burnlike layers are those of `torch.nn`.

    What `from_torch` made comes back equal to the bit, with the classes (`nn.BatchNorm1d`) and the buffers
    (`num_batches_tracked`) that only torch has. The ids of several tensors that become one of torch's are kept beside
    it, for `from_torch`. Errors are those of `from_torch`.
    """
    return _Conversion(module, ToTorch()).result()


def to_burn(
    module: nn.Module, example: Tensor | Sequence[Tensor] | Mapping[str, Tensor], out: str | os.PathLike[str]
) -> Path:
    """Write any module as a crate of Rust for Burn: `cd OUT && cargo run` compares it with the module.

    The struct has the layers that Burn has as fields, and a struct for each other module. Sizes of batches and
    sequences stay free. The module is written as it computes in evaluation mode.

    Args:
        example: what the module is called with: a tensor, several in order, or by name.
        out: the directory; it replaces nothing but an earlier export.

    Raises:
        NoCounterpartError: Burn has not something that the module does: it names the module, the operation and the line
            of the source. Nothing is written then.
        ArgumentError: the example does not fit the module's `forward`.
    """
    # The exporter is above this package, which may not import it.
    return resolve("burnlike.train.export.exporting:write_module")(module, example, out)


class _Conversion:
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
        # Tensors have their first paths as names in recipes, so that tied ones are made once.
        self._first_paths: dict[int, str] = {}
        self._sources: dict[str, Tensor] = {}
        # First path of a tensor -> the recipes with it that a place needs together -> the first such place.
        self._uses: dict[str, dict[frozenset[TensorRecipe], str]] = {}
        self._made: dict[TensorRecipe, Tensor] = {}

    @torch.inference_mode(False)  # else tensors made here could never be trained
    @torch.no_grad()
    def result(self) -> nn.Module:
        slots_of(self._root)  # raises for a module that holds itself
        self._find(self._root, "", "root")
        target = self._direction.target
        for first, other, *_ in (list(use.values()) for use in self._uses.values() if len(use) > 1):
            remedy = "untie them before, by a clone of the tensor"
            self._problems[other, f"it is tied to '{first}', but {target} has them in two layouts; {remedy}"] = None
        if self._problems:
            head = f"{type(self._root).__name__} can't be converted to {target}; nothing was converted"
            error = NoCounterpartError("\n".join([head, *(f"  {path}: {why}" for path, why in self._problems)]))
            error.problems = tuple(self._problems)
            raise error
        for address, (twin, pair) in self._twins.items():
            self._fill(twin)
            self._direction.finish(twin, pair)
            if address in self._in_programs:
                self._direction.show_to(self._programs, twin.counterpart)
        replaced: dict[int, Any] = {at: it.counterpart for at, (it, _) in self._twins.items() if at not in self._others}
        for name, tensor in self._sources.items():
            if (recipe := TensorRecipe((TensorSource(name),))) in self._made:
                replaced[id(tensor)] = self._made[recipe]
        copied = copy_with(self._root, replaced)
        for other, module in [(value, copied.get_submodule(value.path)) for value in self._others.values()]:
            other.take(module)
        return copied

    def _find(self, module: nn.Module, path: str, place: Place) -> None:
        """Build the twins of the layers in `module`; note what is wrong, and how tensors are used."""
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
            if kind not in _CONTAINERS and not issubclass(kind, _OF_ANY_LAYERS):
                self._programs[kind] = None
            self._find_inside(module, path, "sequential" if kind is nn.Sequential and place != "program" else "program")

    def _find_inside(self, module: nn.Module, path: str, place: Place, without: nn.Module | None = None) -> None:
        """Look into a module whose tensors stay; the tensors and modules of the layer `without` are left out."""
        if name := function_around(module, self._originals):
            reason = f"its {name} is a function around the original's layers, also in a copy"
            self._problem(path, module, f"{reason}; make it a method, or a functools.partial of one")
        passed = set() if without is None else {*without._modules, *without._parameters, *without._buffers}
        for name, tensor in tensors_held(module):
            if name not in passed:
                full = f"{path}.{name}" if path else name
                recipe = TensorRecipe((TensorSource(self._first_path(tensor, full)),))
                self._uses.setdefault(recipe.sources[0].name, {}).setdefault(frozenset({recipe}), full)
        for name, child in module._modules.items():
            if child is not None and name not in passed:
                self._find(child, f"{path}.{name}" if path else name, place)

    def _find_layer(self, layer: nn.Module, path: str, place: Place, pair: Counterpart) -> None:
        if pair.call not in _CALLED_ALIKE[place]:
            twin = self._direction.twin_name(pair)
            reason = f"{twin} is called in another way, or returns something else, than the code around it expects"
            remedy = f"convert this layer by itself, assign it, and change that code to {twin}'s call"
            self._problem(path, layer, f"{reason}; {remedy}")
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
        tensors = {name: tensor for name, tensor in tensors_of(layer).items() if names is None or name in names}
        try:
            twin = self._direction.twin(layer, pair, tensors)
            if other is not None:
                plain = self._direction.plain(twin.counterpart, pair)
                self._others[id(layer)] = OtherClass(path, other, layer, twin.counterpart, plain, pair.ignored)
                self._find_inside(layer, path, "program", without=plain)
        except BurnlikeError as error:
            self._problem(path, layer, str(error).removeprefix(f"{type(layer).__name__}: "))
            return
        self._twins[id(layer)] = twin, pair
        prefix = f"{path}." if path else ""
        first_paths = {name: self._first_path(tensor, f"{prefix}{name}") for name, tensor in tensors.items()}
        used: dict[str, set[TensorRecipe]] = {}
        for made_name, recipe in twin.recipes.items():
            names = [source.name for source in recipe.sources]
            self._check_parts(names, path, layer, tensors)
            recipe = TensorRecipe(tuple(replace(it, name=first_paths[it.name]) for it in recipe.sources), recipe.dim)
            twin.recipes[made_name] = recipe
            for name in names:
                used.setdefault(name, set()).add(recipe)
        for name, recipes in used.items():
            self._uses.setdefault(first_paths[name], {}).setdefault(frozenset(recipes), f"{prefix}{name}")

    def _first_path(self, tensor: Tensor, path: str) -> str:
        """The path where a tensor was found first, of one that is now found at `path`."""
        first = self._first_paths.setdefault(id(tensor), path)
        self._sources[first] = tensor
        return first

    def _check_parts(self, names: list[str], path: str, layer: nn.Module, tensors: Mapping[str, Tensor]) -> None:
        """See that tensors which become one can be one."""
        parts = [tensors[name] for name in names]
        for what, values in (
            ("are trained only in part (requires_grad)", {part.requires_grad for part in parts}),
            ("have different dtypes", {part.dtype for part in parts}),
            ("are on different devices", {part.device for part in parts}),
        ):
            if len(values) > 1:
                self._problem(path, layer, f"{', '.join(names)} are one tensor in {self._direction.target}, and {what}")

    def _problem(self, path: str, layer: nn.Module, reason: str) -> None:
        kind = own_class(layer).__name__
        self._problems[f"{path} ({kind})" if path else kind, reason] = None

    def _fill(self, twin: Twin) -> None:
        """Give the twin tensors with the values of the layer's, and its modes."""
        layer, counterpart = twin.layer, twin.counterpart
        weights = dict(counterpart.named_parameters(remove_duplicate=False))
        for name, recipe in twin.recipes.items():
            if recipe not in self._made:
                self._made[recipe] = self._filled(recipe, name in weights)
            setattr(*owner_of(counterpart, name), self._made[recipe])
        for part in counterpart.modules():
            part.training = layer.training

    def _filled(self, recipe: TensorRecipe, is_weight: bool) -> Tensor:
        tensors = {it.name: self._sources[it.name] for it in recipe.sources}
        for tensor in tensors.values():
            initialize_param(tensor)
        value = recipe.make({name: it.detach() for name, it in tensors.items()})
        if len(recipe.sources) == 1:
            source = recipe.sources[0]
            is_same = source.is_whole and not source.transposed
            # In the source's order of memory, such as channels_last, unless the values are laid out anew.
            value = value.clone(memory_format=torch.preserve_format if is_same else torch.contiguous_format)
        return nn.Parameter(value, self._sources[recipe.sources[0].name].requires_grad) if is_weight else value
