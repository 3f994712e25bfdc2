"""The configs of schedules that stand alone. Imports no torch."""

import sys
from collections.abc import Iterable
from typing import TYPE_CHECKING, Annotated

from ...config import LrSchedulerConfig, Meta
from ...config.bounds import Count, CountOrZero, NotNegative, Positive
from ...errors import ConfigError

if TYPE_CHECKING:
    from .simple import ConstantLr, CosineAnnealing, ExponentialLr, LinearLr, NoamLr, StepLr


class ConstantLrConfig(LrSchedulerConfig, tag="ConstantLr"):
    """The same rate at every step.

    Attributes:
        lr: the rate.
    """

    lr: NotNegative

    def init(self, num_iters: int | None = None) -> "ConstantLr":
        from .simple import ConstantLr

        return ConstantLr(self.lr)


class LinearLrConfig(LrSchedulerConfig, tag="LinearLr"):
    """From initial_lr to final_lr in equal steps, then final_lr.

    Attributes:
        initial_lr: the first rate.
        final_lr: the last one.
        num_iters: steps from one to the other; None takes those of the run.
    """

    initial_lr: Annotated[float, Meta(gt=0, le=1)]
    final_lr: Annotated[float, Meta(ge=0, le=1)]
    num_iters: Count | None = None

    def init(self, num_iters: int | None = None) -> "LinearLr":
        from .simple import LinearLr

        steps = self.num_iters or num_iters
        if steps is None or steps < 1:
            raise ConfigError(
                f"LinearLr: set num_iters, or give the steps of the run to init(num_iters), at least 1; got {num_iters}"
            )
        return LinearLr(self.initial_lr, self.final_lr, steps)


class CosineAnnealingConfig(LrSchedulerConfig, tag="CosineAnnealing"):
    """From initial_lr to min_lr along half a cosine (Loshchilov & Hutter 2017, eq. 5), after a linear warm-up.

    Attributes:
        initial_lr: the highest rate.
        min_lr: the rate after num_iters steps of the cosine.
        num_iters: steps of the cosine, the warm-up not counted; None takes what is left of the run.
        warmup_steps: steps in which the rate rises by equal parts to initial_lr.
        restart: go back to initial_lr after num_iters + 1 steps of the cosine, as in Burn 0.21.
    """

    initial_lr: Annotated[float, Meta(gt=0, le=1)]
    min_lr: NotNegative = 0.0
    num_iters: Count | None = None
    warmup_steps: CountOrZero = 0
    restart: bool = False

    def validate(self) -> Iterable[tuple[str, str]]:
        if self.min_lr > self.initial_lr:
            yield "min_lr", f"expected at most initial_lr ({self.initial_lr}), got {self.min_lr}"

    def init(self, num_iters: int | None = None) -> "CosineAnnealing":
        from .simple import CosineAnnealing

        cosine_steps = self.num_iters
        if cosine_steps is None:
            if num_iters is None:
                raise ConfigError("CosineAnnealing: set num_iters, or give the steps of the run to init(num_iters)")
            cosine_steps = num_iters - self.warmup_steps
            if cosine_steps < 1:
                raise ConfigError(
                    f"CosineAnnealing: warmup_steps ({self.warmup_steps}) leaves nothing of a run of {num_iters} steps"
                )
        return CosineAnnealing(self.initial_lr, self.min_lr, cosine_steps, self.warmup_steps, self.restart)


class ExponentialLrConfig(LrSchedulerConfig, tag="ExponentialLr"):
    """Each rate is gamma times the one before.

    Attributes:
        initial_lr: the first rate.
        gamma: the factor.
    """

    initial_lr: Annotated[float, Meta(gt=0, le=1)]
    gamma: Annotated[float, Meta(gt=0, le=1)]

    def init(self, num_iters: int | None = None) -> "ExponentialLr":
        from .simple import ExponentialLr

        return ExponentialLr(self.initial_lr, self.gamma)


class StepLrConfig(LrSchedulerConfig, tag="StepLr"):
    """The rate is multiplied by gamma every step_size steps.

    Attributes:
        initial_lr: the first rate.
        step_size: steps that a rate is kept.
        gamma: the factor; above 1 the rate grows.
    """

    initial_lr: Positive
    step_size: Count
    gamma: Positive = 0.1

    def init(self, num_iters: int | None = None) -> "StepLr":
        from .simple import StepLr

        return StepLr(self.initial_lr, self.step_size, self.gamma)


class NoamLrConfig(LrSchedulerConfig, tag="NoamLr"):
    """A linear warm-up, then a fall with the root of the steps (Vaswani et al. 2017, eq. 3).

    Attributes:
        factor: scales all rates.
        warmup_steps: steps of the warm-up.
        model_size: width of the model; its root divides all rates.
    """

    factor: Annotated[float, Meta(gt=0, le=sys.float_info.max)]  # the roots of large sizes divide it
    warmup_steps: Count = 4000
    model_size: Count = 512

    def init(self, num_iters: int | None = None) -> "NoamLr":
        from .simple import NoamLr

        return NoamLr(self.factor, self.warmup_steps, self.model_size)
