"""Batches whose sequences several processes share, and the proof that a model takes them so."""

import inspect
from collections.abc import Callable, Mapping
from typing import Any

import torch
from torch import Tensor, nn

from ..._torch_compat.fake_tensors import is_fake
from ...data.configs import NO_TARGET
from ...errors import ConfigError, DataError
from ...module.torch_objects.wrappers import own_class, unwrap
from ...nn.divided_sequence import DividedSequence, sequence_of
from ...optim.core.sharded import whole as gathered
from ..learner.steps import evaluation_mode

_LONGEST = 256
"""Of how many tokens of a sequence the proof is."""
_CLOSE = {torch.float64: 1e-6, torch.float32: 1e-4}
_CLOSE_IN_16_BITS = 5e-2


def logits_tolerance(dtype: torch.dtype) -> float:
    """How far logits may be apart that are the same but for rounding, relative to the largest of them.

    Sums are added in another order, and some softmax is in float32 in any case.
    """
    return _CLOSE.get(dtype, _CLOSE_IN_16_BITS)


def own_parts(model: nn.Module, *tensors: Tensor, fill: float = NO_TARGET) -> tuple[Tensor, ...]:
    """This process's parts of tensors `[batch, sequence, ...]`, in the loss of a model with `distributed.context`.

    The model is then to be called with the part of its inputs, and the loss is that of the own positions, a StepOutput
    with their number. Tensors of integers are filled up with `fill`, the first one with 0, so that all parts are as
    long. Without `context` the tensors are returned.

    Example:
        def loss(model, batch):
            tokens, targets = own_parts(model, batch[:, :-1], batch[:, 1:])
            found = functional.cross_entropy(model(tokens).flatten(0, 1), targets.flatten())
            return StepOutput(found, int((targets != -100).sum()))
    """
    sequence = sequence_of(model)
    if sequence is None:
        return tensors
    first, *others = tensors
    sequence.begin(first.shape[1], first.device)
    return sequence.own(first), *(sequence.own(it, fill) for it in others)


def own_parts_of(model: nn.Module, inputs: Any, targets: Tensor, logits: Callable[[Any], Tensor]) -> tuple[Any, Tensor]:
    """This process's parts of a batch, and as it is where no sequences are divided.

    Args:
        model: what gets the inputs.
        inputs: int64 tokens `[batch, length]`, or a mapping of `input_ids` and more in the names of transformers.
        targets: `[batch, length]`, filled up with -100.
        logits: runs the model on inputs, `[batch, length, ...]`.

    Raises:
        ConfigError: the model does not give for parts of a sequence what it gives for the whole.
        DataError: an input is not of the tokens' shape.
    """
    sequence = sequence_of(model)
    if sequence is None:
        return inputs, targets
    named = inputs if isinstance(inputs, Mapping) else {"input_ids": inputs}
    if not (sequence.is_proven or is_fake(targets)):
        _expect_same(model, sequence, named, logits)
    return _own(model, sequence, named), sequence.own(targets, NO_TARGET)


def _own(model: nn.Module, sequence: DividedSequence, named: Mapping[str, Any]) -> dict[str, Tensor]:
    """The parts of the model's inputs; where its positions are is in them, or the model's layers know it."""
    from ...models.decoder_lm.block import documents_of, positions_of

    tokens: Tensor = named["input_ids"]
    length, names = tokens.shape[1], {*inspect.signature(own_class(unwrap(model)).forward).parameters}
    if length % sequence.n_pieces and model.training and getattr(model, "has_balance", False):
        raise ConfigError(
            f"distributed.context: expected sequences of a multiple of {sequence.n_pieces} tokens, since padding would"
            f" count in the balance of experts, got {length}; set the context_length or max_length of `data`"
        )
    mask, positions = named.get("attention_mask"), named.get("position_ids")
    hidden = None if mask is None else mask == 0
    documents = None if positions is None else documents_of(positions)
    if positions is None:
        every = torch.arange(length, device=tokens.device).expand_as(tokens)
        positions = every if hidden is None or "mask_pad" not in names else positions_of(hidden)
    sequence.begin(length, tokens.device, hidden, documents)
    whole = {name: it for name, it in named.items() if name not in ("attention_mask", "position_ids")}
    if names & {"position_ids", "positions"}:
        whole["position_ids"] = positions
    for name, value in whole.items():
        if not isinstance(value, Tensor) or value.shape[:2] != tokens.shape:
            got = list(value.shape) if isinstance(value, Tensor) else type(value).__name__
            raise DataError(
                f"distributed.context: expected '{name}' of the tokens' shape {list(tokens.shape)}, got {got}"
            )
    return {name: sequence.own(it) for name, it in whole.items()}


@torch.no_grad()
def _expect_same(
    model: nn.Module, sequence: DividedSequence, named: Mapping[str, Any], logits: Callable[[Any], Tensor]
) -> None:
    """Prove on some tokens of a batch that the model, in evaluation, gives the same for parts as for the whole."""
    some = {name: it[:1, :_LONGEST] if isinstance(it, Tensor) else it for name, it in named.items()}
    try:
        device = some["input_ids"].device
        with evaluation_mode(model), torch.random.fork_rng(devices=[]), torch.autocast(device.type, enabled=False):
            whole = gathered(logits(some))
            logits_of_parts = gathered(logits(_own(model, sequence, some)))
        counts = sequence.places < whole.shape[1]
        if sequence.hidden is not None:  # what padding gives does not matter
            counts = counts & ~sequence.hidden[0, sequence.places]
        logits_of_parts, expected = logits_of_parts[0, counts], sequence.own(whole)[0, counts]
        largest = expected.abs().max().item() if len(expected) else 0.0
        apart = (logits_of_parts - expected).abs().max().item() if len(expected) else 0.0
        problem = not apart <= logits_tolerance(logits_of_parts.dtype) * (largest or 1.0)
        if sequence.agree(problem):
            name = own_class(unwrap(model)).__name__
            raise ConfigError(
                f"distributed.context: {name} does not give for parts of a sequence what it gives for the whole, as it"
                " does more with a sequence than attention that knows of its parts; leave out `context`, or take"
                " DecoderLm, an encoder, or a model of transformers that attends by its AttentionInterface"
            )
        sequence.is_proven = True
    finally:
        sequence.end()
