"""Config of AdaGrad."""

from typing import TYPE_CHECKING

from ...config.bounds import NotNegative, Positive
from .module_optimizer_config import ModuleOptimizerConfig

if TYPE_CHECKING:
    from .adagrad import AdaGrad


class AdaGradConfig(ModuleOptimizerConfig, tag="AdaGrad"):
    """Adaptive gradients (Duchi et al. 2011); defaults are Burn's, not torch's.

    Attributes:
        lr_decay: the rate of step t, from 1, is lr / (1 + (t - 1) * lr_decay).
        epsilon: added to the root of the sum of squares (torch: 1e-10).
        weight_decay: added to the gradient as weight_decay * parameter.
    """

    lr_decay: NotNegative = 0.0
    epsilon: Positive = 1e-5
    weight_decay: NotNegative = 0.0

    def build(self) -> "AdaGrad":
        """The bare formula, without clipping."""
        from .adagrad import AdaGrad

        return AdaGrad(self)
