"""The fields that layers of Burn 0.14 to 0.20 had in other forms than those of 0.21. Imports no torch.

Sources: the structs with `derive(Module)` of burn-core 0.14 to 0.18 and of burn-nn 0.19 to 0.21. Bincode has a field's
form and no name, so a layout must be that of the version which the file names.
"""

from collections.abc import Mapping
from typing import Any

from ..layout import BurnVersion, Layout

_LSTM = ("batch_first", "reverse", "clip", "input_forget", "gate_activation", "cell_activation", "hidden_activation")
_CHANGES: tuple[tuple[BurnVersion, Mapping[str, Mapping[str, Layout | None]]], ...] = (
    (
        (0, 21),
        {
            "Lstm": {"clip": {"$option": "constant"}},
            "Gru": dict.fromkeys(("gate_activation", "hidden_activation", "clip")),
            **{layer: {"padding": "constant"} for layer in ("Conv1d", "Conv2d", "Conv3d", "DeformConv2d")},
        },
    ),
    ((0, 20), {"Lstm": dict.fromkeys(_LSTM), "BiLstm": {"batch_first": None}, "LayerNorm": {"beta": "param"}}),
    ((0, 17), {"Gru": {"reset_after": None}}),
)
"""Before which version, layer, field -> its layout then, None where it wasn't there."""

OLD_ACTIVATIONS = (
    *("Gelu", "PRelu", "Relu", "LeakyRelu", "SwiGlu", "Sigmoid", "Tanh", "HardSigmoid"),
    *("HardSwish", "Softplus"),  # not in 0.19
)
"""The variants of `Activation` before 0.21, in order."""


def changed_fields(cls: type, version: BurnVersion) -> dict[str, Layout | None]:
    """The fields of a layer that a version of Burn had in another form, with that form; None for those it had not."""
    if version >= (0, 21):
        return {}
    layers = {base.__name__ for base in cls.__mro__ if base.__module__.startswith("burnlike.nn.")}
    changed: dict[str, Layout | None] = {}
    for before, of_layers in _CHANGES:
        if version < before:
            for layer in layers & of_layers.keys():
                changed |= of_layers[layer]
    return changed


def constant_before(version: BurnVersion, value: Any, *, optional: bool) -> Layout:
    """The layout of a field that is not saved: before 0.21 an array, list or option had a constant for each item."""
    if version >= (0, 21):
        return "constant"
    if optional:
        return {"$option": "constant"}
    if isinstance(value, tuple | list):
        return {"$tuple" if isinstance(value, tuple) else "$vec": ["constant"] * len(value)}
    return "constant"
