"""Tokens of a DecoderLm one by one on the CPU, each by one native call, where its parts compute what that computes."""

import inspect
from collections.abc import Iterator
from itertools import chain
from operator import attrgetter, is_, itemgetter
from typing import Any, TypeVar

import torch
from torch import Tensor, nn

from ..._torch_compat.modules import CALL_HOOKS, COMPILED_CALL, HOOK_FLAGS, STATE_HOOKS, has_global_hooks
from ...module.adapters.layers import Dequantized
from ...module.torch_objects.wrappers import own_class, parametrizations_of
from ...nn.activation.activation import GatedLinear, SwiGlu
from ...nn.activation.elementwise import Gelu, Relu, SiLU
from ...nn.attention.causal_attention import CausalAttention
from ...nn.attention.rotary_encoding import RotaryEncoding
from ...nn.divided_sequence import NAME as DIVIDED
from ...nn.dropout import Dropout
from ...nn.embedding import Embedding
from ...nn.linear import Linear
from ...nn.norm.norm import LayerNorm, RmsNorm
from ...nn.transformer.feed_forward import PositionWiseFeedForward
from ...ops.decode_step import ACTIVATIONS, MOST_READ, MOST_ROWS, MOST_TOKENS, DecodeForm, can_decode, decode_step
from .block import DecoderBlock, DecoderCache

_KNOWN = (
    *(CausalAttention, DecoderBlock, Dropout, Embedding, GatedLinear, Gelu, LayerNorm, Linear, nn.ModuleList),
    *(PositionWiseFeedForward, Relu, RmsNorm, RotaryEncoding, SiLU, SwiGlu),
)
_DTYPES = (torch.float32, torch.bfloat16)
Model = TypeVar("Model", bound=nn.Module)
_WITHOUT_CALLS = frozenset((*STATE_HOOKS, *HOOK_FLAGS))
"""Attributes of modules that no call looks at by itself."""
_DECIDING = ("forward", "_forward", "_logits", "_fed_forward", "has_balance", "new_cache", "project", "__call__")
"""The names of a class that decide what its modules compute in evaluation, and by which lookups they do."""


def _deciding_of(kind: type[nn.Module]) -> tuple[object, ...]:
    return tuple(inspect.getattr_static(kind, name, None) for name in (*_DECIDING, "__getattribute__", "__getattr__"))


_STOCK: dict[type[nn.Module], tuple[object, ...]] = {it: _deciding_of(it) for it in _KNOWN}


def decodes_natively(kind: type[Model]) -> type[Model]:
    """Note a class of models that `native_steps` computes, as it is now."""
    _STOCK[kind] = _deciding_of(kind)
    return kind


