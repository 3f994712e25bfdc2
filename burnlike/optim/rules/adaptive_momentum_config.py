"""What the configs of Adam and AdamW have in common."""

from collections.abc import Iterable
from typing import Annotated, ClassVar

from ...config import Meta
from ...config.bounds import Positive
from ..core.state_dtype import StateDtype
from .module_optimizer_config import ModuleOptimizerConfig


class AdaptiveMomentumConfig(ModuleOptimizerConfig):
    """Base of the configs of Adam and AdamW.

    Attributes:
        beta_1: decay of the first moment.
        beta_2: decay of the second moment.
        epsilon: added to the root of the second moment (torch: 1e-8).
        amsgrad: divide by the largest second moment so far (Reddi et al. 2018).
        moment_1: the precision that first moments are kept in.
        moment_2: that of second moments.
    """

    beta_1: Annotated[float, Meta(ge=0, lt=1)] = 0.9
    beta_2: Annotated[float, Meta(ge=0, lt=1)] = 0.999
    epsilon: Positive = 1e-5
    amsgrad: bool = False
    moment_1: StateDtype = "auto"
    moment_2: StateDtype = "auto"

    has_kernel: ClassVar[bool] = True

    def validate(self) -> Iterable[tuple[str, str]]:
        """The rules that concern several fields."""
        if self.amsgrad and self.moment_2 == "blockwise8":
            yield "moment_2", "with amsgrad expected auto, float32 or bfloat16: a largest value so far needs its digits"
        yield from ModuleOptimizerConfig.validate(self)
