"""A model of transformers as one of ours over the same memory, which writes its next tokens sooner."""

import inspect
import json
import sys
import types
from copy import deepcopy
from typing import Any

import torch
from torch import Tensor, nn

from ...errors import BurnlikeError
from ...interop.fused.forwards import stock_forward
from ...interop.fused.rebinding import uses_of_globals
from ...interop.torch_names import TorchLayout
from ...module.torch_objects.wrappers import parametrizations_of
from ...record import Record
from ...record.loading.load_into import compute_unsaved, registered
from ..conversion import tensors_for
from ..encoder_decoder.configs import EncoderDecoderConfig
from ..native_model import is_changed
from ..pretrained import described
from .configs import DecoderLmConfig, RotaryPositions
from .native_steps import read


def twin_of(model: Any, length: int) -> Any:
    """A DecoderLm or an EncoderDecoder of the parameters of a model of transformers, which are not copied; None where
    there is none.

    It is for sequences of up to `length` tokens, so that a model for long ones needs no table of all its positions.

    There is one for models on the CPU that a table of weights describes, in float32 or bfloat16 if `native_steps`
    computes their tokens, and for a T5 in float32. Nothing of the model may be changed but its weights: its classes
    are those of transformers and torch, with their own code or `fuse`'s, without hooks and adapters, and its parts,
    their settings and buffers are those that its config makes.
    """
    try:
        values = json.loads(model.config.to_json_string())
        description = described({**values, "architectures": [type(model).__name__], "dtype": None}, "config.json")
        config = description.config
        if isinstance(config, DecoderLmConfig):
            longest = config.max_sequence_length
            if isinstance(config.positions, RotaryPositions):
                longest = min(longest, length)
            config = config.replace(max_sequence_length=longest)
        elif not isinstance(config, EncoderDecoderConfig) or model.dtype != torch.float32:
            return None
        if not is_stock(model) or not _is_as_configured(model):
            return None
        twin = config.init("meta").eval()
        tensors = tensors_for(description.table, twin, Record(model.state_dict(), source="the model"))
    except (BurnlikeError, TypeError):
        return None
    places, layout = registered(twin), TorchLayout(twin)
    for path, place in layout.places.items():
        owner, _, name = path.rpartition(".")
        # A view of their memory: the twin computes with what a training changes in place.
        value = place.taken_from(tensors[place.name])
        setattr(twin.get_submodule(owner), name, nn.Parameter(value, requires_grad=False))
    if compute_unsaved(twin, places, torch.device("cpu")):
        return None
    return twin if isinstance(config, EncoderDecoderConfig) or read(twin) is not None else None


_OWN_CODE = ("torch", "transformers", *sys.stdlib_module_names)
_WITHOUT_EFFECT = ("training", "gradient_checkpointing", "padding_idx", "vocab_size")
"""Of settings of modules: on what a model computes in evaluation."""


def is_stock(model: nn.Module) -> bool:
    """True if a model has parameters of one dtype on the CPU, and calls of its parts are those of their own classes."""
    for module in model.modules():
        if is_changed(module) or parametrizations_of(module):
            return False
    tensors = (*model.parameters(), *model.buffers())
    same_dtype = len({parameter.dtype for parameter in model.parameters()}) == 1
    are_plain = all(type(tensor) in (Tensor, nn.Parameter) and tensor.device.type == "cpu" for tensor in tensors)
    return same_dtype and are_plain and all(map(_is_own, {type(it) for it in model.modules()}))


def _is_own(kind: type[nn.Module]) -> bool:
    """True if a class and what its forward calls is code of torch and transformers, in its place."""
    owner, stock = stock_forward(kind)
    if kind.__module__.split(".")[0] not in _OWN_CODE:
        return False
    if stock is None:
        return True
    stock = inspect.unwrap(stock)
    if stock.__module__ != owner.__module__:
        return False
    used = (stock.__globals__.get(name) for name in uses_of_globals(stock.__code__))
    return all(it.__module__.split(".")[0] in _OWN_CODE for it in used if isinstance(it, types.FunctionType | type))


def has_stock_attention(model: Any) -> bool:
    """True if attention is a function of transformers: a program may register others."""
    attention = getattr(model.config, "_attn_implementation", None)
    functions = sys.modules["transformers.modeling_utils"].ALL_ATTENTION_FUNCTIONS
    return attention == "eager" or (attention == "sdpa" and functions["sdpa"].__module__.split(".")[0] in _OWN_CODE)


def _is_as_configured(model: Any) -> bool:
    """True if the parts of a model, their settings and their buffers equal those of a new model of its config."""
    if not has_stock_attention(model):
        return False
    config = deepcopy(model.config)
    try:
        with torch.device("meta"):
            new = type(model)(config)
        modules, others = (dict(it.named_modules(remove_duplicate=False)) for it in (model, new))
        return modules.keys() == others.keys() and all(
            _is_same(module, others[path], config) for path, module in modules.items()
        )
    except Exception:  # any that code of transformers raises for a config that was changed
        return False


def _is_same(module: nn.Module, new: nn.Module, config: Any) -> bool:
    if type(module) is not type(new):
        return False
    attributes, settings = vars(module), {name: value for name, value in vars(new).items() if not name.startswith("_")}
    if any(name not in settings and callable(it) and hasattr(type(module), name) for name, it in attributes.items()):
        return False
    if not all(
        name in attributes and _is_equal(attributes[name], setting)
        for name, setting in settings.items()
        if name not in _WITHOUT_EFFECT
    ):
        return False
    floats = [name for name, buffer in module.named_buffers(recurse=False) if buffer.is_floating_point()]
    if not floats:
        return True
    names = inspect.signature(type(module)).parameters
    if next(iter(names), "") != "config":
        return False
    new_model: Any = type(module)
    computed = new_model(config)
    buffers = [(getattr(module, name), getattr(computed, name)) for name in floats]
    # `.to` rounds angles of positions, too; the twin's are exact.
    return all(torch.equal(one, other.to(one.dtype)) for one, other in buffers)


def _is_equal(one: Any, other: Any) -> bool:
    """True if two settings are equal; objects that are none must be of one class."""
    if isinstance(other, types.FunctionType):
        return one is other
    plain = bool | int | float | str | tuple | list | dict | None
    return one == other if isinstance(one, plain) or isinstance(other, plain) else type(one) is type(other)
