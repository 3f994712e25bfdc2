"""Cases of layers: configs in Burn's form, drawn at random, with inputs, and the same layers of burnlike."""

from collections.abc import Callable, Sequence
from functools import partial
from random import Random
from typing import Any

import torch
from torch import Tensor, nn as torch_nn

from tests.burn_configs import module_config

from .layer_case import (
    ACTIVATIONS,
    KAIMING,
    OTHER_ACTIVATIONS,
    PLAIN,
    Fields,
    LayerCase,
    activation,
    activation_config,
    built,
    epsilon,
    floats,
    rounded,
    sizes,
    yes,
)
from .layers_of_sequences import DRAWS as SEQUENCES


def _variant(layer: str, variant: Any, x: Tensor, make: Callable[[], torch_nn.Module]) -> LayerCase:
    """A layer in an enum, which Burn's records and display name by its variant."""
    name = variant if isinstance(variant, str) else next(iter(variant))
    return LayerCase(
        layer,
        variant,
        {"x": x},
        call=lambda it, given: it[name](given["x"]),
        make=lambda: torch_nn.ModuleDict({name: make()}),
    )


def _activation(random: Random) -> LayerCase:
    variant = random.choice([activation(random, weights=True), {"SwiGlu": _swiglu(random, 5)}])
    x = floats(random, *random.choice([(3, 5), (2, 3, 5)])) * 2
    return _variant("Activation", variant, x, lambda: activation_config(variant).init())


def _of_numbers(name: str) -> Callable[[Random], LayerCase]:
    def draw(random: Random) -> LayerCase:
        fields = (ACTIVATIONS | OTHER_ACTIVATIONS)[name](random) or {}
        return LayerCase(name, fields, {"x": floats(random, *random.choice([(3, 5), (2, 3, 5)])) * 3})

    return draw


def _plain(name: str, **fields: Any) -> Callable[[Random], LayerCase]:
    return lambda random: LayerCase(name, fields, {"x": floats(random, *random.choice([(3, 6), (2, 3, 6)])) * 3})


def _glu(random: Random) -> LayerCase:
    return LayerCase("GLU", {"dim": random.choice([-1, -2])}, {"x": floats(random, 2, 4, 6)})


def _gelu(random: Random) -> LayerCase:
    return LayerCase("Gelu", {"approximate": yes(random)}, {"x": floats(random, 4, 5) * 3})


def _prelu(random: Random) -> LayerCase:
    count = random.choice([1, 4])
    shape = random.choice([(3, 4), (2, 4, 3)])
    return LayerCase("PRelu", {"num_parameters": count, "alpha": rounded(random, 0, 1)}, {"x": floats(random, *shape)})


def _rrelu(random: Random) -> LayerCase:
    config = {"lower": rounded(random, 0, 0.3), "upper": rounded(random, 0.4, 1)}
    return LayerCase("RRelu", config, {"x": floats(random, 3, 5)}, {"training": False})


def _swiglu(random: Random, d_input: int) -> Fields:
    size = random.randint(1, 6)
    return {"d_input": d_input, "d_output": size, "bias": yes(random), "initializer": KAIMING, "layout": "Row"}


def _swiglu_case(random: Random) -> LayerCase:
    config = _swiglu(random, 4)
    fields = {key: value for key, value in config.items() if key != "layout"}
    make = partial(built, "SwiGlu", fields)
    return LayerCase("SwiGlu", config, {"x": floats(random, *random.choice([(3, 4), (2, 3, 4)]))}, make=make)


def _linear(random: Random) -> LayerCase:
    d_input, d_output = random.randint(1, 6), random.randint(1, 6)
    layout = random.choice(["Row", "Col"])
    config = {"d_input": d_input, "d_output": d_output, "bias": yes(random), "initializer": KAIMING, "layout": layout}
    shape = [random.randint(1, 4) for _ in range(random.randint(0, 3))]
    return LayerCase("Linear", config, {"x": floats(random, *shape, d_input)})


def _embedding(random: Random) -> LayerCase:
    count, size = random.randint(1, 9), random.randint(1, 5)
    config = {"n_embedding": count, "d_model": size, "initializer": {"Normal": {"mean": 0.0, "std": 1.0}}}
    rows = [[random.randrange(count) for _ in range(4)] for _ in range(3)]
    return LayerCase("Embedding", config, {"x": torch.tensor(rows)})


