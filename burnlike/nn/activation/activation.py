"""An activation that a config chooses, as a field of other layers."""

from typing import Self

import torch
from torch import Tensor

from ...config.registry import tag_of
from ...errors import ArgumentError
from ...module import Module, ModuleEnum
from ..roles import ActivationConfig


class Activation(ModuleEnum):
    """One of the activations; which one is part of the record.

    Example:
        >>> from burnlike.nn import GeluConfig
        >>> Activation.of(GeluConfig()).variant
        'Gelu'
    """

    # In the order of Burn 0.21, whose bincode has the number of the variant; what it lacks comes after.
    Gelu: Module
    PRelu: Module
    Relu: Module
    LeakyRelu: Module
    SwiGlu: Module
    Selu: Module
    Sigmoid: Module
    Tanh: Module
    HardSigmoid: Module
    HardSwish: Module
    Softplus: Module
    Softsign: Module
    Elu: Module
    Celu: Module
    ThresholdedRelu: Module
    HardShrink: Module
    SoftShrink: Module
    Shrink: Module
    Identity: Module
    LogSigmoid: Module
    Hardtanh: Module
    Tanhshrink: Module
    Mish: Module
    SiLU: Module
    Relu6: Module
    RRelu: Module
    Threshold: Module
    GLU: Module

    @classmethod
    def of(cls, config: ActivationConfig, device: torch.device | str | None = None) -> Self:
        """The activation of `config`.

        Raises:
            ArgumentError: the config's class has no tag, by which the variant is called.
        """
        name = tag_of(type(config))
        if name is None:
            raise ArgumentError(f"Activation: expected a config whose class has a tag, got {type(config).__name__}")
        return cls(**{name: config.init(device)})

    def forward(self, x: Tensor) -> Tensor:
        """`[...] -> [...]`, as the activation that it is."""
        return self.value(x)
