"""Finds how a module, optimizer, scheduler or anything else with a state becomes a record and back.

An object joins by two methods with Burn's names: `into_record()`, and `load_record(record)`, which may have options.
torch's objects, and others with a state, join without these: by their `state_dict()`, or as `handling_of` says.
"""

import copy
import random
from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import partial
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn

from .._lazy import resolve
from ..errors import BurnlikeError, RecordError, RecordMismatchError
from ..module.torch_objects.wrappers import unwrap
from .layout import LayoutOf
from .record import LOAD_INTO, Record
from .state_dict.module_layout import deferred_layout
from .state_dict.state_tree import decode_tree, encode_tree

_OPTIMIZERS = "burnlike.optim.states.torch_records"  # knows torch's optimizers; it is above this package
_STATE, _KIND = "state", "kind"


def own_record(source: Any) -> Record | None:
    """The record that `source` itself has; None for what is only a part of one, as tensors, maps and dataclasses."""
    if isinstance(source, Record | type):
        return source if isinstance(source, Record) else None
    inner = unwrap(source) if isinstance(source, nn.Module) else source
    for name in ("into_record", "to_record"):
        if callable(made := getattr(inner, name, None)):
            return Record.of(made())
    if isinstance(source, nn.Module):
        return Record.from_module(source)
    if isinstance(source, torch.optim.Optimizer):
        return resolve(f"{_OPTIMIZERS}:torch_record")(source)
    if (handling := handling_of(source)) is None:
        return None
    kind = type(source).__name__
    tensors: dict[str, Tensor] = {}
    state = encode_tree(handling.take(), _STATE, tensors)
    return Record(tensors, {_STATE: state, _KIND: kind}, source=f"the record of {kind}")


def load_own(target: Any, source: Any, **options: Any) -> Any:
    """Put a record, or that of another object, into `target`; returns what its `load_record` does."""
    record = Record.of(source)
    inner = unwrap(target) if isinstance(target, nn.Module) else target
    own = None if isinstance(target, type) else getattr(inner, "load_record", None)
    if callable(own):
        return own(record, **options)
    if isinstance(target, nn.Module):
        return resolve(LOAD_INTO)(record, target, options)
    if isinstance(target, torch.optim.Optimizer):
        module = options.pop("module", None)
        modules = () if module is None else (module,)
        return resolve(f"{_OPTIMIZERS}:load_torch_record")(target, record, *modules, **options)
    if isinstance(target, type):
        raise RecordError(
            f"expected an object to load into, got the class {target.__name__};"
            f" burnlike.record.open_record(path).into({target.__name__}) makes an object of it"
        )
    if (handling := handling_of(target)) is None:
        raise RecordError(
            "expected a module, an optimizer, a scheduler, a TrainingState, a generator, or an object with"
            " load_record(record) or load_state_dict(state), to load into, got"
            f" {type(target).__name__}; open the record by burnlike.record.open_record(path), and load its parts:"
            " record.model.load_into(model), record.into(Type)"
        )
    return _load_foreign(target, handling, record, **options)


def layout_for(target: Any) -> Any:
    """The layout of the records of `target`, or a tuple of those that its files may have, for files without names.

    None where it can't be told.
    """
    if isinstance(target, nn.Module):
        return deferred_layout(target)
    names = () if isinstance(target, type) else ("burn_0_21_layout", "record_layout")
    known = [make for name in names if callable(make := getattr(target, name, None))]
    return LayoutOf(lambda _: tuple(layout for make in known if (layout := make()) is not None)) if known else None


def load_undoably(target: Any, record: Record, **options: Any) -> Callable[[], None]:
    """Let `target` load a record by its own method, or keep its state if that raises; gives what restores the state."""
    before = Record.of(target)
    tensors = {name: before.tensors[name].detach().clone() for name in before.tensors}
    before = replace(before, tensors=tensors, values=copy.deepcopy(dict(before.values)))
    try:
        load_own(target, record, **options)
    except BaseException:
        load_own(target, before)
        raise
    return lambda: load_own(target, before)


class Handling(NamedTuple):
    """The functions that take the state of an object (tensors, arrays, plain values, lists, maps) and put it back."""

    take: Callable[[], Any]
    put: Callable[[Any], Any]


def handling_of(source: Any) -> Handling | None:
    """How the state of `source` is taken and put back; None for an unknown type."""
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


def put_state(name: str, handling: Handling, state: Any, source: str) -> None:
    """Put back a state that `take` gave; `name` and `source` are for messages."""
    try:
        handling.put(state)
    except BurnlikeError:
        raise
    except (LookupError, ValueError, TypeError, AttributeError, RuntimeError) as error:
        raise RecordMismatchError(
            f"{source}: '{name}' refused its state ({type(error).__name__}: {error}); it was saved by another kind of"
            " part"
        ) from error


def _load_foreign(target: Any, handling: Handling, record: Record) -> Any:
    """Put a record that `own_record` made of the state of an object back; returns the object."""
    kind = type(target).__name__
    if record.values.get(_KIND) != kind or _STATE not in record.values:
        raise RecordMismatchError(
            f"expected the record of a {kind}, got {record.source}, of {record.values.get(_KIND, 'something else')}"
        )
    state = decode_tree(record.values[_STATE], record.tensors, record.source)
    tensors: dict[str, Tensor] = {}
    before = encode_tree(handling.take(), _STATE, tensors)
    kept = {name: tensor.clone() for name, tensor in tensors.items()}
    try:
        put_state(kind, handling, state, record.source)
    except BaseException:
        handling.put(decode_tree(before, kept, "the state before"))
        raise
    return target


def python_state(generator: Any) -> dict[str, Any]:
    """The state of a `random.Random`, or of the module `random`."""
    version, words, gauss = generator.getstate()
    return {"version": version, "words": torch.tensor(words, dtype=torch.int64), "gauss": gauss}


def restore_python(generator: Any, state: Mapping[str, Any]) -> None:
    """Put a `random.Random`, or the module `random`, back; a damaged state is a KeyError, ValueError or TypeError."""
    generator.setstate((state["version"], tuple(state["words"].tolist()), state["gauss"]))
