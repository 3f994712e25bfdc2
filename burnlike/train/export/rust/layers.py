"""Burn's layers as expressions of Rust: their configs by builders, as Burn 0.22 has them."""

import math
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from ....config import ModuleConfig
from ....config.registry import tag_of
from ....errors import NoCounterpartError
from ....nn.padding import each

_TABLE = """
Linear nn d_input:usize d_output:usize | bias:bool initializer:Initializer layout:LinearLayout @
Embedding nn n_embedding:usize d_model:usize | initializer:Initializer @
Conv1d nn::conv channels_in:usize channels_out:usize kernel_size:usize | stride:usize dilation:usize groups:usize padding:Padding1d bias:bool initializer:Initializer @
Conv2d nn::conv channels:[usize;2] kernel_size:[usize;2] | stride:[usize;2] dilation:[usize;2] groups:usize padding:Padding2d bias:bool initializer:Initializer @
Conv3d nn::conv channels:[usize;2] kernel_size:[usize;3] | stride:[usize;3] dilation:[usize;3] groups:usize padding:Padding3d bias:bool initializer:Initializer @
ConvTranspose1d nn::conv channels:[usize;2] kernel_size:usize | stride:usize dilation:usize groups:usize padding:usize padding_out:usize bias:bool initializer:Initializer @
ConvTranspose2d nn::conv channels:[usize;2] kernel_size:[usize;2] | stride:[usize;2] dilation:[usize;2] groups:usize padding:[usize;2] padding_out:[usize;2] bias:bool initializer:Initializer @
ConvTranspose3d nn::conv channels:[usize;2] kernel_size:[usize;3] | stride:[usize;3] dilation:[usize;3] groups:usize padding:[usize;3] padding_out:[usize;3] bias:bool initializer:Initializer @
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
Rnn nn d_input:usize d_hidden:usize bias:bool | initializer:Initializer batch_first:bool reverse:bool clip:Option<f64> hidden_activation:Activation @
BiRnn nn d_input:usize d_hidden:usize bias:bool | initializer:Initializer batch_first:bool clip:Option<f64> hidden_activation:Activation @
Lstm nn d_input:usize d_hidden:usize bias:bool | initializer:Initializer batch_first:bool reverse:bool clip:Option<f64> input_forget:bool gate_activation:Activation cell_activation:Activation hidden_activation:Activation @
BiLstm nn d_input:usize d_hidden:usize bias:bool | initializer:Initializer batch_first:bool clip:Option<f64> input_forget:bool gate_activation:Activation cell_activation:Activation hidden_activation:Activation @
Gru nn d_input:usize d_hidden:usize bias:bool | reset_after:bool initializer:Initializer gate_activation:Activation hidden_activation:Activation clip:Option<f64> @
BiGru nn d_input:usize d_hidden:usize bias:bool | reset_after:bool initializer:Initializer batch_first:bool gate_activation:Activation hidden_activation:Activation clip:Option<f64> @
MultiHeadAttention nn::attention d_model:usize n_heads:usize | dropout:f64 min_float:f64 quiet_softmax:bool initializer:Initializer key_bias:bool value_bias:bool query_bias:bool output_bias:bool @
CrossAttention nn::attention d_model:usize d_context:usize n_heads:usize n_heads_kv:usize d_head:usize | dropout:f64 min_float:f64 quiet_softmax:bool @
PositionWiseFeedForward nn::transformer d_model:usize d_ff:usize | dropout:f64 initializer:Initializer activation:Activation @
TransformerEncoder nn::transformer d_model:usize d_ff:usize n_heads:usize n_layers:usize | dropout:f64 norm_first:bool quiet_softmax:bool initializer:Initializer activation:Activation layer_norm_eps:f64 @
TransformerDecoder nn::transformer d_model:usize d_ff:usize n_heads:usize n_layers:usize | dropout:f64 norm_first:bool quiet_softmax:bool initializer:Initializer activation:Activation layer_norm_eps:f64 @
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
SwiGlu nn d_input:usize d_output:usize | bias:bool initializer:Initializer @
Threshold nn::activation threshold:f64 value:f64
ThresholdedRelu nn | alpha:f64
"""  # noqa: E501 - a row for each layer
"""The layer, its module, the arguments of `new`, after `|` those with a builder, `@` where `init` takes a device."""

_WITHOUT_CONFIG = {
    **dict.fromkeys(("Identity", "Relu", "Sigmoid", "Selu", "Softsign", "Tanh"), "nn"),
    **dict.fromkeys(("HardSwish", "LogSigmoid", "Mish", "Relu6", "SiLU", "Tanhshrink"), "nn::activation"),
}
_INITIALIZERS = (
    *("Constant", "Ones", "Zeros", "Uniform", "Normal", "KaimingUniform", "KaimingNormal", "XavierUniform"),
    *("XavierNormal", "Orthogonal"),
)
_ENUM_OF_ACTIVATIONS = (
    *("Identity", "Gelu", "GeluApproximate", "PRelu", "Relu", "LeakyRelu", "Selu", "Sigmoid", "Tanh", "HardSigmoid"),
    *("HardSwish", "Softplus", "Softsign", "Elu", "Celu", "ThresholdedRelu"),
)
"""Burn's enum of activations, which layers with an activation in them take."""
_OUR_NAMES = {"lambda": "lambd"}


class Row(NamedTuple):
    """A layer of Burn: required and optional fields of its config, with their types."""

    module: str
    required: Mapping[str, str]
    optional: Mapping[str, str]
    takes_device: bool


