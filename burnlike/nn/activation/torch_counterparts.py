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
    alike("Relu", nn.ReLU, rectifier_configs.ReluConfig),
    alike("Relu6", nn.ReLU6, rectifier_configs.Relu6Config),
    alike("LeakyRelu", nn.LeakyReLU, rectifier_configs.LeakyReluConfig),
    alike("RRelu", nn.RReLU, configs.RReluConfig),
    alike("Threshold", nn.Threshold, rectifier_configs.ThresholdConfig),
    alike("Elu", nn.ELU, rectifier_configs.EluConfig),
    alike("Selu", nn.SELU, rectifier_configs.SeluConfig),
    alike("Celu", nn.CELU, rectifier_configs.CeluConfig),
    alike("Softplus", nn.Softplus, rectifier_configs.SoftplusConfig),
    alike("SiLU", nn.SiLU, rectifier_configs.SiLUConfig),
    alike("Mish", nn.Mish, rectifier_configs.MishConfig),
    alike("HardSwish", nn.Hardswish, rectifier_configs.HardSwishConfig),
    alike("Sigmoid", nn.Sigmoid, configs.SigmoidConfig),
    alike("LogSigmoid", nn.LogSigmoid, configs.LogSigmoidConfig),
    alike("Tanh", nn.Tanh, configs.TanhConfig),
    alike("Softsign", nn.Softsign, configs.SoftsignConfig),
    alike("Tanhshrink", nn.Tanhshrink, configs.TanhshrinkConfig),
    alike("HardShrink", nn.Hardshrink, configs.HardShrinkConfig),
    alike("SoftShrink", nn.Softshrink, configs.SoftShrinkConfig),
    alike("GLU", nn.GLU, configs.GLUConfig),
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