class NativeSteps:
    """Computes the logits after one more token of each row, with the keys and values of the tokens before.

    Weights are read where they lie, so that there is no copy of them. Whatever a program changes in the model counts
    from the next token on: each compares the model with what it was, and where it differs asks `native_steps` anew.
    """

    def __init__(self, model: Any, cache: DecoderCache, form: DecodeForm, weights: list[Tensor]) -> None:
        self._model, self._cache, self._form, self._weights = model, cache, form, weights
        self._parts, self._facts = _Parts(model, weights), _facts_of(weights)
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
        if not unchanged and not (can_decode() and self._is_current()):
            return None
        try:
            steps = [self._step(part) for part in tokens.split(MOST_TOKENS // rows, 1)]
        except RuntimeError:
            if _facts_of(self._weights) == self._facts:
                raise
            return None  # the native call refuses what `tensor.data = other` has made of a weight
        if every:
            x = torch.cat([vectors.unflatten(0, (rows, -1)) for _, vectors in steps], 1)
            return self._model._logits(self._model.norm(x.to(self._model.norm.gamma.dtype)))
        logits, cap = steps[-1][0], self._model.config.logit_soft_cap
        return logits if cap is None else (logits / cap).tanh_().mul_(cap)

    def _is_current(self) -> bool:
        """True if the native call computes the model as it is now, with the keys and values of the tokens before."""
        if self._parts.are_same():
            return True
        read = _read(self._model)
        if read is None or read[0] != self._form or _facts_of(read[1]) != self._facts:
            return False
        self._weights, self._parts = read[1], _Parts(self._model, read[1])
        return True

    def _step(self, tokens: Tensor) -> tuple[Tensor, Tensor]:
        """The logits after the last token, and what the native call leaves in x: each vector behind the blocks."""
        end = self._filled + tokens.shape[1]
        x = self._model.embedding(tokens)
        if hasattr(self._model, "position"):
            x = x + self._model.position((torch.arange(self._filled, end) - self._starts[:, None]).clamp(min=0))
        attention = self._model.blocks[0].attention
        rotary = attention.rotary
        tables = None if rotary is None else (rotary.cosine.float(), rotary.sine.float())
        options: dict[str, Any] = {"epsilon": self._model.norm.epsilon, "soft_cap": attention.soft_cap}
        filled, form, x = self._filled, self._form, x.float().flatten(0, 1)
        logits = decode_step(x, self._weights, self._caches, self._starts, tables, filled, form, **options)
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
    read = _read(model)
    return None if read is None else NativeSteps(model, cache, *read)


def computes(model: Any) -> bool:
    """True if the native call computes the parts of a model in evaluation, whatever is in a cache."""
    return _read(model) is not None


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


class _OtherError(Exception):
    """A model that the native call does not compute."""


class _Parts:
    """The parts of a model at one moment with all their attributes, to be compared with a later one in microseconds."""

    def __init__(self, model: nn.Module, weights: list[Tensor]) -> None:
        self._modules = [*model.modules()]
        self._kinds = {*map(type, self._modules)}
        self._attributes = [vars(it) for it in self._modules]
        names = ([name for name, it in vars(part).items() if not isinstance(it, dict | set)] for part in self._modules)
        self._settings = [itemgetter("training", *it) for it in names]
        # Parameters, buffers, children and hooks of calls.
        inner = [
            value
            for attributes in self._attributes
            for name, value in attributes.items()
            if isinstance(value, dict) and name not in _WITHOUT_CALLS
        ]
        self._empty, self._dicts = [it for it in inner if not it], [it for it in inner if it]
        self._weights = weights
        self._objects = [*self._now()]
        self._counts = self._count()

    def _now(self) -> Iterator[object]:
        settings = (take(attributes) for take, attributes in zip(self._settings, self._attributes, strict=True))
        objects = chain.from_iterable(chain(settings, map(dict.values, self._dicts)))
        return chain(map(type, self._modules), map(_FORWARD, self._kinds), map(_DTYPE, self._weights), objects)

    def _count(self) -> list[int]:
        return [*map(len, self._attributes), *map(len, self._dicts)]

    def are_same(self) -> bool:
        try:
            same = not any(self._empty) and self._count() == self._counts and all(map(is_, self._now(), self._objects))
        except KeyError:  # an attribute is gone
            return False
        return same and not has_global_hooks()


_FORWARD, _DTYPE = attrgetter("forward"), attrgetter("dtype")


def _facts_of(tensors: list[Tensor]) -> list[tuple[object, ...]]:
    """Identity of a parameter's data: `tensor.data = other` and `model.to()` change it, and the object stays."""
    return [(it.dtype, it.shape, it.stride(), it.device) for it in tensors]


def _read(model: Any) -> tuple[DecodeForm, list[Tensor]] | None:
    """The form and the weights of a model in evaluation that the native call computes; None of any other one."""
    try:
        if not _is_plain(model):
            return None
        form, weights = _form_of(model), [*_weights_of(model)]
    except (_OtherError, AttributeError, IndexError):  # of parts that were replaced: forward says what is wrong
        return None
    is_usable = all(it.device.type == "cpu" and it.layout == torch.strided and not it.is_neg() for it in weights)
    return (form, weights) if is_usable else None


def _is_plain(model: nn.Module) -> bool:
    """True if a call of each part is its class's `forward`, of whole tensors of torch."""
    base = next((it for it in type(model).__mro__ if it in _STOCK and it not in _KNOWN), None)
    if base is None or _deciding_of(type(model)) != _STOCK[base]:
        return False
    kinds: set[type[nn.Module]] = set()
    for module in model.modules():
        kind = type(module)
        own_functions = (name for name, it in vars(module).items() if callable(it))
        if is_changed(module) or any(inspect.isfunction(getattr(kind, name, None)) for name in own_functions):
            return False
        if type(module) in _CONTAINERS:
            continue
        if module.training:
            return False
        if module is not model:
            kinds.add(own_class(module) if parametrizations_of(module) else type(module))
    return all(it in _KNOWN and _deciding_of(it) == _STOCK[it] for it in kinds)


_CONTAINERS = (nn.ModuleDict, torch.nn.utils.parametrize.ParametrizationList, Dequantized)
"""Of the parts of quantized weights, which `_quantized` looks at."""


def is_changed(module: nn.Module) -> bool:
    """True if a call of this module is more, or something else, than its class's `forward`."""
    attributes = module.__dict__
    hooks = has_global_hooks() or any(attributes.get(name) for name in CALL_HOOKS)
    return bool(hooks) or "forward" in attributes or DIVIDED in attributes or attributes.get(COMPILED_CALL) is not None


def _form_of(model: Any) -> DecodeForm:
    blocks, attention = model.blocks, model.blocks[0].attention
    forms = {_form_of_block(block) for block in blocks}
    norms = [it for block in blocks for it in (block.norm_attention, block.norm_feed_forward)] + [model.norm]
    norms += [it for block in blocks if attention.query_key_norm for it in _head_norms(block.attention)]
    rotary = attention.rotary
    same_tables = all(block.attention.rotary is rotary for block in blocks)
    if len(forms) > 1 or len({it.epsilon for it in norms}) > 1 or not same_tables:
        raise _OtherError
    if rotary is not None and (rotary.by_length or rotary.cosine.device.type != "cpu"):
        raise _OtherError
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
        raise _OtherError
    return (*sizes, *biases, attention.query_key_norm, type(block.norm_attention), *_feed_forward_of(block))


def _feed_forward_of(block: Any) -> tuple[int, bool, bool]:
    """The activation, whether there is a gate, whether there are biases."""
    part = block.gate if block.gated else block.feed_forward
    biases = {it.bias is not None for it in _linears_of(block)}
    name = "silu" if type(part) is SwiGlu else _activation_of(part.activation)
    if len(biases) > 1 or name not in ACTIVATIONS:
        raise _OtherError
    return ACTIVATIONS.index(name), block.gated, biases.pop()


def _linears_of(block: Any) -> tuple[Any, ...]:
    part = block.gate if block.gated else block.feed_forward
    inner = (part.linear_inner, part.linear_outer)
    return (*inner, block.linear) if block.gated else inner


def _activation_of(activation: nn.Module) -> str:
    if type(activation) is Gelu:
        return "gelu_tanh" if activation.approximate else "gelu"
    return {SiLU: "silu", Relu: "relu"}.get(type(activation), "")


def _head_norms(attention: Any) -> tuple[Any, Any]:
    return attention.norm_query, attention.norm_key


def _weights_of(model: Any) -> Iterator[Tensor]:
    for block in model.blocks:
        attention = block.attention
        yield from _norm(block.norm_attention)
        for linear in (attention.query, attention.key, attention.value, attention.output):
            yield from _linear(linear)
        for norm in _head_norms(attention) if attention.query_key_norm else ():
            yield from _norm(norm)
        yield from _norm(block.norm_feed_forward)
        for linear in _linears_of(block):
            yield from _linear(linear)
    yield from _norm(model.norm)
    if model.config.tied:
        yield _checked(model.embedding.weight)
    else:
        yield from _linear(model.head)


def _norm(norm: Any) -> Iterator[Tensor]:
    yield _checked(norm.gamma)
    if type(norm) is LayerNorm:
        if norm.beta is None:
            raise _OtherError
        yield _checked(norm.beta)


def _linear(linear: Any) -> Iterator[Tensor]:
    changed = parametrizations_of(linear)
    if not changed:
        yield _checked(linear.weight)
    else:
        yield from _quantized(changed)
    if linear.bias is not None:
        yield _checked(linear.bias)


def _quantized(changed: dict[str, Any]) -> Iterator[Tensor]:
    """The parts of a weight in int8 with a scale for each row, as `interop.quantize_` makes them."""
    parts = changed.get("weight")
    if len(changed) != 1 or parts is None or len(parts) != 1 or type(parts[0]) is not Dequantized:
        raise _OtherError
    tensor: Any = parts.original
    numbers, scale = getattr(tensor, "qdata", None), getattr(tensor, "scale", None)
    if not isinstance(numbers, Tensor) or not isinstance(scale, Tensor) or numbers.dtype != torch.int8:
        raise _OtherError
    zero = getattr(tensor, "zero_point", None)
    plain = getattr(tensor, "act_pre_scale", None) is None and getattr(tensor, "act_quant_kwargs", None) is None
    rows = numbers.ndim == 2 and scale.shape == (len(numbers), 1)
    if not rows or not plain or not numbers.is_contiguous() or (zero is not None and bool(zero.any())):
        raise _OtherError
    yield numbers
    yield _checked(scale)


def _checked(tensor: Tensor) -> Tensor:
    lies = 1 in (tensor.stride(0), tensor.stride(-1))  # a vector without gaps, a matrix in rows or in columns
    if type(tensor) not in (Tensor, nn.Parameter) or tensor.dtype not in _DTYPES or not lies:
        raise _OtherError
    return tensor
