"""Config of Lamb."""

from typing import TYPE_CHECKING, Annotated

from ...config import Meta
from ...config.bounds import NotNegative, Positive
from .module_optimizer_config import ModuleOptimizerConfig

if TYPE_CHECKING:
    from .lamb import Lamb


class LambConfig(ModuleOptimizerConfig, tag="Lamb"):
    """Layer-wise adaptive moments for large batches (You et al. 2020); defaults are Burn's.

    Attributes:
        beta_1: decay of the first moment.
        beta_2: decay of the second moment.
        epsilon: added to the root of the second moment.
        weight_decay: decay, a part of what the trust ratio scales.
        use_trust_ratio: scale the update of each tensor to the norm of the tensor.
    """

    beta_1: Annotated[float, Meta(ge=0, lt=1)] = 0.9
    beta_2: Annotated[float, Meta(ge=0, lt=1)] = 0.999
    epsilon: Positive = 1e-6
    weight_decay: NotNegative = 0.0
    use_trust_ratio: bool = True

    def build(self) -> "Lamb":
        """The bare formula, without clipping."""
        from .lamb import Lamb

        return Lamb(self)
