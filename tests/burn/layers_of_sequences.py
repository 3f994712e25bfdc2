"""Cases of layers of sequences: recurrent ones, attention, transformers, with their masks, states and caches."""

from collections.abc import Callable, Mapping
from functools import partial
from random import Random
from typing import Any

import torch
from torch import Tensor

from burnlike import nn

from .layer_case import (
    KAIMING,
    XAVIER,
    Fields,
    LayerCase,
    activation,
    bools,
    built,
    epsilon,
    floats,
    rounded,
    sizes,
    yes,
)


def _gate(random: Random) -> LayerCase:
    config = {"d_input": 3, "d_output": 4, "bias": yes(random)}
    make = partial(nn.GateController, 3, 4, config["bias"], nn.Zeros())
    inputs = {"x": floats(random, 2, 3), "hidden": floats(random, 2, 4)}
    return LayerCase(
        "GateController", config, inputs, call=lambda it, given: it.gate_product(given["x"], given["hidden"]), make=make
    )


def _recurrent(name: str) -> Callable[[Random], LayerCase]:
    both = name.startswith("Bi")

    def draw(random: Random) -> LayerCase:
        d_input, d_hidden = random.randint(1, 4), random.randint(1, 4)
        config: Fields = {
            "d_input": d_input,
            "d_hidden": d_hidden,
            "bias": yes(random),
            "initializer": XAVIER,
            "clip": rounded(random, 0.1, 1) if random.random() < 0.3 else None,
            "hidden_activation": activation(random) if yes(random) else "Tanh",
        }
        is_gru = name.endswith("Gru")
        if name != "Gru":
            config["batch_first"] = yes(random)
        if not both and not is_gru:
            config["reverse"] = yes(random)
        if is_gru:
            config["reset_after"] = yes(random)
        if name.endswith("Lstm"):
            config["input_forget"] = yes(random)
            config["cell_activation"] = activation(random) if yes(random) else "Tanh"
        if not name.endswith("Rnn"):
            # Those that are not bounded let states grow until nothing can be compared.
            bounded = ["Sigmoid", "Tanh", "Softsign", {"HardSigmoid": {"alpha": 0.3, "beta": 0.4}}]
            config["gate_activation"] = random.choice(bounded)
        batch, length = random.randint(1, 3), random.randint(1, 5)
        shape = (batch, length) if config.get("batch_first", True) else (length, batch)
        inputs = {"x": floats(random, *shape, d_input)}
        if yes(random):
            state = (2, batch, d_hidden) if both else (batch, d_hidden)
            inputs["hidden"] = floats(random, *state)
            if name.endswith("Lstm"):
                inputs["cell"] = floats(random, *state)
        make = partial(built, name, config)
        return LayerCase(name, config, inputs, call=_recurrent_call(name), make=make)

    return draw


def _recurrent_call(name: str) -> Callable[[Any, Mapping[str, Tensor]], Any]:
    def call(module: Any, inputs: Mapping[str, Tensor]) -> Any:
        hidden, cell = inputs.get("hidden"), inputs.get("cell")
        if name == "Gru":
            return module(inputs["x"], hidden)
        if name == "BiGru":
            return module(inputs["x"], hidden)
        if name.endswith("Rnn"):
            output, state = module(inputs["x"], None if hidden is None else nn.RnnState(hidden))
            return output, state.hidden
        output, state = module(inputs["x"], None if cell is None or hidden is None else nn.LstmState(cell, hidden))
        return output, state.cell, state.hidden

    return call


