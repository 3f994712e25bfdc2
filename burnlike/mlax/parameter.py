"""Parameter, the handle of an attribute of an `mlax.Module`, with the operators and attributes of its tensor."""

import operator
from collections.abc import Callable, Iterator
from typing import Any

from torch import Tensor, nn

from ..errors import EmptyParamError
from ..module.identity.field_metadata import ensure_id, keep_id, meta_of, noting_at, set_meta
from ..module.identity.param_id import ParamId
from ..module.torch_objects.lazy_parameter import initialize_param, is_lazy
from ..module.tree.param import Kind, Param
from .data import (
    DataTree,
    TracedProperty,
    as_data,
    check_trainable,
    content,
    declared,
    holders,
    id_at,
    is_hole,
    kind_at,
    share,
    write,
)
from .pytrees import register_handle


class Parameter(Param):
    """A named place for data in a module: it reads and writes the module, and holds no tensor itself.

    One that was made by the program becomes a module's when it is assigned to an attribute; `module.name` is then a
    handle on that attribute, and so are the leaves of filters, maps and predicates. Two handles on one attribute are
    equal. A handle may stand for its tensor in functions of torch, with operators (`m.b * 2`), indices and attributes
    (`m.b.shape`). It is a pytree, whose leaves are its tensors.

    A hole (what `filter` took out) has no data, no trainability and no name; using or writing it raises.

    Attributes:
        id: the identity, kept by holes and when the data is replaced.
        path: dotted path from the module that was walked; the attribute's name for `module.name`.
        kind: `weight` for what an optimizer might train, frozen or not; `state` for the rest.
        owners: each (module, attribute) that holds the data.
        aliases: the other paths of a tied parameter.
    """

    __slots__ = ("home", "owners")
    __array_priority__ = 1000  # as Tensor's: NumPy leaves operators to it

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
            data: a tensor, an array, a number, or a list, dict or other pytree of these (a namedtuple, a Key, any class
                that is registered); None leaves it uninitialized.
            name: a label for predicates.
            kind: `state` for running statistics, counters and keys; None is `weight` where the data are floats.
            id: its identity; None draws one.

        Raises:
            TypeError: the data can't be a parameter's, or is trainable and no floats; trainable is no bool.
            ValueError: data without trainability.
        """
        self.bind(((declared(trainable, data, name, kind, id), "value"),))

    @classmethod
    def at(cls, *place: Any) -> "Parameter":
        """The handle of what `place` says, as `bind` takes it."""
        handle = object.__new__(cls)
        handle.bind(*place)
        return handle

    def bind(
        self,
        owners: tuple[tuple[nn.Module, str], ...],
        path: str | None = None,
        aliases: tuple[str, ...] = (),
        home: tuple[nn.Module, str] | None = None,
    ) -> None:
        """Make this the handle on what the attributes `owners` hold."""
        self.owners = owners  # pyright: ignore[reportIncompatibleMethodOverride, reportAttributeAccessIssue]
        self.path = owners[0][1] if path is None else path
        self.aliases = aliases
        self.home = home or owners[0]  # pyright: ignore[reportIncompatibleMethodOverride, reportAttributeAccessIssue]

    @property
    def id(self) -> ParamId:  # pyright: ignore[reportIncompatibleVariableOverride]
        if (param_id := id_at(*self.home)) is None:
            ensure_id(*self.home)
            param_id = id_at(*self.home)
        assert param_id is not None
        return param_id

    @property
    def kind(self) -> Kind:  # pyright: ignore[reportIncompatibleVariableOverride]
        return kind_at(*self.owners[0])

    @TracedProperty
    def data(self) -> Any:
        """The tensor, or list, tuple or dict of tensors, that the module holds; tracked by autograd.

        None for a hole and for an uninitialized parameter. Assigning replaces it, also where it is tied within what was
        walked; nothing is written in place. It is an EmptyParamError to assign to a hole, a TypeError if it can't be a
        parameter's.
        """
        held = content(*self.owners[0])
        return held.value() if isinstance(held, DataTree) else held

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
        """Put checked `data` in place of what there is, or was, with the intent and present state of training."""
        held = content(*self.owners[0])
        kind = kind_at(*self.owners[0])
        if trainable:
            kind = "weight"
        elif not isinstance(held, Tensor):
            kind = "state" if meta_of(*self.home).kind == "state" else "weight"
        first, *others = holders(self.owners, held)
        write(*first, data, tracked, kind)
        for place in others:
            share(*first, *place)
        set_meta(*self.home, hole=False, trainable=None if tracked is trainable else trainable)

    @property
    def tensor(self) -> Tensor:  # pyright: ignore[reportIncompatibleMethodOverride]
        """The data of a parameter that holds one tensor; errors are those of `data`, and TypeError for a pytree."""
        held = self._found()
        if isinstance(held, DataTree):
            raise TypeError(f"{self._place()} holds several tensors, not one: use .data")
        return held

    @property
    def name(self) -> str | None:  # pyright: ignore[reportIncompatibleMethodOverride]
        return None if self.is_hole else meta_of(*self.home).name

    @property
    def is_hole(self) -> bool:
        return is_hole(*self.home)

    @property
    def trainable(self) -> bool | None:  # pyright: ignore[reportIncompatibleMethodOverride]
        """The intent: whether it is to be trained, also while `valid()` has it not require grad; None for a hole."""
        meta = meta_of(*self.home)
        owner, name = self.owners[0]
        tensor = owner._parameters.get(name)
        if tensor is not None:
            return meta.intent(tensor)
        if self.is_hole:
            return None
        held = content(owner, name)
        if isinstance(held, DataTree) and (intents := held.intents()):
            return all(intents)
        return not isinstance(held, Tensor) and bool(meta.trainable)

    @property
    def requires_grad(self) -> bool:
        held = content(*self.owners[0])
        if isinstance(held, DataTree):
            return held.is_tracked()
        owner, name = self.owners[0]
        return held is not None and name in owner._parameters and meta_of(owner, name).tracks(held)

    @property
    def tracked(self) -> bool:
        """True if new data is to require grad: as the present data, or if there is none, as it is meant to."""
        return self.requires_grad if content(*self.owners[0]) is not None else bool(self.trainable)

    def val(self) -> Any:
        data = self.base()
        return data if self.home in self.owners else getattr(*self.home)

    def base(self) -> Any:
        """The data itself, initialized, without a reparameterization; EmptyParamError if there is none."""
        held = self._found()
        if isinstance(held, DataTree):
            return held.value()
        initialize_param(held)
        return held

    def _found(self) -> Tensor | DataTree:
        held = content(*self.owners[0])
        if held is None:
            raise EmptyParamError(
                f"{self._place()} is a hole: combine the part with the one that has it"
                if self.is_hole
                else f"{self._place()} has no data yet: assign .data first"
            )
        return held

    def is_initialized(self) -> bool:
        held = content(*self.owners[0])
        return held is not None and (isinstance(held, DataTree) or not is_lazy(held))

    def set_require_grad(self, require_grad: bool) -> "Parameter":
        """Set whether it is meant to be trained, as `Param.set_require_grad`; a hole stays one. Returns the handle."""
        held = content(*self.owners[0])
        if isinstance(held, DataTree):
            for place in held.weights():
                Parameter.at((place,)).set_require_grad(require_grad)
        elif held is not None:
            super().set_require_grad(require_grad)
        elif not self.is_hole and self.kind == "weight":
            set_meta(*self.home, trainable=require_grad)
        return self

    def assign(self, tensor: Tensor) -> None:
        self.data = tensor

    def adopt(self, param_id: ParamId) -> None:
        """Give the parameter another id; the tensors of a list, tuple or dict get theirs from it."""
        before, tree = self.id, content(*self.owners[0])
        for owner, name in (self.home, *self.owners[1:]):
            keep_id(owner, name, param_id, noting_at(owner, name))
            set_meta(owner, name, own_id=False)
        if isinstance(tree, DataTree):
            tree.change_ids(before.value ^ param_id.value)

    @classmethod
    def __torch_function__(cls, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        values = [_value(argument) for argument in args]
        named = {key: _value(argument) for key, argument in (kwargs or {}).items()}
        return func(*values, **named)

    def __getattr__(self, name: str) -> Any:
        """The tensor's attribute `name`; an error for a hole, as any use."""
        if name.startswith("__") or not hasattr(Tensor, name) or hasattr(type(self), name):
            raise AttributeError(f"{type(self).__name__} has no attribute {name!r}")
        return getattr(self.tensor, name)

    def __getitem__(self, index: Any) -> Any:
        return self.val()[index]

    def __len__(self) -> int:
        return len(self.val())

    def __iter__(self) -> Iterator[Any]:
        return iter(self.val())

    def __contains__(self, item: Any) -> bool:
        return item in self.val()

    def __array__(self, *args: Any, **options: Any) -> Any:
        return self.tensor.__array__(*args, **options)

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


register_handle(Parameter, Parameter)


def _add_operator(name: str, function: Callable[..., Any], reflected: bool = False) -> None:
    def method(handle: Parameter, *others: Any) -> Any:
        operands = [_operand(it) for it in (handle, *others)]
        return function(*(reversed(operands) if reflected else operands))

    setattr(Parameter, f"__{name}__", method)


def _operand(value: Any) -> Any:
    if not isinstance(value, Parameter):
        return value
    value.tensor  # refuses what is no single tensor  # noqa: B018
    return value.val()


for _name in ("neg", "pos", "abs", "invert", "index", "lt", "le", "gt", "ge"):
    _add_operator(_name, getattr(operator, _name))
for _type in (bool, int, float, complex):
    _add_operator(_type.__name__, _type)
_BINARY = "add sub mul truediv floordiv mod pow matmul and_ or_ xor lshift rshift"
for _name in _BINARY.split():
    _add_operator(_name.rstrip("_"), getattr(operator, _name))
    _add_operator(f"r{_name.rstrip('_')}", getattr(operator, _name), reflected=True)


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
