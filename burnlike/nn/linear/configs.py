"""The configs of linear layers. Imports no torch."""

from typing import TYPE_CHECKING, Literal, Self

from ...config import ModuleConfig
from ...config.bounds import Size
from ..initializers.configs import Initializer, KaimingUniform
from ..roles import ActivationConfig, NormalizationConfig

if TYPE_CHECKING:
    from . import linear


class IdentityConfig(ActivationConfig["linear.Identity"], NormalizationConfig["linear.Identity"], tag="Identity"):
    """y = x, in place of a layer that is left out."""

    @property
    def num_features(self) -> int:
        return 0

    def with_num_features(self, num_features: int) -> Self:
        return self


class LinearConfig(ModuleConfig["linear.Linear"], tag="Linear"):
    """y = x @ weight + bias.

    Attributes:
        d_input: size of the last dimension of x.
        d_output: size of the last dimension of y.
        bias: whether a bias is added.
        initializer: of weight and bias.
        layout: of the weight in records: `row` is `[d_input, d_output]`, `col` is `[d_output, d_input]`, as in
            `torch.nn.Linear`. The module computes with `[d_input, d_output]` in both.
    """

    d_input: Size
    d_output: Size
    bias: bool = True
    initializer: Initializer = KaimingUniform()
    layout: Literal["row", "col"] = "row"

    def example_inputs(self) -> dict[str, tuple[str, tuple[int, ...]]]:
        return {"x": ("float32", (1, self.d_input))}