def _attention(random: Random) -> LayerCase:
    heads = random.choice([1, 2])
    size = heads * random.randint(1, 3)
    config: Fields = {
        "d_model": size,
        "n_heads": heads,
        "dropout": 0.0,
        "min_float": random.choice([-1e4, -1e9, -2.0]),
        "quiet_softmax": yes(random),
        "initializer": KAIMING,
        **{f"{it}_bias": yes(random) for it in ("key", "value", "query", "output")},
    }
    batch, length, keys = random.randint(1, 3), random.randint(1, 4), random.randint(1, 4)
    inputs = {"x": floats(random, batch, length, size)}
    if kind := random.choice(["self", "other", "cached"]) == "other":
        inputs["key"], inputs["value"] = floats(random, batch, keys, size), floats(random, batch, keys, size)
    else:
        keys = length
    if yes(random):
        inputs["mask_pad"] = bools(random, batch, keys)
    if yes(random):
        inputs["mask_attn"] = bools(random, batch, length, keys)
    cached = not kind and yes(random)

    def call(module: Any, given: Mapping[str, Tensor]) -> Any:
        pad, seen = given.get("mask_pad"), given.get("mask_attn")
        if cached:
            cache, outputs = nn.MhaCache.autoregressive(), []
            for end in range(1, length + 1):
                part = module.forward_cache(
                    given["x"][:, :end],
                    mask_pad=None if pad is None else pad[:, :end],
                    mask_attn=None if seen is None else seen[:, :end, :end],
                    cache=cache,
                )
                outputs.append(part.context)
            return outputs
        output = module(given["x"], given.get("key"), given.get("value"), mask_pad=pad, mask_attn=seen)
        return output.context, output.weights

    return LayerCase("MultiHeadAttention", config, inputs, {"cached": True} if cached else {}, call)


def _cross_attention(random: Random) -> LayerCase:
    kv = random.choice([1, 2])
    config: Fields = {
        "d_model": random.randint(1, 5),
        "d_context": random.randint(1, 5),
        "n_heads": kv * random.choice([1, 2]),
        "n_heads_kv": kv,
        "d_head": random.randint(1, 3),
        "dropout": 0.0,
        "min_float": random.choice([-1e4, -1e9, -2.0]),
        "quiet_softmax": yes(random),
    }
    batch, length, keys = random.randint(1, 3), random.randint(1, 4), random.randint(1, 4)
    inputs = {
        "x": floats(random, batch, length, config["d_model"]),
        "context": floats(random, batch, keys, config["d_context"]),
    }
    if yes(random):
        inputs["mask"] = bools(random, batch, keys)
    cached = yes(random)

    def call(module: Any, given: Mapping[str, Tensor]) -> Any:
        if not cached:
            return module(given["x"], given["context"], given.get("mask"))
        cache = nn.CrossAttentionCache()
        parts = given["x"].split(1, 1)
        return [module.forward_cache(it, given["context"], given.get("mask"), cache=cache) for it in parts]

    return LayerCase("CrossAttention", config, inputs, {"cached": True} if cached else {}, call)


def _feed_forward(random: Random) -> LayerCase:
    config = {
        "d_model": random.randint(1, 4),
        "d_ff": random.randint(1, 6),
        "dropout": 0.0,
        "initializer": KAIMING,
        "activation": activation(random),
    }
    x = floats(random, *sizes(random, random.randint(1, 2), 1, 3), config["d_model"])
    make = partial(built, "PositionWiseFeedForward", config)
    return LayerCase("PositionWiseFeedForward", config, {"x": x}, make=make)


def _stack(random: Random) -> Fields:
    heads = random.choice([1, 2])
    return {
        "d_model": random.choice([4, 6]),
        "d_ff": random.randint(1, 6),
        "n_heads": heads,
        "n_layers": random.randint(1, 2),
        "dropout": 0.0,
        "norm_first": yes(random),
        "quiet_softmax": yes(random),
        "initializer": KAIMING,
        "activation": activation(random),
        "layer_norm_eps": epsilon(random),
    }


