"""Tokens of a DecoderLm one by one on the CPU, each by one native call, where its parts compute what that computes."""

from collections.abc import Iterator
from typing import Any

import torch
from torch import Tensor

from ...nn.attention.causal_attention import CausalAttention
from ...nn.attention.rotary_encoding import RotaryEncoding
from ...nn.norm.norm import LayerNorm
from ...ops.decode_step import MOST_READ, MOST_ROWS, MOST_TOKENS, DecodeForm, can_decode, decode_step
from .. import native_model
from ..native_model import (
    OtherModelError,
    Reading,
    ReadModel,
    activation_of,
    checked,
    decodes_natively,
    linear_weights,
    norm_weights,
)
from .block import DecoderBlock, DecoderCache

for _kind in (CausalAttention, DecoderBlock, RotaryEncoding):
    decodes_natively(_kind)


class NativeSteps(ReadModel):
    """Computes the logits after one more token of each row, with the keys and values of the tokens before.

    Where the model differs from what it was, `native_steps` is to be asked anew.
    """

    def __init__(self, model: Any, cache: DecoderCache, reading: Reading) -> None:
        super().__init__(model, reading, read)
        self._cache, weights = cache, reading[1]
        self._filled = int(cache.layers[0].filled)
        self._caches = [it for layer in cache.layers for it in (layer.key, layer.value)]
        self._starts = cache.padding.sum(-1)
        self._most = min((MOST_READ[it.dtype] for it in weights if it.ndim == 2 and it.shape[1] > 1), default=0)

    def next_logits(self, tokens: Tensor, *, every: bool = False, unchanged: bool = False) -> Tensor | None:
        """The logits after `tokens` `[batch, new]`, `[batch, vocab_size]`; None if it can't compute them.

        With `every` those after each of them, `[batch, new, vocab_size]`. With `unchanged` it does not compare the
        model with what it was, which takes a tenth of a step.
        """
        if tokens.ndim != 2:
            return None
        rows, new = tokens.shape
        fits = rows == len(self._starts) and 1 <= new <= self._cache.layers[0].length - self._filled
        if not fits or (new > 1 and tokens.numel() > self._most):
            return None
        if not unchanged and not self.is_current():
            return None
        steps = self.result_of(lambda: [self._step(part) for part in tokens.split(MOST_TOKENS // rows, 1)])
        if steps is None:
            return None
        if every:
            x = torch.cat([vectors.unflatten(0, (rows, -1)) for _, vectors in steps], 1)
            return self.model._logits(self.model.norm(x.to(self.model.norm.gamma.dtype)))
        logits, cap = steps[-1][0], self.model.config.logit_soft_cap
        return logits if cap is None else (logits / cap).tanh_().mul_(cap)

    def take(self, weights: list[Tensor]) -> None:
        super().take(weights)
        model = self.model
        self._embed, attention = model.embedding.forward, model.blocks[0].attention
        self._position = model.position.forward if "position" in model._modules else None
        self._rotary = attention.rotary
        self._options = {"epsilon": model.norm.epsilon, "soft_cap": attention.soft_cap}

    def _step(self, tokens: Tensor) -> tuple[Tensor, Tensor]:
        """The logits after the last token, and what the native call leaves in x: each vector behind the blocks."""
        end = self._filled + tokens.shape[1]
        x = self._embed(tokens)
        if self._position is not None:
            x = x + self._position((torch.arange(self._filled, end) - self._starts[:, None]).clamp(min=0))
        rotary = self._rotary
        tables = None if rotary is None else (rotary.cosine.float(), rotary.sine.float())
        filled, form, x = self._filled, self.form, x.float().flatten(0, 1)
        logits = decode_step(x, self.weights, self._caches, self._starts, tables, filled, form, **self._options)
        self._filled = end
        return logits, x

    def rewind(self, count: int) -> None:
        """Forget the last `count` tokens, whose slots the next ones get."""
        self._filled -= count

    def hand_back(self) -> None:
        """Note in the cache how many of its slots are filled, for the model's own forward pass."""
        for layer in self._cache.layers:
            layer.filled.fill_(self._filled)


def native_steps(model: Any, cache: DecoderCache, new: int = 0) -> NativeSteps | None:
    """Native steps for a model whose prompt, but for its last `new` tokens, is in the cache, and all padding too.

    None where its forward pass is to compute the tokens.

    The native call computes what the classes of burnlike's parts compute: any hook, adapter, other class, device or
    element type, processes that share the model, and a mixture of experts leave it to them.
    """
    if cache.padding.device.type != "cpu":
        return None
    batch, length = cache.padding.shape
    filled = int(cache.layers[0].filled) + new
    if not can_decode() or not 1 <= batch <= MOST_ROWS or not 0 < filled <= length:
        return None
    starts = cache.padding.sum(-1, keepdim=True)
    if not torch.equal(cache.padding, torch.arange(length) < starts) or bool((starts >= filled).any()):
        return None  # the padding is not all at the left
    reading = read(model)
    return None if reading is None else NativeSteps(model, cache, reading)


def read(model: Any) -> Reading | None:
    """The reading of a DecoderLm that the native call computes, whatever is in a cache; None of others."""
    return native_model.read(model, _form_of, _weights_of)


def native_prompt(model: Any, cache: DecoderCache, tokens: Tensor, mask_pad: Tensor | None) -> NativeSteps | None:
    """Native steps that read the tokens `[batch, new]` into an empty cache first; None as of `native_steps`."""
    batch, length = cache.padding.shape
    fits = tokens.ndim == 2 and len(tokens) == batch and tokens.shape[1] <= length
    if not fits or tokens.numel() > max(MOST_READ.values()) or cache.padding.device != tokens.device:
        return None
    if mask_pad is not None:
        if mask_pad.shape != tokens.shape or mask_pad.dtype != torch.bool:
            return None  # the forward pass refuses it
        cache.padding[:, : tokens.shape[1]] = mask_pad
    return native_steps(model, cache, tokens.shape[1])


def _form_of(model: Any) -> DecodeForm:
    blocks, attention = model.blocks, model.blocks[0].attention
    forms = {_form_of_block(block) for block in blocks}
    norms = [it for block in blocks for it in (block.norm_attention, block.norm_feed_forward)] + [model.norm]
    norms += [norm for block in blocks if attention.query_key_norm for norm in _head_norms(block.attention)]
    rotary = attention.rotary
    same_tables = all(block.attention.rotary is rotary for block in blocks)
    if len(forms) > 1 or len({norm.epsilon for norm in norms}) > 1 or not same_tables:
        raise OtherModelError
    if rotary is not None and (rotary.by_length or rotary.cosine.device.type != "cpu"):
        raise OtherModelError
    activation, is_gated, feed_forward_bias = _feed_forward_of(blocks[0])
    return DecodeForm(
        n_heads=attention.n_heads,
        n_heads_kv=attention.n_heads_kv,
        d_head=attention.d_head,
        activation=activation,
        is_gated=is_gated,
        is_centered=type(model.norm) is LayerNorm,
        has_projection_bias=attention.query.bias is not None,
        has_output_bias=attention.output.bias is not None,
        has_feed_forward_bias=feed_forward_bias,
        has_head_norms=attention.query_key_norm,
        interleaved=rotary is not None and rotary.config.interleaved,
        is_tied=model.config.tied,
        window=attention.sliding_window or 0,
    )


def _form_of_block(block: Any) -> tuple[Any, ...]:
    attention = block.attention
    sizes = (attention.n_heads, attention.n_heads_kv, attention.d_head, attention.sliding_window, attention.soft_cap)
    biases = tuple(getattr(attention, name).bias is not None for name in ("query", "key", "value", "output"))
    if len({*biases[:3]}) > 1:
        raise OtherModelError
    return (*sizes, *biases, attention.query_key_norm, type(block.norm_attention), *_feed_forward_of(block))


def _feed_forward_of(block: Any) -> tuple[int, bool, bool]:
    """The activation, whether there is a gate, whether there are biases."""
    part = block.gate if block.gated else block.feed_forward
    biases = {it.bias is not None for it in _linears_of(block)}
    if len(biases) > 1:
        raise OtherModelError
    return activation_of(part), block.gated, biases.pop()


def _linears_of(block: Any) -> tuple[Any, ...]:
    part = block.gate if block.gated else block.feed_forward
    inner = (part.linear_inner, part.linear_outer)
    return (*inner, block.linear) if block.gated else inner


def _head_norms(attention: Any) -> tuple[Any, Any]:
    return attention.norm_query, attention.norm_key


def _weights_of(model: Any) -> Iterator[Tensor]:
    for block in model.blocks:
        attention = block.attention
        yield from norm_weights(block.norm_attention)
        for linear in (attention.query, attention.key, attention.value, attention.output):
            yield from linear_weights(linear)
        for norm in _head_norms(attention) if attention.query_key_norm else ():
            yield from norm_weights(norm)
        yield from norm_weights(block.norm_feed_forward)
        for linear in _linears_of(block):
            yield from linear_weights(linear)
    yield from norm_weights(model.norm)
    if model.config.tied:
        yield checked(model.embedding.weight)
    else:
        yield from linear_weights(model.head)
