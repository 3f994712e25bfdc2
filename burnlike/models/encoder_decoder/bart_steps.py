"""Tokens of transformers' encoder-decoders in BART's layout, one by one on the CPU, over the weights of their modules.

There is no model of ours beside them: transformers computes the memory, and each token is one native call.
"""

from collections.abc import Iterator
from functools import partial
from itertools import chain
from types import SimpleNamespace
from typing import Any

import torch
from torch import Tensor, nn

from ...errors import ArgumentError
from ...ops.decode_step import DecodeForm
from .. import native_model
from ..decoder_lm.transformers_twin import has_stock_attention, is_stock
from ..generation import Reader
from ..native_model import OtherModelError, Reading, activation_of, checked
from ..weights.options import ACTIVATIONS
from .native_steps import NativeSteps, encoded

_CLASSES = ("MarianMTModel", *(f"{it}ForConditionalGeneration" for it in ("Bart", "Blenderbot", "MBart", "PLBart")))
_CLASSES += ("PegasusForConditionalGeneration",)
_PROVEN_TOKENS = 2
_TOLERANCE = {torch.float32: 1e-4, torch.bfloat16: 5e-2}
"""Of the difference of proven logits, as a part of the largest."""


def with_native_steps(reader: Reader, model: Any, tokens: Tensor, mask_pad: Tensor | None) -> Reader:
    """A Reader whose tokens the native call computes, where it can; where it can't, `reader` of the same model does."""
    if type(model).__name__ not in _CLASSES:
        return reader
    steps: BartSteps | None = None
    seen = reader.first[:, :0]

    def next_logits(new: Tensor, *, unchanged: bool = False) -> Tensor:
        nonlocal steps, seen
        is_first, seen = seen.shape[1] == 0, torch.cat((seen, new), 1)
        if max(tokens.shape[1], seen.shape[1]) > (most := model.config.max_position_embeddings):
            got = f"a prompt of {tokens.shape[1]} and a text of {seen.shape[1]}"
            raise ArgumentError(f"{type(model).__name__}: expected at most {most} tokens in each sequence, got {got}")
        if is_first:
            steps = _proven_steps(model, tokens, None if mask_pad is None else ~mask_pad, new)
        if steps is not None:
            if (logits := steps.next_logits(new, unchanged=unchanged)) is not None:
                return logits
            steps, new = None, seen  # the model reads all again
        return reader.next_logits(new)

    def reorder(rows: Tensor) -> None:
        nonlocal seen
        seen = seen[rows]
        if steps is not None:
            steps.reorder(rows)
        elif reader.reorder is not None:
            reader.reorder(rows)

    unchanged = partial(next_logits, unchanged=True)
    return reader._replace(next_logits=next_logits, reorder=reorder, next_unchanged=unchanged)


def _proven_steps(model: Any, tokens: Tensor, mask: Tensor | None, start: Tensor) -> "BartSteps | None":
    """Native steps that give the first logits of the model's own forward pass; None where they don't."""
    if start.shape[1] != 1 or (reading := BartSteps.read(model)) is None:
        return None
    memory = encoded(lambda *inputs: model.get_encoder()(*inputs)[0], tokens, mask)
    steps = BartSteps.begin(model, memory, mask, reading)
    if steps is None:
        return None
    longest = slice(None, 1) if mask is None else mask.sum(1).argmax()[None]
    shown, memory, mask = start[:1].expand(1, _PROVEN_TOKENS), memory[longest], None if mask is None else mask[longest]
    options = {"encoder_outputs": (memory,), "attention_mask": mask, "use_cache": False}
    expected = model(decoder_input_ids=shown, **options).logits.float()
    proof = BartSteps.begin(model, memory, mask, reading)
    columns = [proof and proof.next_logits(it, unchanged=True) for it in shown.split(1, 1)]
    limit = _TOLERANCE[memory.dtype] * expected.abs().max()
    pairs = zip(columns, expected.unbind(1), strict=True)
    is_proven = all(it is not None and bool((it - wanted).abs().max() <= limit) for it, wanted in pairs)
    return steps if is_proven else None