def padding(random: Random, kernel: Sequence[int], *, is_pool: bool = False, even: bool = False) -> Any:
    """A `PaddingConfig`: valid, same, or one or two sizes for each dimension."""
    kind = random.choice(["Valid", "Same", "Explicit"])
    if kind != "Explicit":
        return kind
    limits = [it // 2 if is_pool else 2 for it in kernel]
    ends = [[random.randint(0, it) for it in limits] for _ in range(2)]
    if even:
        ends[1] = ends[0]
    return {"Explicit": ends[0] if len(kernel) == 3 else [*ends[0], *ends[1]]}


def _one(values: Sequence[float]) -> Any:
    return values[0] if len(values) == 1 else values


def _extent(kernel: list[int], dilation: list[int], random: Random) -> list[int]:
    return [(k - 1) * d + 1 + random.randint(0, 5) for k, d in zip(kernel, dilation, strict=True)]


def _conv(rank: int) -> Callable[[Random], LayerCase]:
    def draw(random: Random) -> LayerCase:
        groups = random.choice([1, 1, 2, 3])
        channels = [groups * random.randint(1, 2) for _ in range(2)]
        kernel, stride, dilation = (sizes(random, rank, 1, it) for it in (4, 3, 2))
        config: Fields = {
            "kernel_size": _one(kernel),
            "stride": _one(stride),
            "dilation": _one(dilation),
            "groups": groups,
            "padding": padding(random, kernel),
            "bias": yes(random),
            "initializer": KAIMING,
        }
        sides = {"channels_in": channels[0], "channels_out": channels[1]} if rank == 1 else {"channels": channels}
        x = floats(random, 2, channels[0], *_extent(kernel, dilation, random))
        return LayerCase(f"Conv{rank}d", {**sides, **config}, {"x": x})

    return draw


def _conv_transpose(rank: int) -> Callable[[Random], LayerCase]:
    def draw(random: Random) -> LayerCase:
        groups = random.choice([1, 1, 2])
        channels = [groups * random.randint(1, 2) for _ in range(2)]
        kernel, stride, dilation = (sizes(random, rank, 1, it) for it in (4, 3, 2))
        config = {
            "channels": channels,
            "kernel_size": _one(kernel),
            "stride": _one(stride),
            "dilation": _one(dilation),
            "groups": groups,
            "padding": _one([random.randint(0, (k - 1) // 2) for k in kernel]),
            "padding_out": _one([random.randrange(max(s, d)) for s, d in zip(stride, dilation, strict=True)]),
            "bias": yes(random),
            "initializer": KAIMING,
        }
        x = floats(random, 2, channels[0], *sizes(random, rank, 2, 4))
        return LayerCase(f"ConvTranspose{rank}d", config, {"x": x})

    return draw


def _deform_conv(random: Random) -> LayerCase:
    groups, offset_groups = random.choice([1, 2]), random.choice([1, 2])
    channels = [2 * random.randint(1, 2), groups * random.randint(1, 2)]
    kernel, stride, dilation = (sizes(random, 2, 1, it) for it in (3, 2, 2))
    config: Fields = {
        "channels": channels,
        "kernel_size": kernel,
        "stride": stride,
        "dilation": dilation,
        "weight_groups": groups,
        "offset_groups": offset_groups,
        "padding": padding(random, kernel, even=True),
        "bias": yes(random),
        "initializer": KAIMING,
    }
    if config["padding"] == "Same":
        config["padding"] = "Valid"
    around = config["padding"]["Explicit"][:2] if isinstance(config["padding"], dict) else [0, 0]
    extent = _extent(kernel, dilation, random)
    out = [
        (n + 2 * p - d * (k - 1) - 1) // s + 1
        for n, p, d, k, s in zip(extent, around, dilation, kernel, stride, strict=True)
    ]
    places = offset_groups * kernel[0] * kernel[1]
    inputs = {"x": floats(random, 2, channels[0], *extent), "offset": floats(random, 2, 2 * places, *out) / 2}
    if yes(random):
        inputs["mask"] = floats(random, 2, places, *out)
    return LayerCase(
        "DeformConv2d", config, inputs, call=lambda it, given: it(given["x"], given["offset"], given.get("mask"))
    )


def _pool(name: str, rank: int, strides: str) -> Callable[[Random], LayerCase]:
    def draw(random: Random) -> LayerCase:
        kernel, stride = sizes(random, rank, 1, 4), sizes(random, rank, 1, 3)
        config: Fields = {
            "kernel_size": _one(kernel),
            strides: _one(stride),
            "padding": padding(random, kernel, is_pool=True),
            "ceil_mode": yes(random),
        }
        dilation = [1] * rank
        if name.startswith("Max"):
            dilation = sizes(random, rank, 1, 2)
            config["dilation"] = _one(dilation)
        else:
            config["count_include_pad"] = yes(random)
        x = floats(random, 2, 3, *_extent(kernel, dilation, random))
        return LayerCase(name, config, {"x": x})

    return draw


def _adaptive(rank: int) -> Callable[[Random], LayerCase]:
    def draw(random: Random) -> LayerCase:
        x = floats(random, 2, 3, *sizes(random, rank, 1, 7))
        return LayerCase(f"AdaptiveAvgPool{rank}d", {"output_size": _one(sizes(random, rank, 1, 5))}, {"x": x})

    return draw


def _fold(random: Random) -> LayerCase:
    kernel, stride, dilation = (sizes(random, 2, 1, it) for it in (3, 2, 2))
    around = sizes(random, 2, 0, 1)
    size = _extent(kernel, dilation, random)
    config = {"output_size": size, "kernel_size": kernel, "stride": stride, "dilation": dilation, "padding": around}
    blocks = 1
    for n, k, s, d, p in zip(size, kernel, stride, dilation, around, strict=True):
        blocks *= (n + 2 * p - d * (k - 1) - 1) // s + 1
    return LayerCase("Fold4d", config, {"x": floats(random, 2, 3 * kernel[0] * kernel[1], blocks)})


def _unfold(random: Random) -> LayerCase:
    kernel, stride, dilation = (sizes(random, 2, 1, it) for it in (3, 2, 2))
    config = {"kernel_size": kernel, "stride": stride, "dilation": dilation, "padding": sizes(random, 2, 0, 1)}
    return LayerCase("Unfold4d", config, {"x": floats(random, 2, 3, *_extent(kernel, dilation, random))})


def _pixels(random: Random) -> LayerCase:
    factor = random.randint(1, 3)
    return LayerCase("PixelShuffle", {"upscale_factor": factor}, {"x": floats(random, 2, 2 * factor**2, 3, 2)})


def _unpixels(random: Random) -> LayerCase:
    factor = random.randint(1, 3)
    x = floats(random, 2, 2, 2 * factor, 3 * factor)
    return LayerCase("PixelUnshuffle", {"downscale_factor": factor}, {"x": x})


def _interpolate(rank: int) -> Callable[[Random], LayerCase]:
    def draw(random: Random) -> LayerCase:
        config: Fields = {
            "output_size": None,
            "scale_factor": None,
            "mode": random.choice(["Nearest", "NearestExact", "Linear", "Cubic", "Lanczos"]),
            "align_corners": yes(random),
        }
        if yes(random):
            config["output_size"] = _one(sizes(random, rank, 1, 9))
        else:
            config["scale_factor"] = _one([random.choice([0.5, 1.0, 1.5, 2.0, 3.0]) for _ in range(rank)])
        return LayerCase(f"Interpolate{rank}d", config, {"x": floats(random, 2, 3, *sizes(random, rank, 2, 6))})

    return draw


def _sized(random: Random, channels: int, ranks: Sequence[int]) -> Tensor:
    return floats(random, 3, channels, *sizes(random, random.choice(ranks) - 2, 3, 4)) * 2 + 0.5


def _batch_norm(random: Random) -> LayerCase:
    count = random.randint(1, 4)
    config = {"num_features": count, "epsilon": epsilon(random), "momentum": rounded(random, 0, 1)}
    return LayerCase("BatchNorm", config, {"x": _sized(random, count, (2, 3, 4, 5))})


def _group_norm(random: Random) -> LayerCase:
    groups = random.randint(1, 3)
    count = groups * random.randint(2, 3)
    config = {"num_groups": groups, "num_channels": count, "epsilon": epsilon(random), "affine": yes(random)}
    return LayerCase("GroupNorm", config, {"x": _sized(random, count, (2, 3, 4))})


def _instance_norm(random: Random) -> LayerCase:
    count = random.randint(1, 4)
    config = {"num_channels": count, "epsilon": epsilon(random), "affine": yes(random)}
    return LayerCase("InstanceNorm", config, {"x": _sized(random, count, (3, 4))})


def _layer_norm(random: Random) -> LayerCase:
    size = random.randint(2, 9)
    config = {"d_model": size, "epsilon": epsilon(random), "bias": yes(random)}
    return LayerCase("LayerNorm", config, {"x": floats(random, *sizes(random, random.randint(1, 3), 1, 3), size)})


def _rms_norm(random: Random) -> LayerCase:
    size = random.randint(2, 9)
    config = {"d_model": size, "epsilon": epsilon(random)}
    return LayerCase("RmsNorm", config, {"x": floats(random, *sizes(random, random.randint(1, 3), 1, 3), size)})


def _local_response_norm(random: Random) -> LayerCase:
    config = {
        "size": random.randint(1, 5),
        "alpha": rounded(random, 0.001, 1),
        "beta": rounded(random, 0.1, 1),
        "k": rounded(random, 0.5, 2),
    }
    return LayerCase("LocalResponseNorm", config, {"x": _sized(random, random.randint(1, 6), (3, 4))})


NORMS = {
    "Batch": _batch_norm,
    "Group": _group_norm,
    "Instance": _instance_norm,
    "Layer": _layer_norm,
    "Rms": _rms_norm,
}


def _normalization(random: Random) -> LayerCase:
    name = random.choice([*NORMS, "Identity"])
    if name == "Identity":
        return _variant("Normalization", name, floats(random, 2, 3, 4), lambda: module_config(name, {}).init())
    one = NORMS[name](random)
    while one.inputs["x"].ndim not in (3, 4):
        one = NORMS[name](random)
    return _variant("Normalization", {name: one.config}, one.inputs["x"], one.module)


def _dropout(random: Random) -> LayerCase:
    return LayerCase("Dropout", {"prob": 0.0}, {"x": floats(random, 3, 4)})


def _noise(random: Random) -> LayerCase:
    return LayerCase("GaussianNoise", {"std": 0.0}, {"x": floats(random, 3, 4)})


def _pair(random: Random, size: int) -> dict[str, Tensor]:
    return {"x": floats(random, 4, size), "y": floats(random, 4, size)}


def _cosine(random: Random) -> LayerCase:
    config = {"dim": random.choice([0, 1, -1]), "eps": random.choice([1e-8, 0.5])}
    return LayerCase("CosineSimilarity", config, _pair(random, 3), call=lambda it, given: it(given["x"], given["y"]))


def _distance(random: Random) -> LayerCase:
    config = {"p": random.choice([1.0, 2.0, 3.0, 1.5]), "eps": random.choice([1e-6, 0.01])}
    return LayerCase("PairwiseDistance", config, _pair(random, 3), call=lambda it, given: it(given["x"], given["y"]))


DRAWS: dict[str, Callable[[Random], LayerCase]] = {
    "Activation": _activation,
    **{
        name: _of_numbers(name)
        for name in (*ACTIVATIONS, *OTHER_ACTIVATIONS)
        if name not in (*PLAIN, "GeluApproximate", "PRelu")
    },
    **{name: _plain(name) for name in sorted(PLAIN - {"Gelu"})},
    **{name: _plain(name) for name in ("LogSigmoid", "Mish", "Relu6", "SiLU", "Tanhshrink")},
    "GLU": _glu,
    "Gelu": _gelu,
    "PRelu": _prelu,
    "RRelu": _rrelu,
    "SwiGlu": _swiglu_case,
    "Linear": _linear,
    "Embedding": _embedding,
    **{f"Conv{rank}d": _conv(rank) for rank in (1, 2, 3)},
    **{f"ConvTranspose{rank}d": _conv_transpose(rank) for rank in (1, 2, 3)},
    "DeformConv2d": _deform_conv,
    "AvgPool1d": _pool("AvgPool1d", 1, "stride"),
    "AvgPool2d": _pool("AvgPool2d", 2, "strides"),
    "MaxPool1d": _pool("MaxPool1d", 1, "stride"),
    "MaxPool2d": _pool("MaxPool2d", 2, "strides"),
    **{f"AdaptiveAvgPool{rank}d": _adaptive(rank) for rank in (1, 2, 3)},
    "Fold4d": _fold,
    "Unfold4d": _unfold,
    "PixelShuffle": _pixels,
    "PixelUnshuffle": _unpixels,
    "Interpolate1d": _interpolate(1),
    "Interpolate2d": _interpolate(2),
    "BatchNorm": _batch_norm,
    "GroupNorm": _group_norm,
    "InstanceNorm": _instance_norm,
    "LayerNorm": _layer_norm,
    "RmsNorm": _rms_norm,
    "LocalResponseNorm": _local_response_norm,
    "Normalization": _normalization,
    "Dropout": _dropout,
    "GaussianNoise": _noise,
    "CosineSimilarity": _cosine,
    "PairwiseDistance": _distance,
    **SEQUENCES,
}
"""The draw of each layer, by the name that `src/bin/layers.rs` has for it."""
