"""The configs of activations. Imports no torch."""

from typing import TYPE_CHECKING

from ...config import ModuleConfig
from ...config.bounds import Size
from ..initializers.configs import Initializer, KaimingUniform

if TYPE_CHECKING:
    import torch

    from .swiglu import SwiGlu


class SwiGluConfig(ModuleConfig, tag="SwiGlu"):
    """silu(linear_inner(x)) * linear_outer(x) (Shazeer 2020, eq. 5).

    Attributes:
        d_input: size of the last dimension of x.
        d_output: size of the last dimension of the result.
        bias: whether both linear layers have a bias.
        initializer: of both linear layers.
    """

    d_input: Size
    d_output: Size
    bias: bool = False
    initializer: Initializer = KaimingUniform()

    def init(self, device: "torch.device | str | None" = None) -> "SwiGlu":
        from .swiglu import SwiGlu

        return SwiGlu(self, device)
