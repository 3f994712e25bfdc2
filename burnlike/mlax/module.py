"""MLAX's Module: its attributes are Parameter handles, and modules in it are its children."""

import copy
import functools
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from types import FunctionType, MethodType
from typing import Any, Self, TypeVar

import torch
from torch import Tensor, nn
from torch.nn.parameter import is_lazy as is_shapeless

from .._torch_compat import pytree
from ..errors import ArgumentError, StructureMismatchError
from ..module.attributes.plain_attributes import MarkedConstant
from ..module.containers.user_containers import holds_part, is_container
from ..module.identity.field_metadata import fields_of, fields_with, set_meta
from ..module.module import Module as BaseModule
from ..module.torch_objects.lazy_parameter import is_lazy
from ..module.transforms import placement
from ..module.tree.param import Param
from . import applying, static_part, transforms
from .data import DataTree, Unbound, share
from .guards import guard_holes, guarding
from .parameter import Parameter
from .pytrees import register_handle
from .static_part import check_same_structure, static_key, update_references
from .tensor_leaves import Leaf, leaves, with_detached_leaves

M = TypeVar("M", bound=nn.Module)
F = TypeVar("F", bound=Callable[..., Any])
_Slots = list[tuple[dict[str, Any], str]]


def forking(function: F) -> F:
    """`function`, a method that changes a module in place, so that views which share its tensors keep theirs.

    The module first gets parameters of its own, which share memory with those it had.
    """

    @functools.wraps(function)
    def forked(self: nn.Module, *args: Any, **options: Any) -> nn.Module:
        for tensor, slots in _tied(self):
            if is_lazy(tensor):
                _put(slots, copy.deepcopy(tensor))
            elif type(tensor) is nn.Parameter:
                _put(slots, nn.Parameter(tensor.detach(), tensor.requires_grad))
        update_references(self.modules())
        return function(self, *args, **options)

    return forked  # pyright: ignore[reportReturnType]


def converting(method: F) -> F:
    """`method`, one of `nn.Module` that calls `_apply`, for modules whose views keep their tensors."""

    @functools.wraps(method)
    def converted(self: nn.Module, *args: Any, **options: Any) -> nn.Module:
        return _apart(self, lambda module: method(module, *args, **options))

    return converted  # pyright: ignore[reportReturnType]


def _apart(module: M, convert: Callable[[nn.Module], object]) -> M:
    """Let `convert` make new parameters; tied ones stay tied.

    Those that the conversion leaves as they are stay the same objects, so that optimizers keep them.
    """
    before = list(_tied(module))
    lazy = nn.Module()  # torch can't make new ones of these: copies are converted in place
    for index, (tensor, _) in enumerate(before):
        if is_lazy(tensor) or isinstance(tensor, nn.UninitializedParameter):
            lazy.register_parameter(str(index), copy.deepcopy(tensor))  # pyright: ignore[reportArgumentType]
    convert(lazy)
    for index in lazy._parameters:
        _put(before[int(index)][1], None)
    # With this flag torch makes new parameters; else it writes into those that are there, which views share.
    kept = torch.__future__.get_overwrite_module_params_on_conversion()
    torch.__future__.set_overwrite_module_params_on_conversion(True)
    try:
        convert(module)
    finally:
        torch.__future__.set_overwrite_module_params_on_conversion(kept)
        for index, tensor in lazy._parameters.items():
            _put(before[int(index)][1], tensor)
    for tensor, slots in before:
        group, name = slots[0]
        new = group[name]
        _put(slots, tensor if new is not None and _unchanged(tensor, new) else new)
    update_references(module.modules())
    return module


def _put(slots: _Slots, tensor: Tensor | None) -> None:
    for group, name in slots:
        group[name] = tensor


def _unchanged(old: Tensor, new: Tensor) -> bool:
    if is_lazy(old) or is_shapeless(old):
        return type(old) is type(new) and (old.dtype, old.device) == (new.dtype, new.device)
    return (
        (old.dtype, old.device, old.shape) == (new.dtype, new.device, new.shape)
        and not old.is_meta
        and old.data_ptr() == new.data_ptr()
    )


