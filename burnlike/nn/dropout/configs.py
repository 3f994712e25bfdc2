"""The configs of dropout. Imports no torch."""

from typing import TYPE_CHECKING, Annotated

from ...config import Meta, ModuleConfig

if TYPE_CHECKING:
    import torch

    from .dropout import Dropout


class DropoutConfig(ModuleConfig, tag="Dropout"):
    """Zero values at random in training (Srivastava et al. 2014).

    Attributes:
        prob: probability of zeroing a value; the others are scaled by 1 / (1 - prob).
    """

    prob: Annotated[float, Meta(ge=0, lt=1)]

    def init(self, device: "torch.device | str | None" = None) -> "Dropout":
        """Make the layer; it has no tensors, so `device` does not matter."""
        from .dropout import Dropout

        return Dropout(self)
