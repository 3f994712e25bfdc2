"""Functions that run uncompiled within `torch.compile`."""

from collections.abc import Callable
from typing import Any, TypeVar

import torch

F = TypeVar("F", bound=Callable[..., Any])


def not_compiled(function: F) -> F:
    """`function`, which `torch.compile` calls as it is."""
    return torch.compiler.disable(function)  # pyright: ignore[reportReturnType] - its types don't say it
