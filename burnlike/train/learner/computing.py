"""How a model computes while it is trained: compiled, in 8 bits, with activations that are computed again."""

from collections.abc import Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager
from typing import Any

import torch
from torch import nn

from ..._torch_compat.inductor import quote_paths
from .checkpointing import checkpointed
from .configs import TrainingConfig
from .float8 import in_float8


@contextmanager
def computing(model: nn.Module, training: TrainingConfig, device: torch.device) -> Iterator[list[str]]:
    """Let a model compute as its training says within the `with` block; gives notes for the beginning of a run."""
    notes: list[str] = []
    with ExitStack() as stack:
        if training.compile:
            quote_paths()
            stack.enter_context(_all_layers_compiled(model))
            model.compile()
        if training.float8 is not None:
            layers = stack.enter_context(in_float8(model, training.float8, device))
            notes.append(f"float8    {len(layers)} linear layers, {training.float8.recipe}")
        if training.checkpointing is not None:
            stack.enter_context(checkpointed(model, training.checkpointing))
        yield notes


def _all_layers_compiled(model: nn.Module) -> AbstractContextManager[None]:
    """To torch the forward of every layer is one function, that of `lift`, of which it compiles 8 versions.

    Where exchanges between processes break the code into parts, each kind of layer is a version of its own.
    """
    import torch.compiler.config

    config: Any = torch.compiler.config
    versions = max(256, 8 * sum(1 for _ in model.modules()))
    return config.patch({"recompile_limit": versions, "accumulated_recompile_limit": versions})
