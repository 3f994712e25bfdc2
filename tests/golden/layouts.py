"""Layouts, as data, of the models that Burn wrote in bincode, which carries no names.

A folder's `.values.json` says by `config` what a file holds; a model without one is known by name. Where neither is
known, `infer` finds the layout from the same record in a format that has names.
"""

from collections.abc import Mapping
from typing import Any

from .inferring import infer

__all__ = ["LAYERS", "MODELS", "SCHEDULERS", "STATES", "infer", "layout_for"]

Layout = Any

ACTIVATIONS = (
    *("Gelu", "PRelu", "Relu", "LeakyRelu", "SwiGlu", "Selu", "Sigmoid", "Tanh", "HardSigmoid", "HardSwish"),
    *("Softplus", "Softsign", "Elu", "Celu", "ThresholdedRelu", "HardShrink", "SoftShrink", "Shrink"),
)
"""Variants of Burn 0.21's `Activation`, in order. None that holds parameters is a default anywhere."""

_MAYBE: Layout = {"$option": "param"}
_LINEAR: Layout = {"weight": "param", "bias": _MAYBE}
_GATE: Layout = {"input_transform": _LINEAR, "hidden_transform": _LINEAR}
_ACTIVATION: Layout = {"$enum": [[name, "constant"] for name in ACTIVATIONS]}


def _constants(*names: str) -> Layout:
    return dict.fromkeys(names, "constant")


def _conv(*more: str) -> Layout:
    return {**_LINEAR, **_constants("stride", "kernel_size", "dilation", *more)}


_RNN: Layout = {
    "gate": _GATE,
    **_constants("d_hidden", "batch_first", "reverse", "clip"),
    "hidden_activation": _ACTIVATION,
}
_LSTM: Layout = {
    **dict.fromkeys(["input_gate", "forget_gate", "output_gate", "cell_gate"], _GATE),
    **_constants("d_hidden", "batch_first", "reverse", "clip", "input_forget"),
    **dict.fromkeys(["gate_activation", "cell_activation", "hidden_activation"], _ACTIVATION),
}
_GRU: Layout = {
    **dict.fromkeys(["update_gate", "reset_gate", "new_gate"], _GATE),
    **_constants("d_hidden", "reset_after"),
    **dict.fromkeys(["gate_activation", "hidden_activation"], _ACTIVATION),
    **_constants("clip"),
}
_LAYER_NORM: Layout = {"gamma": "param", "beta": _MAYBE, "epsilon": "constant"}
_ATTENTION: Layout = {
    **dict.fromkeys(["query", "key", "value", "output"], _LINEAR),
    **_constants("dropout", "activation", "d_model", "n_heads", "d_k", "min_float", "quiet_softmax"),
}
_FEED_FORWARD: Layout = {"linear_inner": _LINEAR, "linear_outer": _LINEAR, **_constants("dropout", "activation")}
_ENCODER_LAYER: Layout = {
    "mha": _ATTENTION,
    "pwff": _FEED_FORWARD,
    "norm_1": _LAYER_NORM,
    "norm_2": _LAYER_NORM,
    **_constants("dropout", "norm_first"),
}
_DECODER_LAYER: Layout = {
    "cross_attn": _ATTENTION,
    "self_attn": _ATTENTION,
    "pwff": _FEED_FORWARD,
    **dict.fromkeys(["norm_1", "norm_2", "norm_3"], _LAYER_NORM),
    **_constants("dropout", "norm_first"),
}
_TRANSFORMER = _constants("d_model", "d_ff", "n_heads", "n_layers", "dropout", "norm_first", "quiet_softmax")


def _bidirectional(layer: Layout) -> Layout:
    return {"forward": layer, "reverse": layer, **_constants("d_hidden", "batch_first")}