def _tied(module: nn.Module) -> Iterator[tuple[Tensor, _Slots]]:
    """Each distinct tensor of a tree with the places that hold it."""
    slots_of: dict[int, tuple[Tensor, _Slots]] = {}
    for group in (group for part in module.modules() for group in (part._parameters, part._buffers)):
        for name, tensor in group.items():
            if tensor is not None:
                slots_of.setdefault(id(tensor), (tensor, []))[1].append((group, name))
    return iter(slots_of.values())


class Module(BaseModule):
    """A `burnlike.Module` with MLAX's semantics, for code that computes with modules as values.

    * An attribute that was assigned a `Parameter` is a handle: `self.w.data` is the tensor, and assigning to it
      replaces the tensor in this module alone. Handles on one attribute are equal; the tensors themselves lie in
      torch's own places, so optimizers, `state_dict` and DDP see ordinary parameters and buffers.
    * `filter`, `partition` and `split` give views that share tensors, with holes; `combine` puts them together.
    * `map`, `to`, `requires_grad_` and `freeze` give new tensors to the module they are called on: views of it keep
      the old ones.
    * A subclass is a pytree by itself, its tensors the leaves: `torch.func` and tree functions take and give instances.
    * All other attributes are hyperparameters; lists, tuples and dicts that hold modules or Parameters are modules.
    * `forward` returns `y`, or `(y, self)`; `apply` gives `(y, module)` for both.

    `super().__init__()` need not be called.
    """

    _forward_arguments: tuple[tuple[str, ...], bool] | None = None

    def __new__(cls, *args: Any, **options: Any) -> Self:
        """An instance that has torch's fields, whether or not `__init__` calls the base's."""
        module = object.__new__(cls)
        if not torch.compiler.is_compiling():  # where only views are made, which get the fields of their originals
            nn.Module.__init__(module)
        return module

    def __init__(self, *args: Any, **options: Any) -> None:
        if not fields_of(self):  # torch would drop what was assigned before
            super().__init__(*args, **options)

    def __init_subclass__(cls, **options: Any) -> None:
        super().__init_subclass__(**options)
        if "__call__" in cls.__dict__:
            cls.__call__ = guarding(cls.__call__)
        cls._forward_arguments = applying.arguments_of(cls)
        if not any(base.__name__ == "FSDPModule" for base in cls.__mro__):  # whose instances can't be copied
            register_pytree(cls)

    def __getattr__(self, name: str) -> Any:
        parts = self.__dict__
        if "_parameters" not in parts:
            return super().__getattr__(name)
        if name in parts["_parameters"]:
            if parts["_parameters"][name] is None and not static_part.awaits(self, name):
                return None
            return Parameter.at(((self, name),))
        if name in parts["_buffers"] and name not in parts["_non_persistent_buffers_set"]:
            if parts["_buffers"][name] is None and not static_part.awaits(self, name):
                return None
            return Parameter.at(((self, name),))
        if isinstance(parts["_modules"].get(name), DataTree):
            return Parameter.at(((self, name),)) if torch.compiler.is_compiling() else TreeParameter.on(self, name)
        return super().__getattr__(name)

    def __setattr__(self, name: str, value: Any) -> None:
        if name == "__dict__":  # as proxies of torch do
            object.__setattr__(self, name, value)
        elif isinstance(value, Parameter):
            self._take(name, value)
        elif isinstance(value, MarkedConstant | nn.Module) or name == "training" or isinstance(value, nn.Parameter):
            self._replace_by(name, value)
            super().__setattr__(name, value)
        elif value is None and (self._holds(name) or not self._is_torchs(name)):
            self._replace_by(name, value)
            self.__dict__[name] = None
            self._note_field(name)
        elif self._holds(name) and not isinstance(value, Param) and not self.__dict__.get("_loading"):
            raise TypeError(
                f"'{name}' of {type(self).__name__} is a Parameter, got {type(value).__name__}: write"
                f" self.{name}.data = ..., or assign a Parameter"
            )
        else:
            super().__setattr__(name, value)

    def _holds(self, name: str) -> bool:
        parts = self.__dict__
        if "_parameters" not in parts or name in parts["_non_persistent_buffers_set"]:
            return False
        held = name in parts["_parameters"] or name in parts["_buffers"]
        return held or isinstance(parts["_modules"].get(name), DataTree)

    def _is_torchs(self, name: str) -> bool:
        """True if `name` is a submodule or a buffer that is not saved: None then leaves the place empty."""
        return name in self.__dict__.get("_modules", ()) or name in self.__dict__.get("_buffers", ())

    def _as_module(self, name: str, value: Any) -> Any:
        if isinstance(value, list | tuple | dict) and holds_part(value) and not is_container(value):
            from .sequence import as_items

            return as_items(value, f"{type(self).__name__}.{name}")
        return super()._as_module(name, value)

    def _replace_by(self, name: str, value: Any) -> None:
        """Take out a Parameter that is to be replaced by something else."""
        if self._holds(name) and not (isinstance(value, nn.Parameter) and name in self._parameters):
            for group in (self._parameters, self._buffers, self._modules):
                group.pop(name, None)
        if isinstance(value, nn.Parameter) and name in fields_with(self, "meta"):
            set_meta(self, name, trainable=None, hole=False)

    def _take(self, name: str, param: Parameter) -> None:
        """Make `param` a field: an attribute it has already is then tied to this one."""
        owner = param.owners[0]
        if owner == (self, name):
            return
        # None or a constant of this name would hide the parameter: Python looks there first.
        self.__dict__.pop(name, None)
        share(*owner, self, name)
        if param.is_hole:
            guard_holes(self)
        self._note_field(name)
        is_tie = not isinstance(owner[0], Unbound)
        if is_tie:
            set_meta(self, name, tied=True)
        param.bind((*(param.owners if is_tie else ()), (self, name)))

    def _load_from_state_dict(self, *args: Any, **options: Any) -> None:
        self.__dict__["_loading"] = True  # load_state_dict(assign=True) assigns tensors
        try:
            super()._load_from_state_dict(*args, **options)
        finally:
            del self.__dict__["_loading"]

    def get_parameter(self, target: str) -> nn.Parameter:
        """As `nn.Module.get_parameter` and `get_buffer`: the tensor, not the handle."""
        path, _, name = target.rpartition(".")
        tensor = self.get_submodule(path)._parameters.get(name)
        return super().get_parameter(target) if tensor is None else tensor

    def get_buffer(self, target: str) -> torch.Tensor:
        path, _, name = target.rpartition(".")
        tensor = self.get_submodule(path)._buffers.get(name)
        return super().get_buffer(target) if tensor is None else tensor

    # Not `_apply`, by which they reach the children: a parent of another class would have each child untie its tensors.
    to, to_empty, type = converting(nn.Module.to), converting(nn.Module.to_empty), converting(nn.Module.type)
    float, double = converting(nn.Module.float), converting(nn.Module.double)
    half, bfloat16 = converting(nn.Module.half), converting(nn.Module.bfloat16)
    cpu, cuda = converting(nn.Module.cpu), converting(nn.Module.cuda)
    xpu, mtia = converting(nn.Module.xpu), converting(nn.Module.mtia)
    share_memory = converting(nn.Module.share_memory)

    def requires_grad_(self, requires_grad: bool = True) -> Self:
        """As `nn.Module.requires_grad_`; views that share the tensors keep theirs."""
        return self.unfreeze() if requires_grad else self.freeze()

    no_grad, freeze, unfreeze = forking(placement.no_grad), forking(placement.freeze), forking(placement.unfreeze)

    leaves = static_part.leaves
    map = transforms.map  # pyright: ignore[reportAssignmentType]
    filter = transforms.filter
    partition = transforms.partition
    split = transforms.split
    combine = transforms.combine
    overlay = transforms.overlay

    def apply(  # pyright: ignore[reportIncompatibleMethodOverride]
        self, x: Any, rng: Any = None, inference_mode: bool | None = None
    ) -> Any:
        """Compute purely: `(y, module)`; see `burnlike.mlax.apply`. A function is called with each module, as in
        torch.
        """
        if isinstance(x, FunctionType | MethodType | partial):
            return super().apply(x)
        return applying.apply(self, x, rng, inference_mode)

    def static_key(self) -> tuple[Any, ...]:
        """The static part of the tree as a key; see `burnlike.mlax.static_key`."""
        return static_key(self)


