"""torch's counterparts of activations. `inplace` is not kept: it changes no number."""

from dataclasses import replace
from typing import Any

import torch
from torch import nn

from ..tensor_source import TensorSource
from ..torch_counterpart import Counterpart, alike, refuse
from . import configs


def _hardtanh(layer: Any, device: torch.device) -> nn.Hardtanh:
    if layer.min_val == layer.max_val:
        raise refuse(layer, f"equal bounds, {layer.min_val}, have no counterpart")
    return nn.Hardtanh(layer.min_val, layer.max_val)


def _hard_sigmoid(layer: Any, device: torch.device) -> nn.Hardsigmoid:
    if (layer.alpha, layer.beta) != (1 / 6, 0.5):
        raise refuse(layer, f"alpha={layer.alpha}, beta={layer.beta} have no counterpart: torch's are 1/6 and 0.5")
    return nn.Hardsigmoid()


COUNTERPARTS = [
    alike(configs.ReluConfig, nn.ReLU),
    alike(configs.Relu6Config, nn.ReLU6),
    alike(configs.LeakyReluConfig, nn.LeakyReLU),
    alike(configs.RReluConfig, nn.RReLU),
    alike(configs.ThresholdConfig, nn.Threshold),
    alike(configs.EluConfig, nn.ELU),
    alike(configs.SeluConfig, nn.SELU),
    alike(configs.CeluConfig, nn.CELU),
    alike(configs.SoftplusConfig, nn.Softplus),
    alike(configs.SiLUConfig, nn.SiLU),
    alike(configs.MishConfig, nn.Mish),
    alike(configs.HardSwishConfig, nn.Hardswish),
    alike(configs.SigmoidConfig, nn.Sigmoid),
    alike(configs.LogSigmoidConfig, nn.LogSigmoid),
    alike(configs.TanhConfig, nn.Tanh),
    alike(configs.SoftsignConfig, nn.Softsign),
    alike(configs.TanhshrinkConfig, nn.Tanhshrink),
    alike(configs.HardShrinkConfig, nn.Hardshrink),
    alike(configs.SoftShrinkConfig, nn.Softshrink),
    alike(configs.GLUConfig, nn.GLU),
    replace(alike(configs.HardtanhConfig, nn.Hardtanh), build=_hardtanh),
    Counterpart("HardSigmoid", nn.Hardsigmoid, lambda _: configs.HardSigmoidConfig(alpha=1 / 6), _hard_sigmoid),
    Counterpart(
        "Gelu",
        nn.GELU,
        lambda it: configs.GeluConfig(approximate=it.approximate == "tanh"),
        lambda it, device: nn.GELU("tanh" if it.approximate else "none"),
    ),
    Counterpart(
        "PRelu",
        nn.PReLU,
        lambda it: configs.PReluConfig(num_parameters=it.num_parameters),
        lambda it, device: nn.PReLU(it.alpha.shape[0], it.alpha_value, device=device),
        {"alpha": TensorSource("weight")},
    ),
]
