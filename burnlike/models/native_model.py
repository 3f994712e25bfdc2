"""Models as the native step of decoding reads them: the parts whose computations it knows, and their weights.

Weights are read where they lie, so that there is no copy of them. Whatever a program changes in a model counts from the
next token on: `ReadModel` compares the model with what it was.
"""

import inspect
from collections.abc import Callable, Iterable, Iterator
from itertools import chain
from operator import attrgetter, is_, itemgetter
from typing import Any, TypeVar

import torch
from torch import Tensor, nn

from .._torch_compat.modules import COMPILED_CALL, HOOK_FLAGS, STATE_HOOKS, has_call_hooks, has_global_hooks
from ..module.adapters.layers import Dequantized
from ..module.torch_objects.wrappers import own_class, parametrizations_of
from ..nn.activation.activation import GatedLinear, SwiGlu
from ..nn.activation.elementwise import Gelu, Relu, SiLU
from ..nn.divided_sequence import NAME as DIVIDED
from ..nn.dropout import Dropout
from ..nn.embedding import Embedding
from ..nn.linear import Linear
from ..nn.norm.norm import LayerNorm, RmsNorm
from ..nn.transformer.feed_forward import PositionWiseFeedForward
from ..ops.decode_step import ACTIVATIONS, MOST_HEAD_WIDTH, DecodeForm, can_decode

_DTYPES = (torch.float32, torch.bfloat16)
Model = TypeVar("Model", bound=nn.Module)
T = TypeVar("T")
Reading = tuple[DecodeForm, list[Tensor]]
"""The form and the weights of a model, in the order in which the native call takes them."""
_WITHOUT_CALLS = frozenset((*STATE_HOOKS, *HOOK_FLAGS))
"""Attributes of modules that no call looks at by itself."""
_DECIDING = (
    *("forward", "_forward", "_logits", "_fed_forward", "_encode", "_decode"),
    *("has_balance", "new_cache", "project", "__call__"),
)
"""The names of a class that decide what its modules compute in evaluation, and by which lookups they do."""


def _deciding_of(kind: type[nn.Module]) -> tuple[object, ...]:
    return tuple(inspect.getattr_static(kind, name, None) for name in (*_DECIDING, "__getattribute__", "__getattr__"))


_STOCK: dict[type[nn.Module], tuple[object, ...]] = {}


def decodes_natively(kind: type[Model]) -> type[Model]:
    """Note a class of models or of their parts whose computation the native step knows, as it is now."""
    _STOCK[kind] = _deciding_of(kind)
    return kind


for _kind in (Dropout, Embedding, GatedLinear, Gelu, LayerNorm, Linear, nn.ModuleList):
    decodes_natively(_kind)
for _kind in (PositionWiseFeedForward, Relu, RmsNorm, SiLU, SwiGlu):
    decodes_natively(_kind)


class OtherModelError(Exception):
    """A model that the native call does not compute."""


class ReadModel:
    """A model that the native call computes, with its form and its weights as `read_model` gives them."""

    def __init__(self, model: Any, reading: Reading, read_model: Callable[[Any], Reading | None]) -> None:
        self.model, self.form, self._read_model = model, reading[0], read_model
        self._facts = _facts_of(reading[1])
        self.take(reading[1])

    def take(self, weights: list[Tensor]) -> None:
        """Note what the next steps read: a model's own lookups find little of it in the processor's caches."""
        self.weights, self._parts = weights, _Parts(self.model, weights)

    def is_current(self) -> bool:
        """True if the native call may run now, and computes the model as it is."""
        if not can_decode():
            return False
        if self._parts.are_same():
            return True
        reading = self._read_model(self.model)
        if reading is None or reading[0] != self.form or _facts_of(reading[1]) != self._facts:
            return False
        self.take(reading[1])
        return True

    def result_of(self, call: Callable[[], T]) -> T | None:
        """The result of a native call; None where it refuses what `tensor.data = other` has made of a weight."""
        try:
            return call()
        except RuntimeError:
            if _facts_of(self.weights) == self._facts:
                raise
            return None


class _Parts:
    """The parts of a model at one moment with all their attributes, to be compared with a later one in microseconds."""

    def __init__(self, model: nn.Module, weights: list[Tensor]) -> None:
        self._modules = [*model.modules()]
        self._kinds = {*map(type, self._modules)}
        self._attributes = [vars(module) for module in self._modules]
        names = ([name for name, it in vars(part).items() if not isinstance(it, dict | set)] for part in self._modules)
        # One call in C for all of a part; with one name more, as `itemgetter` of a single one gives no tuple.
        self._settings = [itemgetter("training", *name) for name in names]
        # Parameters, buffers, children and hooks of calls.
        inner = [
            value
            for attributes in self._attributes
            for name, value in attributes.items()
            if isinstance(value, dict) and name not in _WITHOUT_CALLS
        ]
        # Empty ones, such as those of hooks, have no objects: it is asked whether something came into them.
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
    return [(tensor.dtype, tensor.shape, tensor.stride(), tensor.device) for tensor in tensors]


