"""Layouts, as data, of the models that Burn wrote in bincode, which carries no names.

A folder's `.values.json` says by `config` what a file holds; a model without one is known by name. Where neither is
known, `infer` finds the layout from the same record in a format that has names.
"""

import struct
from collections.abc import Iterator, Mapping
from typing import Any

Layout = Any
Tree = Any

ACTIVATIONS = (
    *("Gelu", "PRelu", "Relu", "LeakyRelu", "SwiGlu", "Selu", "Sigmoid", "Tanh", "HardSigmoid", "HardSwish"),
    *("Softplus", "Softsign", "Elu", "Celu", "ThresholdedRelu", "HardShrink", "SoftShrink", "Shrink"),
)
"""Variants of Burn 0.21's `Activation`, in order. None that holds parameters is a default anywhere."""

_LINEAR: Layout = {"weight": "param", "bias": {"$option": "param"}}
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
_LAYER_NORM: Layout = {"gamma": "param", "beta": {"$option": "param"}, "epsilon": "constant"}
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
        **dict.fromkeys(["gamma", "beta"], {"$option": "param"}),
        **_constants("num_groups", "num_channels", "epsilon", "affine"),
    },
    "InstanceNorm": {
        **dict.fromkeys(["gamma", "beta"], {"$option": "param"}),
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


def infer(tree: Tree, data: bytes) -> Layout | None:
    """Find the layout of a bincode file from the same record in a format with names.

    What a tree leaves open is tried against the bytes: what is there may be an option, a list may have its length in
    front, a map with one capitalized key may be an enum. The ids and the tensors' bytes decide.

    Args:
        tree: the item: maps, lists, plain values and None; bytes of tensors as bytes or lists of numbers.
        data: the file, not compressed.

    Returns:
        The layout; None if the tree does not explain the bytes.
    """
    matcher = _Matcher(data)
    try:
        start = matcher.after_envelope()
        return next((layout for layout, end in matcher.match(tree, start) if end == len(data)), None)
    except (IndexError, struct.error):
        return None


class _Matcher:
    def __init__(self, data: bytes) -> None:
        self.data = data

    def after_envelope(self) -> int:
        """Where the item begins: behind five texts."""
        position = 0
        for _ in range(5):
            count, position = self._number(position)
            position += count
        return position

    def match(self, tree: Tree, at: int) -> Iterator[tuple[Layout, int]]:
        """Each layout that explains `tree` at byte `at`, with the place behind it."""
        if tree is None:
            is_byte = self.data[at : at + 1] == b"\0"
            yield ("constant", at + 1) if is_byte else ("unit", at)
            return
        yield from self._plain(tree, at)
        if self.data[at : at + 1] == b"\1":
            yield from (({"$option": below}, end) for below, end in self._plain(tree, at + 1))

    def _plain(self, tree: Tree, at: int) -> Iterator[tuple[Layout, int]]:
        if isinstance(tree, Mapping):
            yield from self._map(tree, at)
        elif isinstance(tree, list | tuple):
            count, behind = self._number(at)
            if count == len(tree):
                yield from (({"$vec": below}, end) for below, end in self._items(list(tree), behind))
            yield from (({"$tuple": below}, end) for below, end in self._items(list(tree), at))
        else:
            for kind, encoded in _scalars(tree):
                if self._has(at, encoded):
                    yield kind, at + len(encoded)

    def _map(self, tree: Mapping[str, Tree], at: int) -> Iterator[tuple[Layout, int]]:
        if tree.keys() == {"id", "param"}:
            label = _text(tree["id"])
            if self._has(at, label):
                yield from (("param", end) for _, end in self._tensor(tree["param"], at + len(label)))
        elif tree.keys() == {"bytes", "shape", "dtype"}:
            yield from self._tensor(tree, at)
        elif tree and all(_is_state(below) for below in tree.values()):
            yield from self._states(tree, at)
        else:
            names = list(tree)
            for below, end in self._items(list(tree.values()), at):
                yield dict(zip(names, below, strict=True)), end
            if len(names) == 1 and names[0][:1].isupper():
                index, behind = self._number(at)
                unknown = [[f"?{number}", "constant"] for number in range(index)]
                for below, end in self.match(tree[names[0]], behind) if index < 64 else ():
                    yield {"$enum": [*unknown, [names[0], below]]}, end

    def _items(self, trees: list[Tree], at: int) -> Iterator[tuple[list[Layout], int]]:
        if not trees:
            yield [], at
            return
        for first, behind in self.match(trees[0], at):
            for rest, end in self._items(trees[1:], behind):
                yield [first, *rest], end

    def _states(self, tree: Mapping[str, Tree], at: int) -> Iterator[tuple[Layout, int]]:
        """A map's order differs from file to file: the bytes say it."""
        count, at = self._number(at)
        layouts: dict[str, Layout] = {}
        for _ in range(count if count == len(tree) else 0):
            length, begin = self._number(at)
            name = self.data[begin : begin + length].decode("ascii", "replace")
            if name not in tree:
                return
            ((rank, state),) = tree[name]["V1"].items()
            head = bytes([0, int(rank[4:])])
            if not self._has(begin + length, head):
                return
            found = next(self.match(state, begin + length + 2), None)
            if found is None:
                return
            layouts[name], at = {"$state": found[0], "rank": head[1]}, found[1]
        if layouts:
            yield layouts, at

    def _tensor(self, tensor: Mapping[str, Any], at: int) -> Iterator[tuple[Layout, int]]:
        content = bytes(tensor["bytes"])
        shape = b"".join(map(_encoded, tensor["shape"]))
        expected = _encoded(len(content)) + content + _encoded(len(tensor["shape"])) + shape
        if self._has(at, expected):
            yield "tensor", at + len(expected) + (2 if isinstance(tensor["dtype"], Mapping) else 1)

    def _has(self, at: int, expected: bytes) -> bool:
        return self.data[at : at + len(expected)] == expected

    def _number(self, at: int) -> tuple[int, int]:
        if at >= len(self.data):
            return -1, at
        first = self.data[at]
        form = {251: "<H", 252: "<I", 253: "<Q"}.get(first)
        if form is None:
            return first, at + 1
        return struct.unpack_from(form, self.data, at + 1)[0], at + 1 + struct.calcsize(form)


def _is_state(tree: Tree) -> bool:
    ranked = tree.get("V1") if isinstance(tree, Mapping) and len(tree) == 1 else None
    return isinstance(ranked, Mapping) and len(ranked) == 1 and next(iter(ranked)).startswith("Rank")


def _encoded(number: int) -> bytes:
    if number < 251:
        return bytes([number])
    for tag, form, limit in ((251, "<H", 1 << 16), (252, "<I", 1 << 32)):
        if number < limit:
            return bytes([tag]) + struct.pack(form, number)
    return b"\xfd" + struct.pack("<Q", number)


def _text(text: str) -> bytes:
    return _encoded(len(text.encode())) + text.encode()


def _scalars(value: Any) -> list[tuple[str, bytes]]:
    """Each type that a plain value may have, with its bytes."""
    if isinstance(value, bool):
        return [("bool", bytes([value]))]
    if isinstance(value, str):
        return [("str", _text(value))]
    doubles = [("f64", struct.pack("<d", value)), ("f32", struct.pack("<f", value))]
    if isinstance(value, float):
        return doubles
    signed = ("i64", _encoded(value * 2 if value >= 0 else -value * 2 - 1))
    return [*([("usize", _encoded(value))] if value >= 0 else []), signed, *doubles]
