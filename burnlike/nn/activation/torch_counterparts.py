"""torch's counterparts of activations. `inplace` is not kept: it changes no number."""

import torch
from torch import nn

from ..roles import ActivationConfig
from ..tensor_source import TensorSource
from ..torch_counterpart import Counterpart, refuse
from . import configs, rectifier_configs
from .rectifiers import Gelu, PRelu
from .sigmoids import HardSigmoid, Hardtanh


def _alike(theirs: type[nn.Module], config: type[ActivationConfig], layer: str) -> Counterpart:
    """Of two layers whose arguments and attributes have the same names."""
    names = config.__struct_fields__
    return Counterpart(
        layer,
        theirs,
        lambda it: config(**{name: getattr(it, name) for name in names}),
        lambda it, device: theirs(**{name: getattr(it, name) for name in names}),
    )


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
    _alike(nn.ReLU, rectifier_configs.ReluConfig, "Relu"),
    _alike(nn.ReLU6, rectifier_configs.Relu6Config, "Relu6"),
    _alike(nn.LeakyReLU, rectifier_configs.LeakyReluConfig, "LeakyRelu"),
    _alike(nn.RReLU, configs.RReluConfig, "RRelu"),
    _alike(nn.Threshold, rectifier_configs.ThresholdConfig, "Threshold"),
    _alike(nn.ELU, rectifier_configs.EluConfig, "Elu"),
    _alike(nn.SELU, rectifier_configs.SeluConfig, "Selu"),
    _alike(nn.CELU, rectifier_configs.CeluConfig, "Celu"),
    _alike(nn.Softplus, rectifier_configs.SoftplusConfig, "Softplus"),
    _alike(nn.SiLU, rectifier_configs.SiLUConfig, "SiLU"),
    _alike(nn.Mish, rectifier_configs.MishConfig, "Mish"),
    _alike(nn.Hardswish, rectifier_configs.HardSwishConfig, "HardSwish"),
    _alike(nn.Sigmoid, configs.SigmoidConfig, "Sigmoid"),
    _alike(nn.LogSigmoid, configs.LogSigmoidConfig, "LogSigmoid"),
    _alike(nn.Tanh, configs.TanhConfig, "Tanh"),
    _alike(nn.Softsign, configs.SoftsignConfig, "Softsign"),
    _alike(nn.Tanhshrink, configs.TanhshrinkConfig, "Tanhshrink"),
    _alike(nn.Hardshrink, configs.HardShrinkConfig, "HardShrink"),
    _alike(nn.Softshrink, configs.SoftShrinkConfig, "SoftShrink"),
    _alike(nn.GLU, configs.GLUConfig, "GLU"),
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
