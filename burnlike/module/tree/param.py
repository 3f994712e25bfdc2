"""Param, the handle of one tensor of a module tree, for visitors, records and optimizers; and checks of its values."""

import weakref
from collections.abc import Sequence
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn

from ..._torch_compat.fsdp import MANAGED, reshard, sharded, take_over
from ..._torch_compat.tensors import shares_memory
from ...backend.tables.creation import TorchCreationOps
from ...backend.torch_backend import find_device
from ...errors import AutodiffError, DTypeError, ModuleTreeError
from ...tensor.core.base import TensorBase
from ...tensor.host.data import TensorData
from ..attributes.plain_attributes import refresh_container
from ..identity.field_metadata import (
    Kind,
    Mapper,
    Meta,
    ensure_id,
    group_of,
    keep_id,
    meta_of,
    noted_id,
    noting,
    place_id,
    set_meta,
    shape_text,
)
from ..identity.param_id import ParamId
from ..torch_objects.lazy_parameter import Init, LazyCell, LazyParameter, initialize_param, is_lazy, mapped_lazy
from ..torch_objects.wrappers import is_distributed, reparameterization_of

AnyTensor = Tensor | TensorBase
"""A tensor of torch or a typed one."""
IS_GRADIENT = "_burnlike_is_gradient"
"""An attribute of the parameters of a module that is the gradient of another one."""


class Mappers(NamedTuple):
    """Functions between the form of records and that of the module; None where the forms are the same."""

    load: Mapper | None
    save: Mapper | None


