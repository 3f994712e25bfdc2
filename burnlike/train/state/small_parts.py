"""The parts of a training that have no record of their own, and how the state of each is taken and put back."""

from collections.abc import Mapping, MutableMapping
from typing import Any

import torch
from torch import nn

from ...errors import RecordError
from ...optim import AnyLrScheduler
from ...record import stateful
from ...record.stateful import Handling


def is_large(part: Any) -> bool:
    """Whether a part has its own file: modules, optimizers, and anything with `into_record` and `load_record`."""
    if isinstance(part, nn.Module | torch.optim.Optimizer):
        return True
    has_record = all(callable(getattr(part, name, None)) for name in ("into_record", "load_record"))
    return has_record and not isinstance(part, AnyLrScheduler)


def handling_of(name: str, part: Any) -> Handling:
    """How to store a small part."""
    if isinstance(part, AnyLrScheduler):
        return Handling(part.to_record, part.load_record)
    if (found := stateful.handling_of(part)) is not None:
        return found
    if isinstance(part, MutableMapping):
        return Handling(lambda: dict(part), lambda state: _refill(part, state))
    raise RecordError(
        f"'{name}' is a {type(part).__name__}: expected a module, an optimizer, a scheduler, a generator, a dict of"
        " plain values (of numbers that are to be kept, too), or an object with into_record() and load_record(record),"
        " or with state_dict() and load_state_dict()"
    )


def _refill(part: MutableMapping[Any, Any], state: Mapping[Any, Any]) -> None:
    part.clear()
    part.update(state)
