"""Config of Sgd."""

from typing import TYPE_CHECKING, ClassVar

from ...config.bounds import NotNegative
from ..core.state_dtype import StateDtype
from .module_optimizer_config import ModuleOptimizerConfig
from .momentum_config import MomentumConfig

if TYPE_CHECKING:
    from .sgd import Sgd


class SgdConfig(ModuleOptimizerConfig, tag="Sgd"):
    """Stochastic gradient descent, with or without momentum.

    Attributes:
        weight_decay: times the parameter is added to the gradient.
        momentum: None for none.
        velocity: the precision that velocities are kept in.
    """

    weight_decay: NotNegative = 0.0
    momentum: MomentumConfig | None = None
    velocity: StateDtype = "auto"

    has_kernel: ClassVar[bool] = True

    def build(self) -> "Sgd":
        """The bare formula, without clipping."""
        from .sgd import Sgd

        return Sgd(self)
