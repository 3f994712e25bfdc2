"""Generation from language models, token by token."""

from typing import TYPE_CHECKING

import torch
from torch import Tensor

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
def generate(
    model: "DecoderLm",
    tokens: Tensor,
    max_new_tokens: int,
    *,
    mask_pad: Tensor | None,
    temperature: float,
    top_k: int | None,
    top_p: float | None,
    stop_tokens: tuple[int, ...],
    pad_token: int,
    use_cache: bool,
    generator: torch.Generator | None,
) -> Tensor:
    """Continue sequences; `DecoderLm.generate` describes it."""
    _check(model, tokens, max_new_tokens, mask_pad, top_k, top_p)
    batch, prompt = tokens.shape
    was_training = model.training
    model.eval()
    cache = model.new_cache(batch, prompt + max_new_tokens) if use_cache else None
    finished = torch.zeros(batch, dtype=torch.bool, device=tokens.device)
    stops = torch.tensor(stop_tokens, dtype=torch.int64, device=tokens.device)
    mask, last = mask_pad, tokens
    for _ in range(max_new_tokens):
        logits = model(tokens, mask) if cache is None else model(last, mask, cache=cache)
        drawn = next_tokens(logits[:, -1], temperature=temperature, top_k=top_k, top_p=top_p, generator=generator)
        last = drawn.masked_fill(finished, pad_token)[:, None]
        tokens = torch.cat((tokens, last), 1)
        finished = finished | torch.isin(drawn, stops)
        if stop_tokens and bool(finished.all()):
            break
        if mask is not None:
            mask = None if use_cache else torch.cat((mask, torch.zeros_like(mask[:, :1])), 1)
    model.train(was_training)
    return tokens


def _check(
    model: "DecoderLm",
    tokens: Tensor,
    max_new_tokens: int,
    mask_pad: Tensor | None,
    top_k: int | None,
    top_p: float | None,
) -> None:
    longest = model.config.max_sequence_length
    if tokens.ndim != 2 or tokens.shape[1] < 1 or tokens.shape[1] + max_new_tokens > longest:
        expected = f"tokens [batch, sequence >= 1] of which {max_new_tokens} more fit into {longest}"
        raise ArgumentError(f"generate: expected {expected}, got {list(tokens.shape)}")
    if mask_pad is not None and bool(mask_pad[:, -1].any()):
        raise ArgumentError("generate: mask_pad: expected padding on the left, got rows that end in padding")
    if top_k is not None and top_k < 1:
        raise ArgumentError(f"generate: top_k: expected 1 or more, got {top_k}")
    if top_p is not None and not 0 < top_p <= 1:
        raise ArgumentError(f"generate: top_p: expected more than 0 and at most 1, got {top_p}")
