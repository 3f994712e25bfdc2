"""Record: the state of a module, an optimizer or a training run: named tensors and plain values.

`own_record` finds how an object becomes a record. One joins by two methods with Burn's names: `into_record()`, and
`load_record(record)`, which may have options. torch's objects, and others with a state, join without these: by their
`state_dict()`, or as `handling_of` says. `loading.load_into` is the way back.
"""

import random
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial, reduce
from typing import TYPE_CHECKING, Any, NamedTuple, Self, TypeVar, overload

import torch
from torch import Tensor, nn

from .._lazy import resolve
from ..errors import RecordError
from ..module import Param, ParamGroup, ParamId
from ..module.groups.param_group import selected
from ..module.identity.field_metadata import meta_of
from ..module.module import Module
from ..module.torch_objects.wrappers import unwrap
from ..module.tree.walk import walk_of
from ..tensor.core.base import TensorBase
from .bytes.source import Source
from .files.stored_tensors import LazyTensors
from .formats import Outline
from .layout import LayoutOf
from .nesting import names_below, nested, step, without
from .pytree import from_leaves, leaves_and_records
from .state_dict.module_layout import layout_of
from .state_dict.module_state import (
    OwnState,
    below,
    classes_of,
    encode_tree,
    in_parts,
    is_array,
    map_tensor,
    overrides,
    own_state,
    parts_with_records,
    tensor_of,
    tensor_part,
)

if TYPE_CHECKING:
    from .loading.load_options import LoadReport

T = TypeVar("T")

# The optimizers of torch by names and paths: above this part, which it imports.
OPTIMIZERS = "burnlike.optim.states.torch_records"
_INTO_RECORD = ("into_record", "to_record")  # Burn's names, of modules and of optimizers
STATE, KIND = "state", "kind"  # values of the record of an object that is saved by its `state_dict()` or the like


