"""A usual size of each layer that has a counterpart in torch.nn."""

import importlib
import pkgutil
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch

from burnlike import nn
from burnlike.config import ModuleConfig
from burnlike.nn.counterpart import Counterpart


def alike(*inputs: Any) -> tuple[Any, ...]:
    """The inputs as they are."""
    return inputs


@dataclass(frozen=True)
class Size:
    """A layer and its inputs.

    Attributes:
        config: of the layer.
        inputs: makes them, floats in float32.
        our_inputs: the inputs as our layer takes them.
        torch_inputs: the inputs as torch's takes them.
    """

    config: ModuleConfig
    inputs: Callable[[], tuple[Any, ...]]
    our_inputs: Callable[..., tuple[Any, ...]] = alike
    torch_inputs: Callable[..., tuple[Any, ...]] = alike


def counterparts() -> dict[str, Counterpart]:
    """The counterparts of all families by the names of our layers."""
    found: dict[str, Counterpart] = {}
    for family in pkgutil.iter_modules(nn.__path__):
        name = f"burnlike.nn.{family.name}.counterparts"
        if family.ispkg and importlib.util.find_spec(name) is not None:
            found.update({it.layer: it for it in importlib.import_module(name).COUNTERPARTS})
    return found


def floats(*shape: int) -> Callable[[], tuple[torch.Tensor]]:
    """One input of normal numbers."""
    return lambda: (torch.randn(shape),)


def pairs(*shape: int) -> Callable[[], tuple[torch.Tensor, torch.Tensor]]:
    """Two inputs of normal numbers."""
    return lambda: (torch.randn(shape), torch.randn(shape))


TOKENS = floats(8, 512, 512)
"""8 sequences of 512 positions of width 512."""
SIGNAL, IMAGE, VOLUME = floats(16, 64, 2048), floats(16, 64, 32, 32), floats(4, 16, 32, 32, 32)
STEPS = floats(32, 64, 256)
RECURRENT: dict[str, Any] = {"d_input": 256, "d_hidden": 256, "bias": True}

POINTWISE: dict[str, ModuleConfig] = {
    "Relu": nn.ReluConfig(),
    "Relu6": nn.Relu6Config(),
    "LeakyRelu": nn.LeakyReluConfig(),
    "PRelu": nn.PReluConfig(),
    "RRelu": nn.RReluConfig(),
    "Gelu": nn.GeluConfig(),
    "Elu": nn.EluConfig(),
    "Selu": nn.SeluConfig(),
    "Celu": nn.CeluConfig(),
    "Sigmoid": nn.SigmoidConfig(),
    "LogSigmoid": nn.LogSigmoidConfig(),
    "HardSigmoid": nn.HardSigmoidConfig(alpha=1 / 6),
    "HardSwish": nn.HardSwishConfig(),
    "Tanh": nn.TanhConfig(),
    "Hardtanh": nn.HardtanhConfig(),
    "Tanhshrink": nn.TanhshrinkConfig(),
    "Mish": nn.MishConfig(),
    "SiLU": nn.SiLUConfig(),
    "Softplus": nn.SoftplusConfig(),
    "Softsign": nn.SoftsignConfig(),
    "HardShrink": nn.HardShrinkConfig(),
    "SoftShrink": nn.SoftShrinkConfig(),
    "Threshold": nn.ThresholdConfig(threshold=0.1, value=0.0),
    "GLU": nn.GLUConfig(dim=-1),
    "Dropout": nn.DropoutConfig(prob=0.1),
}

SIZES: dict[str, Size] = {
    **{name: Size(config, TOKENS) for name, config in POINTWISE.items()},
    "Linear": Size(nn.LinearConfig(d_input=512, d_output=512), TOKENS),
    "Embedding": Size(nn.EmbeddingConfig(n_embedding=5000, d_model=512), lambda: (torch.randint(5000, (8, 512)),)),
    "Conv1d": Size(nn.Conv1dConfig(channels_in=64, channels_out=64, kernel_size=3), SIGNAL),
    "Conv2d": Size(nn.Conv2dConfig(channels=(64, 64), kernel_size=3, padding=1), IMAGE),
    "Conv3d": Size(nn.Conv3dConfig(channels=(16, 16), kernel_size=3), VOLUME),
    "MaxPool1d": Size(nn.MaxPool1dConfig(kernel_size=2), SIGNAL),
    "MaxPool2d": Size(nn.MaxPool2dConfig(kernel_size=2), IMAGE),
    "AvgPool1d": Size(nn.AvgPool1dConfig(kernel_size=2), SIGNAL),
    "AvgPool2d": Size(nn.AvgPool2dConfig(kernel_size=2), IMAGE),
    "AdaptiveAvgPool1d": Size(nn.AdaptiveAvgPool1dConfig(output_size=7), SIGNAL),
    "AdaptiveAvgPool2d": Size(nn.AdaptiveAvgPool2dConfig(output_size=7), IMAGE),
    "AdaptiveAvgPool3d": Size(nn.AdaptiveAvgPool3dConfig(output_size=4), VOLUME),
    "Rnn": Size(nn.RnnConfig(**RECURRENT), STEPS),
    "BiRnn": Size(nn.BiRnnConfig(**RECURRENT), STEPS),
    "Lstm": Size(nn.LstmConfig(**RECURRENT), STEPS),
    "BiLstm": Size(nn.BiLstmConfig(**RECURRENT), STEPS),
    "Gru": Size(nn.GruConfig(**RECURRENT), STEPS),
    "BiGru": Size(nn.BiGruConfig(**RECURRENT), STEPS),
    "CosineSimilarity": Size(nn.CosineSimilarityConfig(), pairs(8192, 512)),
    "PairwiseDistance": Size(nn.PairwiseDistanceConfig(), pairs(8192, 512)),
}
