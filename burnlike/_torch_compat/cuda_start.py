"""Functions to be called when a process begins to use CUDA."""

from collections.abc import Callable

import torch


def when_cuda_starts(function: Callable[[], None]) -> None:
    """Call a function when the process first uses CUDA, or now if it does already.

    Torch checks its own GPUs in this way. Without it, GPUs could be asked for only by making each process use them.
    """
    torch.cuda._lazy_call(function)  # pyright: ignore[reportPrivateUsage]
