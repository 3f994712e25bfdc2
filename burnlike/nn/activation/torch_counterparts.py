"""torch's counterparts of activations. `inplace` is not kept: it changes no number."""

import torch
from torch import nn

from ..tensor_source import TensorSource
from ..torch_counterpart import Counterpart, alike, refuse
from . import configs, rectifier_configs
from .rectifiers import Gelu, PRelu
from .sigmoids import HardSigmoid, Hardtanh


def _hardtanh(layer: Hardtanh, device: torch.device) -> nn.Hardtanh:
    if layer.min_val == layer.max_val:
        raise refuse(layer, f"equal bounds, {layer.min_val}, have no counterpart")
    return nn.Hardtanh(layer.min_val, layer.max_val)


def _hard_sigmoid(layer: HardSigmoid, device: torch.device) -> nn.Hardsigmoid:
    if (layer.alpha, layer.beta) != (1 / 6, 0.5):
        raise refuse(layer, f"alpha={layer.alpha}, beta={layer.beta} have no counterpart: torch's are 1/6 and 0.5")
    return nn.Hardsigmoid()


def _gelu(layer: Gelu, device: torch.device) -> nn.GELU:
    return nn.GELU("tanh" if layer.approximate else "none")


def _prelu(layer: PRelu, device: torch.device) -> nn.PReLU:
    return nn.PReLU(layer.alpha.shape[0], layer.alpha_value, device=device)


COUNTERPARTS = [
    alike(nn.ReLU, rectifier_configs.ReluConfig, "Relu"),
    alike(nn.ReLU6, rectifier_configs.Relu6Config, "Relu6"),
    alike(nn.LeakyReLU, rectifier_configs.LeakyReluConfig, "LeakyRelu"),
    alike(nn.RReLU, configs.RReluConfig, "RRelu"),
    alike(nn.Threshold, rectifier_configs.ThresholdConfig, "Threshold"),
    alike(nn.ELU, rectifier_configs.EluConfig, "Elu"),
    alike(nn.SELU, rectifier_configs.SeluConfig, "Selu"),
    alike(nn.CELU, rectifier_configs.CeluConfig, "Celu"),
    alike(nn.Softplus, rectifier_configs.SoftplusConfig, "Softplus"),
    alike(nn.SiLU, rectifier_configs.SiLUConfig, "SiLU"),
    alike(nn.Mish, rectifier_configs.MishConfig, "Mish"),
    alike(nn.Hardswish, rectifier_configs.HardSwishConfig, "HardSwish"),
    alike(nn.Sigmoid, configs.SigmoidConfig, "Sigmoid"),
    alike(nn.LogSigmoid, configs.LogSigmoidConfig, "LogSigmoid"),
    alike(nn.Tanh, configs.TanhConfig, "Tanh"),
    alike(nn.Softsign, configs.SoftsignConfig, "Softsign"),
    alike(nn.Tanhshrink, configs.TanhshrinkConfig, "Tanhshrink"),
    alike(nn.Hardshrink, configs.HardShrinkConfig, "HardShrink"),
    alike(nn.Softshrink, configs.SoftShrinkConfig, "SoftShrink"),
    alike(nn.GLU, configs.GLUConfig, "GLU"),
    Counterpart(
        "Hardtanh",
        nn.Hardtanh,
        lambda it: configs.HardtanhConfig(min_val=it.min_val, max_val=it.max_val),
        _hardtanh,
    ),
    Counterpart(
        "HardSigmoid",
        nn.Hardsigmoid,
        lambda it: configs.HardSigmoidConfig(alpha=1 / 6, beta=0.5),
        _hard_sigmoid,
    ),
    Counterpart("Gelu", nn.GELU, lambda it: rectifier_configs.GeluConfig(approximate=it.approximate == "tanh"), _gelu),
    Counterpart(
        "PRelu",
        nn.PReLU,
        lambda it: configs.PReluConfig(num_parameters=it.num_parameters),
        _prelu,
        {"alpha": TensorSource("weight")},
    ),
]
