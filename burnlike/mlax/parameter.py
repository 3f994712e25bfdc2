"""Parameter, the handle that an attribute of an `mlax.Module` is."""

from typing import Any

from torch import Tensor, nn

from ..errors import ArgumentError, DTypeError, EmptyParamError
from ..module.lazy import initialize_param, is_lazy
from ..module.param import Kind, Param
from ..module.param_id import ParamId
from ..module.slots import ensure_id, meta_of, set_meta, stored_ids
from .data import DataTree, as_data, check_trainable
from .holding import content, empty, kind_at, known_id, share, write


class Unbound(nn.Module):
    """Holds, as `value`, a Parameter that no module has yet."""


class Parameter(Param):
    """A named place for data in a module: it reads and writes the module, and holds no tensor itself.

    One that was made by the program becomes a module's when it is assigned to an attribute; `module.name` is then a
    handle on that attribute, and so are the leaves of filters, maps and predicates. Two handles on one attribute are
    equal. A handle may stand for its tensor in any function of torch.

    A hole (what `filter` took out) has no data, no trainability and no name; using or writing it raises.

    Attributes:
        id: the identity, kept by holes and when the data is replaced.
        path: dotted path from the module that was walked; the attribute's name for `module.name`.
        kind: `weight` for what an optimizer might train, frozen or not; `state` for the rest.
        owners: each (module, attribute) that holds the data.
        aliases: the other paths of a tied parameter.
    """

    __slots__ = ()

    def __init__(
        self,
        trainable: bool | None,
        data: Any = None,
        name: str | None = None,
        *,
        kind: Kind | None = None,
        id: ParamId | None = None,
    ) -> None:
        """Declare a parameter.

        Args:
            trainable: whether gradients train it; None makes a hole.
            data: a tensor, an array, a number, or a list, tuple or dict of these; None leaves it uninitialized.
            name: a label for predicates.
            kind: `state` for running statistics, counters and keys; None is `weight` where the data are floats.
            id: its identity; None draws one.

        Raises:
            TypeError: the data can't be a parameter's, or is trainable and no floats; trainable is no bool.
            ValueError: data without trainability.
        """
        if trainable is not None and not isinstance(trainable, bool):
            raise TypeError(f"Parameter: expected trainable to be True, False or None, got {trainable!r}")
        if kind not in (None, "weight", "state"):
            raise ArgumentError(f"Parameter: expected kind 'weight' or 'state', got {kind!r}")
        if kind == "state" and trainable:
            raise DTypeError("Parameter: a state can't be trainable; use trainable=False")
        if trainable is None and data is not None:
            raise ArgumentError("Parameter: expected trainable=True or False for data, got None, which marks a hole")
        holder = Unbound()
        stored_ids(holder)["value"] = id or ParamId.new("Parameter")
        self.bind(((holder, "value"),))
        set_meta(holder, "value", name=name, own_id=id is not None, kind=kind or "weight")
        if data is None:
            empty(holder, "value", kind or "weight")
            set_meta(holder, "value", None, trainable=trainable, hole=trainable is None)
        else:
            data = as_data(data)
            if trainable:
                check_trainable(data, "Parameter")
            write(holder, "value", data, bool(trainable), kind or "weight")

    @classmethod
    def at(
        cls,
        owners: tuple[tuple[nn.Module, str], ...],
        path: str | None = None,
        aliases: tuple[str, ...] = (),
        home: tuple[nn.Module, str] | None = None,
    ) -> "Parameter":
        """The handle on what the attributes `owners` hold."""
        handle = object.__new__(cls)
        handle.owners = owners
        handle.path = owners[0][1] if path is None else path
        handle.aliases = aliases
        handle.home = owners[0] if home is None else home
        return handle

    def bind(
        self,
        owners: tuple[tuple[nn.Module, str], ...],
        path: str | None = None,
        aliases: tuple[str, ...] = (),
        home: tuple[nn.Module, str] | None = None,
    ) -> None:
        """Make this the handle on what the attributes `owners` hold."""
        self.owners = owners
        self.path = owners[0][1] if path is None else path
        self.aliases = aliases
        self.home = owners[0] if home is None else home

    @property
    def id(self) -> ParamId:  # pyright: ignore[reportIncompatibleVariableOverride]
        """The identity, kept by holes and when the data is replaced."""
        return known_id(*self.home) or ensure_id(*self.home)

    @property
    def kind(self) -> Kind:  # pyright: ignore[reportIncompatibleVariableOverride]
        """`weight` for what an optimizer might train, frozen or not; `state` for the rest."""
        return kind_at(*self.owners[0])

    @property
    def data(self) -> Any:
        """The tensor, or list, tuple or dict of tensors, that the module holds; tracked by autograd.

        None for a hole and for an uninitialized parameter. Assigning replaces it, also where it is tied within what
        was walked; nothing is written in place.

        Raises:
            EmptyParamError: a hole is assigned to.
            TypeError: the new data can't be a parameter's.
        """
        found = content(*self.owners[0])
        return found.value() if isinstance(found, DataTree) else found

    @data.setter
    def data(self, value: Any) -> None:
        if self.is_hole:
            raise EmptyParamError(f"{self._place()} is a hole and can't be written; write the part that has it")
        value = as_data(value, self.path)
        trainable = bool(self.trainable)
        if trainable:
            check_trainable(value, self.path)
        self.replace(value, trainable, self.tracked)

    def replace(self, data: Any, trainable: bool, tracked: bool) -> None:
        """Put checked `data` in the place of what there is, or was, with the intent and present state of training."""
        held = content(*self.owners[0])
        kind = kind_at(*self.owners[0])
        if trainable:
            kind = "weight"
        elif not isinstance(held, Tensor):
            kind = "state" if meta_of(*self.home).kind == "state" else "weight"
        first, *others = _holding(self.owners, held)
        write(*first, data, tracked, kind)
        for place in others:
            share(*first, *place)
        set_meta(*self.home, None, hole=False, trainable=None if tracked is trainable else trainable)

    @property
    def tensor(self) -> Tensor:  # pyright: ignore[reportIncompatibleMethodOverride]
        """The data of a parameter that holds one tensor.

        Raises:
            EmptyParamError: it has none.
            TypeError: it holds a list, tuple or dict.
        """
        found = self._found()
        if isinstance(found, DataTree):
            raise TypeError(f"{self._place()} holds several tensors, not one: use .data")
        return found

    @property
    def name(self) -> str | None:  # pyright: ignore[reportIncompatibleMethodOverride]
        """The label that the program gave; None for a hole."""
        meta = meta_of(*self.home)
        return None if meta.hole else meta.name

    @property
    def is_hole(self) -> bool:
        """Whether `filter` took it out."""
        return meta_of(*self.home).hole

    @property
    def trainable(self) -> bool | None:  # pyright: ignore[reportIncompatibleMethodOverride]
        """The intent: whether it is to be trained, also while `valid()` has it not require grad; None for a hole."""
        meta = meta_of(*self.home)
        if meta.hole:
            return None
        owner, name = self.owners[0]
        tensor = owner._parameters.get(name)
        if tensor is not None:
            return meta.intent(tensor)
        found = content(owner, name)
        if isinstance(found, DataTree):
            weights = list(found.weights())
            if weights:
                return all(meta_of(*place).intent(_weight(*place)) for place in weights)
        return not isinstance(found, Tensor) and bool(meta.trainable)

    @property
    def requires_grad(self) -> bool:
        """Whether autograd tracks it now."""
        found = content(*self.owners[0])
        if isinstance(found, DataTree):
            return any(meta_of(*place).tracks(_weight(*place)) for place in found.weights())
        owner, name = self.owners[0]
        return found is not None and name in owner._parameters and meta_of(owner, name).tracks(found)

    @property
    def tracked(self) -> bool:
        """Whether new data is to require grad: as the present data, or if there is none, as it is meant to."""
        return self.requires_grad if content(*self.owners[0]) is not None else bool(self.trainable)

    def val(self) -> Any:
        """The data, initialized, as the module computes with it.

        Raises:
            EmptyParamError: it is a hole, or has no data yet.
        """
        found = self._found()
        if isinstance(found, DataTree):
            return found.value()
        initialize_param(found)
        return found if self.home in self.owners else getattr(*self.home)

    def base(self) -> Any:
        """The data itself, initialized, without a reparameterization.

        Raises:
            EmptyParamError: it is a hole, or has no data yet.
        """
        found = self._found()
        if isinstance(found, DataTree):
            return found.value()
        initialize_param(found)
        return found

    def _found(self) -> Tensor | DataTree:
        found = content(*self.owners[0])
        if found is None:
            raise EmptyParamError(
                f"{self._place()} is a hole: combine the part with the one that has it"
                if self.is_hole
                else f"{self._place()} has no data yet: assign .data first"
            )
        return found

    def is_initialized(self) -> bool:
        """Whether it has data, with values."""
        found = content(*self.owners[0])
        return found is not None and (isinstance(found, DataTree) or not is_lazy(found))

    def set_require_grad(self, require_grad: bool) -> "Parameter":
        """Set whether it is meant to be trained, as `Param.set_require_grad`; a hole stays one. Returns the handle."""
        found = content(*self.owners[0])
        if isinstance(found, DataTree):
            for place in found.weights():
                Parameter.at((place,)).set_require_grad(require_grad)
        elif found is not None:
            super().set_require_grad(require_grad)
        elif not self.is_hole and self.kind == "weight":
            set_meta(*self.home, None, trainable=require_grad)
        return self

    def assign(self, tensor: Tensor) -> None:
        """As writing `data`."""
        self.data = tensor

    def adopt(self, param_id: ParamId) -> None:
        """Give the parameter another id; the tensors of a list, tuple or dict get theirs from it."""
        before, tree = self.id, content(*self.owners[0])
        for owner, name in (self.home, *self.owners[1:]):
            stored_ids(owner)[name] = param_id
            set_meta(owner, name, own_id=False)
        if isinstance(tree, DataTree):
            change = before.value ^ param_id.value
            for level in tree.modules():
                ids = stored_ids(level)
                ids.update({name: ParamId(old.value ^ change) for name, old in ids.items()})

    @classmethod
    def __torch_function__(cls, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        """Compute with the data."""
        values = [_value(argument) for argument in args]
        named = {key: _value(argument) for key, argument in (kwargs or {}).items()}
        return func(*values, **named)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Parameter) and self.owners[0] == other.owners[0]

    def __hash__(self) -> int:
        return hash(self.owners[0])

    def __reduce_ex__(self, protocol: Any) -> Any:
        """Copies and pickles are handles on a copy of the module that has the attribute."""
        return Parameter.at, (self.owners, self.path, self.aliases, self.home)

    def _place(self) -> str:
        return f"Parameter '{self.path}' of {type(self.owners[0][0]).__name__}"

    def __repr__(self) -> str:
        if self.is_hole:
            return f"Parameter('{self.path}', hole, id={self.id})"
        label = "" if self.name is None else f", name={self.name!r}"
        return f"Parameter('{self.path}', trainable={self.trainable}, {_shown(self.data)}{label}, id={self.id})"