def read(
    model: Any,
    form_of: Callable[[Any], DecodeForm],
    weights_of: Callable[[Any], Iterable[Tensor]],
    is_stock: Callable[[Any], bool] | None = None,
) -> Reading | None:
    """The reading of a model in evaluation that the native call computes; None of any other one.

    Args:
        is_stock: of a model of other parts than ours, whether they compute what their classes do.
    """
    try:
        if not (is_stock or _is_plain)(model):
            return None
        form, weights = form_of(model), [*weights_of(model)]
    except (OtherModelError, AttributeError, IndexError):  # of parts that were replaced: forward says what is wrong
        return None
    is_usable = form.d_head <= MOST_HEAD_WIDTH and all(
        weight.device.type == "cpu" and weight.layout == torch.strided and not weight.is_neg() for weight in weights
    )
    return (form, weights) if is_usable else None


def _is_plain(model: nn.Module) -> bool:
    """True if a call of each part is its class's `forward`, of whole tensors of torch."""
    base = next((it for it in type(model).__mro__ if it in _STOCK), None)
    if base is None or _deciding_of(type(model)) != _STOCK[base]:
        return False
    kinds: set[type[nn.Module]] = set()
    for module in model.modules():
        kind = type(module)
        own_functions = (name for name, value in vars(module).items() if callable(value))
        if is_changed(module) or any(inspect.isfunction(getattr(kind, name, None)) for name in own_functions):
            return False
        if type(module) in _CONTAINERS:
            continue
        if module.training:
            return False
        if module is not model:
            kinds.add(own_class(module) if parametrizations_of(module) else type(module))
    return all(it in _STOCK and _deciding_of(it) == _STOCK[it] for it in kinds)


_CONTAINERS = (nn.ModuleDict, torch.nn.utils.parametrize.ParametrizationList, Dequantized)
"""Of the parts of quantized weights, which `_quantized` looks at."""


def is_changed(module: nn.Module) -> bool:
    """True if a call of this module is more, or something else, than its class's `forward`."""
    attributes = module.__dict__
    is_compiled = attributes.get(COMPILED_CALL) is not None
    return is_compiled or "forward" in attributes or DIVIDED in attributes or has_call_hooks(module)


def activation_of(part: Any) -> int:
    """The place in `ACTIVATIONS` of what a feed-forward part computes."""
    name = {SiLU: "silu", Relu: "relu"}.get(type(getattr(part, "activation", None)), "")
    if type(part) is SwiGlu:
        name = "silu"
    elif type(part.activation) is Gelu:
        name = "gelu_tanh" if part.activation.approximate else "gelu"
    if name not in ACTIVATIONS:
        raise OtherModelError
    return ACTIVATIONS.index(name)


def norm_weights(norm: Any) -> Iterator[Tensor]:
    yield checked(norm.gamma)
    if type(norm) is LayerNorm:
        if norm.beta is None:
            raise OtherModelError
        yield checked(norm.beta)


def linear_weights(linear: Any) -> Iterator[Tensor]:
    changed = parametrizations_of(linear)
    if not changed:
        yield checked(linear.weight)
    else:
        yield from _quantized(changed)
    if linear.bias is not None:
        yield checked(linear.bias)


def _quantized(changed: dict[str, Any]) -> Iterator[Tensor]:
    """The parts of a weight in int8 with a scale for each row, as `interop.quantize_` makes them."""
    parts = changed.get("weight")
    if len(changed) != 1 or parts is None or len(parts) != 1 or type(parts[0]) is not Dequantized:
        raise OtherModelError
    tensor: Any = parts.original
    numbers, scale = getattr(tensor, "qdata", None), getattr(tensor, "scale", None)
    if not isinstance(numbers, Tensor) or not isinstance(scale, Tensor) or numbers.dtype != torch.int8:
        raise OtherModelError
    zero = getattr(tensor, "zero_point", None)
    plain = getattr(tensor, "act_pre_scale", None) is None and getattr(tensor, "act_quant_kwargs", None) is None
    rows = numbers.ndim == 2 and scale.shape == (len(numbers), 1)
    if not rows or not plain or not numbers.is_contiguous() or (zero is not None and bool(zero.any())):
        raise OtherModelError
    yield numbers
    yield checked(scale)


def checked(tensor: Tensor) -> Tensor:
    lies = 1 in (tensor.stride(0), tensor.stride(-1))  # a vector without gaps, a matrix in rows or in columns
    if type(tensor) not in (Tensor, nn.Parameter) or tensor.dtype not in _DTYPES or not lies:
        raise OtherModelError
    return tensor
