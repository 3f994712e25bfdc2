"""The roles that layers can play in others: a field annotated with one takes any config of a layer that plays it."""

from typing import ClassVar, Self

from ..config import ModuleConfig
from ..config.roles import Built


class ActivationConfig(ModuleConfig[Built]):
    """Role of all activations: layers from one tensor to another of the same number of dimensions."""


class NormalizationConfig(ModuleConfig[Built]):
    """Role of the normalizations that keep the number of features: a model has one in its config, to be chosen in YAML.

    Attributes:
        num_channels: channels, dimension 1 of x.
        d_model: size of the last dimension.
        epsilon: added to the variance, or to the mean square.
        affine: whether there are gamma and beta.

    Example:
        >>> from burnlike.nn import GroupNormConfig
        >>> norm = GroupNormConfig(num_groups=4, num_channels=4)
        >>> norm.with_num_features(32)
        GroupNormConfig(num_groups=4, num_channels=32, epsilon=1e-05, affine=True)
    """

    features: ClassVar[str] = ""
    """The field that has the number of features."""

    @property
    def num_features(self) -> int:
        """The number of features, whatever the layer calls them; 0 for `IdentityConfig`."""
        if self.features:
            return getattr(self, self.features)
        raise NotImplementedError(f"{type(self).__name__} does not define num_features")

    def with_num_features(self, num_features: int) -> Self:
        """The same normalization for another number of features. Raises ConfigError if the layer can't have so many."""
        if self.features:
            return self.replace(**{self.features: num_features})
        raise NotImplementedError(f"{type(self).__name__} does not define with_num_features(num_features)")
