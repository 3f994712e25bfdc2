"""Generation from language models, token by token."""

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor, nn
from torch.nn import functional

from ..errors import ArgumentError

if TYPE_CHECKING:
    from .decoder_lm import DecoderLm

COLDEST = 1e-30
"""A temperature below this takes the likeliest token: the logits divided by it would be no float32."""


def next_tokens(
    logits: Tensor,
    *,
    temperature: float = 1.0,
    top_k: int | None = None,
    top_p: float | None = None,
    generator: torch.Generator | None = None,
) -> Tensor:
    """Draw a token for each row.

    Args:
        logits: `[batch, vocab_size]`.
        temperature: divides the logits; 0 takes the likeliest token.
        top_k: how many of the likeliest tokens are drawn from; None for all.
        top_p: the likeliest tokens that together have this probability are drawn from (Holtzman et al. 2020, section
            3.1), the first of them in any case; None for all.
        generator: of the draws, on the device of the logits; None for torch's.

    Returns:
        int64 `[batch]`.
    """
    if temperature < COLDEST:
        return logits.argmax(-1)
    # The largest is 0, so that nothing overflows.
    scaled = (logits - logits.amax(-1, keepdim=True)).float() / temperature
    if top_k is not None and top_k < logits.shape[-1]:
        scaled = scaled.masked_fill(scaled < scaled.topk(top_k, -1).values[..., -1:], -torch.inf)
    if top_p is not None:
        ordered, places = scaled.sort(-1, descending=True)
        probabilities = ordered.softmax(-1)
        before = probabilities.cumsum(-1) - probabilities
        left_out = (before >= top_p).index_fill(-1, torch.zeros(1, dtype=torch.int64, device=scaled.device), False)
        scaled = scaled.masked_fill(left_out.scatter(-1, places, left_out), -torch.inf)
    return torch.multinomial(scaled.softmax(-1), 1, generator=generator).squeeze(-1)


@torch.no_grad()
def continued(
    model: nn.Module,
    next_logits: Callable[[Tensor], Tensor],
    tokens: Tensor,
    max_new_tokens: int,
    *,
    temperature: float,
    top_k: int | None,
    top_p: float | None,
    stop_tokens: tuple[int, ...],
    pad_token: int,
    generator: torch.Generator | None,
) -> Tensor:
    """Add tokens one by one, with `model` in evaluation.

    Args:
        model: whose mode, and that of each part, is restored at the end.
        next_logits: called with the tokens that it has not seen yet, int64 `[batch, new]`: all of `tokens` first, then
            one at a time; returns `[batch, vocab_size]`, of the token after them.
        tokens: int64 `[batch, prompt]`.
        max_new_tokens: how many to add at most.
        temperature, top_k, top_p, generator: of `next_tokens`.
        stop_tokens: each ends a sequence, and is kept; the others go on until all have ended.
        pad_token: what ended sequences are filled up with.

    Returns:
        int64 `[batch, prompt + up to max_new_tokens]`.

    Raises:
        ArgumentError: there is no prompt, or temperature, top_k or top_p is out of its range.
    """
    if tokens.ndim != 2 or tokens.shape[1] < 1:
        raise ArgumentError(f"generate: expected tokens [batch, sequence >= 1], got {list(tokens.shape)}")
    if not temperature >= 0:
        raise ArgumentError(f"generate: temperature: expected 0 or more, got {temperature}")
    if top_k is not None and top_k < 1:
        raise ArgumentError(f"generate: top_k: expected 1 or more, got {top_k}")
    if top_p is not None and not 0 < top_p <= 1:
        raise ArgumentError(f"generate: top_p: expected more than 0 and at most 1, got {top_p}")
    finished = torch.zeros(len(tokens), dtype=torch.bool, device=tokens.device)
    stops = torch.tensor(stop_tokens, dtype=torch.int64, device=tokens.device)
    last, modes = tokens, {part: part.training for part in model.modules()}
    model.eval()
    try:
        for _ in range(max_new_tokens):
            logits = next_logits(last)
            drawn = next_tokens(logits, temperature=temperature, top_k=top_k, top_p=top_p, generator=generator)
            last = drawn.masked_fill(finished, pad_token)[:, None]
            tokens = torch.cat((tokens, last), 1)
            finished = finished | torch.isin(drawn, stops)
            if stop_tokens and bool(finished.all()):
                break
    finally:
        for part, training in modes.items():
            part.training = training
    return tokens


def generate(
    model: "DecoderLm",
    tokens: Tensor,
    max_new_tokens: int,
    *,
    mask_pad: Tensor | None,
    use_cache: bool,
    **drawing: Any,
) -> Tensor:
    """Continue sequences; `DecoderLm.generate` describes it."""
    longest = model.config.max_sequence_length
    if tokens.ndim != 2 or tokens.shape[1] < 1 or tokens.shape[1] + max_new_tokens > longest:
        expected = f"tokens [batch, sequence >= 1] of which {max_new_tokens} more fit into {longest}"
        raise ArgumentError(f"generate: expected {expected}, got {list(tokens.shape)}")
    if mask_pad is not None and bool(mask_pad[:, -1].any()):
        raise ArgumentError("generate: mask_pad: expected padding on the left, got rows that end in padding")
    batch, prompt = tokens.shape
    cache = model.new_cache(batch, prompt + max_new_tokens) if use_cache else None
    seen, mask = tokens[:, :0], mask_pad

    def next_logits(new: Tensor) -> Tensor:
        nonlocal seen, mask
        if cache is not None:
            logits, mask = model(new, mask, cache=cache), None
        else:
            seen = torch.cat((seen, new), 1)
            if mask is not None:
                mask = functional.pad(mask, (0, seen.shape[1] - mask.shape[1]))
            logits = model(seen, mask)
        return logits[:, -1]

    return continued(model, next_logits, tokens, max_new_tokens, **drawing)
