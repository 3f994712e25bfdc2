"""Metrics of numbers: absolute, squared and relative errors, and the coefficient of determination.

Each is computed in float64 of sums over the whole epoch, for each target, and averaged over the targets.
"""

from collections.abc import Callable

import torch
from torch import Tensor

from ...errors import ShapeError
from . import configs
from .base import ConfiguredMetric, expect, shape_error


class _OfNumbers(ConfiguredMetric):
    """A value of each target, and the mean of these: a float64 scalar, or for several named targets a dict with ''.

    Takes `[n]` or `[n, targets]` floats, and numbers of this shape; of more dimensions all are one target. `terms`
    gives what is summed over items, `[rows, n, targets]`, of predictions and targets `[n, targets]` in float64; `value`
    the value `[targets]` of these sums `[rows, targets]`.
    """

    rows = 2
    terms: Callable[[Tensor, Tensor], list[Tensor]]
    value: Callable[[Tensor], Tensor]
    totals: Tensor

    def __init__(self, config: configs.MetricConfig | None = None) -> None:
        super().__init__(config)
        self.add_sum("totals", self.rows, 1)

    def update(self, predictions: Tensor, targets: Tensor) -> None:
        expect(self, "a tensor", predictions=predictions, targets=targets)
        expect(self, "floats", predictions=predictions)
        if predictions.dim() == 0 or predictions.shape != targets.shape:
            raise shape_error(self, "predictions and targets of one shape [n] or [n, targets]", predictions, targets)
        self.follow(predictions)
        width = predictions.shape[1] if predictions.dim() == 2 else 1
        if self.totals.shape[1] not in (1, width):
            raise ShapeError(f"{type(self).__name__}: expected {self.totals.shape[1]} targets, as before, got {width}")
        pair = (it.detach().double().reshape(-1, width) for it in (predictions, targets))
        sums = torch.stack(self.terms(*pair)).sum(1)
        self.totals = self.totals + torch.where(predictions.isnan().any(), torch.nan, sums)

    def prepare_sync(self, gather: Callable[[Tensor], list[Tensor]]) -> None:
        """Widen the zeros of a rank without batches to the targets of the others."""
        super().prepare_sync(gather)
        sizes = [int(it) for it in gather(torch.tensor(self.totals.shape[1], device=self.device))]
        self.totals = self.totals.expand(self.rows, max(sizes))

    def compute(self) -> Tensor | dict[str, Tensor]:
        values = self.value(self.totals)
        names: tuple[str, ...] = self.config.targets or ()
        if len(names) < 2 or len(names) != len(values):
            return values.mean()
        return {"": values.mean(), **dict(zip(names, values, strict=True))}


class Mae(
    _OfNumbers,
    of=configs.MaeConfig,
    title="MAE",
    terms=lambda got, true: [torch.ones_like(true), (got - true).abs()],
    value=lambda sums: sums[1] / sums[0],
):
    """The mean absolute error, in the unit of the targets."""


class Rmse(
    _OfNumbers,
    of=configs.RmseConfig,
    title="RMSE",
    terms=lambda got, true: [torch.ones_like(true), (got - true).square()],
    value=lambda sums: (sums[1] / sums[0]).sqrt(),
):
    """The root of the mean squared error, in the unit of the targets."""


class Mape(
    _OfNumbers,
    of=configs.MapeConfig,
    title="MAPE",
    unit="%",
    terms=lambda got, true: [
        (true != 0).double(),
        torch.where(true != 0, (got - true).abs() / torch.where(true != 0, true.abs(), 1.0), 0.0),
    ],
    value=lambda sums: 100 * sums[1] / sums[0],
):
    """The mean of |error| / |target|, in percent; a target of 0 does not count."""


class R2(
    _OfNumbers,
    of=configs.R2Config,
    title="R2",
    rows=4,
    terms=lambda got, true: [torch.ones_like(true), true, true.square(), (got - true).square()],
    value=lambda sums: 1 - sums[3] / (sums[2] - sums[1].square() / sums[0]),
):
    """The coefficient of determination: 1 - squared errors / squared distances of the targets from their mean.

    1 is perfect, 0 is as good as the mean of the measured targets; targets that are all equal have none (NaN or -inf).
    """
