"""The config of multi-layer perceptrons. Imports no torch."""

from collections.abc import Iterable
from typing import TYPE_CHECKING, Annotated

from ...config import Meta, ModuleConfig
from ...config.bounds import Size
from ...errors import ConfigError
from ...nn.activation.configs import IdentityConfig, ReluConfig
from ...nn.attention.configs import Probability
from ...nn.initializers.configs import Initializer, KaimingUniform
from ...nn.roles import ActivationConfig, NormalizationConfig

if TYPE_CHECKING:
    from . import model


class MlpConfig(ModuleConfig["model.Mlp"], tag="Mlp"):
    """A multi-layer perceptron: linear layers, each but the last followed by norm, activation and dropout.

    Attributes:
        sizes: of the input, the hidden layers and the result.
        norm: before each activation, such as LayerNorm or BatchNorm; `Identity` for none. Its own number of features
            does not count.
        dropout: probability of dropping a hidden value in training.

    Example:
        >>> MlpConfig(sizes=(784, 256, 10)).init().num_params()
        203530
    """

    sizes: Annotated[tuple[Size, ...], Meta(min_length=2)]
    activation: ActivationConfig = ReluConfig()
    norm: NormalizationConfig = IdentityConfig()
    dropout: Probability = 0.0
    bias: bool = True
    initializer: Initializer = KaimingUniform()

    def validate(self) -> Iterable[tuple[str, str]]:
        for index, size in enumerate(self.sizes[1:-1], start=1):
            try:
                self.norm.with_num_features(size)
            except ConfigError as error:
                yield f"sizes.{index}", f"the norm can't have {size} features: {error}"

    def example_inputs(self) -> dict[str, tuple[str, tuple[int, ...]]]:
        return {"x": ("float32", (1, self.sizes[0]))}