def _encoder(random: Random) -> LayerCase:
    config = _stack(random)
    batch, length, cached = random.randint(1, 3), random.randint(1, 4), yes(random)
    inputs = {"x": floats(random, batch, length, config["d_model"])}
    if yes(random):
        inputs["mask_pad"] = bools(random, batch, length)
    if cached or yes(random):  # what is cached can't depend on what follows
        inputs["mask_attn"] = torch.ones(batch, length, length, dtype=torch.bool).triu(1)

    def call(module: Any, given: Mapping[str, Tensor]) -> Any:
        pad, seen = given.get("mask_pad"), given.get("mask_attn")
        if not cached:
            return module(given["x"], mask_pad=pad, mask_attn=seen)
        cache = module.new_autoregressive_cache()
        return [
            module.forward_autoregressive_inference(
                given["x"][:, :end],
                cache=cache,
                mask_pad=None if pad is None else pad[:, :end],
                mask_attn=None if seen is None else seen[:, :end, :end],
            )
            for end in range(1, length + 1)
        ]

    make = partial(built, "TransformerEncoder", config)
    return LayerCase("TransformerEncoder", config, inputs, {"cached": True} if cached else {}, call, make)


def _decoder(random: Random) -> LayerCase:
    config = _stack(random)
    batch, length, keys, cached = random.randint(1, 3), random.randint(1, 4), random.randint(1, 4), yes(random)
    inputs = {
        "x": floats(random, batch, length, config["d_model"]),
        "memory": floats(random, batch, keys, config["d_model"]),
    }
    if yes(random):
        inputs["target_mask_pad"] = bools(random, batch, length)
    if cached or yes(random):
        inputs["target_mask_attn"] = torch.ones(batch, length, length, dtype=torch.bool).triu(1)
    if yes(random):
        inputs["memory_mask_pad"] = bools(random, batch, keys)
    if yes(random):
        inputs["memory_mask_attn"] = bools(random, batch, length, keys)

    def call(module: Any, given: Mapping[str, Tensor]) -> Any:
        masks = {key: value for key, value in given.items() if "mask" in key}
        if not cached:
            return module(given["x"], given["memory"], **masks)
        cache = module.new_autoregressive_cache()
        outputs = []
        for end in range(1, length + 1):
            part = dict(masks)
            if "target_mask_pad" in part:
                part["target_mask_pad"] = part["target_mask_pad"][:, :end]
            if "target_mask_attn" in part:
                part["target_mask_attn"] = part["target_mask_attn"][:, :end, :end]
            if "memory_mask_attn" in part:
                part["memory_mask_attn"] = part["memory_mask_attn"][:, :end]
            outputs.append(
                module.forward_autoregressive_inference(given["x"][:, :end], given["memory"], cache=cache, **part)
            )
        return outputs

    make = partial(built, "TransformerDecoder", config)
    return LayerCase("TransformerDecoder", config, inputs, {"cached": True} if cached else {}, call, make)


def _positions(random: Random) -> LayerCase:
    size = 2 * random.randint(1, 4)
    config = {"max_sequence_size": 12, "d_model": size, "max_timescale": random.choice([100, 10_000])}
    return LayerCase("PositionalEncoding", config, {"x": floats(random, 2, random.randint(1, 12), size)})


def _rotary(random: Random) -> LayerCase:
    size = 2 * random.randint(1, 3)
    config = {"max_sequence_length": 10, "d_model": size, "theta": random.choice([100.0, 10_000.0])}
    length = random.randint(1, 5)
    shape = random.choice([(2, length, size), (2, 3, length, size)])
    shift = random.choice([None, 3, 40])
    start = random.randint(0, 10 - length)
    options: Fields = {"start": start} | ({} if shift is None else {"shift": shift})

    def call(module: Any, given: Mapping[str, Tensor]) -> Tensor:
        if shift is not None:
            module.shift(shift)
        output = module(given["x"], start)
        module.reset()
        return output

    return LayerCase("RotaryEncoding", config, {"x": floats(random, *shape)}, options, call)


DRAWS: dict[str, Callable[[Random], LayerCase]] = {
    "GateController": _gate,
    **{name: _recurrent(name) for name in ("Rnn", "BiRnn", "Lstm", "BiLstm", "Gru", "BiGru")},
    "MultiHeadAttention": _attention,
    "CrossAttention": _cross_attention,
    "PositionWiseFeedForward": _feed_forward,
    "TransformerEncoder": _encoder,
    "TransformerDecoder": _decoder,
    "PositionalEncoding": _positions,
    "RotaryEncoding": _rotary,
}
