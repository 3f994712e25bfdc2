"""torch's counterparts of layers that are random in training."""

import torch
from torch import nn

from ..torch_counterpart import Counterpart, refuse
from .configs import DropoutConfig
from .dropout import Dropout


def _config(layer: nn.Dropout) -> DropoutConfig:
    if layer.p == 1:
        raise refuse(layer, "p=1 has no counterpart")
    return DropoutConfig(prob=layer.p)


def _build(layer: Dropout, device: torch.device) -> nn.Dropout:
    return nn.Dropout(layer.prob)


COUNTERPARTS = [Counterpart("Dropout", nn.Dropout, _config, _build)]
