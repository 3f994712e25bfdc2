"""How a model computes while it is trained: compiled, in 8 bits, with activations that are computed again."""

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager

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
            model.compile()
        if training.float8 is not None:
            layers = stack.enter_context(in_float8(model, training.float8, device))
            notes.append(f"float8    {len(layers)} linear layers, {training.float8.recipe}")
        if training.checkpointing is not None:
            stack.enter_context(checkpointed(model, training.checkpointing))
        yield notes