LAYERS: Mapping[str, Layout] = {
    "Linear": _LINEAR,
    "Embedding": {"weight": "param"},
    **dict.fromkeys(["Conv1d", "Conv2d", "Conv3d"], _conv("groups", "padding")),
    **dict.fromkeys(
        ["ConvTranspose1d", "ConvTranspose2d", "ConvTranspose3d"], _conv("groups", "padding", "padding_out", "channels")
    ),
    "DeformConv2d": _conv("weight_groups", "offset_groups", "padding"),
    "BatchNorm": {
        **dict.fromkeys(["gamma", "beta", "running_mean", "running_var"], "param"),
        **_constants("momentum", "epsilon"),
    },
    "LayerNorm": _LAYER_NORM,
    "RmsNorm": {"gamma": "param", "epsilon": "constant"},
    "GroupNorm": {
        **dict.fromkeys(["gamma", "beta"], _MAYBE),
        **_constants("num_groups", "num_channels", "epsilon", "affine"),
    },
    "InstanceNorm": {
        **dict.fromkeys(["gamma", "beta"], _MAYBE),
        **_constants("num_channels", "epsilon", "affine"),
    },
    "PRelu": {"alpha": "param", "alpha_value": "constant"},
    "SwiGlu": {"linear_inner": _LINEAR, "linear_outer": _LINEAR},
    "Rnn": _RNN,
    "Lstm": _LSTM,
    "Gru": _GRU,
    "BiRnn": _bidirectional(_RNN),
    "BiLstm": _bidirectional(_LSTM),
    "BiGru": _bidirectional(_GRU),
    "MultiHeadAttention": _ATTENTION,
    "PositionWiseFeedForward": _FEED_FORWARD,
    "TransformerEncoder": {"layers": {"$vec": _ENCODER_LAYER}, **_TRANSFORMER},
    "TransformerDecoder": {"layers": {"$vec": _DECODER_LAYER}, **_TRANSFORMER},
    "PositionalEncoding": _constants("sinusoids", "max_sequence_size", "max_timescale"),
    "RotaryEncoding": _constants("freq_complex", "theta", "start_offset"),
    # Structs that hold no tensor at all are one constant in Burn.
    **dict.fromkeys([name for name in ACTIVATIONS if name not in ("PRelu", "SwiGlu")], "constant"),
    **dict.fromkeys(["Dropout", "GaussianNoise", "LocalResponseNorm", "Unfold4d"], "constant"),
    **dict.fromkeys(
        [f"{kind}Pool{rank}d" for kind in ("Avg", "Max", "AdaptiveAvg") for rank in (1, 2)]
        + ["Interpolate1d", "Interpolate2d"],
        "constant",
    ),
}
"""Burn 0.21's layers, by the type in their config."""

_ADAM: Layout = {
    "momentum": {"time": "usize", "moment_1": "tensor", "moment_2": "tensor", "max_moment_2": {"$option": "tensor"}}
}
STATES: Mapping[str, Layout] = {
    "Sgd": {"momentum": {"$option": {"velocity": "tensor"}}},
    "Adam": _ADAM,
    "AdamW": _ADAM,
    "AdaGrad": {"lr_decay": {"time": "usize", "sum": "tensor"}},
    "RmsProp": {
        "square_avg": {"square_avg": "tensor"},
        "centered": {"grad_avg": {"$option": "tensor"}, "avg": "tensor"},
        "momentum": {"$option": {"buf": "tensor"}},
    },
    "Adan": {
        "momentum": {
            "time": "usize",
            **dict.fromkeys(["exp_avg", "exp_avg_sq", "exp_avg_diff", "neg_pre_grad"], "tensor"),
        }
    },
    "Muon": {"momentum": {"velocity": "tensor"}},
}
"""States of Burn 0.21's optimizers for one parameter, by the type in their config."""

SCHEDULERS: Mapping[str, Layout] = {
    "ConstantLr": "unit",
    **dict.fromkeys(["LinearLrScheduler", "CosineAnnealingLrScheduler", "NoamLrScheduler"], "usize"),
    "ExponentialLrScheduler": "f64",
    "StepLrScheduler": "i32",
    "ComposedLrScheduler": {
        "schedulers": {
            "$vec": {"$enum": [["Linear", "usize"], ["Cosine", "usize"], ["Exponential", "f64"], ["Noam", "usize"]]}
        }
    },
}
"""Records of Burn 0.21's schedulers, by the type in their config."""

_HEAD: Layout = {"$enum": [["Plain", _LINEAR], ["Normed", _LAYER_NORM]]}
MODELS: Mapping[str, Layout] = {
    "two": _LINEAR,
    "kinds": {
        **dict.fromkeys(["f", "i", "b"], "param"),
        **_constants("plain", "count", "ratio", "name", "flag", "maybe"),
    },
    "tree": {
        "layers": {"$vec": _LINEAR},
        "pair": {"$tuple": [_LINEAR, _LINEAR]},
        "tuple": {"$tuple": [_LINEAR, _LAYER_NORM]},
        "some": {"$option": _LINEAR},
        "none": {"$option": _LINEAR},
        "head": _HEAD,
        "other": _HEAD,
        "norm": LAYERS["BatchNorm"],
        "dropout": "constant",
        "empty": {"$vec": _LINEAR},
        "scale": "constant",
        "nested": _LINEAR,
    },
    "empty": _constants("dropout", "act", "phantom"),
}
"""Models that are known by name alone."""


def layout_for(values: Mapping[str, Any]) -> Layout | None:
    """The layout of the records that a `.values.json` describes; None if neither its config nor its name tells."""
    config = values.get("config")
    if isinstance(config, Mapping):
        return _layout_of_config(config)
    return MODELS.get(values.get("name", ""))


def _layout_of_config(config: Mapping[str, Any]) -> Layout | None:
    kind = config.get("type", "")
    if kind in STATES:
        return {"$map": {"$state": STATES[kind]}}
    if isinstance(config.get("fields"), list):
        fields = {name: _layout_of_config(below) for name, below in config["fields"]}
        return None if None in fields.values() else fields
    return LAYERS.get(kind, SCHEDULERS.get(kind))
