"""The state of the random generators, as part of a checkpoint."""

import random

import torch
from torch import Tensor

_CPU, _CUDA, _PYTHON = "random.torch_cpu", "random.torch_cuda", "random.python"


def random_tensors(device: torch.device) -> dict[str, Tensor]:
    """The states of torch's generators of the CPU and of `device`, and of Python's `random`, as tensors by name."""
    _, words, _ = random.getstate()
    tensors = {_CPU: torch.get_rng_state(), _PYTHON: torch.tensor(words, dtype=torch.int64)}
    if device.type == "cuda":
        tensors[_CUDA] = torch.cuda.get_rng_state(device)
    return tensors


def random_values() -> dict[str, float | int | None]:
    """The plain values that complete `random_tensors`."""
    version, _, gauss = random.getstate()
    return {"version": version, "gauss": gauss}


def restore_random(tensors: dict[str, Tensor], values: dict[str, float | int | None], device: torch.device) -> None:
    """Put the generators back; a run that goes on with another kind of device keeps that one's own generator."""
    torch.set_rng_state(tensors[_CPU])
    if device.type == "cuda" and _CUDA in tensors:
        torch.cuda.set_rng_state(tensors[_CUDA], device)
    random.setstate((values["version"], tuple(tensors[_PYTHON].tolist()), values["gauss"]))
