"""Burn's layers as expressions of Rust: their configs by builders, as Burn 0.22 has them."""

import math
from collections.abc import Iterator, Mapping, Sequence
from ctypes import c_float
from functools import cache
from typing import Any, NamedTuple, cast

from torch import nn

from .... import nn as layers
from ....errors import NoCounterpartError
from ....interop.registered_classes import plain_class
from ....module import ModuleEnum
from ....module.identity.field_metadata import meta_of
from ....nn.padding import each
from ....nn.recurrent.recurrence import Bidirectional
from .printing import number

_TABLE = """
Linear nn d_input:usize d_output:usize | bias:bool layout:LinearLayout @
Embedding nn n_embedding:usize d_model:usize @
Conv1d nn::conv channels_in:usize channels_out:usize kernel_size:usize | stride:usize dilation:usize groups:usize padding:Padding1d bias:bool @
Conv2d nn::conv channels:[usize;2] kernel_size:[usize;2] | stride:[usize;2] dilation:[usize;2] groups:usize padding:Padding2d bias:bool @
Conv3d nn::conv channels:[usize;2] kernel_size:[usize;3] | stride:[usize;3] dilation:[usize;3] groups:usize padding:Padding3d bias:bool @
ConvTranspose1d nn::conv channels:[usize;2] kernel_size:usize | stride:usize dilation:usize groups:usize padding:usize padding_out:usize bias:bool @
ConvTranspose2d nn::conv channels:[usize;2] kernel_size:[usize;2] | stride:[usize;2] dilation:[usize;2] groups:usize padding:[usize;2] padding_out:[usize;2] bias:bool @
ConvTranspose3d nn::conv channels:[usize;2] kernel_size:[usize;3] | stride:[usize;3] dilation:[usize;3] groups:usize padding:[usize;3] padding_out:[usize;3] bias:bool @
PixelShuffle nn upscale_factor:usize
PixelUnshuffle nn downscale_factor:usize
Unfold4d nn kernel_size:[usize;2] | stride:[usize;2] dilation:[usize;2] padding:[usize;2]
Fold4d nn output_size:[usize;2] kernel_size:[usize;2] | stride:[usize;2] dilation:[usize;2] padding:[usize;2]
AdaptiveAvgPool1d nn::pool output_size:usize
AdaptiveAvgPool2d nn::pool output_size:[usize;2]
AdaptiveAvgPool3d nn::pool output_size:[usize;3]
AvgPool1d nn::pool kernel_size:usize | stride:usize padding:Padding1d count_include_pad:bool ceil_mode:bool
AvgPool2d nn::pool kernel_size:[usize;2] | strides:[usize;2] padding:Padding2d count_include_pad:bool ceil_mode:bool
MaxPool1d nn::pool kernel_size:usize | stride:usize padding:Padding1d dilation:usize ceil_mode:bool
MaxPool2d nn::pool kernel_size:[usize;2] | strides:[usize;2] padding:Padding2d dilation:[usize;2] ceil_mode:bool
Interpolate1d nn::interpolate | output_size:Option<usize> scale_factor:Option<f32> mode:InterpolateMode align_corners:bool
Interpolate2d nn::interpolate | output_size:Option<[usize;2]> scale_factor:Option<[f32;2]> mode:InterpolateMode align_corners:bool
BatchNorm nn num_features:usize | epsilon:f64 momentum:f64 @
GroupNorm nn num_groups:usize num_channels:usize | epsilon:f64 affine:bool @
InstanceNorm nn num_channels:usize | epsilon:f64 affine:bool @
LayerNorm nn d_model:usize | epsilon:f64 bias:bool @
RmsNorm nn d_model:usize | epsilon:f64 @
LocalResponseNorm nn size:usize | alpha:f64 beta:f64 k:f64
Dropout nn prob:f64
GaussianNoise nn std:f64
PositionalEncoding nn d_model:usize | max_sequence_size:usize max_timescale:usize @
RotaryEncoding nn max_sequence_length:usize d_model:usize | theta:f32 @
Rnn nn d_input:usize d_hidden:usize bias:bool | batch_first:bool reverse:bool clip:Option<f64> hidden_activation:Activation @
BiRnn nn d_input:usize d_hidden:usize bias:bool | batch_first:bool clip:Option<f64> hidden_activation:Activation @
Lstm nn d_input:usize d_hidden:usize bias:bool | batch_first:bool reverse:bool clip:Option<f64> input_forget:bool gate_activation:Activation cell_activation:Activation hidden_activation:Activation @
BiLstm nn d_input:usize d_hidden:usize bias:bool | batch_first:bool clip:Option<f64> input_forget:bool gate_activation:Activation cell_activation:Activation hidden_activation:Activation @
Gru nn d_input:usize d_hidden:usize bias:bool | reset_after:bool gate_activation:Activation hidden_activation:Activation clip:Option<f64> @
BiGru nn d_input:usize d_hidden:usize bias:bool | reset_after:bool batch_first:bool gate_activation:Activation hidden_activation:Activation clip:Option<f64> @
MultiHeadAttention nn::attention d_model:usize n_heads:usize | dropout:f64 min_float:f64 quiet_softmax:bool key_bias:bool value_bias:bool query_bias:bool output_bias:bool @
CrossAttention nn::attention d_model:usize d_context:usize n_heads:usize n_heads_kv:usize d_head:usize | dropout:f64 min_float:f64 quiet_softmax:bool @
PositionWiseFeedForward nn::transformer d_model:usize d_ff:usize | dropout:f64 activation:Activation @
TransformerEncoder nn::transformer d_model:usize d_ff:usize n_heads:usize n_layers:usize | dropout:f64 norm_first:bool quiet_softmax:bool activation:Activation layer_norm_eps:f64 @
TransformerDecoder nn::transformer d_model:usize d_ff:usize n_heads:usize n_layers:usize | dropout:f64 norm_first:bool quiet_softmax:bool activation:Activation layer_norm_eps:f64 @
CosineSimilarity nn | dim:isize eps:f64
PairwiseDistance nn | p:f64 eps:f64
Celu nn | alpha:f64
Elu nn | alpha:f64
HardShrink nn | lambda:f64
HardSigmoid nn | alpha:f64 beta:f64
Hardtanh nn::activation | min_val:f64 max_val:f64
LeakyRelu nn | negative_slope:f64
PRelu nn | num_parameters:usize alpha:f64 @
RRelu nn::activation | lower:f64 upper:f64
Shrink nn | lambda:f64 bias:f64
SoftShrink nn | lambda:f64
Softplus nn | beta:f64 threshold:f64
SwiGlu nn d_input:usize d_output:usize | bias:bool @
Threshold nn::activation threshold:f64 value:f64
ThresholdedRelu nn | alpha:f64
"""  # noqa: E501 - a row for each layer
"""The layer, its module, the arguments of `new`, after `|` those with a builder, `@` where `init` takes a device."""

