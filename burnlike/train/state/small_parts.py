"""The parts of a training without a record of their own, global random generators among them: how each is kept."""

import random
import sys
from collections.abc import Mapping, MutableMapping
from typing import Any

import torch
from torch import nn

from ...errors import RecordError
from ...optim import AnyLrScheduler
from ...record import record
from ...record.record import Handling, python_state, restore_python


def seed_random(seed: int) -> None:
    """Seed the generators whose states `random_state` gives."""
    torch.manual_seed(seed)
    random.seed(seed)
    if "numpy" in sys.modules:
        import numpy

        numpy.random.seed(seed % 2**32)  # it takes no more bits


def random_state() -> dict[str, Any]:
    """The states of Python's `random`, of torch's generators of the CPU and all CUDA devices, and of NumPy's.

    NumPy's is there if it is imported, CUDA's are once the process has used CUDA.
    """
    state: dict[str, Any] = {"python": python_state(random), "torch_cpu": torch.get_rng_state()}
    if torch.cuda.is_initialized():
        state["torch_cuda"] = torch.cuda.get_rng_state_all()
    if "numpy" in sys.modules:
        import numpy

        state["numpy"] = numpy.random.get_state(legacy=False)
    return state


def restore_random(state: Mapping[str, Any]) -> None:
    """Put the generators back; those that the state or the machine lacks are left alone."""
    words = state["python"]
    numpy_state = state.get("numpy")
    torch.set_rng_state(state["torch_cpu"])
    restore_python(random, words)
    if torch.cuda.is_available():
        for index, device_state in enumerate(state.get("torch_cuda", ())[: torch.cuda.device_count()]):
            torch.cuda.set_rng_state(device_state, index)
    if numpy_state is not None:
        try:
            import numpy
        except ImportError:
            return
        numpy.random.set_state(numpy_state)


def is_large(part: Any) -> bool:
    """True if a part has its own file: modules, optimizers, and anything with `into_record` and `load_record`."""
    if isinstance(part, nn.Module | torch.optim.Optimizer):
        return True
    has_record = all(callable(getattr(part, name, None)) for name in ("into_record", "load_record"))
    return has_record and not isinstance(part, AnyLrScheduler)


def handling_of(name: str, part: Any) -> Handling:
    """How to store a small part."""
    if isinstance(part, AnyLrScheduler):
        return Handling(part.to_record, part.load_record)
    if (handling := record.handling_of(part)) is not None:
        return handling
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
