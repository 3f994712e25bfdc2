"""Config of RmsProp."""

from typing import TYPE_CHECKING, Annotated

from ...config import Meta
from ...config.bounds import NotNegative, Positive
from .module_optimizer_config import ModuleOptimizerConfig

if TYPE_CHECKING:
    from .rmsprop import RmsProp


class RmsPropConfig(ModuleOptimizerConfig, tag="RmsProp"):
    """Gradients divided by the root of their mean square (Hinton 2012); defaults are Burn's, not torch's.

    Attributes:
        alpha: decay of the mean square.
        momentum: of the divided gradients; 0 is without (torch: 0).
        epsilon: added to the root (torch: 1e-8).
        centered: divide by the standard deviation instead (Graves 2013, equations 38 to 45).
        weight_decay: added to the gradient as weight_decay * parameter.
    """

    alpha: Annotated[float, Meta(ge=0, lt=1)] = 0.99
    momentum: NotNegative = 0.9
    epsilon: Positive = 1e-5
    centered: bool = False
    weight_decay: NotNegative = 0.0

    def build(self) -> "RmsProp":
        """The bare formula, without clipping."""
        from .rmsprop import RmsProp

        return RmsProp(self)