_WITHOUT_CONFIG = {
    **dict.fromkeys(("Identity", "Relu", "Sigmoid", "Selu", "Softsign", "Tanh"), "nn"),
    **dict.fromkeys(("HardSwish", "LogSigmoid", "Mish", "Relu6", "SiLU", "Tanhshrink"), "nn::activation"),
    "Gelu": "nn",
    "GLU": "nn",
}
_ACTIVATIONS = (
    *("Identity", "Gelu", "PRelu", "Relu", "LeakyRelu", "SwiGlu", "Selu", "Sigmoid", "Tanh", "HardSigmoid"),
    *("HardSwish", "Softplus", "Softsign", "Elu", "Celu", "ThresholdedRelu", "SoftShrink", "HardShrink", "Shrink"),
)
"""Burn's enum of activations, which layers with an activation in them take."""


class Row(NamedTuple):
    """A layer of Burn: required and optional fields of its config, with their types."""

    module: str
    required: Mapping[str, str]
    optional: Mapping[str, str]
    takes_device: bool


class Field(NamedTuple):
    """An argument of an `Init`: its name, type in Rust, value as text, and whether Burn's default is the same."""

    name: str
    type: str
    value: str
    is_default: bool = False


class Init(NamedTuple):
    """An expression that makes a part of a struct.

    Attributes:
        type: of the part.
        head: what is called with the arguments, such as `LinearConfig::new`.
        arguments: of the call.
        builders: further arguments, each by its `with_NAME`.
        tail: what follows, such as `.init(device)`.
        takes_device: whether the call itself has the device as its last argument.
        items: of a `Vec`.
        imports: paths to import.
    """

    type: str
    head: str
    arguments: tuple[Field, ...] = ()
    builders: tuple[Field, ...] = ()
    tail: str = ""
    takes_device: bool = False
    items: tuple["Init", ...] = ()
    imports: frozenset[str] = frozenset()