class TreeParameter(Parameter, nn.Module):  # pyright: ignore[reportIncompatibleMethodOverride]
    """The handle on several tensors as an attribute: also the module that holds them, which torch finds by name.

    `functional_call`, `get_parameter` and other tools of torch reach `c.0` through the attribute `c`.
    """

    __setattr__ = object.__setattr__  # pyright: ignore[reportAssignmentType]

    @classmethod
    def on(cls, owner: nn.Module, name: str) -> "TreeParameter":
        """The handle on the DataTree that is the child `name` of `owner`."""
        handle = object.__new__(cls)
        handle.__dict__ = owner._modules[name].__dict__  # pyright: ignore[reportOptionalMemberAccess]
        handle.bind(((owner, name),))
        return handle


def is_parameter(value: object) -> bool:
    """Whether `value` is a parameter's handle; a hole's too."""
    return isinstance(value, Param)


def is_trainable(param: Param) -> bool:
    """Whether `param` is meant to be trained; False for a hole."""
    return param.trainable is True


def is_non_trainable(param: Param) -> bool:
    """Whether `param` is frozen or a state; False for a hole."""
    return param.trainable is False


def _holding(owners: tuple[tuple[nn.Module, str], ...], held: Any) -> list[tuple[nn.Module, str]]:
    """The attributes `owners`, and those of the same modules that hold the same tensor."""
    places = list(owners)
    for owner, _ in owners:
        if isinstance(held, Tensor):
            for group in (owner._parameters, owner._buffers):
                places += [(owner, name) for name, tensor in group.items() if tensor is held]
        elif isinstance(held, DataTree) and (first := held.first()) is not None:
            trees = [(name, child) for name, child in owner._modules.items() if isinstance(child, DataTree)]
            places += [(owner, name) for name, tree in trees if tree.first() is first]
    return list(dict.fromkeys(places))


def _weight(tree: nn.Module, name: str) -> nn.Parameter:
    return tree._parameters[name]  # pyright: ignore[reportReturnType]


def _value(argument: Any) -> Any:
    if isinstance(argument, Parameter):
        return argument.val()
    if type(argument) in (list, tuple):
        return type(argument)(_value(item) for item in argument)
    return argument


def _shown(data: Any) -> str:
    if data is None:
        return "uninitialized"
    return f"{list(data.shape)}, {data.dtype}" if isinstance(data, Tensor) else f"a {type(data).__name__}"
