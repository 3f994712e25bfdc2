"""Models in YAML: those by hand, and such as a generator draws of all layers, in all ways to put these together."""
# ruff: noqa: E501 - a row for each model

import json
from collections.abc import Callable, Mapping
from random import Random
from typing import Any

import torch
from torch import Tensor

from burnlike.config import ModuleConfig, registry
from burnlike.train.export.source import Source, _bound

from .running import random_of
from .rust_models import Case

Config = dict[str, Any]
_BY_CHANCE = {"RRelu", "GaussianNoise"}
_UNLEARNABLE = {"HardShrink"}


def case_of(text: str | ModuleConfig, *inputs: Tensor, learns: bool = True, **named: Tensor) -> Case:
    """The model of a YAML text or a config, with inputs in order or by name."""
    registry.load_built_in()

    def config() -> ModuleConfig:
        return ModuleConfig.from_yaml(text, "model") if isinstance(text, str) else text

    def example() -> Mapping[str, Tensor]:
        source = Source(config().init("meta"), config(), None, (), {})
        return _bound(source, inputs, named)

    return Case(lambda: config().init("cpu"), example, learns)


def drawn(count: int, subject: str = "rust") -> dict[str, Case]:
    """As many models as asked for, each of layers that fit each other."""
    found = dict[str, Case]()
    for number in range(count):
        rng = random_of(f"{subject} {number}")
        torch.manual_seed(rng.randrange(2**31))
        kind = rng.choice([*_STARTS])
        x = _STARTS[kind](rng)
        config, _ = _chain(rng, x, rng.randint(1, 6), depth=2)
        text = json.dumps(config)
        found[f"m{number}_{kind}"] = case_of(text, x, learns=not any(f'"{it}"' in text for it in _BY_CHANCE))
    return found


def all_layers() -> dict[str, Case]:
    """Each layer alone, with all that its config has drawn at random."""
    found = dict[str, Case]()
    for tag in _LAYERS:
        rng = random_of(f"rust layer {tag}")
        for number in range(3):
            torch.manual_seed(number)
            for _ in range(60):
                kind = rng.choice([*_STARTS])
                x = _STARTS[kind](rng)
                config = _LAYERS[tag](rng, [*x.shape]) if (x.dtype == torch.int64) == (tag == "Embedding") else None
                if config is not None and _result({"type": tag, **config}, x) is not None:
                    text = json.dumps({"type": tag, **config})
                    found[f"{tag.lower()}_{number}"] = case_of(text, x, learns=tag not in _BY_CHANCE)
                    break
    return found


_STARTS: dict[str, Callable[[Random], Tensor]] = {
    "rows": lambda rng: torch.randn(rng.randint(2, 4), rng.choice([4, 6, 8])),
    "sequence": lambda rng: torch.randn(2, rng.randint(3, 6), rng.choice([4, 8])),
    "image": lambda rng: torch.randn(2, rng.choice([1, 3, 4, 8]), 8, rng.choice([6, 8])),
    "volume": lambda rng: torch.randn(2, rng.choice([2, 4]), 4, 5, 4),
    "tokens": lambda rng: torch.randint(9, (2, rng.randint(3, 7))),
}


def _chain(rng: Random, x: Tensor, count: int, depth: int) -> tuple[Config, Tensor]:
    """A Sequential of drawn layers, whose result is that of the last."""
    layers = list[Config]()
    while len(layers) < count:
        layer, x = _part(rng, x, depth)
        layers.append(layer)
    if rng.random() < 0.5:
        return {"type": "Sequential", "layers": layers}, x
    names = rng.sample(_NAMES, len(layers))
    return {"type": "Sequential", "layers": dict(zip(names, layers, strict=True))}, x


_NAMES = [
    "conv",
    "norm",
    "act",
    "self",
    "move",
    "mapper",
    "Conv",
    "type_",
    "block1",
    "stem",
    "x",
    "device",
    "loop",
    "n0",
    "head",
]


def _part(rng: Random, x: Tensor, depth: int) -> tuple[Config, Tensor]:
    """A layer, or one made of layers, and what it makes of x."""
    is_float = x.is_floating_point()
    kind = rng.choice(["layer"] * 5 + ["Residual", "Repeat", "Sequential", "Graph"]) if depth and is_float else "layer"
    for _ in range(20):
        if kind == "layer":
            return _layer(rng, x)
        if kind == "Sequential":
            return _chain(rng, x, rng.randint(1, 3), depth - 1)
        inner, y = _chain(rng, x, rng.randint(1, 3), depth - 1)
        if kind == "Graph":
            return _graph(rng, x, depth)
        if y.shape != x.shape or not y.is_floating_point():
            continue
        if kind == "Residual":
            config = {"type": "Residual", "layers": inner["layers"]}
        else:
            layer = inner if rng.random() < 0.5 else {"type": "Residual", "layers": inner["layers"]}
            config = {"type": "Repeat", "times": rng.randint(1, 3), "layer": layer}
        made = _result(config, x)
        if made is not None:
            return config, made
    return _layer(rng, x)