class BartSteps(NativeSteps):
    """The steps of a model of transformers."""

    @classmethod
    def read(cls, model: Any) -> Reading | None:
        return native_model.read(model, _form_of, _weights_of, _is_stock)

    def _read_again(self, model: Any) -> None:
        """Nothing: it was proven as it was."""

    def _note_model(self) -> None:
        decoder = self.model.get_decoder()
        positions = decoder.embed_positions
        self._embed, self._factor = decoder.embed_tokens.forward, getattr(decoder, "embed_scale", 1.0)
        self._positions, self._offset = positions.weight, getattr(positions, "offset", 0)
        # Where blocks add to normalized vectors it is the first norm of the native call.
        self._norm = None if self.form.adds_to_normalized else getattr(decoder, "layernorm_embedding", None)
        self._epsilon, self._added = decoder.layers[0].final_layer_norm.eps, self.model.final_logits_bias

    def _projections(self) -> Iterator[tuple[nn.Module, nn.Module]]:
        return ((layer.encoder_attn.k_proj, layer.encoder_attn.v_proj) for layer in self.model.get_decoder().layers)

    def _vectors(self, tokens: Tensor) -> Tensor:
        x = self._embed(tokens[:, 0]) * self._factor + self._positions[self._offset + self._filled]
        return (x if self._norm is None else self._norm(x)).float()

    def _changed(self, logits: Tensor) -> Tensor:
        return logits.add_(self._added)

    def _compute_bias(self) -> None:
        """Nothing: scores have no bias."""


def _is_stock(model: Any) -> bool:
    is_training = any(module.training for module in model.modules())
    return not is_training and is_stock(model) and has_stock_attention(model)


def _form_of(model: Any) -> DecodeForm:
    decoder, activation = model.get_decoder(), ACTIVATIONS.get(model.config.activation_function)
    attentions = [it for layer in decoder.layers for it in (layer.self_attn, layer.encoder_attn)]
    sizes = {(attention.num_heads, attention.head_dim) for attention in attentions}
    epsilons = {module.eps for module in decoder.modules() if isinstance(module, nn.LayerNorm)}
    if activation is None or len(sizes) != 1 or len(epsilons) != 1:
        raise OtherModelError
    ((n_heads, d_head),) = sizes
    return DecodeForm(
        n_heads=n_heads,
        n_heads_kv=n_heads,
        d_head=d_head,
        activation=activation_of(SimpleNamespace(activation=activation.init())),
        is_centered=True,
        has_projection_bias=True,
        has_output_bias=True,
        has_feed_forward_bias=True,
        is_tied=True,
        has_memory=True,
        adds_to_normalized=not hasattr(decoder, "layer_norm"),
        has_tables=True,
    )


def _weights_of(model: Any) -> Iterator[Tensor]:
    decoder = model.get_decoder()
    norms = (
        norm
        for layer in decoder.layers
        for norm in (layer.self_attn_layer_norm, layer.encoder_attn_layer_norm, layer.final_layer_norm)
    )
    if not hasattr(decoder, "layer_norm"):  # a norm is behind each part: the first is that of the embedding, if any
        norms = chain([getattr(decoder, "layernorm_embedding", None)], norms)
    for layer in decoder.layers:
        itself, memory = layer.self_attn, layer.encoder_attn
        yield from _tensors(next(norms), itself.q_proj, itself.k_proj, itself.v_proj, itself.out_proj)
        yield from _tensors(next(norms), memory.q_proj, memory.out_proj)
        yield from _tensors(next(norms), layer.fc1, layer.fc2)
    yield from _tensors(next(norms, None) or decoder.layer_norm)
    yield checked(model.lm_head.weight)


def _tensors(norm: Any, *linears: Any) -> Iterator[Tensor]:
    if norm is None:
        yield torch.empty(0)
    for part in linears if norm is None else (norm, *linears):
        yield checked(part.weight)
        yield checked(part.bias)
