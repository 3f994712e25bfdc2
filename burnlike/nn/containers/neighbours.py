"""Whether layers that follow each other agree on a size, as far as their configs say it. Imports no torch."""

from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

from ...config import ModuleConfig
from ...config.registry import tag_of


class Size(NamedTuple):
    """A size that is known, and the words for where from."""

    number: int
    origin: str


Sizes = Mapping[str, Size]
"""What is known of a tensor: the size of its `last` dimension, and of its second one, the `channels`."""

Problems = list[tuple[str, str]]

_LAST: dict[str, tuple[str, str]] = {
    **dict.fromkeys(("Linear", "GatedLinear", "SwiGlu"), ("d_input", "d_output")),
    **dict.fromkeys(("LayerNorm", "RmsNorm", "LayerScale", "CausalAttention"), ("d_model", "d_model")),
    **dict.fromkeys(("PositionWiseFeedForward", "GatedFeedForward", "TransformerEncoder"), ("d_model", "d_model")),
    **dict.fromkeys(("Gru", "BiGru", "Lstm", "BiLstm", "Rnn", "BiRnn"), ("d_input", "")),
    "Embedding": ("", "d_model"),
}
"""The fields that say the last dimension of the input and of the output; none where the other is not told."""

_CHANNELS: dict[str, tuple[str, str]] = {
    "Conv1d": ("channels_in", "channels_out"),
    **dict.fromkeys(("Conv2d", "Conv3d", "ConvNorm2d", "BasicBlock", "Bottleneck"), ("channels.0", "channels.1")),
    **dict.fromkeys(("ConvTranspose1d", "ConvTranspose2d", "ConvTranspose3d"), ("channels.0", "channels.1")),
    "DepthwiseSeparableConv2d": ("channels.0", "channels.1"),
    "BatchNorm": ("num_features", "num_features"),
    **dict.fromkeys(("GroupNorm", "InstanceNorm"), ("num_channels", "num_channels")),
}
"""The same of the second dimension."""

_KEEPING_ALL = frozenset(("Identity", "Negate", "Exp", "Log", "Sqrt", "Softmax", "LocalResponseNorm"))
_CHANGING_ACTIVATIONS = frozenset(("GLU", "GatedLinear", "SwiGlu"))


def sizes_after(layer: ModuleConfig, before: Sizes, path: str, problems: Problems) -> Sizes:
    """What is known of the output of the layer at `path`, by that of its input; problems get what does not fit."""
    package, tag = type(layer).__module__.split("."), tag_of(type(layer)) or ""
    if package[:2] != ["burnlike", "nn"]:
        return {}
    config: Any = layer
    match tag:
        case "Sequential":
            return _chain(config.layers, before, path, problems)
        case "Residual":
            after = _chain(config.layers, before, path, problems)
            return before if config.shortcut is None else after
        case "Repeat":
            after = sizes_after(config.layer, before, f"{path}.layer", problems)
            return sizes_after(config.layer, after, f"{path}.layer", problems) if config.times > 1 else after
    for dimension, table in (("last", _LAST), ("channels", _CHANNELS)):
        if tag in table:
            return _through(config, dimension, *table[tag], before, path, problems)
    if tag in _KEEPING_ALL or (package[2] in ("activation", "dropout") and tag not in _CHANGING_ACTIVATIONS):
        return before
    if package[2] in ("pool", "interpolate") and "channels" in before:
        return {"channels": before["channels"]}
    return {}


def chain_sizes(layers: Any, path: str = "layers") -> Iterable[tuple[str, str]]:
    """What does not fit among layers in a row, with its path in their config."""
    problems: Problems = []
    _chain(layers, {}, path.removesuffix("layers").removesuffix("."), problems)
    return problems


def _chain(layers: Any, sizes: Sizes, path: str, problems: Problems) -> Sizes:
    named = layers if isinstance(layers, dict) else dict(enumerate(layers))
    for name, layer in named.items():
        sizes = sizes_after(layer, sizes, _join(path, f"layers.{name}"), problems)
    return sizes


def _through(
    config: Any, dimension: str, taken: str, given: str, before: Sizes, path: str, problems: Problems
) -> Sizes:
    known = before.get(dimension)
    if taken and known is not None and (own := _field(config, taken)) != known.number:
        problems.append((_join(path, taken), f"expected {known.number}, {known.origin}, got {own}"))
    if not given:
        return {}
    return {dimension: Size(_field(config, given), f"the {given.partition('.')[0]} of {path}")}


def _field(config: Any, name: str) -> int:
    field, _, place = name.partition(".")
    value = getattr(config, field)
    return value[int(place)] if place else value


def _join(path: str, key: str) -> str:
    return f"{path}.{key}" if path else key