def _graph(rng: Random, x: Tensor, depth: int) -> tuple[Config, Tensor]:
    """Nodes of which each takes one or two of those before."""
    values, nodes = {"x": x}, dict[str, Config]()
    for number in range(rng.randint(2, 5)):
        source = rng.choice([*values])
        name = f"{rng.choice(['a', 'B', 'sum', 'read', 'softmax'])}{number or ''}"
        if name in values:
            continue
        same = [it for it in values if values[it].shape == values[source].shape]
        if len(same) > 1 and rng.random() < 0.5:
            tag = rng.choice(["Add", "Subtract", "Multiply", "Concat", "Stack"])
            layer: Config = {"type": tag} | ({"dim": rng.choice([0, 1, -1])} if tag in ("Concat", "Stack") else {})
            nodes[name] = layer | {"from": [source, rng.choice(same)]}
        else:
            layer, _ = _part(rng, values[source], depth - 1)
            nodes[name] = layer | {"from": source}
        made = _result({"type": "Graph", "nodes": nodes}, x)
        if made is None or made.dim() > 5:
            del nodes[name]
        else:
            values[name] = made
    if not nodes:
        return _layer(rng, x)
    return {"type": "Graph", "nodes": nodes}, values[[*nodes][-1]]


def _layer(rng: Random, x: Tensor) -> tuple[Config, Tensor]:
    for _ in range(200):
        tag = "Embedding" if not x.is_floating_point() else rng.choice([*_LAYERS])
        config = _LAYERS[tag](rng, [*x.shape]) if x.dim() > 1 else None
        if config is None or (x.is_floating_point() and tag == "Embedding"):
            continue
        made = _result({"type": tag, **config}, x)
        if made is not None and made.numel() < 5000 and made.dim():
            return {"type": tag, **config}, made
    return {"type": "Identity"}, x


def _result(config: Config, x: Tensor) -> Tensor | None:
    """What a model makes of x, if that is a tensor of numbers."""
    registry.load_built_in()
    try:
        torch.manual_seed(0)
        with torch.no_grad():
            y = ModuleConfig.from_yaml(json.dumps(config), "model").init("cpu").eval()(x)
    except Exception:
        return None
    return y if isinstance(y, Tensor) and bool(y.isfinite().all()) and float(y.abs().max()) < 50 else None


# Configs of each layer for an input of a shape; None where it does not fit

_Draw = Callable[[Random, list[int]], Config | None]


def _of_rank(*ranks: int) -> Callable[[_Draw], _Draw]:
    return lambda draw: lambda rng, shape: draw(rng, shape) if len(shape) in ranks else None


def _windows(rng: Random, shape: list[int], *, transposed: bool = False) -> Config:
    n = len(shape) - 2
    one = n == 1
    pick = (
        (lambda low, high: rng.randint(low, high))
        if one
        else (lambda low, high: rng.choice([rng.randint(low, high), [rng.randint(low, high) for _ in range(n)]]))
    )
    found: Config = {"kernel_size": pick(1, 3), "stride": pick(1, 2), "dilation": pick(1, 2)}
    if transposed:
        return found | {"padding": pick(0, 1), "padding_out": 0}
    ends = [[0, 1] * n, [1] * (2 * n), 1]
    return found | {"padding": rng.choice(["Valid", "Same", 1, rng.choice(ends)])}


def _conv(rng: Random, shape: list[int]) -> Config:
    groups = rng.choice([1, 1, 2]) if shape[1] % 2 == 0 else 1
    out = rng.choice([2, 4, 8])
    channels = {"channels_in": shape[1], "channels_out": out} if len(shape) == 3 else {"channels": [shape[1], out]}
    return channels | _windows(rng, shape) | {"groups": groups, "bias": rng.random() < 0.7}


def _transposed(rng: Random, shape: list[int]) -> Config:
    return {"channels": [shape[1], rng.choice([2, 4])], "bias": rng.random() < 0.7} | _windows(
        rng, shape, transposed=True
    )


def _pool(rng: Random, shape: list[int], *, is_max: bool) -> Config:
    found = _windows(rng, shape) | {"ceil_mode": rng.random() < 0.3}
    if len(shape) > 3:
        found["strides"] = found.pop("stride")
    if not is_max:
        del found["dilation"]
        found["count_include_pad"] = rng.random() < 0.5
    return found


def _recurrent(rng: Random, shape: list[int], name: str) -> Config:
    found: Config = {"d_input": shape[-1], "d_hidden": rng.choice([4, 6]), "bias": rng.random() < 0.7}
    if rng.random() < 0.3:
        found["clip"] = 0.5
    if "Gru" in name:
        found["reset_after"] = rng.random() < 0.5
        found["gate_activation"] = {"type": "HardSigmoid"}
    return found


def _act(rng: Random) -> Config:
    return rng.choice([{"type": "Relu"}, {"type": "Gelu"}, {"type": "Gelu", "approximate": True}, {"type": "LeakyRelu", "negative_slope": 0.2},
                       {"type": "SiLU"}, {"type": "Tanh"}, {"type": "HardSwish"}, {"type": "Softplus", "beta": 2.0}])  # fmt: skip


def _stack(rng: Random, shape: list[int]) -> Config:
    return {"d_model": shape[-1], "d_ff": 8, "n_heads": 2, "n_layers": rng.randint(1, 2), "norm_first": rng.random() < 0.5,
            "quiet_softmax": rng.random() < 0.3, "activation": rng.choice([{"type": "Relu"}, {"type": "Gelu"}, {"type": "Tanh"}])}  # fmt: skip


def _dims(rng: Random, shape: list[int]) -> Config:
    some = rng.sample(range(len(shape)), rng.randint(1, len(shape)))
    return {"dims": some, "keep_dims": rng.random() < 0.5}


def _plain(**fields: Any) -> _Draw:
    return lambda rng, shape: {
        name: it(rng) if callable(it) else it for name, it in fields.items() if rng.random() < 0.7
    }


def _channels(name: str, **more: Callable[[Random], Any]) -> _Draw:
    return lambda rng, shape: {name: shape[1]} | {key: it(rng) for key, it in more.items()} if len(shape) > 2 else None