def _rows() -> dict[str, Row]:
    rows: dict[str, Row] = {}
    for line in _TABLE.strip().splitlines():
        name, module, *rest = line.split()
        types = {it.partition(":")[0]: it.partition(":")[2] for it in rest if ":" in it}
        bar = rest.index("|") if "|" in rest else len(types)
        names = [*types]
        required, optional = ({it: types[it] for it in part} for part in (names[:bar], names[bar:]))
        rows[name] = Row(module, required, optional, "@" in rest)
    return rows


ROWS = _rows()


@cache
def _classes() -> Mapping[type, str]:
    return {getattr(layers, name): name for name in (*ROWS, *_WITHOUT_CONFIG)}


def tag_of(layer: nn.Module) -> str | None:
    """Burn's name of a layer of burnlike's; None for what is none of Burn's layers."""
    return _classes().get(plain_class(type(layer)))


def init_of(layer: nn.Module) -> Init:
    """The expression that makes the layer in Rust. NoCounterpartError for a layer, or an option, that Burn has not."""
    tag, values = tag_of(layer), layer
    if tag is None:
        raise NoCounterpartError(f"Burn has no layer {type(layer).__name__}")
    if tag in _WITHOUT_CONFIG:
        module = frozenset({f"burn::{_WITHOUT_CONFIG[tag]}::{tag}"})
        name = "new_approximate" if getattr(values, "approximate", False) else "new"
        arguments = (Field("dim", "usize", str(values.dim)),) if tag == "GLU" else ()
        return Init(tag, f"{tag}::{name}", arguments, imports=module)
    row = ROWS[tag]
    config: Any = getattr(layers, f"{tag}Config")
    names = config.__struct_fields__
    defaults = dict(zip(names[len(names) - len(config.__struct_defaults__) :], config.__struct_defaults__, strict=True))
    options = {"lambd" if it == "lambda" else it for it in (*row.required, *row.optional)}
    for name in set(names) - options - {"initializer", "layout"}:
        if (value := _value(layer, tag, name)) != defaults.get(name):
            raise NoCounterpartError(f"Burn's {tag} has no `{name}`, here {value!r}")
    imports = {f"burn::{row.module}::{tag}", f"burn::{row.module}::{tag}Config"}
    fields: list[list[Field]] = []
    for part in (row.required, row.optional):
        fields.append([])
        for name, kind in part.items():
            ours = "lambd" if name == "lambda" else name
            value = _value(layer, tag, ours)
            if value is not None or kind.startswith("Option"):
                text, default = _text(value, kind, imports), defaults.get(ours)
                is_default = ours in defaults and _text(default, kind, set()) == text
                fields[-1].append(Field(name, _type(kind), text, is_default))
    tail = ".init(device)" if row.takes_device else ".init()"
    return Init(tag, f"{tag}Config::new", (*fields[0],), (*fields[1],), tail, imports=frozenset(imports))


