"""torch's counterparts of recurrent layers: those with one layer, of which torch has one class for both directions."""

from collections.abc import Callable, Iterator, Sequence
from typing import Any

import torch
from torch import nn

from ...config import ModuleConfig
from ..activation.configs import TanhConfig
from ..activation.rectifier_configs import ReluConfig
from ..tensor_source import TensorSource
from ..torch_counterpart import Counterpart, refuse
from .configs import BiGruConfig, BiLstmConfig, BiRnnConfig, GruConfig, LstmConfig, RnnConfig
from .gru import Gru
from .lstm import Lstm
from .recurrence import Bidirectional, Direction
from .rnn import Rnn

_ACTIVATIONS = {"tanh": TanhConfig(), "relu": ReluConfig()}


def _common(layer: nn.RNNBase) -> dict[str, Any]:
    if layer.num_layers > 1:
        raise refuse(layer, f"num_layers={layer.num_layers} has no counterpart; make one layer for each")
    if layer.dropout:
        raise refuse(layer, f"dropout={layer.dropout} has no counterpart")
    if layer.proj_size:
        raise refuse(layer, f"proj_size={layer.proj_size} has no counterpart")
    return {
        "d_input": layer.input_size,
        "d_hidden": layer.hidden_size,
        "bias": layer.bias,
        "batch_first": layer.batch_first,
    }


def _rnn_config(layer: nn.RNN) -> ModuleConfig:
    config = BiRnnConfig if layer.bidirectional else RnnConfig
    return config(**_common(layer), hidden_activation=_ACTIVATIONS[layer.nonlinearity])


def _lstm_config(layer: nn.LSTM) -> ModuleConfig:
    config = BiLstmConfig if layer.bidirectional else LstmConfig
    return config(**_common(layer))


def _gru_config(layer: nn.GRU) -> ModuleConfig:
    fields = _common(layer)
    if layer.bidirectional:
        return BiGruConfig(**fields)
    if not fields.pop("batch_first"):
        raise refuse(layer, "batch_first=False has no counterpart")
    return GruConfig(**fields)


def _directions(layer: Direction | Bidirectional) -> tuple[Any, ...]:
    return layer.directions() if isinstance(layer, Bidirectional) else (layer,)


def _built(twin: type[nn.RNNBase]) -> Callable[[Any, torch.device], nn.Module]:
    def build(layer: Any, device: torch.device) -> nn.Module:
        directions = _directions(layer)
        for one in directions:
            _refuse_options(layer, one)
        first = directions[0].gates()[0].input_transform
        d_input, d_hidden = first.weight.shape
        options: dict[str, Any] = {}
        if isinstance(directions[0], Rnn):
            options["nonlinearity"] = directions[0].hidden_activation.variant.lower()
        return twin(
            d_input,
            d_hidden,
            bias=first.bias is not None,
            batch_first=getattr(layer, "batch_first", True),
            bidirectional=len(directions) > 1,
            device=device,
            **options,
        )

    return build


def _refuse_options(layer: nn.Module, direction: Any) -> None:
    if direction.clip is not None:
        raise refuse(layer, f"clip={direction.clip} has no counterpart")
    if getattr(direction, "reverse", False):
        raise refuse(layer, "reverse=True has no counterpart")
    if isinstance(direction, Lstm) and direction.input_forget:
        raise refuse(layer, "input_forget=True has no counterpart")
    if isinstance(direction, Gru) and not direction.reset_after:
        raise refuse(layer, "reset_after=False has no counterpart")
    if direction.kernel() is None:
        raise refuse(layer, "its activations have no counterpart")


def _places(gates: Sequence[str], directions: Sequence[tuple[str, str]]) -> Iterator[tuple[str, TensorSource]]:
    for prefix, suffix in directions:
        for index, gate in enumerate(gates):
            for transform, name in (("input_transform", "ih"), ("hidden_transform", "hh")):
                chunk = (index, len(gates))
                yield f"{prefix}{gate}.{transform}.weight", TensorSource(f"weight_{name}_l0{suffix}", chunk, True)
                yield f"{prefix}{gate}.{transform}.bias", TensorSource(f"bias_{name}_l0{suffix}", chunk)


def _pairs(name: str, twin: type[nn.RNNBase], config: Any, *gates: str) -> list[Counterpart]:
    one = dict(_places(gates, [("", "")]))
    both = dict(_places(gates, [("forward.", ""), ("reverse.", "_reverse")]))
    build = _built(twin)
    return [
        Counterpart(name, twin, config, build, one, call="other", fits=lambda layer: not layer.bidirectional),
        Counterpart(f"Bi{name}", twin, config, build, both, call="other", fits=lambda layer: layer.bidirectional),
    ]


COUNTERPARTS = [
    *_pairs("Rnn", nn.RNN, _rnn_config, "gate"),
    *_pairs("Lstm", nn.LSTM, _lstm_config, "input_gate", "forget_gate", "cell_gate", "output_gate"),
    *_pairs("Gru", nn.GRU, _gru_config, "reset_gate", "update_gate", "new_gate"),
]