def _last(name: str, **more: Callable[[Random], Any]) -> _Draw:
    return lambda rng, shape: {name: shape[-1]} | {key: it(rng) for key, it in more.items()}


def _flag(rng: Random) -> bool:
    return rng.random() < 0.5


def _float(low: float, high: float) -> Callable[[Random], float]:
    return lambda rng: round(rng.uniform(low, high), 3)


_NORMS = [
    {"type": "Identity"},
    {"type": "BatchNorm", "num_features": 1},
    {"type": "GroupNorm", "num_groups": 1, "num_channels": 1},
]


def _size(rng: Random) -> Config:
    return {"channels": None, "norm": rng.choice(_NORMS), "activation": _act(rng)}


_image, _series, _sequence, _spatial = _of_rank(4), _of_rank(3), _of_rank(3), _of_rank(3, 4, 5)
_LAYERS: dict[str, _Draw] = {
    "Linear": lambda rng, shape: {"d_input": shape[-1], "d_output": rng.choice([4, 8]), "bias": _flag(rng), "layout": rng.choice(["row", "col"])},
    "Embedding": lambda rng, shape: {"n_embedding": 9, "d_model": rng.choice([4, 8])} if len(shape) == 2 else None,
    "Conv1d": _series(_conv), "Conv2d": _image(_conv), "Conv3d": _of_rank(5)(_conv),
    "ConvTranspose1d": _series(_transposed), "ConvTranspose2d": _image(_transposed), "ConvTranspose3d": _of_rank(5)(_transposed),
    "DeformConv2d": lambda rng, shape: None,
    "AvgPool1d": _series(lambda rng, shape: _pool(rng, shape, is_max=False)), "AvgPool2d": _image(lambda rng, shape: _pool(rng, shape, is_max=False)),
    "MaxPool1d": _series(lambda rng, shape: _pool(rng, shape, is_max=True)), "MaxPool2d": _image(lambda rng, shape: _pool(rng, shape, is_max=True)),
    "AdaptiveAvgPool1d": _series(lambda rng, shape: {"output_size": rng.randint(1, 3)}),
    "AdaptiveAvgPool2d": _image(lambda rng, shape: {"output_size": rng.choice([1, 2, [2, 3]])}),
    "AdaptiveAvgPool3d": _of_rank(5)(lambda rng, shape: {"output_size": rng.choice([1, [2, 1, 3]])}),
    "Interpolate1d": _series(lambda rng, shape: rng.choice([{"output_size": 6}, {"scale_factor": 2.0}]) | {"mode": rng.choice(["Nearest", "Linear", "Cubic"]), "align_corners": _flag(rng)}),
    "Interpolate2d": _image(lambda rng, shape: rng.choice([{"output_size": [6, 5]}, {"scale_factor": [2.0, 1.5]}]) | {"mode": rng.choice(["Nearest", "Linear", "Cubic"]), "align_corners": _flag(rng)}),
    "PixelShuffle": _image(lambda rng, shape: {"upscale_factor": 2}), "PixelUnshuffle": _image(lambda rng, shape: {"downscale_factor": 2}),
    "Unfold4d": _image(lambda rng, shape: {"kernel_size": [2, 2], "stride": rng.randint(1, 2), "padding": rng.randint(0, 1)}),
    "BatchNorm": lambda rng, shape: {"num_features": shape[1], "epsilon": rng.choice([1e-5, 1e-3]), "momentum": rng.choice([0.1, 0.3])},
    "GroupNorm": _channels("num_channels", num_groups=lambda rng: rng.choice([1, 2]), affine=_flag),
    "InstanceNorm": _channels("num_channels", affine=_flag),
    "LayerNorm": _last("d_model", bias=_flag, epsilon=lambda rng: rng.choice([1e-5, 1e-2])),
    "RmsNorm": _last("d_model", epsilon=lambda rng: rng.choice([1e-5, 1e-2])),
    "LocalResponseNorm": _spatial(lambda rng, shape: {"size": rng.randint(2, 5), "alpha": 0.3, "beta": 0.6}),
    "Dropout": _plain() and (lambda rng, shape: {"prob": 0.3}), "DropPath": lambda rng, shape: {"prob": 0.3},
    "GaussianNoise": lambda rng, shape: {"std": 0.3},
    "PositionalEncoding": _sequence(lambda rng, shape: {"d_model": shape[-1], "max_sequence_size": 100}),
    "RotaryEncoding": _sequence(lambda rng, shape: {"d_model": shape[-1], "max_sequence_length": 100, "theta": rng.choice([1e4, 500.0])}),
    **{name: _sequence(lambda rng, shape, name=name: _recurrent(rng, shape, name)) for name in ("Gru", "BiGru")},
    "MultiHeadAttention": lambda rng, shape: None,
    "PositionWiseFeedForward": lambda rng, shape: {"d_model": shape[-1], "d_ff": 8, "activation": rng.choice([{"type": "Relu"}, {"type": "Tanh"}, {"type": "HardSwish"}])},
    "TransformerEncoder": _sequence(_stack),
    "CausalAttention": _sequence(lambda rng, shape: {"d_model": shape[-1], "n_heads": 2, "bias": _flag(rng), "n_heads_kv": rng.choice([1, 2])}),
    "GatedFeedForward": _last("d_model", d_ff=lambda rng: 6, activation=_act, bias=_flag),
    "GatedLinear": _last("d_input", d_output=lambda rng: 4, activation=_act, bias=_flag),
    "SwiGlu": _last("d_input", d_output=lambda rng: 4, bias=_flag),
    "MixtureOfExperts": _last("d_model", d_ff=lambda rng: 6, n_experts=lambda rng: 3, n_selected=lambda rng: rng.randint(1, 2)),
    "LayerScale": _last("d_model", value=_float(0.1, 0.5)),
    "ConvNorm2d": _image(lambda rng, shape: _size(rng) | {"channels": [shape[1], 4], "stride": rng.randint(1, 2)}),
    "DepthwiseSeparableConv2d": _image(lambda rng, shape: _size(rng) | {"channels": [shape[1], 4]}),
    "BasicBlock": _image(lambda rng, shape: _size(rng) | {"channels": [shape[1], rng.choice([4, shape[1]])], "stride": rng.randint(1, 2)}),
    "Bottleneck": _image(lambda rng, shape: _size(rng) | {"channels": [shape[1], rng.choice([4, 8])], "reduction": 2}),
    "SqueezeExcite": _image(lambda rng, shape: {"channels": shape[1], "d_hidden": 2, "activation": _act(rng)}),
    "PatchEmbedding": _image(lambda rng, shape: {"channels": shape[1], "patch_size": 2, "d_model": 8, "bias": _flag(rng)}),
    "GLU": lambda rng, shape: {"dim": rng.choice([-1, 1])},
    "Softmax": lambda rng, shape: {"dim": rng.choice([-1, 1])},
    "Celu": _plain(alpha=_float(0.5, 2)), "Elu": _plain(alpha=_float(0.5, 2)), "Gelu": _plain(approximate=_flag), "HardShrink": _plain(lambd=_float(0.2, 0.9)),
    "HardSigmoid": _plain(alpha=_float(0.1, 0.4)), "Hardtanh": _plain(min_val=_float(-2, -0.5), max_val=_float(0.5, 2)), "LeakyRelu": _plain(negative_slope=_float(0.05, 0.4)),
    "PRelu": lambda rng, shape: {"num_parameters": rng.choice([1, shape[1]]), "alpha": 0.3}, "RRelu": _plain(lower=0.2, upper=0.4), "Shrink": _plain(lambd=0.4, bias=0.2),
    "SoftShrink": _plain(lambd=0.3), "Softplus": _plain(beta=2.0, threshold=10.0), "ThresholdedRelu": _plain(alpha=0.4),
    "Threshold": lambda rng, shape: {"threshold": 0.2, "value": -0.5},
    **{name: _plain() for name in ("Relu", "Relu6", "Selu", "SiLU", "Sigmoid", "Softsign", "Tanh", "Tanhshrink", "HardSwish", "LogSigmoid", "Mish", "Identity", "Negate", "Exp")},
    "Mean": _dims, "Sum": _dims, "Max": _dims, "Min": _dims,
    "Flatten": lambda rng, shape: {"start_dim": rng.randint(0, len(shape) - 1)},
    "Permute": lambda rng, shape: {"dims": rng.sample(range(len(shape)), len(shape))},
    "Select": lambda rng, shape: {"dim": (dim := rng.randrange(len(shape) > 1, len(shape))), "index": rng.choice([0, -1, shape[dim] - 1, -2])},
    "Slice": lambda rng, shape: {"dim": (dim := rng.randrange(len(shape))), "start": rng.choice([0, 1, -2]), "end": rng.choice([None, -1, shape[dim]]), "step": rng.choice([1, 1, 2])},
    "Pad": lambda rng, shape: {"dim": rng.randrange(len(shape)), "before": rng.randint(0, 2), "after": rng.randint(0, 2), "mode": rng.choice(["constant", "reflect", "edge"])} ,
    "Reshape": lambda rng, shape: {"shape": [shape[0], -1]},
}  # fmt: skip


