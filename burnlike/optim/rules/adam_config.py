"""Config of Adam."""

from typing import TYPE_CHECKING

from ...config.bounds import NotNegative
from .adaptive_momentum_config import AdaptiveMomentumConfig

if TYPE_CHECKING:
    from .adam import Adam


class AdamConfig(AdaptiveMomentumConfig, tag="Adam"):
    """Adaptive moments (Kingma & Ba 2015); defaults are Burn's, not torch's.

    Attributes:
        weight_decay: times the parameter is added to the gradient; for decoupled decay take AdamW.
    """

    weight_decay: NotNegative = 0.0

    def build(self) -> "Adam":
        """The bare formula, without clipping."""
        from .adam import Adam

        return Adam(self)
