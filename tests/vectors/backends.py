"""The backends that the vectors run on."""

from collections.abc import Callable
from typing import Any

import torch

from burnlike import Autodiff, Backend, Cpu, Cuda
from tests.backend.functional_autodiff import FunctionalAutodiff

# Further implementations of AutodiffBackend, made around a backend; programs run on them as well.
MORE_AUTODIFF: list[Callable[[Any], Any]] = [FunctionalAutodiff]


def plain_backend(name: str) -> Backend | None:
    """The backend `cpu` or `cuda` with Burn's default element types of tests, or None where there is no device."""
    if name == "cpu":
        return Cpu(int=torch.int32)
    if name != "cuda":
        raise ValueError(f"unknown backend {name!r}; expected cpu or cuda")
    return Cuda(0, int=torch.int32) if torch.cuda.is_available() else None


def tracking(plain: Backend) -> list[Backend]:
    """The backends that track what `plain` does."""
    return [Autodiff(plain), *(make(plain) for make in MORE_AUTODIFF)]


def backends_for(program: bool, plain: Backend) -> list[Backend]:
    """Where a record runs: an operation on the backend and on Autodiff of it, a program on those that track."""
    return tracking(plain) if program else [plain, Autodiff(plain)]