@dataclass(frozen=True, slots=True, eq=False)
class Record:
    """Named tensors and plain values, apart from any file format and any class.

    Making one copies nothing: it refers to the tensors, so save it before they change. NumPy arrays and
    `burnlike.Tensor`s become tensors that share their memory.

    Attributes give its content, as `record.layers[0].weight`; if a name is also one of the attributes below, use
    `record["values"]`.

    Attributes:
        tensors: name -> tensor. In a record loaded from a file each access reads the tensor into fresh memory.
        values: name -> number, text, bool, None, or lists and maps of those.
        ids: name -> ParamId, for those tensors that are parameters.
        aliases: other name of a tied tensor -> its name in `tensors`.
        source: where it comes from, for messages.
        states: names of the tensors that are running statistics or other buffers.
        layout: how formats that nest arrange it, see `burnlike.record.layout`; None where that isn't known, a
            `LayoutOf` where it is a module's, which is asked when the layout is needed.
        metadata: what the file that it was read from says about itself.
    """

    tensors: Mapping[str, Tensor] = field(default_factory=dict)
    values: Mapping[str, Any] = field(default_factory=dict)
    ids: Mapping[str, ParamId] = field(default_factory=dict)
    aliases: Mapping[str, str] = field(default_factory=dict)
    source: str = "the record"
    states: Collection[str] = ()
    layout: Any = None
    metadata: Mapping[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if isinstance(self.tensors, dict) and not {*map(type, self.tensors.values())} <= {Tensor}:
            object.__setattr__(self, "tensors", {name: _tensor(name, tensor) for name, tensor in self.tensors.items()})
        for label, names in (("ids", self.ids), ("aliases", self.aliases.values())):
            for name in names:
                if name not in self.tensors:
                    raise RecordError(f"Record.{label} names {name!r}, which is not among its tensors")
        for alias in self.aliases:
            if alias in self.tensors:
                raise RecordError(f"Record.aliases: {alias!r} is also the name of a tensor of its own")

    @classmethod
    def from_module(cls, module: nn.Module, group: ParamGroup | None = None) -> Self:
        """The parameters and persistent buffers of any `nn.Module`, tied tensors once; copies nothing.

        The record also has everything else in `state_dict()` (`get_extra_state`, entries of `_save_to_state_dict` and
        of hooks), under the same names: tensors among the tensors, the rest among the values. For a child whose class
        defines `into_record` that method makes its part; this function is the default of the method.

        A tensor that is made of others, as torchao's quantized ones are, is in the record as these, each by its name.

        A parameter with a save mapper has the form after the mapper; a lazy parameter is initialized.

        Args:
            group: the parameters to take; None is all. A record of some has only parameters and buffers, and is loaded
                with `strict=False`.

        Raises:
            ParamPathError: the group names a path that the module does not have.
            RecordError: a save mapper raised or gave no tensor, or `state_dict()` has an object that can't be stored
                without code.
        """
        root = unwrap(module)
        if group is None:
            params: Sequence[Param] = walk_of(module).params
            state, parts = own_state(root, params), parts_with_records(root)
        else:
            params, state, parts = selected(module, group), OwnState(), {}
        if state.left_out:
            params = [param for param in params if param.path not in state.left_out]
        stored = in_parts(params)
        has_parts = stored is not params
        tensors: dict[str, Tensor] = {}
        ids: dict[str, ParamId] = {}
        aliases: dict[str, str] = {}
        states: set[str] = set()
        for param in stored:
            path = param.path
            tensor = param.tensor.detach()
            has_mapper = meta_of(*param.home).save_mapper is not None
            tensors[path] = map_tensor(param, "save", tensor) if has_mapper else tensor
            if not (has_parts and tensor_part(param)):
                ids[path] = param.id
            for alias in param.aliases:
                aliases[alias] = path
            if param.kind == "state":
                states.add(path)
        is_plain = group is None and not (state.left_out or state.entries or has_parts)
        record = cls(
            tensors={**tensors, **state.tensors, **state.entries} if state.tensors or state.entries else tensors,
            values={**state.values, **classes_of(stored)} if has_parts else state.values,
            ids=ids,
            aliases=aliases,
            source=f"the record of {type(module).__name__}",
            states=frozenset(states),
            # Made when a format asks for it: safetensors, the usual one, never does.
            layout=LayoutOf(partial(layout_of, module)) if is_plain else None,
            metadata=state.metadata,
        )
        return _with_own_records(record, parts) if parts else record  # pyright: ignore[reportReturnType]

    @classmethod
    def of(cls, source: Any) -> "Record":
        """Make the record of an object; RecordError names what is none of these.

        It may be a Record or a part of one; an `nn.Module`, optimizer, scheduler, TrainingState or other object with
        `into_record()`; torch's optimizers, schedulers and generators, or another object with `state_dict()` and
        `load_state_dict()`; or a dataclass, map or list of these, of tensors, NumPy arrays and plain values; or an
        object whose `into_item()` returns one of these.
        """
        if isinstance(source, Record):
            return source
        if (record := own_record(source)) is not None:
            return record
        tensors, values, records = leaves_and_records(source, own_record)
        around = cls(tensors, values, source=f"the record of {type(source).__name__}")
        return nested(records, around) if records else around

    def into(self, kind: type[T]) -> T:
        """Make the object of type `kind`, a dataclass or a type with a classmethod `from_item(item)`; see `Record.of`.

        RecordMismatchError says which field is missing, or has something that does not fit it.
        """
        return from_leaves(kind, self.tensors, self.values)

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        return step(self, "", name)

    def __getitem__(self, name: str) -> Any:
        return step(self, "", name)

    def __dir__(self) -> list[str]:
        return [*object.__dir__(self), *names_below(self, "")]

    @overload
    def load_into(
        self, target: nn.Module, strict: bool = ..., device: torch.device | str | None = ..., **options: Any
    ) -> "LoadReport": ...
    @overload
    def load_into(self, target: Any, strict: bool = ..., device: None = ..., **options: Any) -> Any: ...
    def load_into(
        self, target: Any, strict: bool = True, device: torch.device | str | None = None, **options: Any
    ) -> Any:
        """Load the record into a module, an optimizer or another object with a state; see `burnlike.record.load`.

        A module is loaded by `LoadOptions`, without calling its own `load_record`, which may call this function; other
        objects are loaded by their `load_record`.
        """
        # Loading is of records, so it imports this file.
        from .loading.load_into import load_into, load_own

        load_options = given_options(strict, device, options)
        return (
            load_into(self, target, load_options)
            if isinstance(target, nn.Module)
            else load_own(target, self, **load_options)
        )


def record_of(source: Source, outline: Outline) -> Record:
    """The record that a file holds; its tensors stay there."""
    tensors, values, ids, aliases = LazyTensors(source, outline), outline.values, outline.ids, outline.aliases
    return Record(tensors, values, ids, aliases, source.path, outline.states, outline.layout, outline.metadata)


def _tensor(name: Any, value: Any) -> Tensor:
    """The value as a tensor, if it is one or an array of NumPy."""
    if isinstance(name, str):
        if isinstance(value, Tensor | TensorBase):
            return value if isinstance(value, Tensor) else value.inner
        if is_array(value):
            return tensor_of(value, f"Record.tensors: '{name}'")
    nested = isinstance(value, Mapping | list | tuple)
    raise RecordError(
        f"Record.tensors: expected text -> torch.Tensor, got {name!r} -> {type(value).__name__}; "
        + ("make records of nested things by Record.of" if nested else "put numbers and texts into values")
    )


def _with_own_records(record: Record, parts: Mapping[str, nn.Module]) -> Record:
    """The record of a module with those of its parts in the places of what it has of them."""
    records = {path: Record.of(part) for path, part in parts.items()}
    rest = without(record, parts)
    values = dict(rest.values)
    for path, part in records.items():
        if part.values:
            *above, last = path.split(".")
            reduce(lambda inner, name: inner.setdefault(name, {}), above, values)[last] = dict(part.values)
    joined = nested(records, replace(rest, values=values))
    aliases = dict(joined.aliases)
    for alias, name in record.aliases.items():
        if name.startswith(below(parts)) and not alias.startswith(below(parts)):
            target = joined.aliases.get(name, name)
            if target not in joined.tensors:
                raise RecordError(
                    f"'{alias}' is tied to '{name}', which the into_record of its module leaves out; save it there, or"
                    " untie the two"
                )
            aliases[alias] = target
    return replace(joined, aliases=aliases, layout=None)


def given_options(strict: bool, device: Any, options: Mapping[str, Any]) -> dict[str, Any]:
    """The options of a load without those that have their default: not everything that loads knows them."""
    keywords = {} if strict is True else {"strict": strict}
    return {**keywords, **options} if device is None else {**keywords, "device": device, **options}


def own_record(source: Any) -> Record | None:
    """The record that `source` itself has; None for what is only a part of one, as tensors, maps and dataclasses."""
    if isinstance(source, Record | type):
        return source if isinstance(source, Record) else None
    inner = unwrap(source) if isinstance(source, nn.Module) else source
    if isinstance(inner, Module) and not overrides(type(inner), "into_record"):
        return Record.from_module(inner)
    for name in _INTO_RECORD:
        if callable(into_record := getattr(inner, name, None)):
            return Record.of(into_record())
    if isinstance(source, nn.Module):
        return Record.from_module(source)
    if isinstance(source, torch.optim.Optimizer):
        return resolve(f"{OPTIMIZERS}:torch_record")(source)
    if (handling := handling_of(source)) is None:
        return None
    kind = type(source).__name__
    tensors: dict[str, Tensor] = {}
    state = encode_tree(handling.take(), STATE, tensors)
    return Record(tensors, {STATE: state, KIND: kind}, source=f"the record of {kind}")


class Handling(NamedTuple):
    """The functions that take the state of an object (tensors, arrays, plain values, lists, maps) and put it back."""

    take: Callable[[], Any]
    put: Callable[[Any], Any]


def handling_of(source: Any) -> Handling | None:
    """The functions that take the state of `source` and put it back; None for an unknown type."""
    if isinstance(source, type | Tensor | Mapping):
        return None
    if isinstance(source, torch.Generator):
        return Handling(source.get_state, source.set_state)
    if isinstance(source, random.Random):
        return Handling(partial(python_state, source), partial(restore_python, source))
    if hasattr(source, "bit_generator"):  # numpy.random.Generator
        generator = source.bit_generator
        return Handling(lambda: generator.state, partial(setattr, generator, "state"))
    if hasattr(source, "get_state") and hasattr(source, "set_state"):  # numpy.random.RandomState
        return Handling(lambda: source.get_state(legacy=False), source.set_state)
    if hasattr(source, "state_dict") and hasattr(source, "load_state_dict"):
        return Handling(source.state_dict, source.load_state_dict)
    return None


def python_state(generator: Any) -> dict[str, Any]:
    """The state of a `random.Random`, or of the module `random`."""
    version, words, gauss = generator.getstate()
    return {"version": version, "words": torch.tensor(words, dtype=torch.int64), "gauss": gauss}


def restore_python(generator: Any, state: Mapping[str, Any]) -> None:
    """Put a `random.Random`, or the module `random`, back; a damaged state is a KeyError, ValueError or TypeError."""
    generator.setstate((state["version"], tuple(state["words"].tolist()), state["gauss"]))