class TreeParameter(Parameter, nn.Module):  # pyright: ignore[reportIncompatibleMethodOverride]
    """The handle on several tensors as an attribute: also the module that holds them, which torch finds by name.

    `functional_call`, `get_parameter` and other tools of torch reach `c.0` through the attribute `c`.
    """

    __getattr__ = nn.Module.__getattr__  # pyright: ignore[reportAssignmentType]
    __setattr__ = object.__setattr__  # pyright: ignore[reportAssignmentType]

    @classmethod
    def on(cls, owner: nn.Module, name: str) -> "TreeParameter":
        handle = object.__new__(cls)
        handle.__dict__ = owner._modules[name].__dict__  # pyright: ignore[reportOptionalMemberAccess]
        handle.bind(((owner, name),))
        return handle


register_handle(TreeParameter, Parameter)


def register_pytree(cls: type[M]) -> type[M]:
    """Let instances of `cls` be pytrees: `torch.func.grad`, `vmap` and tree functions then take them directly.

    The leaves are the parameters and buffers; holes contribute none. It is for classes whose instances are the
    arguments; a subclass is to be registered too. Once registered, every library that maps over pytrees (activation
    checkpointing, hooks of sharded models) rebuilds the instances that it is given. `torch.compile` and `burnlike.func`
    take modules without it.

    The functions of torch give modules whose weights are plain tensors, which may be part of autograd's graph; see
    `burnlike.func.restore_parameters`. Tree functions outside of transforms give parameters, cut from the graph.
    Non-persistent buffers are no leaves, but for those of `burnlike.func.stack`, which have the leading dimension too.

    It returns the class, as a decorator does; a second call has no effect. Raises ArgumentError: another library has
    registered the class.

    Example:
        >>> import torch, burnlike as bl
        >>> @bl.func.register_pytree
        ... class Scale(bl.Module):
        ...     def __init__(self):
        ...         super().__init__()
        ...         self.factor = bl.Param.from_data([2.0])
        ...     def forward(self, x):
        ...         return x * self.factor
        >>> torch.func.grad(lambda scale: scale(torch.ones(3)).sum())(Scale()).factor.tolist()
        [3.0]
    """
    if not (isinstance(cls, type) and issubclass(cls, nn.Module)):
        raise TypeError(f"register_pytree: expected a class of modules, got {cls!r}")
    node = pytree.SUPPORTED_NODES.get(cls)
    if node is not None:
        if node.flatten_fn is _flatten:
            return cls
        raise ArgumentError(f"register_pytree: {cls.__name__} is registered as a pytree by another library")
    pytree.register_pytree_node(
        cls,
        _flatten,
        _unflatten,
        serialized_type_name=f"{cls.__module__}.{cls.__qualname__}",
        flatten_with_keys_fn=_flatten_with_keys,
    )
    return cls


