"""Activation checkpointing of a model's blocks, for as long as it trains."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import torch
from torch import nn
from torch.utils.checkpoint import checkpoint

from ...errors import ConfigError
from ..parallel.strategies import blocks_of


class CheckpointedForward:
    """The forward of one block, whose activations are computed again in the backward pass."""

    def __init__(self, forward: Any, block: nn.Module) -> None:
        self._forward = forward
        self._block = block

    def __call__(self, *arguments: Any, **keywords: Any) -> Any:
        if self._block.training and torch.is_grad_enabled():
            return checkpoint(self._forward, *arguments, use_reentrant=False, **keywords)
        return self._forward(*arguments, **keywords)


@contextmanager
def checkpointed(model: nn.Module) -> Iterator[None]:
    """Checkpoint the blocks of a model within the `with` block."""
    blocks = blocks_of(model)
    if not blocks:
        raise ConfigError(
            "training.activation_checkpointing: the model has no blocks, which are modules of one class in a list, with"
            " modules in them; leave it out, or call torch.utils.checkpoint in the model's forward"
        )
    before = [vars(block).get("forward") for block in blocks]
    for block in blocks:
        vars(block)["forward"] = CheckpointedForward(block.forward, block)
    try:
        yield
    finally:
        for block, own in zip(blocks, before, strict=True):
            vars(block).pop("forward", None)
            if own is not None:
                vars(block)["forward"] = own
