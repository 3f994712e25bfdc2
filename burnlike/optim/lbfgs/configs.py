"""Config of L-BFGS."""

from typing import TYPE_CHECKING, Literal

from ...config import OptimizerConfig
from ...config.bounds import Count, NotNegative

if TYPE_CHECKING:
    from .lbfgs import Lbfgs


class LbfgsConfig(OptimizerConfig["Lbfgs"], tag="Lbfgs", builds=".lbfgs"):
    """L-BFGS, for small problems with an exact loss (Nocedal & Wright 2006, algorithms 7.4 and 7.5).

    It has no groups and no clipping: all parameters are one vector. The state takes up to 2 * history_size + 2 times
    the memory of the parameters.

    Attributes:
        max_iter: most iterations of a step.
        history_size: how many of the last displacements and changes of the gradient are kept.
        tolerance_grad: a step ends where no value of the gradient is larger.
        tolerance_change: a step ends where no value of the parameters, or the loss, changes by more.
        max_eval: a step ends after so many calls of the closure; None is max_iter * 5 / 4, rounded down.
        line_search_fn: how far to go along a direction: `StrongWolfe`, or None for the learning rate times it.
    """

    max_iter: Count = 20
    history_size: Count = 100
    tolerance_grad: NotNegative = 1e-7
    tolerance_change: NotNegative = 1e-9
    max_eval: Count | None = None
    line_search_fn: Literal["StrongWolfe"] | None = None
