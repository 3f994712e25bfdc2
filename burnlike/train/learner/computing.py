"""How a model computes while it is trained: compiled, in 8 bits, with activations that are computed again."""

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager
from functools import partial
from typing import Any

import torch
from torch import nn
from torch.utils.checkpoint import CheckpointPolicy, checkpoint, create_selective_checkpoint_contexts

from ..._torch_compat.inductor import quote_paths
from ...errors import ConfigError
from ..parallel.fsdp2 import blocks_of
from .configs import SAVED_OPS, CheckpointingConfig, TrainingConfig
from .eight_bits import in_float8, replaced_forwards


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
    """Let torch compile one version per layer: the forward of every layer is the same function to it, `lift`, of which
    it would keep 8 versions.

    Where exchanges between processes break the code into parts, each kind of layer is a version of its own.
    """
    import torch.compiler.config

    config: Any = torch.compiler.config
    versions = max(256, 8 * sum(1 for _ in model.modules()))
    return config.patch({"recompile_limit": versions, "accumulated_recompile_limit": versions})


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
    with replaced_forwards([(it, CheckpointedForward(it.forward, it, contexts)) for it in blocks]):
        yield


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
