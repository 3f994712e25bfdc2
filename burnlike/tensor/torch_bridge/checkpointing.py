"""Gradient checkpointing: recompute a function's intermediate results in the backward pass instead of keeping them."""

from collections.abc import Callable
from typing import Any, ParamSpec, TypeVar

from torch.utils.checkpoint import checkpoint as torch_checkpoint

P = ParamSpec("P")
R = TypeVar("R")


def checkpoint(function: Callable[P, R], *args: P.args, **kwargs: P.kwargs) -> R:
    """`function(*args, **kwargs)`, computed again in the backward pass: less memory for more time.

    Typed tensors, torch tensors and modules all work; random numbers are drawn again as they were. It is torch's
    non-reentrant checkpointing (the reentrant one can't see typed tensors, and raises on them).

    Example:
        >>> import torch
        >>> from burnlike import Autodiff, Cpu, Tensor
        >>> from burnlike.tensor import checkpoint
        >>> x = Tensor(torch.tensor([2.0, 3.0]), Autodiff(Cpu())).require_grad()
        >>> loss = checkpoint(lambda t: t.mul(t).sum(), x)
        >>> gradient = x.grad(loss.backward())
        >>> gradient.inner
        tensor([4., 6.])
    """
    run: Any = torch_checkpoint
    return run(function, *args, use_reentrant=False, **kwargs)
