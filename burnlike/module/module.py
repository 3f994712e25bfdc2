"""Module, the base of burnlike's layers: an `nn.Module` with Burn's methods and fields of any type."""

import copy
from collections.abc import Callable
from os import PathLike
from typing import TYPE_CHECKING, Any, ClassVar, Self

import torch
from torch import Tensor, nn

from .._lazy import resolve
from .._torch_compat.modules import BUFFER_MARK, buffer_registration_hooks
from ..errors import ModuleTreeError
from ..tensor.core.base import TensorBase
from .attributes.plain_attributes import (
    USER_CONTAINER,
    MarkedConstant,
    apply_plain,
    begin_references,
    is_collection,
    is_item,
    load_items,
    refer,
    references_of,
    refresh_container,
    resolve_references,
    save_items,
)
from .groups.param_group import ParamGroup
from .identity.field_metadata import (
    ensure_id,
    fields_of,
    fields_with,
    hold_as,
    keep_id,
    meta_of,
    noting,
    put_field,
    remember_field,
    set_meta,
)
from .printing.display import Content, DisplaySettings, display
from .torch_objects.wrappers import own_class
from .transforms import mapping, placement
from .tree import walk
from .tree.param import Param, untracked
from .tree.traversal import slots_of

if TYPE_CHECKING:
    from ..record import LoadReport, Record, Recorder
    from ..record.nesting import RecordPart
    from ..record.precision import PrecisionRule
    from .adapters.configs import LoraConfig
    from .adapters.reparameterization import Reparameterization

_TORCH = (nn.Module, Tensor)
_PLAIN = frozenset({bool, int, float, str, type(None), torch.dtype, torch.device})


