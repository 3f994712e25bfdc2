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
        hidden: of the hidden layers alone, in place of `sizes`, in a training whose data says the others.
        norm: before each activation, such as LayerNorm or BatchNorm; `Identity` for none. Its own number of features
            does not count.
        dropout: probability of dropping a hidden value in training.

    Example:
        >>> MlpConfig(sizes=(784, 256, 10)).init().num_params()
        203530
    """

    sizes: Annotated[tuple[Size, ...], Meta(min_length=2)] | None = None
    activation: ActivationConfig = ReluConfig()
    norm: NormalizationConfig = IdentityConfig()
    dropout: Probability = 0.0
    bias: bool = True
    initializer: Initializer = KaimingUniform()
    hidden: tuple[Size, ...] | None = None

    @property
    def lacks_sizes(self) -> bool:
        return self.sizes is None

    def for_sizes(self, d_input: int | None, d_output: int | None) -> "MlpConfig":
        if self.sizes is not None or d_input is None or d_output is None:
            return self
        return self.replace(sizes=(d_input, *(self.hidden or ()), d_output), hidden=None)

    @property
    def all_sizes(self) -> tuple[int, ...]:
        """The sizes of the input, the hidden layers and the result."""
        if self.sizes is None:
            raise ConfigError(
                "Mlp: nothing says the sizes of the input and the result, as the data of a table does; write `sizes:"
                f" [INPUT, {', '.join(map(str, (*(self.hidden or ()), 'OUTPUT')))}]` in place of `hidden`"
            )
        return self.sizes

    def validate(self) -> Iterable[tuple[str, str]]:
        if (self.sizes is None) == (self.hidden is None):
            yield "sizes", "expected either all `sizes`, or the `hidden` ones alone, where data says the others"
        for index, size in enumerate(self.hidden or (self.sizes or ())[1:-1], start=self.hidden is None):
            try:
                self.norm.with_num_features(size)
            except ConfigError as error:
                yield (
                    f"{'sizes' if self.hidden is None else 'hidden'}.{index}",
                    f"the norm can't have {size} features: {error}",
                )

    def example_inputs(self) -> dict[str, tuple[str, tuple[int, ...]]]:
        return {"x": ("float32", (1, self.all_sizes[0]))}
