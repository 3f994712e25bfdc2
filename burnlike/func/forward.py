"""Calls the forward of a module that is given in parts."""

from typing import Any

from torch import nn

from ..errors import ArgumentError
from ..mlax import apply, combine


def fwd(*parts: nn.Module, x: Any, rng: Any = None, inference_mode: bool | None = None) -> tuple[Any, nn.Module]:
    """Combine the parts of a module, the first that has a parameter winning, and apply it.

    Args:
        parts: of one module, as `burnlike.mlax.partition` gives them.
        x: the input.
        rng: a `burnlike.mlax.Key` or generator, for layers that draw random numbers.
        inference_mode: None is what the `training` flag says.

    Returns:
        The output, and the module with its new state; the parts are as they were.

    Example:
        >>> import torch, burnlike as bl
        >>> t, n = bl.mlax.partition(torch.nn.Linear(2, 1))
        >>> y, module = bl.func.fwd(t, n, x=torch.ones(3, 2))
        >>> y.shape
        torch.Size([3, 1])
    """
    if not parts:
        raise ArgumentError("fwd: expected at least one part of a module")
    return apply(combine(*parts), x, rng, inference_mode)