class Module(nn.Module):
    """An `nn.Module` with Burn's module methods. No `forward` is forced.

    A parameter or buffer gets its ParamId when its name first gets a tensor, and keeps it when the tensor is replaced.
    Fields are visited, displayed and saved in the order in which they were first assigned. A field may be

    * an `nn.Parameter`, a buffer, a module: as in torch. What is assigned to a buffer is detached: a state is never in
      the graph;
    * a `Param`, which declares a parameter with an id, a label, mappers, or lazy values;
    * a list, tuple or dict that holds any of these, or a container of the user's own (`ModuleContainer`): a child;
    * `burnlike.constant(module)`: a module that is only referred to;
    * a plain tensor, torch's or typed, also in a list, tuple or dict: it moves with `to`, and is neither visited nor
      saved;
    * an object of a type with `into_item` and `from_item` (see `burnlike.Record.of`): it is saved and loaded;
    * anything else: a constant. A deque, set, namespace or dataclass that holds a module or parameter which is in no
      other place of the tree raises ModuleTreeError.

    What a field is may change where torch allows it: a parameter, buffer or module may become None and back, a module
    another one or a list of them, anything a parameter. Assigning something else over a parameter, buffer or module
    raises torch's TypeError, and the field is as it was.

    Every function of `burnlike.module` and `burnlike.record` works on plain `nn.Module`s too, which get their ids at
    the first traversal.
    """

    # Attributes that refer upwards in the tree; copies treat them as constants.
    _burnlike_upward: ClassVar[tuple[str, ...]] = ()
    _burnlike_ordered = True

    # Methods that are the function of their name, applied to the module.
    params = walk.params
    param = mapping.param_at
    visit = mapping.visit
    if TYPE_CHECKING:
        # mypy sees Any where a class has a decorated function of another file.
        def map(self, mapper: mapping.Mapping, *rest: nn.Module) -> Self: ...
        def map_(self, mapper: mapping.Mapping, *rest: nn.Module) -> Self: ...
    else:
        map = mapping.map
        map_ = mapping.map_
    num_params = placement.num_params
    devices = placement.devices
    to_device = placement.to_device
    fork = placement.fork
    clone = placement.clone
    valid = placement.valid
    no_grad = placement.no_grad
    freeze = placement.freeze
    unfreeze = placement.unfreeze

    def __repr__(self) -> str:
        return display(self)

    def custom_settings(self) -> DisplaySettings | None:
        """The display settings of modules of this class, where the caller sets none; override it."""
        return None

    def custom_content(self, content: Content) -> Content | None:
        """The content that `display` shows; override it to fill and return `content`; None shows all fields.

        Example:
            >>> import burnlike.module
            >>> class Scale(burnlike.module.Module):
            ...     factor = 1.0
            ...     def custom_content(self, content):
            ...         return content.add("factor", self.factor)
            >>> Scale()
            Scale {
              factor: 1
            }
        """
        return None

    def apply_lora(self, config: "LoraConfig") -> Self:
        """Freeze the module and add trainable adapters to its matrices, in place; see `burnlike.module.apply_lora`."""
        from .adapters.layers import apply_lora  # layers of adapters are Modules

        return apply_lora(self, config)

    def apply_reparameterization(self, make: "Callable[[Param], Reparameterization | None]") -> Self:
        """Compute parameters by a reparameterization, in place; see `burnlike.module.apply_reparameterization`."""
        from .adapters.reparameterization import apply_reparameterization  # reparameterizations are Modules

        return apply_reparameterization(self, make)

    def materialize(self) -> Self:
        """Fold reparameterizations into their parameters, in place; see `burnlike.module.materialize`."""
        from .adapters.reparameterization import materialize  # as above

        return materialize(self)

    def into_record(self, group: ParamGroup | None = None) -> "Record":
        """The module's tensors, or those of `group`, as a Record; copies nothing."""
        return resolve("burnlike.record:Record").from_module(self, group)

    def save(
        self, path: str | PathLike[str], recorder: "Recorder | None" = None, precision: "PrecisionRule | None" = None
    ) -> str:
        """Write the module's record; by default in its own precision and the format that the extension of `path` says.

        See `burnlike.record.save`; returns the path written.
        """
        return resolve("burnlike.record:save")(self, path, precision, recorder)

    def load_record(self, record: "Record | RecordPart", **options: Any) -> "LoadReport":
        """Put the tensors of `record`, or a part of one, into this module; see `burnlike.record.load` for the rest."""
        return resolve("burnlike.record:Record").of(record).load_into(self, **options)

    def load(self, path: str | PathLike[str], **options: Any) -> "LoadReport":
        """Load the record at `path` into this module; see `burnlike.record.load` for the options and errors."""
        return resolve("burnlike.record:load")(self, path, **options)

    def __init_subclass__(cls, **options: Any) -> None:
        super().__init_subclass__(**options)
        # Of all bases: those of a mixin are as invisible as the class's own.
        for base in cls.__mro__:
            slots = base.__dict__.get("__slots__", ())
            slots = [slots] if isinstance(slots, str) else slots
            if names := [name for name in slots if name not in ("__dict__", "__weakref__")]:
                raise TypeError(
                    f"{cls.__name__} has {base.__name__}.__slots__ = {names}: fields in slots are seen by no traversal;"
                    " leave __slots__ out"
                )

    def __setattr__(self, name: str, value: Any) -> None:
        """Assign a field, by what `value` is:

        * a `Tensor` where there is a buffer of the name: `_set_buffer`, as a running mean gets one in each step;
        * a number, text, dtype, module, parameter or other tensor: as torch does it;
        * a `Param`: `_hold` registers its tensor, with the id and the rest;
        * a marked constant: the value goes into `__dict__`, past torch, so that a module in it is no child;
        * a typed tensor over a buffer: refused;
        * a list, tuple, dict or user's container with a part of a tree: the module that stands for it is assigned;
        * anything else: as torch does it.
        """
        # `training` is set by each train() and eval(), and is no field. torch.export gives a stand-in for a module that
        # module's `__dict__`.
        if name in ("training", "__dict__"):
            super().__setattr__(name, value)
            return
        # By exact types first: most assignments in a forward pass are of tensors and numbers.
        if type(value) is Tensor:
            if self._set_buffer(name, value):
                return
        elif type(value) not in _PLAIN and not isinstance(value, _TORCH):
            if isinstance(value, Param):
                self._hold(name, value)
                return
            if isinstance(value, MarkedConstant):
                # torch refuses to put anything but a module over a child, and a constant may take a child's place.
                for key in ("_parameters", "_buffers", "_modules"):
                    self.__dict__.get(key, {}).pop(name, None)
                self.__dict__.get("_non_persistent_buffers_set", set()).discard(name)
                self.__dict__[name] = value.value
                hold_as(self, name, "constant")
                return
            if isinstance(value, TensorBase) and name in self.__dict__.get("_buffers", ()):
                raise TypeError(f"cannot assign a burnlike Tensor as buffer '{name}'; assign its torch tensor, x.inner")
            value = self._as_module(name, value)
        super().__setattr__(name, value)
        self._note_field(name, value)
        if isinstance(value, nn.Module) and USER_CONTAINER in value.__dict__:
            value.attach(self, name)  # pyright: ignore[reportCallIssue]

    def _set_buffer(self, name: str, value: Tensor) -> bool:
        """Put `value` into the buffer `name`, if there is one; nn.Module would look at a signature each time."""
        parts = self.__dict__
        buffers = parts.get("_buffers", ())
        if hasattr(value, BUFFER_MARK):  # an nn.Buffer may take the place of a plain value
            if name in parts and name not in parts.get("_modules", ()):
                del parts[name]
            return False
        if name not in buffers or buffer_registration_hooks:
            return False
        if buffers[name] is None and name not in parts["_non_persistent_buffers_set"]:
            ensure_id(self, name)
        buffers[name] = untracked(value)
        return True

    def __delattr__(self, name: str) -> None:
        super().__delattr__(name)
        self.__dict__.pop(name, None)  # where the field of a module showed a user's container
        if name in fields_of(self):
            hold_as(self, name, None)

    def _note_field(self, name: str, value: Any = None) -> None:
        parts = self.__dict__
        modules = parts.get("_modules")
        # What is in `__dict__` would hide the child of that name, which torch looks up only if nothing is there.
        if modules is not None and name in modules and name in parts:
            del parts[name]
        holds = None
        if type(value) not in _PLAIN and not isinstance(value, _TORCH) and name in parts:
            loose = is_collection(value) and not isinstance(value, tuple)
            holds = "list" if loose else "item" if is_item(value) else None
        hold_as(self, name, holds)

    def _as_module(self, name: str, value: Any) -> Any:
        """The module that a list, tuple, dict or user's container becomes as a field, or the value itself."""
        from .containers.user_containers import as_module, check_hidden_parts  # containers are Modules

        if isinstance(getattr(type(self), name, None), property):
            return value
        where = f"{type(self).__name__}.{name}"
        field = as_module(value, where, self.__dict__.get("_modules", {}).get(name))
        if field is value:
            check_hidden_parts(value, where, self)
        return field

    def _hold(self, name: str, param: Param) -> None:
        """Make the declared parameter a field, with its id and what else is known about it."""
        tensor, parts = param.tensor, self.__dict__
        tensor = untracked(tensor) if param.kind == "state" else tensor
        if "_parameters" not in parts:
            raise AttributeError("cannot assign parameters before Module.__init__() call")
        if param.kind == "state":
            for group, part in (("_parameters", "parameter"), ("_modules", "child module")):
                if parts[group].get(name) is not None:
                    raise TypeError(f"cannot assign a Param of kind 'state' as {part} '{name}'; delete '{name}' before")
        before = fields_of(self).get(name)
        # Before the tensor is registered, which would draw an id for the name.
        keep_id(self, name, param.id, noting(param.kind, tensor))
        try:
            if param.kind == "weight":
                super().__setattr__(name, tensor)
            elif name in self._buffers:
                self._buffers[name] = tensor
                self._non_persistent_buffers_set.discard(name)
            else:
                for group in (parts, self._parameters, self._modules):
                    group.pop(name, None)
                self.register_buffer(name, tensor)
        except Exception:  # torch refused the name or the tensor
            put_field(self, name, before)
            raise
        set_meta(self, name, meta_of(*param.home))
        self._note_field(name)

    def register_parameter(self, name: str, param: nn.Parameter | None) -> None:
        """As `nn.Module.register_parameter`; the name gets its ParamId."""
        super().register_parameter(name, param)
        remember_field(self, name)
        if param is not None:
            ensure_id(self, name)

    def register_buffer(self, name: str, tensor: Tensor | None, persistent: bool = True) -> None:
        """As `nn.Module.register_buffer`, without the tensor's history; a persistent buffer's name gets its ParamId."""
        super().register_buffer(name, untracked(tensor) if isinstance(tensor, Tensor) else tensor, persistent)
        remember_field(self, name)
        if persistent and tensor is not None:
            ensure_id(self, name)

    def add_module(self, name: str, module: nn.Module | None) -> None:
        super().add_module(name, module)
        remember_field(self, name)

    def get_submodule(self, target: str) -> nn.Module:
        """As `nn.Module.get_submodule`, also of what users' containers hold."""
        name, _, rest = target.partition(".")
        child = self._modules.get(name)
        if not isinstance(child, Module):
            return super().get_submodule(target)
        # A program may have put a module into the container since; torch asks for it by its path.
        refresh_container(child)
        return child.get_submodule(rest)

    def _save_to_state_dict(self, destination: Any, prefix: str, keep_vars: bool) -> None:
        super()._save_to_state_dict(destination, prefix, keep_vars)
        save_items(self, destination, prefix)

    def _load_from_state_dict(self, *args: Any, **options: Any) -> None:
        # Before torch looks for its own: it would report the keys of items as unexpected.
        load_items(self, *args, **options)
        super()._load_from_state_dict(*args, **options)

    def train(self, mode: bool = True) -> Self:
        """As `nn.Module.train`; training mode also tracks again what `valid` stopped tracking."""
        before = self.training
        try:
            super().train(mode)
        except (RecursionError, ModuleTreeError) as error:
            self.training = before
            raise _cycle_of(self, error) from None
        if mode:
            _restore_intents(self)
        return self

    def requires_grad_(self, requires_grad: bool = True) -> Self:
        """As `nn.Module.requires_grad_`, of floats; it is also what `train` restores in a `valid` module."""
        placement.require_grad(self, requires_grad)
        return self

    def _apply(self, fn: Any, recurse: bool = True) -> Any:
        try:
            super()._apply(fn, recurse)
        except (RecursionError, ModuleTreeError) as error:
            raise _cycle_of(self, error) from None
        apply_plain(self, fn)
        return self

    def __deepcopy__(self, memo: dict[int, Any]) -> Any:
        """Copy the tree with its ids; constants are referred to, not copied, unless they are part of what is copied."""
        new = type(self).__new__(type(self))
        memo[id(self)] = new
        outermost = begin_references(memo)
        cls: Any = own_class(self)  # a parametrized class refuses to give its state
        state = dict(cls.__getstate__(self))
        references = {name: state.pop(name) for name in references_of(self) if name in state}
        new.__setstate__(copy.deepcopy(state, memo))
        for name, value in references.items():
            new.__dict__[name] = value
            refer(memo, new.__dict__, name)
        if outermost:
            resolve_references(memo)
        return new


def _cycle_of(module: nn.Module, error: Exception) -> Exception:
    """An error that shows the cycle in `module`, to raise in place of `error`, if a cycle is the cause."""
    try:
        slots_of(module)
    except ModuleTreeError as cycle:
        return cycle
    except RecursionError:  # still too deep in it: the callers have more room
        pass
    return error


def _restore_intents(module: nn.Module) -> None:
    """Track again what is meant to be trained in `module` and the plain modules in it; a Module sees to its own."""
    if any(meta_of(module, name).trainable is not None for name in fields_with(module, "meta")):
        placement.restore_intents(module)
    for child in module._modules.values():
        if child is not None and not isinstance(child, Module):
            _restore_intents(child)
