"""Config of schedule-free AdamW."""

from typing import TYPE_CHECKING, Annotated

from ...config import Meta
from ...config.bounds import CountOrZero, NotNegative, Positive, at_most
from .module_optimizer_config import ModuleOptimizerConfig

if TYPE_CHECKING:
    from .schedule_free_adamw import ScheduleFreeAdamW

Exponent = Annotated[float, Meta(ge=0), at_most(16, "powers of the step numbers of a long run overflow")]


class ScheduleFreeAdamWConfig(ModuleOptimizerConfig, tag="ScheduleFreeAdamW"):
    """AdamW with an average of weights in place of a schedule (Defazio et al. 2024); use it with a constant rate.

    The module holds the weights to train with; evaluate and save within `optimizer.eval_weights(module)`.

    Attributes:
        beta_1: how far the weights to train with are towards the average.
        beta_2: decay of the second moment.
        epsilon: added to the root of the second moment.
        weight_decay: decay of the weights to train with.
        warmup_steps: steps over which the rate rises linearly.
        r: the weight of step t in the average has the factor t^r.
        weight_lr_power: and the factor lr^weight_lr_power, with the largest rate so far.
    """

    beta_1: Annotated[float, Meta(gt=0, lt=1)] = 0.9
    beta_2: Annotated[float, Meta(ge=0, lt=1)] = 0.999
    epsilon: Positive = 1e-8
    weight_decay: NotNegative = 0.0
    warmup_steps: CountOrZero = 0
    r: Exponent = 0.0
    weight_lr_power: Exponent = 2.0

    def build(self) -> "ScheduleFreeAdamW":
        """The bare formula, without clipping."""
        from .schedule_free_adamw import ScheduleFreeAdamW

        return ScheduleFreeAdamW(self)