class Param:
    """One parameter or persistent buffer of a module tree, or one that no module has yet.

    The handle holds no tensor: it reads the module each time, so it stays right when the tensor is replaced. One that
    is made by `from_tensor`, `from_data`, `uninitialized` or `running` waits to become a module's: assign it to an
    attribute of a `burnlike.Module`, where `module.name` then is the torch parameter or buffer itself.

    Attributes:
        id: the identity, kept when the tensor is replaced.
        path: canonical dotted path, without the names that wrappers put in (`_orig_mod`, DDP's `module`).
        kind: `weight` for an `nn.Parameter`, `state` for a persistent buffer (running statistics, whole numbers).
        aliases: the other canonical paths of a tied tensor.
    """

    __slots__ = ("_home", "_module", "_name", "_others", "aliases", "id", "kind", "path")

    def __init__(
        self,
        param_id: ParamId,
        path: str,
        kind: Kind,
        owners: tuple[tuple[nn.Module, str], ...],
        aliases: tuple[str, ...] = (),
        home: tuple[nn.Module, str] | None = None,
    ) -> None:
        """For the traversals; `home` is where id and intent are kept, by default the first owner."""
        self.id = param_id
        self.path = path
        self.kind: Kind = kind
        self.aliases = aliases
        # In slots of their own rather than a tuple, since traversals make many: see KeptParam.strong.
        (self._module, self._name), self._others = owners[0], owners[1:]
        self._home = home

    @classmethod
    def from_tensor(
        cls, tensor: AnyTensor, *, trainable: bool | None = None, name: str | None = None, id: ParamId | None = None
    ) -> "Param":
        """A parameter that holds `tensor`, sharing its values. Whole numbers and bools become a `state`.

        Args:
            trainable: whether it is optimized; None is the flag of an `nn.Parameter`, and True for other floats.
            name: a label for predicates.
            id: its identity; None draws one.

        Raises:
            AutodiffError: the tensor was computed from others that require grad.
            DTypeError: whole numbers or bools are to be trainable.
        """
        held = _torch_tensor(tensor)
        if not held.is_leaf:
            raise AutodiffError("a parameter can't hold a tensor that was computed from others: give tensor.detach()")
        if not differentiable(held):
            if trainable:
                raise DTypeError(f"a parameter of {held.dtype} can't be trainable: use trainable=False, or floats")
        elif not isinstance(held, nn.Parameter):
            held = nn.Parameter(held.detach(), requires_grad=trainable is not False)
        elif trainable is not None:
            held.requires_grad_(trainable)
        return cls._made(held, name, id)

    @classmethod
    def from_data(cls, data: Any, device: torch.device | str | None = None, **options: Any) -> "Param":
        """As `from_tensor`, from a copy of numbers in lists, a NumPy array, TensorData or a tensor, in their dtype."""
        return cls.from_tensor(_values_of(data, device), **options)

    @classmethod
    def uninitialized(
        cls,
        init: Init,
        shape: Sequence[int],
        *,
        device: torch.device | str | None = None,
        dtype: torch.dtype | None = None,
        requires_grad: bool = True,
        name: str | None = None,
        id: ParamId | None = None,
    ) -> "Param":
        """A lazy parameter: `init(device)` runs once, at its first use, or never if values are loaded before.

        What a lazy parameter answers before is told at `LazyParameter`. `shape` is known at once; what `init` gives is
        converted to `dtype`, by default torch's default; DTypeError if it is not floating-point. For the others see
        `from_tensor`.
        """
        if not callable(init):
            raise TypeError(f"expected a function of the device that makes the values, got {type(init).__name__}")
        dtype = torch.get_default_dtype() if dtype is None else dtype
        if not (dtype.is_floating_point or dtype.is_complex):
            raise DTypeError(f"a lazy parameter holds floating-point numbers, got {dtype}; use Param.from_data")
        return cls._made(LazyParameter(LazyCell(init), shape, find_device(device), dtype, requires_grad), name, id)

    @classmethod
    def running(cls, tensor: AnyTensor, *, name: str | None = None, id: ParamId | None = None) -> "Param":
        """A running statistic: saved and loaded, never optimized (Burn's RunningState)."""
        return cls._made(_torch_tensor(tensor).detach(), name, id)

    @classmethod
    def _made(cls, tensor: Tensor, name: str | None, param_id: ParamId | None) -> "Param":
        kind: Kind = "weight" if isinstance(tensor, nn.Parameter) and differentiable(tensor) else "state"
        meta = Meta(name=name, own_id=param_id is not None)
        if param_id is None:
            noted = noted_id(tensor) if kind == "weight" else None
            param_id = noted or ParamId.new(f"Param {name} {shape_text(tensor)}")
        return cls._unbound(tensor, kind, param_id, meta)

    @classmethod
    def of(cls, module: nn.Module, name: str, kind: Kind) -> "Param":
        """A parameter of its own that shares tensor, id and all else with the field `name` of `module`."""
        tensor = sharded(module, name, group_of(module, kind)[name])
        ensure_id(module, name)
        param_id = place_id(module, name)
        assert param_id is not None
        return cls._unbound(tensor, kind, param_id, meta_of(module, name), name)

    @classmethod
    def _unbound(cls, tensor: Tensor, kind: Kind, param_id: ParamId, meta: Meta, path: str = "") -> "Param":
        holder = nn.Module()
        group_of(holder, kind)["value"] = tensor
        keep_id(holder, "value", param_id, noting(kind, tensor))
        set_meta(holder, "value", meta)
        return Param(param_id, path, kind, ((holder, "value"),))

    def _with(self, tensor: Tensor) -> "Param":
        return self._unbound(tensor, self.kind, self.id, meta_of(*self.home), self.path)

    @property
    def owners(self) -> tuple[tuple[nn.Module, str], ...]:
        """Each (module, attribute name) that holds this tensor, the first one first."""
        return ((self._module, self._name), *self._others)

    @property
    def home(self) -> tuple[nn.Module, str]:
        """The module and name that keep id and metadata."""
        return self._home or (self._module, self._name)

    @property
    def tensor(self) -> Tensor:
        """The tensor as it is now; that of a lazy parameter initializes itself when torch computes with it."""
        shown = group_of(self._module, self.kind)[self._name]
        return sharded(self._module, self._name, shown) if MANAGED in self._module.__dict__ else shown

    @property
    def name(self) -> str | None:
        return meta_of(*self.home).name

    @property
    def trainable(self) -> bool:
        """True if an optimizer may change it; `valid()` does not change this, though it turns `requires_grad` off."""
        if self.kind != "weight":
            return False
        intent = meta_of(*self.home).trainable
        return self.tensor.requires_grad if intent is None else intent

    @property
    def requires_grad(self) -> bool:
        return self.tensor.requires_grad

    def val(self) -> Tensor:
        """The value that the module computes with: initialized, and with a reparameterization such as LoRA applied."""
        initialize_param(self.tensor)
        return self.tensor if self.home in self.owners else getattr(*self.home)

    def base(self) -> Tensor:
        """The tensor itself, initialized, without a reparameterization."""
        initialize_param(self.tensor)
        return self.tensor

    def reparameterization(self) -> nn.Module | None:
        return reparameterization_of(*self.home)

    def is_initialized(self) -> bool:
        return not is_lazy(self.tensor)

    def lazy_shape(self) -> torch.Size:
        return self.tensor.shape

    def lazy_device(self) -> torch.device:
        return self.tensor.device

    @property
    def mappers(self) -> Mappers:
        """The functions that convert values between the form of records and that of the module."""
        meta = meta_of(*self.home)
        return Mappers(meta.load_mapper, meta.save_mapper)

    def load_mapper(self, mapper: Mapper | None) -> "Param":
        """Set the function from the form of records to that of the module; returns the handle."""
        return self._set(load_mapper=mapper)

    def save_mapper(self, mapper: Mapper | None) -> "Param":
        """Set the function from the module's form (its `state_dict`'s) to that of records; returns the handle."""
        return self._set(save_mapper=mapper)

    def init_mapper(self, mapper: Mapper) -> "Param":
        """Put what `mapper` makes of the values in their place, now, or when a lazy parameter is initialized; returns
        the handle.

        For use while a module is built: the torch parameter is another object afterwards, of another shape if the
        mapper says so, and a lazy one starts independently of its clones. TypeError if it gave no tensor; nothing is
        changed.
        """
        tensor = self.tensor
        lazy = isinstance(tensor, LazyParameter)
        self.assign(mapped_lazy(tensor, mapper) if lazy else _mapped(self.base().detach(), mapper, self))
        return self

    def with_name(self, name: str | None) -> "Param":
        return self._set(name=name)

    def map(self, mapper: Mapper) -> "Param":
        """A parameter of its own of what `mapper` makes of `base()`, with the same id, label, mappers and intent."""
        values = _mapped(self.base().detach(), mapper, self)
        return self._with(nn.Parameter(values, self.requires_grad) if self.kind == "weight" else values)

    def set_require_grad(self, require_grad: bool) -> "Param":
        """Set whether it is to be trained; returns the handle. A `state` stays as it is, and so do whole numbers.

        The tensor follows at once, but while `valid()` keeps it from requiring grad: then `train()` has it follow.
        """
        if self.kind != "weight" or not differentiable(self.tensor):
            return self
        if meta_of(*self.home).trainable is not None:
            return self._set(trainable=require_grad)
        track(self.tensor, require_grad)
        return self

    def valid(self) -> "Param":
        """A parameter of its own that shares the memory and does not require grad; its `train` restores the intent."""
        if self.kind != "weight":
            return self._with(self.tensor)
        return self._with(nn.Parameter(self.base().detach(), requires_grad=False))._set(trainable=self.trainable)

    def train(self) -> "Param":
        """Let it require grad, in place, if it is meant to be trained; returns the handle."""
        intent = meta_of(*self.home).trainable
        if intent is not None:
            track(self.tensor, intent)
            self._set(trainable=None)
        return self

    def no_grad(self) -> "Param":
        """Freeze it for good, in place: `train` does not undo it. Returns the handle."""
        return self.set_require_grad(False)

    def assign(self, tensor: Tensor) -> None:
        """Put `tensor` in place of the present one, at every path of a tied tensor; id and trainability stay."""
        if is_distributed(self.tensor) and not is_distributed(tensor):
            raise ModuleTreeError(
                f"'{self.path}' is divided among ranks: expected a DTensor in its place, got a {type(tensor).__name__};"
                " copy values into param.tensor, or use map_ or a record"
            )
        new, tracked = tensor.detach() if self.kind == "state" else tensor, self.requires_grad
        if self.kind == "weight" and not is_lazy(tensor):
            new = nn.Parameter(tensor.detach(), requires_grad=False)
        # A state that requires grad without being a leaf is one that torch has tracked, not one that is meant to be.
        self.put(new.requires_grad_(tracked and (self.kind == "weight" or self.tensor.is_leaf)))

    def put(self, tensor: Tensor) -> None:
        reshard([self.tensor])
        for module, name in self.owners:
            group_of(module, self.kind)[name] = tensor
            refresh_container(module)
        take_over(*self.owners[0])

    def adopt(self, param_id: ParamId) -> None:
        """Give the parameter another id, that of the record from which it is loaded."""
        self.id = param_id
        for module, name in (self.home, *self.owners[1:]):
            keep_id(module, name, param_id, noting(self.kind, self.tensor))
            if meta_of(module, name).own_id:  # else the id that the program gave would contradict it
                set_meta(module, name, own_id=False)

    def _set(self, **changes: object) -> "Param":
        set_meta(*self.home, **changes)
        return self

    def __repr__(self) -> str:
        tensor, told = self.tensor, f"trainable={self.trainable}, id={self.id}"
        return f"Param('{self.path}', {self.kind}, {list(tensor.shape)}, {tensor.dtype}, {told})"