@dataclass(slots=True, eq=False, repr=False)
class Structure:
    """A module without its leaves; equal for modules that can be mapped together."""

    module: nn.Module  # one of this structure; its tensors are not used, but for the constants
    leaves: list[Leaf]

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Structure) or [it.path for it in self.leaves] != [it.path for it in other.leaves]:
            return False
        try:
            if self is not other:
                check_same_structure(self.module, other.module)
        except StructureMismatchError:
            return False
        return True

    def __hash__(self) -> int:
        return hash((type(self.module), len(self.leaves)))

    def __repr__(self) -> str:
        return f"Structure({type(self.module).__name__}, {[leaf.path for leaf in self.leaves]})"


@dataclass(slots=True, eq=False)
class LeavesOf:
    """The result of a tree function for a module when its results are not tensors: numbers, shapes, None."""

    structure: Structure
    values: list[Any]  # one for each leaf


def _flatten(module: nn.Module) -> tuple[list[Tensor], Structure]:
    stacked = "_burnlike_stack_members" in module.__dict__
    module_leaves = [leaf for leaf in leaves(module) if leaf.saved or stacked]
    return [leaf.tensor for leaf in module_leaves], Structure(module, module_leaves)


def _flatten_with_keys(module: nn.Module) -> tuple[list[tuple[Any, Tensor]], Structure]:
    _, structure = _flatten(module)
    return [(pytree.MappingKey(leaf.path), leaf.tensor) for leaf in structure.leaves], structure


def _unflatten(values: Any, structure: Structure) -> Any:
    values = list(values)
    if not all(isinstance(value, Tensor) for value in values):
        return LeavesOf(structure, values)
    value_of = {leaf.tensor: value for leaf, value in zip(structure.leaves, values, strict=True)}
    return with_detached_leaves(structure.module, lambda tensor: value_of.get(tensor, tensor))


pytree.register_pytree_node(LeavesOf, lambda held: (held.values, held.structure), _unflatten)
