"""Whether a model has all classes and tokens that the data has."""

from collections.abc import Iterator, Mapping
from typing import Any

from torch import Tensor, nn

from ...data.sources.splits import classes_of
from ..learner.steps import StepOutput
from .configs import TrainConfig


def class_problems(config: TrainConfig, output: StepOutput, batch: Any, data: Any) -> Iterator[tuple[str, str]]:
    """Fewer classes among the logits than in the data, by its names, its vocabulary and its first targets."""
    logits, targets = output.predictions, output.targets
    if not (isinstance(logits, Tensor) and isinstance(targets, Tensor)):
        return
    if targets.is_floating_point() or logits.dim() != targets.dim() + 1:
        return
    given = logits.shape[-1 if logits.shape[:-1] == targets.shape else 1]
    given = 2 if given == 1 and output.logits else given  # one of two
    classes = classes_of(data)
    needed = (getattr(data, "vocab_size", None) or 0) if classes is None else len(classes)
    task: Any = config.task
    ignored = getattr(getattr(task, "task", task), "ignore_index", None)
    for tensor in tensors_in(_targets_in(batch)):
        if tensor.shape == targets.shape and tensor.dtype == targets.dtype and tensor.numel():
            counted = tensor if ignored is None else tensor[tensor != ignored]
            needed = max(needed, int(counted.max()) + 1 if counted.numel() else 0)
    if given < needed:
        yield ("model", f"gives logits of {given} classes, and the data has {needed} at least")


def _targets_in(batch: Any) -> Any:
    """The part of a batch that has targets, where it is known: tokens of an input are no classes."""
    if isinstance(batch, Mapping):
        return batch.get("labels", batch)
    return batch[1] if isinstance(batch, tuple | list) and len(batch) == 2 else batch


def token_problem(module: nn.Module, batch: Any, data: Any) -> str:
    """What is wrong if the data has tokens that a model of transformers has no vector for; empty if it has all."""
    embedding: Any = getattr(module, "get_input_embeddings", None)
    tokens = batch.get("input_ids") if isinstance(batch, Mapping) else batch
    if not (callable(embedding) and isinstance(tokens, Tensor)) or tokens.is_floating_point() or not tokens.numel():
        return ""
    try:
        known = getattr(embedding(), "num_embeddings", None)
    except (NotImplementedError, AttributeError):  # of a model that reads no tokens
        return ""
    needed = max(getattr(data, "vocab_size", None) or 0, int(tokens.max()) + 1)
    if known is None or needed <= known:
        return ""
    return f"knows {known} tokens, and the data has {needed}: its tokenizer is that of another model"


def tensors_in(batch: Any) -> Iterator[Tensor]:
    """The tensors of a batch: itself, or those in its lists and mappings."""
    if isinstance(batch, Tensor):
        yield batch
    elif isinstance(batch, dict | list | tuple):
        for it in batch.values() if isinstance(batch, dict) else batch:
            yield from tensors_in(it)