class KeptParam(Param):
    """A Param of a traversal that is kept: it holds the modules weakly, so that what is removed is free at once."""

    __slots__ = ()

    def __init__(
        self, param_id: ParamId, path: str, kind: Kind, owner: nn.Module, name: str, home: tuple[nn.Module, str]
    ) -> None:
        self.id = param_id
        self.path = path
        self.kind = kind
        self.aliases = ()
        self._module: Any = weakref.ref(owner)
        self._name = name
        self._others: Any = ()
        module, home_name = home
        self._home: Any = None if module is owner and home_name == name else (weakref.ref(module), home_name)

    def add(self, owner: nn.Module, name: str, path: str) -> None:
        self._others = (*self._others, (weakref.ref(owner), name))
        self.aliases = (*self.aliases, path)

    @property
    def owners(self) -> tuple[tuple[nn.Module, str], ...]:
        return tuple([(self._alive(module), name) for module, name in ((self._module, self._name), *self._others)])

    @property
    def home(self) -> tuple[nn.Module, str]:
        module, name = self._home or (self._module, self._name)
        return self._alive(module), name

    @property
    def tensor(self) -> Tensor:
        """The tensor as it is now; quicker than by `owners`, since optimizers ask for it at each step."""
        module = self._module() or self._alive(self._module)
        # group_of, written out
        shown: Any = (module._parameters if self.kind == "weight" else module._buffers)[self._name]
        return sharded(module, self._name, shown) if MANAGED in module.__dict__ else shown

    def _alive(self, module: Any) -> nn.Module:
        alive = module()
        if alive is None:
            raise ModuleTreeError(f"the module that held '{self.path}' is gone; traverse the tree again")
        return alive

    def strong(self) -> Param:
        """A Param like this one that holds its modules."""
        # Without Param's `__init__`, as there are many.
        param = object.__new__(Param)
        param.id, param.path, param.kind, param.aliases = self.id, self.path, self.kind, self.aliases
        param._module, param._name = self._alive(self._module), self._name
        param._others = self.owners[1:] if self._others else ()
        param._home = self.home if self._home else None
        return param


