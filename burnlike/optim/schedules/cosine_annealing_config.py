"""Config of the cosine schedule."""

from collections.abc import Iterable
from typing import TYPE_CHECKING, Annotated

from ...config import LrSchedulerConfig, Meta
from ...config.bounds import Count, CountOrZero, NotNegative
from ...errors import ConfigError

if TYPE_CHECKING:
    from .cosine_annealing import CosineAnnealing


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
        """The rules that concern several fields."""
        if self.min_lr > self.initial_lr:
            yield "min_lr", f"expected at most initial_lr ({self.initial_lr}), got {self.min_lr}"

    def init(self, num_iters: int | None = None) -> "CosineAnnealing":
        """Make the schedule.

        Args:
            num_iters: optimizer steps of the whole run, for a config that leaves its own num_iters out.

        Raises:
            ConfigError: neither says how long the cosine is, or nothing is left of it after the warm-up.
        """
        from .cosine_annealing import CosineAnnealing

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
