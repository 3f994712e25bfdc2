"""The global random generators of Python, torch and NumPy: their seeds and their states."""

import random
import sys
from collections.abc import Mapping
from typing import Any

import torch

from ...record.stateful import python_state, restore_python


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
    if torch.cuda.is_available() and torch.cuda.is_initialized():
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