# By hand

_X = {
    "rows": lambda: torch.randn(3, 4),
    "sequence": lambda: torch.randn(2, 5, 4),
    "image": lambda: torch.randn(2, 4, 6, 6),
    "tokens": lambda: torch.randint(9, (2, 5)),
}


def _graph_of(nodes: str, inputs: str = "x", outputs: str = "") -> str:
    return f"{{type: Graph, inputs: [{inputs}], nodes: {{{nodes}}}{f', outputs: [{outputs}]' if outputs else ''}}}"


def by_hand() -> dict[str, Case]:
    """Models of which each shows one rule."""
    torch.manual_seed(7)
    rows, sequence, image, tokens = (it() for it in _X.values())
    pad = torch.zeros(2, 5, dtype=torch.bool)
    pad[0, 3:] = True
    hidden = torch.triu(torch.ones(5, 5, dtype=torch.bool), 1).expand(2, 5, 5).clone()
    state, memory = torch.randn(2, 6), torch.randn(2, 7, 4)
    memory_pad = torch.zeros(2, 7, dtype=torch.bool)
    memory_pad[1, 5:] = True
    linear = "{type: Linear, d_input: 4, d_output: 4}"
    conv = "{type: Conv2d, channels: [4, 4], kernel_size: 3, padding: Same}"
    mha = "type: MultiHeadAttention, d_model: 4, n_heads: 2"
    stack = "d_model: 4, d_ff: 8, n_heads: 2, n_layers: 2"
    lstm = "{name}: {{type: {tag}, d_input: 4, d_hidden: 6, bias: true"
    found: dict[str, Case] = {
        "residual": case_of(f"{{type: Residual, layers: [{linear}, {{type: Relu}}]}}", rows),
        "residual_shortcut": case_of(f"{{type: Residual, layers: [{conv}, {{type: Gelu}}], shortcut: {conv}}}", image),
        "repeat_unnamed": case_of(f"{{type: Repeat, times: 2, layer: {{type: Residual, layers: [{linear}, {{type: Relu}}]}}}}", rows),
        "repeat_in_repeat": case_of(f"{{type: Repeat, times: 2, layer: {{type: Repeat, times: 3, layer: {{type: Residual, layers: [{linear}, {{type: Tanh}}]}}}}}}", rows),
        "repeat_keywords": case_of(f"{{type: Repeat, times: 3, layer: {{type: Sequential, layers: {{self: {linear}, move: {linear}, kind: {linear}}}}}}}", rows),
        "repeat_each": case_of("{type: Repeat, times: 3, layer: {type: Residual, layers: [{type: Conv2d, channels: [4, 4], kernel_size: 3, dilation: 1, padding: 1}, {type: Relu}]}, "
                               "each: {'layers[0].dilation': [1, 2, 3], 'layers[0].padding': [1, 2, 3]}}", image),
        "repeat_each_prob": case_of("{type: Repeat, times: 3, layer: {type: Residual, layers: [" + linear + ", {type: DropPath, prob: 0.0}]}, each: {'layers[1].prob': [0.0, 0.1, 0.2]}}", rows),
        "repeat_sizes": case_of("{type: Repeat, times: 2, layer: {type: Linear, d_input: 4, d_output: 6}, each: {d_input: [4, 6], d_output: [6, 3]}}", rows),
        "repeat_operations": case_of("{type: Repeat, times: 3, layer: {type: Softmax, dim: -1}}", rows),
        "repeat_memory": case_of("{type: Repeat, times: 2, layer: {type: CrossAttention, d_model: 4, d_context: 4, n_heads: 2, n_heads_kv: 1, d_head: 2}}", sequence, memory),
        "digits": case_of("""
type: Sequential
layers:
  stem: {type: Conv2d, channels: [1, 8], kernel_size: 3, padding: Same, bias: false}
  norm: {type: BatchNorm, num_features: 8}
  activation: {type: Relu}
  blocks:
    type: Repeat
    times: 2
    layer:
      type: Residual
      layers:
        - {type: Conv2d, channels: [8, 8], kernel_size: 3, padding: Same, bias: false}
        - {type: BatchNorm, num_features: 8}
        - {type: Relu}
        - {type: Conv2d, channels: [8, 8], kernel_size: 3, padding: Same, bias: false}
        - {type: BatchNorm, num_features: 8}
  pool: {type: AdaptiveAvgPool2d, output_size: 1}
  flat: {type: Flatten, start_dim: 1}
  head: {type: Linear, d_input: 8, d_output: 10}
""", torch.randn(2, 1, 8, 8)),
        # Names
        "names_case": case_of(f"{{type: Sequential, layers: {{Conv: {conv}, conv: {conv}, CONV: {conv}, conv_: {conv}}}}}", image),
        "names_words": case_of(f"{{type: Sequential, layers: {{self: {linear}, Self: {linear}, move: {linear}, move_: {linear}, mapper: {linear}, device: {linear}, fn: {linear}, visitor: {linear}}}}}", rows),
        "names_inputs": case_of(_graph_of("a: {type: Linear, d_input: 4, d_output: 4, from: X}, sum: {type: Add, from: [a, x]}", "X, x"), rows, torch.randn(3, 4)),
        "names_inputs_words": case_of(_graph_of("sum: {type: Add, from: [ref, move]}, s: {type: Multiply, from: [sum, device]}", "ref, move, device"), rows, rows + 1, rows - 1),
        "names_functions": case_of(_graph_of("softmax: {type: Softmax, from: x}, relu: {type: Relu, from: softmax}, b: {type: Softmax, dim: 1, from: relu}, sum: {type: Add, from: [softmax, b]}"), rows),
        "names_structs": case_of(f"{{type: Sequential, layers: {{a: {{type: Sequential, layers: {{bc: {{type: Sequential, layers: {{x: {linear}}}}}}}}}, a_bc: {{type: Sequential, layers: {{x: {linear}, y: {linear}}}}}}}}}", rows),
        "names_types": case_of(f"{{type: Sequential, layers: {{linear: {{type: Sequential, layers: [{linear}]}}, vec: {{type: Sequential, layers: [{linear}, {linear}]}}, tensor: {{type: Residual, layers: [{linear}]}}, model: {{type: Sequential, layers: [{linear}]}}, option: {{type: Sequential, layers: [{linear}, {{type: Relu}}]}}}}}}", rows),
        "names_numbers": case_of(f"{{type: Sequential, layers: {{a1: {linear}, a_1: {linear}, A1: {linear}, a__1: {linear}}}}}", rows),
        # Further inputs
        "encoder_mask": case_of(_graph_of(f"enc: {{type: TransformerEncoder, {stack}, from: {{x: x, mask_pad: m}}}}", "x, m"), sequence, pad),
        "encoder_masks": case_of(_graph_of(f"enc: {{type: TransformerEncoder, {stack}, from: {{x: x, mask_pad: m, mask_attn: h}}}}", "x, m, h"), sequence, pad, hidden),
        "decoder": case_of(_graph_of(f"dec: {{type: TransformerDecoder, {stack}, from: {{memory: c, target: x}}}}", "x, c"), sequence, memory),
        "decoder_masks": case_of(_graph_of(f"dec: {{type: TransformerDecoder, {stack}, from: {{target: x, memory: c, target_mask_pad: m, target_mask_attn: h, memory_mask_pad: n}}}}", "x, c, m, h, n"), sequence, memory, pad, hidden, memory_pad),
        "cross": case_of(_graph_of("a: {type: CrossAttention, d_model: 4, d_context: 4, n_heads: 2, n_heads_kv: 2, d_head: 3, from: {context: c, query: x}}", "x, c"), sequence, memory),
        "cross_mask": case_of(_graph_of("a: {type: CrossAttention, d_model: 4, d_context: 4, n_heads: 2, n_heads_kv: 1, d_head: 3, from: {query: x, context: c, mask: n}}", "x, c, n"), sequence, memory, memory_pad),
        "attention": case_of(f"{{{mha}}}", sequence),
        "attention_last": case_of(f"{{type: Sequential, layers: [{linear}, {{{mha}}}]}}", sequence),
        "attention_two": case_of(_graph_of(f"a: {{{mha}, from: [x, c]}}, b: {{type: Linear, d_input: 4, d_output: 2, from: a.context}}", "x, c"), sequence, memory),
        "attention_swapped": case_of(_graph_of(f"a: {{{mha}, from: {{value: c, key: c, query: x}}}}, w: {{type: Identity, from: a.weights}}", "x, c"), sequence, memory),
        "attention_masks": case_of(_graph_of(f"a: {{{mha}, from: {{query: x, mask_pad: m, mask_attn: h}}}}, b: {{type: Identity, from: a.context}}", "x, m, h"), sequence, pad, hidden),
        "attention_both": case_of(_graph_of(f"a: {{{mha}, from: x}}", outputs="a.context, a.weights"), sequence),
        "lstm": case_of(_graph_of(lstm.format(name="r", tag="Lstm") + ", from: x}", outputs="r.0, r.1.hidden, r.1.cell"), sequence),
        "lstm_seq2seq": case_of(_graph_of(lstm.format(name="e", tag="Lstm") + ", from: c}, " + lstm.format(name="d", tag="Lstm") + ", from: {x: x, state: e.1}}, s: {type: Identity, from: d.0}", "x, c"), sequence, memory),
        "rnn_seq2seq": case_of(_graph_of(lstm.format(name="e", tag="Rnn") + ", from: c}, " + lstm.format(name="d", tag="Rnn") + ", from: {x: x, state: e.1}}, s: {type: Identity, from: d.0}", "x, c"), sequence, memory),
        "gru_state": case_of(_graph_of(lstm.format(name="d", tag="Gru") + ", from: {x: x, state: s}}", "x, s"), sequence, state),
        "bigru_state": case_of(_graph_of(lstm.format(name="e", tag="BiGru") + ", from: c}, " + lstm.format(name="d", tag="BiGru") + ", from: {x: x, state: e.1}}, s: {type: Identity, from: d.0}", "x, c"), sequence, memory),
        "bilstm": case_of(_graph_of(lstm.format(name="r", tag="BiLstm") + ", from: x}, a: {type: Linear, d_input: 12, d_output: 2, from: r.0}", outputs="a, r.1.hidden"), sequence),
        "birnn": case_of(_graph_of(lstm.format(name="r", tag="BiRnn") + ", clip: 0.5, from: x}, a: {type: Linear, d_input: 12, d_output: 2, from: r.0}", outputs="a, r.1.hidden"), sequence),
        "bilstm_mask": case_of(_graph_of(lstm.format(name="r", tag="BiLstm") + ", from: {x: x, attention_mask: m}}, a: {type: Linear, d_input: 12, d_output: 2, from: r.0}", "x, m", outputs="a, r.1.hidden"), sequence, pad),
        "lstm_mask": case_of(_graph_of("r: {type: Lstm, d_input: 4, d_hidden: 6, bias: false, from: {x: x, attention_mask: m}}, a: {type: Identity, from: r.0}", "x, m"), sequence, pad),
        "gru_mask": case_of(_graph_of(lstm.format(name="r", tag="Gru") + ", from: {x: x, attention_mask: m}}", "x, m"), sequence, pad),
        "lstm_options": case_of(_graph_of(lstm.format(name="r", tag="Lstm") + ", clip: 0.3, reverse: true, input_forget: true, batch_first: false, gate_activation: {type: HardSigmoid}, cell_activation: {type: Relu}, from: x}", outputs="r.0"), sequence),
        "lstm_root": case_of("{type: Lstm, d_input: 4, d_hidden: 6, bias: true}", sequence),
        "gru_time_first": case_of("{type: Gru, d_input: 4, d_hidden: 6, bias: false, reset_after: false, clip: 0.4}", sequence),
        # Sharing
        "used": case_of(_graph_of("e: {type: Linear, d_input: 4, d_output: 4, from: x}, r: {type: Relu}, again: {use: e}"), rows),
        "tied": case_of(_graph_of("e: {type: Embedding, n_embedding: 9, d_model: 4, from: x}, l: {type: Linear, d_input: 4, d_output: 4}, head: {use: e, transposed: true}"), tokens),
        "tied_pooled": case_of(_graph_of("e: {type: Embedding, n_embedding: 9, d_model: 4, from: x}, m: {type: Mean, dims: [1]}, head: {use: e, transposed: true}"), tokens),
        "tied_linear": case_of(_graph_of("e: {type: Linear, d_input: 4, d_output: 6, from: x}, a: {type: Tanh}, head: {use: e, transposed: true}"), rows),
        "use_block": case_of(_graph_of(f"b: {{type: Sequential, layers: [{linear}, {{type: BatchNorm, num_features: 4}}, {{type: Relu}}], from: x}}, c: {{use: b}}, d: {{type: Add, from: [b, c]}}"), rows),
        "used_twice": case_of(_graph_of("n: {type: BatchNorm, num_features: 4, from: x}, m: {type: Multiply, from: [n, n]}, s: {type: Split, sizes: [1, 3], dim: -1}, t: {type: Multiply, from: [s.0, s.1]}, a: {type: Add, from: [n, s.0]}", outputs="t, a, n"), rows),
        "use_again": case_of(_graph_of(f"b: {{type: Sequential, layers: [{linear}, {{type: Tanh}}], from: x}}, c: {{use: b}}, d: {{use: b}}"), rows),
        # Operations
        "mean_all": case_of(_graph_of("m: {type: Mean, dims: [0, 1], from: x}"), rows),
        "sum_all": case_of(_graph_of("m: {type: Sum, dims: [0, 1, 2], from: x}, n: {type: Multiply, from: [m, m]}"), sequence),
        "add_kinds": case_of(_graph_of("a: {type: Multiply, from: [x, m]}, b: {type: Add, from: [a, i]}, c: {type: Divide, from: [b, two]}, d: {type: Subtract, from: [c, i]}", "x, m, i, two"), rows, rows > 0, (rows * 3).long(), torch.full((3, 4), 2)),
        "constant": case_of(_graph_of("c: {type: Constant, value: 1.4142135623730951}, a: {type: Multiply, from: [x, c]}"), rows),
        "parameter": case_of(_graph_of("p: {type: Parameter, shape: [4]}, a: {type: Add, from: [x, p]}, q: {type: Parameter, shape: [2, 4]}", outputs="a, q"), rows),
        "matmul": case_of(_graph_of("t: {type: Permute, dims: [0, 2, 1], from: x}, a: {type: MatMul, from: [x, t]}, s: {type: Softmax, dim: -1}, o: {type: MatMul, from: [s, x]}"), sequence),
        "split": case_of(_graph_of("s: {type: Split, sizes: [1, 3], dim: -1, from: x}, a: {type: Multiply, from: [s.0, s.1]}", outputs="a, s.1"), rows),
        "split_equal": case_of(_graph_of("s: {type: Split, sizes: [2, 2], dim: -1, from: x}, a: {type: Multiply, from: [s.0, s.1]}"), rows),
        "outputs": case_of(_graph_of("a: {type: Linear, d_input: 4, d_output: 2, from: x}, b: {type: Relu}", outputs="b, a, x"), rows),
        "outputs_one": case_of(_graph_of("a: {type: Linear, d_input: 4, d_output: 2, from: x}, b: {type: Relu}", outputs="b"), rows),
        "outputs_twice": case_of(_graph_of("a: {type: Linear, d_input: 4, d_output: 2, from: x}", outputs="a, a"), rows),
        "gain": case_of("{type: Linear, d_input: 4, d_output: 4, initializer: {type: KaimingNormal, gain: 1.4142135623730951, fan_out_only: true}}", rows),
        "deform": case_of(_graph_of("o: {type: Conv2d, channels: [4, 18], kernel_size: 3, padding: Same, from: x}, d: {type: DeformConv2d, channels: [4, 2], kernel_size: 3, padding: [1, 1, 1, 1], from: [x, o]}"), image),
        "deform_mask": case_of(_graph_of("o: {type: Conv2d, channels: [4, 18], kernel_size: 3, padding: Same, from: x}, m: {type: Conv2d, channels: [4, 9], kernel_size: 3, padding: Same, from: x}, d: {type: DeformConv2d, channels: [4, 2], kernel_size: 3, padding: [1, 1, 1, 1], from: [x, o, m]}"), image),
        "cross_entropy": case_of(_graph_of("a: {type: Linear, d_input: 4, d_output: 9, from: x}, loss: {type: CrossEntropyLoss, from: [a, y]}", "x, y"), rows, torch.tensor([1, 0, 8])),
        "cross_entropy_smooth": case_of(_graph_of("a: {type: Linear, d_input: 4, d_output: 9, from: x}, loss: {type: CrossEntropyLoss, smoothing: 0.1, pad_tokens: [0], from: [a, y]}", "x, y"), rows, torch.tensor([1, 0, 8])),
        "mse": case_of(_graph_of("a: {type: Linear, d_input: 4, d_output: 4, from: x}, loss: {type: MseLoss, from: [a, y]}", "x, y", "loss, a"), rows, rows + 1),
        "interpolate_factor": case_of("{type: Sequential, layers: [{type: Interpolate1d, scale_factor: 2.3, mode: Linear}, {type: Interpolate1d, scale_factor: 0.7}, {type: Interpolate1d, output_size: 9, mode: Cubic}]}", torch.randn(2, 3, 10)),
        "cosine_sequence": case_of(_graph_of("c: {type: CosineSimilarity, dim: -1, from: [x, y]}", "x, y"), sequence, sequence + 1),
        "cosine": case_of(_graph_of("c: {type: CosineSimilarity, dim: -1, from: [x, y]}", "x, y"), rows, rows + 1),
        "distance": case_of(_graph_of("c: {type: PairwiseDistance, p: 2.0, from: [x, y]}", "x, y"), rows, rows + 1),
        "maxpool3d": case_of("{type: MaxPool3d, kernel_size: 2}", torch.randn(2, 2, 4, 4, 4)),
        "rotary_halves": case_of("{type: RotaryEncoding, max_sequence_length: 20, d_model: 4, interleaved: false}", sequence),
        "prelu_inside": case_of(f"{{type: TransformerEncoder, {stack}, activation: {{type: PRelu}}}}", sequence),
        "mish_inside": case_of("{type: Rnn, d_input: 4, d_hidden: 2, bias: true, hidden_activation: {type: Mish}}", sequence),
        "shrink_inside": case_of(f"{{type: TransformerEncoder, {stack}, activation: {{type: SoftShrink, lambd: 0.2}}}}", sequence),
        "embedding_rows": case_of("{type: Embedding, n_embedding: 9, d_model: 4}", torch.tensor([1, 2, 8])),
        "causal": case_of("{type: CausalAttention, d_model: 8, n_heads: 4, n_heads_kv: 2, sliding_window: 3, soft_cap: 5.0, bias: true}", torch.randn(2, 6, 8)),
        # Ready models
        "gpt": case_of("{type: DecoderLm, vocab_size: 11, max_sequence_length: 16, d_model: 8, n_layers: 2, n_heads: 2, d_ff: 12, norm: LayerNorm, positions: {type: Learned}, feed_forward: {type: Plain}, attention_bias: true, attention_output_bias: true}", torch.randint(11, (2, 6))),
        "llama": case_of("{type: DecoderLm, vocab_size: 11, max_sequence_length: 32, d_model: 16, n_layers: 2, n_heads: 4, n_heads_kv: 2, d_ff: 12, tied: false, positions: {type: Rotary, interleaved: false, scaling: {type: Llama3Scaling, factor: 8.0, original_length: 16}}}", torch.randint(11, (2, 6))),
        "llama_pairs": case_of("{type: DecoderLm, vocab_size: 11, max_sequence_length: 32, d_model: 8, n_layers: 2, n_heads: 2, d_ff: 12, query_key_norm: true, attention_soft_cap: 4.0, logit_soft_cap: 3.0}", torch.randint(11, (2, 6))),
        "mistral": case_of("{type: DecoderLm, vocab_size: 11, max_sequence_length: 32, d_model: 8, n_layers: 1, n_heads: 2, d_ff: 12, sliding_window: 3, head: false}", torch.randint(11, (2, 6))),
        "mixtral": case_of("{type: DecoderLm, vocab_size: 11, max_sequence_length: 32, d_model: 8, n_layers: 2, n_heads: 2, n_heads_kv: 1, d_ff: 12, feed_forward: {type: Experts, n_experts: 4, n_selected: 2}}", torch.randint(11, (2, 6))),
        "bert": case_of("{type: BertEncoder, vocab_size: 11, max_sequence_length: 16, d_model: 8, n_layers: 2, n_heads: 2, d_ff: 12}", torch.randint(11, (2, 6))),
        "bert_mask": case_of("{type: BertEncoder, vocab_size: 11, max_sequence_length: 16, d_model: 8, n_layers: 1, n_heads: 2, d_ff: 12, pooler: false}", torch.randint(11, (2, 6)), torch.tensor([[1, 1, 1, 1, 0, 0], [1] * 6])),
        "bert_classifier": case_of("{type: BertClassifier, n_classes: 3, encoder: {type: BertEncoder, vocab_size: 11, max_sequence_length: 16, d_model: 8, n_layers: 1, n_heads: 2, d_ff: 12}}", torch.randint(11, (2, 6))),
        "bert_masked": case_of("{type: BertMaskedLm, encoder: {type: BertEncoder, vocab_size: 11, max_sequence_length: 16, d_model: 8, n_layers: 1, n_heads: 2, d_ff: 12, pooler: false}}", torch.randint(11, (2, 6))),
        "t5": case_of("{type: EncoderDecoder, vocab_size: 11, d_model: 8, n_layers: 2, n_heads: 2, d_head: 4, d_ff: 12}", torch.randint(11, (2, 6)), torch.randint(11, (2, 4))),
        "t5_gated": case_of("{type: EncoderDecoder, vocab_size: 11, d_model: 8, n_layers: 1, n_heads: 2, d_head: 4, d_ff: 12, gated: true, tied_head: false, activation: {type: Gelu, approximate: true}}", torch.randint(11, (2, 6)), torch.randint(11, (2, 4))),
        "vit": case_of("{type: VisionTransformer, num_classes: 5, image_size: 8, patch_size: 4, d_model: 8, n_layers: 2, n_heads: 2, d_ff: 12}", torch.randn(2, 3, 8, 8)),
        "resnet": case_of("{type: ResNet, num_classes: 5, depths: [2, 1], widths: [4, 8], stem_channels: 4, stem: Small}", torch.randn(2, 3, 8, 8)),
        "resnet_bottleneck": case_of("{type: ResNet, num_classes: 5, block: Bottleneck, depths: [1, 2], widths: [8, 16], stem_channels: 4, norm: {type: GroupNorm, num_groups: 1, num_channels: 4}, activation: {type: SiLU}}", torch.randn(2, 3, 16, 16)),
        "convnext": case_of("{type: ConvNext, num_classes: 5, depths: [1, 2], widths: [4, 8], patch_size: 2}", torch.randn(2, 3, 8, 8)),
        "unet": case_of("{type: UNet, num_classes: 2, widths: [4, 6, 8]}", torch.randn(2, 3, 8, 8)),
        "mlp": case_of("{type: Mlp, sizes: [4, 6, 5, 2], norm: {type: LayerNorm, d_model: 1}, dropout: 0.1}", rows),
        "mlp_one": case_of("{type: Mlp, sizes: [4, 2]}", rows),
        "lstm_lm": case_of("{type: LstmLm, vocab_size: 7, d_model: 4, d_hidden: 6}", torch.randint(7, (2, 5))),
        "lstm_lm_tied": case_of("{type: LstmLm, vocab_size: 7, d_model: 4, d_hidden: 4, tied_head: true}", torch.randint(7, (2, 5))),
    }  # fmt: skip
    return found
