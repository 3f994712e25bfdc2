"""Which activations of a model's blocks are kept, and which are computed again in the backward pass."""

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from functools import partial
from typing import Any

import torch
from torch import nn
from torch.utils.checkpoint import CheckpointPolicy, checkpoint, create_selective_checkpoint_contexts

from ...errors import ConfigError
from ..parallel.fsdp2 import blocks_of
from .configs import SAVED_OPS, CheckpointingConfig


class CheckpointedForward:
    """The forward of one block, whose activations are computed again in the backward pass."""

    def __init__(self, forward: Any, block: nn.Module, contexts: Callable[[], Any] | None = None) -> None:
        self._forward, self._block = forward, block
        self._options: dict[str, Any] = {} if contexts is None else {"context_fn": contexts}

    def __call__(self, *arguments: Any, **keywords: Any) -> Any:
        if self._block.training and torch.is_grad_enabled():
            return checkpoint(self._forward, *arguments, use_reentrant=False, **self._options, **keywords)
        return self._forward(*arguments, **keywords)


@contextmanager
def checkpointed(model: nn.Module, config: CheckpointingConfig | None = None) -> Iterator[None]:
    """Checkpoint the blocks of a model within the `with` block; a ConfigError if it has none, or no op is so called."""
    config = config or CheckpointingConfig()
    blocks = blocks_of(model)[:: config.every]
    if not blocks:
        raise ConfigError(
            "training.activation_checkpointing: the model has no blocks, which are modules of one class in a list, with"
            " modules in them; leave it out, or call torch.utils.checkpoint in the model's forward"
        )
    contexts = partial(_contexts, frozenset(_ops(config.save))) if config.save else None
    before = [vars(block).get("forward") for block in blocks]
    for block in blocks:
        vars(block)["forward"] = CheckpointedForward(block.forward, block, contexts)
    try:
        yield
    finally:
        for block, own in zip(blocks, before, strict=True):
            vars(block).pop("forward", None)
            if own is not None:
                vars(block)["forward"] = own


def _contexts(saved: frozenset[str]) -> tuple[AbstractContextManager[Any], AbstractContextManager[Any]]:
    def policy(_: Any, op: Any, *arguments: Any, **keywords: Any) -> CheckpointPolicy:
        is_saved = op.name().partition(".")[0] in saved
        return CheckpointPolicy.MUST_SAVE if is_saved else CheckpointPolicy.PREFER_RECOMPUTE

    return create_selective_checkpoint_contexts(policy)


def _ops(names: tuple[str, ...]) -> Iterator[str]:
    """The ops that names stand for, as torch calls them: `aten::mm`."""
    for place, name in enumerate(names):
        if name in SAVED_OPS:
            yield from SAVED_OPS[name]
            continue
        namespace, _, op = name.partition(".")
        if not hasattr(getattr(torch.ops, namespace), op):
            raise ConfigError(
                f"training.activation_checkpointing.save.{place}: torch has no op {name}; expected"
                f" {', '.join(SAVED_OPS)}, or one of torch.ops, such as aten.mm or burnlike.swiglu"
            )
        yield f"{namespace}::{op}"
