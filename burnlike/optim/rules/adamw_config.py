"""Config of AdamW."""

from typing import TYPE_CHECKING

from ...config.bounds import NotNegative
from .adaptive_momentum_config import AdaptiveMomentumConfig

if TYPE_CHECKING:
    from .adamw import AdamW


class AdamWConfig(AdaptiveMomentumConfig, tag="AdamW"):
    """Adam with decoupled weight decay (Loshchilov & Hutter 2019); defaults are Burn's, not torch's.

    Attributes:
        weight_decay: decoupled decay (torch: 1e-2).
        cautious_weight_decay: decay only where parameter and first moment have the same sign.
    """

    weight_decay: NotNegative = 1e-4
    cautious_weight_decay: bool = False

    def build(self) -> "AdamW":
        """The bare formula, without clipping."""
        from .adamw import AdamW

        return AdamW(self)
