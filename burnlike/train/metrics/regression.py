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

    Attributes:
        parts: sums of parts of the epoch, each `[1, rows, targets]`: one that grows, then those of merged metrics and
            of other ranks.
    """

    rows = 2
    terms: Callable[[Tensor, Tensor], list[Tensor]]
    value: Callable[[Tensor], Tensor]
    parts: list[Tensor]

    def __init__(self, config: configs.MetricConfig | None = None) -> None:
        super().__init__(config)
        self.add_list("parts", torch.float64)

    def of_batch(self, predictions: Tensor, targets: Tensor) -> Tensor:
        """The sums of a batch: `[rows, targets]`."""
        return torch.stack(self.terms(predictions, targets)).sum(1)

    def merged(self, parts: Tensor) -> Tensor:
        """The sums of all items of parts `[parts, rows, targets]`."""
        return parts.sum(0)

    def update(self, predictions: Tensor, targets: Tensor) -> None:
        expect(self, "a tensor", predictions=predictions, targets=targets)
        expect(self, "floats", predictions=predictions)
        if predictions.dim() == 0 or predictions.shape != targets.shape:
            raise shape_error(self, "predictions and targets of one shape [n] or [n, targets]", predictions, targets)
        self.follow(predictions)
        width = predictions.shape[1] if predictions.dim() == 2 else 1
        totals = self._totals()
        if totals.shape[1] not in (1, width):
            raise ShapeError(f"{type(self).__name__}: expected {totals.shape[1]} targets, as before, got {width}")
        sums = self.of_batch(*(tensor.detach().double().reshape(-1, width) for tensor in (predictions, targets)))
        # Terms may leave an item out, such as a target of 0 in Mape, and with it a NaN that was predicted for it.
        sums = torch.where(predictions.isnan().any(), torch.nan, sums)
        self.parts = [self.merged(torch.stack([totals.expand_as(sums), sums])).unsqueeze(0)]

    def prepare_sync(self, gather: Callable[[Tensor], list[Tensor]]) -> None:
        """Give a rank without batches zeros for the targets of the others."""
        totals = self._totals()
        sizes = [int(it) for it in gather(torch.tensor(totals.shape[1], device=self.device))]
        self.parts = [totals.expand(self.rows, max(sizes)).unsqueeze(0)]

    def compute(self) -> Tensor | dict[str, Tensor]:
        values = self.value(self._totals())
        names: tuple[str, ...] = self.config.targets or ()
        if len(names) < 2 or len(names) != len(values):
            return values.mean()
        return {"": values.mean(), **dict(zip(names, values, strict=True))}

    def _totals(self) -> Tensor:
        parts = self.joined("parts")
        return self.merged(parts) if parts.numel() else parts.new_zeros(self.rows, 1)


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
    value=lambda sums: torch.where(sums[2] == 0, torch.nan, 1 - sums[3] / sums[2]),
):
    """The coefficient of determination: 1 - squared errors / squared distances of the targets from their mean.

    1 is perfect, 0 is as good as the mean of the measured targets; targets that are all equal have none (NaN).

    The rows are the count, the mean, the squared distances from it and the squared errors: the difference of the mean
    square and the squared mean would lose the digits of targets that are far from 0 (Chan, Golub & LeVeque 1983).
    """

    def of_batch(self, predictions: Tensor, targets: Tensor) -> Tensor:
        count, errors = torch.ones_like(targets).sum(0), (predictions - targets).square().sum(0)
        first = targets[:1].sum(0)  # distances from it are exactly 0 where all targets are equal
        distances = targets - first
        mean = distances.sum(0) / count.clamp(min=1)
        return torch.stack([count, first + mean, (distances - mean).square().sum(0), errors])

    def merged(self, parts: Tensor) -> Tensor:
        counts, means, squares, errors = parts.unbind(1)
        count = counts.sum(0)
        longest = means.gather(0, counts.argmax(0, keepdim=True))
        mean = longest[0] + (counts * (means - longest)).sum(0) / count.clamp(min=1)
        between = (counts * (means - mean).square()).sum(0)
        return torch.stack([count, mean, squares.sum(0) + between, errors.sum(0)])
