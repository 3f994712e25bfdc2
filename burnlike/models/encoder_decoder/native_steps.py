"""Tokens of an EncoderDecoder one by one on the CPU, each by one native call where that computes its parts."""

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any, Self

import torch
from torch import Tensor, nn
from torch.nn import functional

from ...nn.attention.attend import split_heads
from ...nn.attention.positions import RelativePositionBias
from ...ops.decode_step import MOST_ROWS, DecodeForm, can_decode, decode_step
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
from .layers import EncoderDecoderLayer, FeedForward, UnscaledAttention

if TYPE_CHECKING:
    from .model import EncoderDecoderCache

for _kind in (EncoderDecoderLayer, FeedForward, RelativePositionBias, UnscaledAttention):
    decodes_natively(_kind)

_FIRST_SLOTS = 64


class NativeSteps(ReadModel):
    """Computes the logits after one more token of each row, over a memory whose keys and values it computes once."""

    _bias: Tensor | None = None

    def __init__(self, model: Any, reading: Reading, memory: Tensor, memory_ends: Tensor) -> None:
        self._slots, self._filled = 0, 0
        super().__init__(model, reading, self._read_again)
        self._memory_ends = memory_ends
        self._starts = torch.zeros_like(memory_ends)
        self._caches: list[Tensor] = []
        """Of each layer keys and values of the tokens, and keys and values of the memory."""
        for pair in self._projections():
            keys, values = (split_heads(it(memory), self.form.d_head) for it in pair)
            self._caches += [keys[:, :, :0], values[:, :, :0], keys, values]

    @classmethod
    def begin(
        cls, model: Any, memory: Tensor, attention_mask: Tensor | None, reading: Reading | None = None
    ) -> Self | None:
        """Native steps for second sequences that begin; None where the model's forward pass is to compute the tokens.

        Args:
            memory: `[batch, sequence, d_model]`, which the encoder gives.
            attention_mask: `[batch, sequence]`, 0 where it is padding, which the native call knows on the right.
            reading: of the model as it is now, where it was read already.
        """
        batch, length = memory.shape[:2]
        if memory.device.type != "cpu" or not can_decode() or not 1 <= batch <= MOST_ROWS:
            return None
        ends = torch.full((batch,), length - 1)
        if attention_mask is not None:
            is_seen = attention_mask != 0
            ends = is_seen.sum(-1) - 1
            if bool((ends < 0).any()) or not torch.equal(is_seen, torch.arange(length) <= ends[:, None]):
                return None
        reading = reading or cls.read(model)
        return None if reading is None else cls(model, reading, memory, ends)

    @classmethod
    def read(cls, model: Any) -> Reading | None:
        """The reading of the decoder of a model that the native call computes; None of others."""
        return native_model.read(model, _form_of, _weights_of)

    def _read_again(self, model: Any) -> Reading | None:
        """The reading of a model that was changed between two tokens."""
        return self.read(model)

    def take(self, weights: list[Tensor]) -> None:
        super().take(weights)
        self._note_model()

    def _note_model(self) -> None:
        embedding = self.model.embedding
        self._embed, self._epsilon = embedding.forward, self.model.decoder.norm.epsilon
        self._factor = embedding.weight.shape[1] ** -0.5
        self._compute_bias()

    def _projections(self) -> Iterator[tuple[nn.Module, nn.Module]]:
        """The layers that make keys and values of the memory."""
        return ((layer.cross_attention.key, layer.cross_attention.value) for layer in self.model.decoder.layers)

    def _vectors(self, tokens: Tensor) -> Tensor:
        """The vectors of tokens `[batch, 1]` for the first layer, float32 `[batch, d_model]`; they are written over."""
        return self._embed(tokens).float().flatten(0, 1)

    def _changed(self, logits: Tensor) -> Tensor:
        """The logits of the model, of those that the native call gives."""
        return logits.mul_(self._factor) if self.form.is_tied else logits

    def _compute_bias(self) -> None:
        """The bias of each head by the distance of a key, as weights are now: `[n_heads, slots]`."""
        if self._slots:
            bias = self.model.decoder.position_bias(1, self._slots, self._slots - 1)
            self._bias = bias[0, :, 0].flip(-1).float().contiguous()

    def next_logits(self, tokens: Tensor, *, unchanged: bool = False) -> Tensor | None:
        """The logits after `tokens` `[batch, 1]`, `[batch, vocab_size]`; None if it can't compute them.

        With `unchanged` it does not compare the model with what it was.
        """
        if tokens.shape != (len(self._starts), 1) or not (unchanged or self.is_current()):
            return None
        if self._filled == self._slots:
            more = max(self._slots, _FIRST_SLOTS)
            self._slots += more
            for index, cache in enumerate(self._caches):
                if index % 4 < 2:  # those behind are of the memory
                    self._caches[index] = functional.pad(cache, (0, 0, 0, more))
            self._compute_bias()
        elif not unchanged:
            self._compute_bias()
        return self.result_of(lambda: self._step(tokens))

    def _step(self, tokens: Tensor) -> Tensor:
        x, filled, form = self._vectors(tokens), self._filled, self.form
        options: dict[str, Any] = {"epsilon": self._epsilon, "bias": self._bias, "memory_ends": self._memory_ends}
        logits = decode_step(x, self.weights, self._caches, self._starts, None, filled, form, **options)
        self._filled += 1
        return self._changed(logits)

    def reorder(self, rows: Tensor) -> None:
        """Let each row go on with the tokens of another, int64 `[batch]`, of the same memory."""
        moved = (rows != torch.arange(len(rows))).nonzero()[:, 0]
        for index, cache in enumerate(self._caches):
            if index % 4 < 2:
                cache[moved, :, : self._filled] = cache[rows[moved], :, : self._filled]

    def hand_back(self, cache: "EncoderDecoderCache") -> None:
        """Give keys and values to the cache of the model's own forward pass."""
        for layer, place in zip(cache.layers, range(0, len(self._caches), 4), strict=True):
            key, value, *memory = self._caches[place : place + 4]
            layer.attention.key.tensor, layer.attention.value.tensor = (it[:, :, : self._filled] for it in (key, value))
            layer.cross_attention.key.tensor, layer.cross_attention.value.tensor = memory


