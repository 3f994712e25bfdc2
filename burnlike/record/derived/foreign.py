"""Records of objects without record methods: torch's schedulers, generators, anything with `state_dict()`."""

import random
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

import torch
from torch import Tensor

from ...errors import BurnlikeError, RecordMismatchError
from ..record import Record
from .state_tree import decode_tree, encode_tree

_STATE, _KIND = "state", "kind"


class Handling(NamedTuple):
    """The functions that take the state of an object and put it back.

    Attributes:
        take: gives it: tensors, arrays, plain values, lists, tuples and maps.
        put: puts such a state back.
    """

    take: Callable[[], Any]
    put: Callable[[Any], Any]


def handling_of(source: Any) -> Handling | None:
    """The functions that take the state of `source` and put it back; None for an unknown type."""
    if isinstance(source, torch.Generator):
        return Handling(source.get_state, source.set_state)
    if isinstance(source, random.Random):
        return Handling(lambda: python_state(source), lambda state: restore_python(source, state))
    if hasattr(source, "bit_generator"):  # numpy.random.Generator

        def put(state: Any) -> None:
            source.bit_generator.state = state

        return Handling(lambda: source.bit_generator.state, put)
    if hasattr(source, "get_state") and hasattr(source, "set_state"):  # numpy.random.RandomState
        return Handling(lambda: source.get_state(legacy=False), source.set_state)
    if hasattr(source, "state_dict") and hasattr(source, "load_state_dict"):
        return Handling(source.state_dict, source.load_state_dict)
    return None


def put_state(name: str, handling: Handling, state: Any, source: str) -> None:
    """Put back a state that `take` gave; `name` and `source` are for messages.

    Raises:
        RecordMismatchError: it was refused.
    """
    try:
        handling.put(state)
    except BurnlikeError:
        raise
    except (LookupError, ValueError, TypeError, AttributeError, RuntimeError) as error:
        raise RecordMismatchError(
            f"{source}: '{name}' refused its state ({type(error).__name__}: {error}); it was saved by another kind of"
            " part"
        ) from error


def is_foreign(source: Any) -> bool:
    """Whether it is an object with a state that `handling_of` knows how to take."""
    return not isinstance(source, type | Tensor | Mapping) and handling_of(source) is not None


def from_foreign(source: Any) -> Record:
    """The record of such an object; its tensors are not copied.

    Raises:
        RecordError: its state holds what can't be stored without code.
    """
    handling = handling_of(source)
    assert handling is not None
    kind = type(source).__name__
    tensors: dict[str, Tensor] = {}
    state = encode_tree(handling.take(), _STATE, tensors)
    return Record(tensors, {_STATE: state, _KIND: kind}, source=f"the record of {kind}")


def into_foreign(target: Any, record: Record) -> Any:
    """Put a record that `from_foreign` made back; returns the object.

    Raises:
        RecordMismatchError: it is that of another kind of object, or was refused; the object is as it was.
    """
    handling = handling_of(target)
    assert handling is not None
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
    """Put a `random.Random`, or the module `random`, back.

    Raises:
        KeyError, ValueError, TypeError: the state is damaged.
    """
    generator.setstate((state["version"], tuple(state["words"].tolist()), state["gauss"]))
