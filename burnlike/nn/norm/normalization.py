"""A normalization that a config chooses, as a field of other layers."""

from typing import Self

import torch
from torch import Tensor

from ...config.registry import tag_of
from ...errors import ArgumentError
from ...module import Module, ModuleEnum
from ..roles import NormalizationConfig


class Normalization(ModuleEnum):
    """One of the normalizations; which one is part of the record.

    Example:
        >>> from burnlike.nn import GroupNormConfig
        >>> Normalization.of(GroupNormConfig(num_groups=2, num_channels=8)).variant
        'Group'
    """

    # In the order of Burn 0.21, whose bincode has the number of the variant; what it lacks comes after.
    Batch: Module
    Group: Module
    Instance: Module
    Layer: Module
    Rms: Module
    Identity: Module

    @classmethod
    def of(cls, config: NormalizationConfig, device: torch.device | str | None = None) -> Self:
        """The normalization of `config`.

        Raises:
            ArgumentError: the config's class has no tag, by which the variant is called.
        """
        name = tag_of(type(config))
        if name is None:
            raise ArgumentError(f"Normalization: expected a config whose class has a tag, got {type(config).__name__}")
        return cls(**{name.removesuffix("Norm"): config.init(device)})

    @property
    def num_features(self) -> int:
        """The number of features, whatever the layer calls them; 0 for Identity."""
        gamma = getattr(self.value, "gamma", None)
        return getattr(self.value, "num_channels", 0) if gamma is None else gamma.shape[0]

    def forward(self, x: Tensor) -> Tensor:
        """The shape of x, as the normalization that it is takes it."""
        return self.value(x)