def _type(kind: str) -> str:
    if kind.startswith("Padding"):
        return f"PaddingConfig{kind[7]}d"
    return {"Activation": "ActivationConfig"}.get(kind, kind.replace(";", "; "))


def _value(layer: Any, tag: str, name: str) -> Any:
    """A field of the config that makes this layer; None for one that only says how it is initialized."""
    first = layer
    if isinstance(layer, Bidirectional):
        first = layer.directions()[0]
    elif tag in ("TransformerEncoder", "TransformerDecoder"):
        first = layer.layers[0].pwff if name == "activation" else layer.layers[0].norm_1
        name = {"layer_norm_eps": "epsilon"}.get(name, name)
    for kind in (tag, _KINDS.get(tag, "")):
        places = dict(it.split("=") for it in _PLACES.get(kind, "").split())
        if name in places:
            return _placed(first.gates()[0] if kind == "recurrent" else first, places[name])
    if (tag, name) == ("Linear", "layout"):
        return "row" if meta_of(layer, "weight").save_mapper is None else "col"
    if name in ("channels_in", "channels") and not tag.startswith("ConvTranspose"):
        weight, groups = cast("Any", layer.weight), cast("Any", layer.groups)
        channels = weight.shape[1] * groups, weight.shape[0]
        return channels[0] if name == "channels_in" else channels
    if (tag, name) == ("PRelu", "alpha"):
        return None
    value = getattr(first if name in ("activation", "epsilon") else layer, name, None)
    value = getattr(first, name, None) if value is None else value
    if isinstance(value, layers.Dropout):
        return value.prob
    return value is not None if name == "bias" else value


_KINDS = {
    **dict.fromkeys(("Rnn", "BiRnn", "Lstm", "BiLstm", "Gru", "BiGru"), "recurrent"),
    **dict.fromkeys(("AvgPool2d", "MaxPool2d"), "pool"),
    **dict.fromkeys(("LayerNorm", "RmsNorm"), "norm"),
}
_PLACES = {
    "Linear": "d_input=weight.0 d_output=weight.1",
    "Shrink": "bias=bias",
    "Embedding": "n_embedding=weight.0 d_model=weight.1",
    "Conv1d": "channels_out=weight.0",
    "pool": "strides=stride",
    "norm": "d_model=gamma.0 bias=beta?",
    "PositionalEncoding": "d_model=sinusoids.-1",
    "recurrent": "d_input=input_transform.weight.0 bias=input_transform.bias?",
    "SwiGlu": "d_input=linear_inner.weight.0 d_output=linear_inner.weight.1 bias=linear_inner.bias?",
    "RotaryEncoding": "max_sequence_length=config.max_sequence_length d_model=config.d_model theta=config.theta"
    " interleaved=config.interleaved rotary_dim=config.rotary_dim scaling=config.scaling",
    "MultiHeadAttention": "query_bias=query.bias? key_bias=key.bias? value_bias=value.bias? output_bias=output.bias?",
    "CrossAttention": "d_model=query.weight.0 d_context=key.weight.0",
    "PositionWiseFeedForward": "d_model=linear_inner.weight.0 d_ff=linear_inner.weight.1",
}
"""Fields of configs that are no attributes of the layers, by the layer or its kind: where they are.

`weight.0` is the first size of an attribute, `bias?` whether the layer has it.
"""


def _placed(layer: Any, path: str) -> Any:
    for name in path.removesuffix("?").split("."):
        layer = layer.shape[int(name)] if name.lstrip("-").isdecimal() else getattr(layer, name)
    return layer is not None if path.endswith("?") else layer


