"""The roles that layers can play in others: a field annotated with one takes any config of a layer that plays it; and
the facts of a layer that are asked without torch."""

from typing import ClassVar, Literal, NamedTuple, Self

from ..config import ModuleConfig
from ..config.roles import Built


class LayerFacts(NamedTuple):
    """Facts by which `burnlike check` and graphs see, without torch, that layers fit each other.

    A config of `burnlike.nn` whose layer has others than these defaults states them as `facts`.

    Attributes:
        inputs: the least number of inputs and the largest; None for any number.
        gives_several: whether the layer returns several values, such as an output and a state.
        last: the fields with the size of the last dimension of the input and of the output, such as `d_model`; empty
            where no field tells.
        channels: the same of the second dimension, such as `channels.0`.
        keeps: which sizes of the input the output has as well.
        divides_sequences: whether the layer gives for a part of a sequence `[n, length, ...]` that part of the result,
            where attention exchanges its keys and values; `distributed.context` asks for it.
        masked: whether the layer takes an `attention_mask`, which is 0 where a position is padding.
    """

    inputs: tuple[int, int | None] = (1, 1)
    gives_several: bool = False
    last: tuple[str, str] | None = None
    channels: tuple[str, str] | None = None
    keeps: Literal["all", "channels", "none"] = "none"
    divides_sequences: bool = False
    masked: bool = False


class ActivationConfig(ModuleConfig[Built]):
    """Role of all activations: layers from one tensor to another of the same number of dimensions."""

    facts = LayerFacts(keeps="all", divides_sequences=True)


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