class RustLayer(NamedTuple):
    """A layer: its type, the expression that makes it, and what has to be imported for it."""

    type: str
    init: str
    imports: frozenset[str]


def rows() -> dict[str, Row]:
    """Burn's layers that have a config."""
    found: dict[str, Row] = {}
    for line in _TABLE.strip().splitlines():
        name, module, *rest = line.split()
        fields = [it for it in rest if it not in ("@", "|")]
        bar = rest.index("|") if "|" in rest else len(fields)
        types = {it.partition(":")[0]: it.partition(":")[2] for it in fields}
        names = [*types]
        required, optional = ({it: types[it] for it in part} for part in (names[:bar], names[bar:]))
        found[name] = Row(module, required, optional, "@" in rest)
    return found


_ROWS = rows()


def rust_layer(config: ModuleConfig, path: str) -> RustLayer | None:
    """A layer of Burn as Rust; None for a layer that Burn has not. NoCounterpartError for an option that it has not."""
    tag = tag_of(type(config)) or ""
    if tag in _WITHOUT_CONFIG:
        return RustLayer(tag, f"{tag}::new()", frozenset({f"burn::{_WITHOUT_CONFIG[tag]}::{tag}"}))
    values: Any = config
    if tag == "Gelu":
        made = "Gelu::new_approximate()" if values.approximate else "Gelu::new()"
        return RustLayer(tag, made, frozenset({"burn::nn::Gelu"}))
    if tag == "GLU":
        return RustLayer(tag, f"GLU::new({values.dim})", frozenset({"burn::nn::GLU"}))
    if tag not in _ROWS:
        return None
    row = _ROWS[tag]
    defaults = _defaults(type(config))
    _refuse_ours(config, tag, row, defaults, path)
    imports = {f"burn::{row.module}::{tag}", f"burn::{row.module}::{tag}Config"}
    arguments = [_value(_field(values, name), kind, path, imports) for name, kind in row.required.items()]
    builders = ""
    for name, kind in row.optional.items():
        value = _field(values, name)
        if value == defaults.get(_OUR_NAMES.get(name, name)):
            continue
        if (text := _value(value, kind, path, imports)) is not None:
            builders += f".with_{name}({text})"
    device = "device" if row.takes_device else ""
    return RustLayer(
        tag, f"{tag}Config::new({', '.join(map(str, arguments))}){builders}.init({device})", frozenset(imports)
    )


def _refuse_ours(config: Any, tag: str, row: Row, defaults: Mapping[str, Any], path: str) -> None:
    """Refuse values of fields that only ours has."""
    known = {_OUR_NAMES.get(it, it) for it in (*row.required, *row.optional)}
    for name in type(config).__struct_fields__:
        if name not in known and getattr(config, name) != defaults.get(name):
            raise NoCounterpartError(
                f"{path or 'the model'}: Burn's {tag} has no `{name}`, here {getattr(config, name)!r}"
            )


def _defaults(config: type[Any]) -> dict[str, Any]:
    names = config.__struct_fields__
    values = config.__struct_defaults__
    return dict(zip(names[len(names) - len(values) :], values, strict=True)) if values else {}


def _field(config: Any, name: str) -> Any:
    return getattr(config, _OUR_NAMES.get(name, name))


def _value(value: Any, kind: str, path: str, imports: set[str]) -> str | None:
    """A value as Rust of a type; None for an initializer that Burn has not: weights are read in any case."""
    if kind.startswith("Option<"):
        inner = kind.removeprefix("Option<").removesuffix(">")
        return "None" if value is None else f"Some({_value(value, inner, path, imports)})"
    if kind.startswith("["):
        inner, count = kind.strip("[]").split(";")
        return f"[{', '.join(str(_value(it, inner, path, imports)) for it in each(value, int(count)))}]"
    if kind in ("f64", "f32"):
        return f"{'-' * (value < 0)}{kind}::INFINITY" if math.isinf(value) else repr(float(value))
    if kind == "bool":
        return "true" if value else "false"
    if kind.startswith("Padding"):
        return _padding(value, int(kind[7]), imports)
    if kind == "Initializer":
        return _initializer(value, imports)
    if kind == "Activation":
        return _activation(value, path, imports)
    if kind == "InterpolateMode":
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


def _initializer(value: Any, imports: set[str]) -> str | None:
    tag = tag_of(type(value)) or ""
    if tag not in _INITIALIZERS:
        return None
    imports.add("burn::nn::Initializer")
    fields = ", ".join(f"{name}: {_plain(getattr(value, name))}" for name in type(value).__struct_fields__)
    return f"Initializer::{tag} {{ {fields} }}" if fields else f"Initializer::{tag}"


def _plain(value: Any) -> str:
    return ("true" if value else "false") if isinstance(value, bool) else repr(float(value))


def _activation(value: Any, path: str, imports: set[str]) -> str:
    tag = tag_of(type(value)) or ""
    tag = "GeluApproximate" if tag == "Gelu" and value.approximate else tag
    if tag not in _ENUM_OF_ACTIVATIONS:
        raise NoCounterpartError(f"{path or 'the model'}: Burn's layers take no {tag} as their activation")
    imports.add("burn::nn::activation::ActivationConfig")
    if tag not in _ROWS:
        return f"ActivationConfig::{tag}"
    made = rust_layer(value, path)
    assert made is not None
    imports |= {it for it in made.imports if it.endswith("Config")}
    return f"ActivationConfig::{tag}({made.init.rpartition('.init(')[0]})"
