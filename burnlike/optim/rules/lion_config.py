"""Config of Lion."""

from typing import TYPE_CHECKING, Annotated, ClassVar

from ...config import Meta
from ...config.bounds import NotNegative
from ..core.state_dtype import StateDtype
from .module_optimizer_config import ModuleOptimizerConfig

if TYPE_CHECKING:
    from .lion import Lion


class LionConfig(ModuleOptimizerConfig, tag="Lion"):
    """Steps by the sign of a moment (Chen et al. 2023); rates are 3 to 10 times smaller than those of AdamW.

    Attributes:
        beta_1: weight of the moment in the direction of a step.
        beta_2: decay of the moment.
        weight_decay: decoupled decay.
        moment: the precision that moments are kept in.
    """

    beta_1: Annotated[float, Meta(ge=0, lt=1)] = 0.9
    beta_2: Annotated[float, Meta(ge=0, lt=1)] = 0.99
    weight_decay: NotNegative = 0.0
    moment: StateDtype = "auto"

    has_kernel: ClassVar[bool] = True

    def build(self) -> "Lion":
        """The bare formula, without clipping."""
        from .lion import Lion

        return Lion(self)