def _text(value: Any, kind: str, imports: set[str]) -> str:
    """A value as Rust of a type."""
    if kind.startswith("Option<"):
        inner = kind.removeprefix("Option<").removesuffix(">")
        return "None" if value is None else f"Some({_text(value, inner, imports)})"
    if kind.startswith("["):
        inner, count = kind.strip("[]").split(";")
        return f"[{', '.join(_text(it, inner, imports) for it in each(value, int(count)))}]"
    if kind == "f32" and math.isinf(value):
        return f"f32::{'NEG_' * (value < 0)}INFINITY"
    if kind == "f32" and c_float(value).value != value:  # such as 0.7, by which Burn resizes 10 to 6
        raise NoCounterpartError(f"Burn has {value} in 32 bits")
    if kind in ("f64", "f32"):
        return number(value)
    if kind == "bool":
        return str(bool(value)).lower()
    if kind.startswith("Padding"):
        return _padding(value, int(kind[7]), imports)
    if kind == "Activation":
        return _activation(value, imports)
    if kind == "InterpolateMode":
        if value == "NearestExact":
            raise NoCounterpartError("Burn's flex, by which a crate computes, has no NearestExact")
        imports.add("burn::nn::interpolate::InterpolateMode")
        return f"InterpolateMode::{value}"
    if kind == "LinearLayout":
        imports.add("burn::nn::LinearLayout")
        return f"LinearLayout::{str(value).capitalize()}"
    return str(value)


def _padding(value: Any, rank: int, imports: set[str]) -> str:
    name = f"PaddingConfig{rank}d"
    imports.add(f"burn::nn::{name}")
    if isinstance(value, str):
        return f"{name}::{value}"
    counts: Sequence[int] = (value,) if isinstance(value, int) else tuple(value)
    if rank < 3:  # begins and ends, of all dimensions
        counts = (*counts, *counts) if len(counts) == rank else counts * (2 * rank) if len(counts) == 1 else counts
    else:
        counts = counts * rank if len(counts) == 1 else counts
    return f"{name}::Explicit({', '.join(map(str, counts))})"


def _activation(layer: Any, imports: set[str]) -> str:
    if isinstance(layer, ModuleEnum):
        layer = layer.value
    tag = tag_of(layer) if isinstance(layer, nn.Module) else type(layer).__name__.removesuffix("Config")
    if tag not in _ACTIVATIONS:
        raise NoCounterpartError(f"Burn's layers take no {type(layer).__name__} as their activation")
    imports.add("burn::nn::activation::ActivationConfig")
    if tag not in ROWS:
        return f"ActivationConfig::{tag}{'Approximate' * getattr(layer, 'approximate', False)}"
    if not isinstance(layer, nn.Module):
        layer = layer.init("cpu")
    if any(True for _ in layer.parameters()):
        raise NoCounterpartError(f"Burn leaves the weights of the activation {tag} within a layer out of its files")
    init = init_of(layer)
    imports |= {it for it in init.imports if it.endswith("Config")}
    return f"ActivationConfig::{tag}({text_of(init).rpartition('.init(')[0]})"


def fields_of(init: Init) -> list[Field]:
    """All values in the expression, in order."""
    return [*init.arguments, *init.builders, *(it for item in init.items for it in fields_of(item))]


def text_of(init: Init, names: Sequence[str | None] = ()) -> str:
    """The expression on one line, with `names` of variables in place of values, as `fields_of` has these."""
    return _written(init, iter(names or [None] * len(fields_of(init))))


def _written(init: Init, names: Iterator[str | None]) -> str:
    if init.type.startswith("Vec<"):
        items = [_written(item, names) for item in init.items]
        if len({*items}) == 1 and len(items) > 1:
            return f"(0..{len(items)}).map(|_| {items[0]}).collect()"
        return f"vec![{', '.join(items)}]"
    arguments = [next(names) or argument.value for argument in init.arguments] + ["device"] * init.takes_device
    builders = ""
    for field, name in zip(init.builders, [next(names) for _ in init.builders], strict=True):
        if name or not field.is_default:
            builders += f".with_{field.name}({name or field.value})"
    return f"{init.head}({', '.join(arguments)}){builders}{init.tail}"
