"""Generation from language models, token by token."""

from collections.abc import Callable
from typing import TypedDict

import torch
from torch import Tensor, nn

from ..errors import ArgumentError
from ..module.torch_objects.wrappers import is_sharded

COLDEST = 1e-30
"""A temperature below this takes the likeliest token: the logits divided by it would be no float32."""


class GenerateOptions(TypedDict, total=False):
    """The keywords that `generate` of each language model takes.

    Attributes:
        temperature: divides the logits; 0, the default, takes the likeliest token.
        top_k: how many of the likeliest tokens are drawn from; None, the default, for all.
        top_p: the likeliest tokens that together have this probability are drawn from (Holtzman et al. 2020, section
            3.1), the first of them in any case; None, the default, for all.
        stop_tokens: each ends a sequence, and is kept; the others go on until all have ended. None by default.
        pad_token: what ended sequences are filled up with; 0 by default.
        generator: of the draws, on the model's device; None, the default, for torch's.
    """

    temperature: float
    top_k: int | None
    top_p: float | None
    stop_tokens: tuple[int, ...]
    pad_token: int
    generator: torch.Generator | None


def next_tokens(
    logits: Tensor,
    *,
    temperature: float = 1.0,
    top_k: int | None = None,
    top_p: float | None = None,
    generator: torch.Generator | None = None,
) -> Tensor:
    """Draw a token for each row of `[batch, vocab_size]`, int64 `[batch]`; for the options see `GenerateOptions`."""
    _check_drawing(temperature, top_k, top_p)
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
    model: nn.Module,
    next_logits: Callable[[Tensor], Tensor],
    tokens: Tensor,
    max_new_tokens: int,
    *,
    longest: int | None = None,
    temperature: float = 0.0,
    top_k: int | None = None,
    top_p: float | None = None,
    stop_tokens: tuple[int, ...] = (),
    pad_token: int = 0,
    generator: torch.Generator | None = None,
) -> Tensor:
    """Add tokens one by one, with `model` in evaluation; its mode, and that of each part, is restored at the end.

    Args:
        next_logits: called with the tokens that it has not seen yet, int64 `[batch, new]`: all of `tokens` first, then
            one at a time; returns `[batch, vocab_size]`, of the token after them.
        tokens: int64 `[batch, prompt]`.
        longest: how many tokens a sequence may have with those that are added; None for any number.

    Returns:
        int64 `[batch, prompt + up to max_new_tokens]`.
    """
    if tokens.ndim != 2 or tokens.shape[1] < 1:
        raise ArgumentError(f"generate: expected tokens [batch, sequence >= 1], got {list(tokens.shape)}")
    if max_new_tokens < 0:
        raise ArgumentError(f"generate: max_new_tokens: expected 0 or more, got {max_new_tokens}")
    if longest is not None and tokens.shape[1] + max_new_tokens > longest:
        got = f"a prompt of {tokens.shape[1]} and max_new_tokens of {max_new_tokens}"
        raise ArgumentError(f"generate: expected at most {longest} tokens together (max_sequence_length), got {got}")
    _check_drawing(temperature, top_k, top_p)
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


def gathers_as_forward(model: nn.Module, *methods: str) -> None:
    """Let methods of a model under `fully_shard` gather its parameters, as its forward does; nothing for others."""
    if not is_sharded(model):
        return
    from torch.distributed.fsdp import register_fsdp_forward_method

    for name in methods:
        if name not in model.__dict__:  # else it is registered
            register_fsdp_forward_method(model, name)


def _check_drawing(temperature: float, top_k: int | None, top_p: float | None) -> None:
    if not temperature >= 0:
        raise ArgumentError(f"temperature: expected 0 or more, got {temperature}")
    if top_k is not None and top_k < 1:
        raise ArgumentError(f"top_k: expected 1 or more, got {top_k}")
    if top_p is not None and not 0 < top_p <= 1:
        raise ArgumentError(f"top_p: expected more than 0 and at most 1, got {top_p}")
