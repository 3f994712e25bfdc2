"""torch's counterparts of recurrent layers: those with one layer, of which torch has one class for both directions."""

from functools import partial
from typing import Any

import torch
from torch import nn

from ...config import ModuleConfig
from ..activation.configs import ReluConfig, TanhConfig
from ..tensor_source import TensorSource
from ..torch_counterpart import Counterpart, expect_only, refuse
from . import configs
from .recurrence import Bidirectional

_ACTIVATIONS = {"tanh": TanhConfig(), "relu": ReluConfig()}


def _config(one: type[ModuleConfig], both: type[ModuleConfig], layer: nn.RNNBase) -> ModuleConfig:
    expect_only(layer, remedy="; make one layer for each", num_layers=1)
    expect_only(layer, dropout=0, proj_size=0)
    config = both if layer.bidirectional else one
    if "batch_first" not in config.__struct_fields__:
        expect_only(layer, batch_first=True)
    fields = {
        "d_input": layer.input_size,
        "d_hidden": layer.hidden_size,
        "bias": layer.bias,
        "batch_first": layer.batch_first,
    }
    if isinstance(layer, nn.RNN):
        fields["hidden_activation"] = _ACTIVATIONS[layer.nonlinearity]
    return config(**{name: value for name, value in fields.items() if name in config.__struct_fields__})


def _build(twin: type[nn.RNNBase], layer: Any, device: torch.device) -> nn.Module:
    directions = layer.directions() if isinstance(layer, Bidirectional) else (layer,)
    for one in directions:
        expect_only(layer, one, clip=None, reverse=False, input_forget=False, reset_after=True)
        if one.kernel() is None:
            raise refuse(layer, "its activations have no counterpart")
    first = directions[0].gates()[0].input_transform
    options = {"nonlinearity": directions[0].hidden_activation.variant.lower()} if twin is nn.RNN else {}
    return twin(
        *first.weight.shape,
        bias=first.bias is not None,
        batch_first=getattr(layer, "batch_first", True),
        bidirectional=len(directions) > 1,
        device=device,
        **options,
    )


def _tensors(gates: tuple[str, ...], prefix: str = "", suffix: str = "") -> dict[str, TensorSource]:
    sources: dict[str, TensorSource] = {}
    for index, gate in enumerate(gates):
        for transform, name in (("input_transform", "ih"), ("hidden_transform", "hh")):
            chunk, path = (index, len(gates)), f"{prefix}{gate}.{transform}"
            sources[f"{path}.weight"] = TensorSource(f"weight_{name}_l0{suffix}", chunk, True)
            sources[f"{path}.bias"] = TensorSource(f"bias_{name}_l0{suffix}", chunk)
    return sources


def _pairs(one: type[ModuleConfig], both: type[ModuleConfig], twin: type[nn.RNNBase], *gates: str) -> list[Counterpart]:
    name, config, build = one.__name__.removesuffix("Config"), partial(_config, one, both), partial(_build, twin)
    of_both = _tensors(gates, "forward.") | _tensors(gates, "reverse.", "_reverse")
    return [
        Counterpart(name, twin, config, build, _tensors(gates), call="other", fits=lambda it: not it.bidirectional),
        Counterpart(f"Bi{name}", twin, config, build, of_both, call="other", fits=lambda it: it.bidirectional),
    ]


COUNTERPARTS = [
    *_pairs(configs.RnnConfig, configs.BiRnnConfig, nn.RNN, "gate"),
    *_pairs(configs.LstmConfig, configs.BiLstmConfig, nn.LSTM, "input_gate", "forget_gate", "cell_gate", "output_gate"),
    *_pairs(configs.GruConfig, configs.BiGruConfig, nn.GRU, "reset_gate", "update_gate", "new_gate"),
]