def encoded(encode: Callable[[Tensor, Tensor | None], Tensor], tokens: Tensor, attention_mask: Tensor | None) -> Tensor:
    """The memory of first sequences `[batch, sequence]`; equal ones side by side, as beams have them, are read once."""
    shown = tokens if attention_mask is None else torch.stack((tokens, attention_mask.to(tokens.dtype)), -1)
    _, numbers = shown.unique_consecutive(return_inverse=True, dim=0)
    rows = numbers.diff(prepend=numbers.new_tensor([-1])).nonzero()[:, 0]
    return encode(tokens[rows], None if attention_mask is None else attention_mask[rows])[numbers]


def _form_of(model: Any) -> DecodeForm:
    layers, norm = model.decoder.layers, model.decoder.norm
    attentions = [it for layer in layers for it in (layer.attention, layer.cross_attention)]
    parts = [layer.feed_forward for layer in layers]
    norms = [it for layer in layers for it in _norms_of(layer)]
    linears = [it for layer in layers for it in _linears_of(layer)]
    forms = {(it.n_heads, it.d_head) for it in attentions}, {(activation_of(it), it.gated) for it in parts}
    if any(len(form) > 1 for form in (*forms, {it.epsilon for it in (*norms, norm)})):
        raise OtherModelError
    if any(linear.bias is not None for linear in linears) or not all(layer.decodes for layer in layers):
        raise OtherModelError
    ((n_heads, d_head),), ((activation, is_gated),) = forms
    return DecodeForm(
        n_heads=n_heads,
        n_heads_kv=n_heads,
        d_head=d_head,
        activation=activation,
        is_gated=is_gated,
        is_tied=model.head is None,
        has_memory=True,
        is_scaled=False,
    )


def _norms_of(layer: Any) -> tuple[Any, ...]:
    return layer.norm_attention, layer.norm_cross_attention, layer.norm_feed_forward


def _linears_of(layer: Any) -> list[Any]:
    """Linear layers that the native call computes in a layer, in its order."""
    itself, cross, part = layer.attention, layer.cross_attention, layer.feed_forward
    inner = (part.linear_gate, part.linear_value) if part.gated else (part.linear_inner,)
    return [itself.query, itself.key, itself.value, itself.output, cross.query, cross.output, *inner, part.linear_outer]


def _weights_of(model: Any) -> Iterator[Tensor]:
    for layer in model.decoder.layers:
        linears = _linears_of(layer)
        groups = (linears[:4], linears[4:6], linears[6:])
        for norm, group in zip(_norms_of(layer), groups, strict=True):
            yield from norm_weights(norm)
            for linear in group:
                yield from linear_weights(linear)
    yield from norm_weights(model.decoder.norm)
    if model.head is None:
        yield checked(model.embedding.weight)
    else:
        yield from linear_weights(model.head)
