"""Config of Adan."""

from typing import TYPE_CHECKING, Annotated

from ...config import Meta
from ...config.bounds import NotNegative, Positive
from .module_optimizer_config import ModuleOptimizerConfig

if TYPE_CHECKING:
    from .adan import Adan


class AdanConfig(ModuleOptimizerConfig, tag="Adan"):
    """Adaptive Nesterov momentum (Xie et al. 2022); defaults are Burn's.

    The betas are what the old value is multiplied by, one minus those of the paper.

    Attributes:
        beta_1: decay of the mean gradient.
        beta_2: decay of the mean difference of gradients.
        beta_3: decay of the mean square.
        epsilon: added to the root of the mean square.
        weight_decay: decoupled decay.
        no_prox: decay by the factor 1 - lr * weight_decay before the step, in place of 1 / (1 + lr * weight_decay)
            after it.
    """

    beta_1: Annotated[float, Meta(ge=0, lt=1)] = 0.98
    beta_2: Annotated[float, Meta(ge=0, lt=1)] = 0.92
    beta_3: Annotated[float, Meta(ge=0, lt=1)] = 0.99
    epsilon: Positive = 1e-8
    weight_decay: NotNegative = 0.0
    no_prox: bool = False

    def build(self) -> "Adan":
        """The bare formula, without clipping."""
        from .adan import Adan

        return Adan(self)
