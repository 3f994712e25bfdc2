"""A normalization that a config chooses, as a field of other layers."""

from ...module import Module
from ..layer import ChosenLayer


class Normalization(ChosenLayer):
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

    @staticmethod
    def _variant(tag: str) -> str:
        return tag.removesuffix("Norm")

    @property
    def num_features(self) -> int:
        """The number of features, whatever the layer calls them; 0 for Identity."""
        gamma = getattr(self.value, "gamma", None)
        return getattr(self.value, "num_channels", 0) if gamma is None else gamma.shape[0]