def differentiable(tensor: Tensor) -> bool:
    """True for a tensor that can be trained."""
    return tensor.is_floating_point() or tensor.is_complex()


def _torch_tensor(tensor: AnyTensor) -> Tensor:
    inner = tensor.inner if isinstance(tensor, TensorBase) else tensor
    if not isinstance(inner, Tensor):
        raise TypeError(f"expected a torch.Tensor, got {type(tensor).__name__}; for numbers use Param.from_data")
    return inner


def _values_of(data: Any, device: torch.device | str | None) -> Tensor:
    if isinstance(data, TensorData):
        return TorchCreationOps.from_data(data.bytes, data.shape, data.dtype, find_device(device))
    if isinstance(data, AnyTensor):
        values = _torch_tensor(data).detach().clone()
        return values if device is None else values.to(find_device(device))
    target = find_device(device)
    try:
        return torch.tensor(data, device=target)
    except (ValueError, RuntimeError, TypeError) as error:
        raise TypeError(f"expected numbers, in lists, an array, TensorData or a tensor: {error}") from error


def untracked(tensor: Tensor) -> Tensor:
    """The same values without their graph, for a state, so that no step is in the graph of a later one."""
    return tensor if tensor.is_leaf else tensor.detach()


def _mapped(before: Tensor, mapper: Mapper, what: object) -> Tensor:
    """The values of `what` after `mapper`, always in memory of their own; TypeError unless they are of its kind."""
    with torch.no_grad():
        values = mapper(before)
    if not isinstance(values, Tensor):
        raise TypeError(f"the mapper of {what} gave {type(values).__name__}, expected a torch.Tensor")
    if differentiable(before) and not differentiable(values):
        raise TypeError(f"the mapper of {what} gave {values.dtype}, expected floating-point numbers")
    # A mapper may return its argument, or a view of it: a write to one would change the other.
    shared = shares_memory(values, before)
    return values.detach().clone() if shared else values.detach()


def track(tensor: Tensor, requires_grad: bool) -> None:
    if tensor.requires_grad != requires_grad:
        reshard([tensor])
        tensor.requires_grad_(requires_grad)
