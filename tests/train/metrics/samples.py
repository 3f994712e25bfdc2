"""Each metric of predictions and targets, with batches of different sizes."""

from collections.abc import Callable
from typing import Any, NamedTuple

import torch
from torch import Tensor

from burnlike.config import MetricConfig
from burnlike.train import metrics as m

Batch = tuple[Tensor, Any]
SIZES = (5, 3, 8)


class Case(NamedTuple):
    config: MetricConfig
    batch: Callable[[int, torch.Generator], Batch]

    def batches(self, sizes: tuple[int, ...] = SIZES) -> list[Batch]:
        generator = torch.Generator().manual_seed(len(type(self.config).__name__))
        return [self.batch(size, generator) for size in sizes]


def classes(n: int, generator: torch.Generator) -> Batch:
    return torch.rand(n, 4, generator=generator), torch.randint(4, (n,), generator=generator)


def labels(n: int, generator: torch.Generator) -> Batch:
    return torch.rand(n, 4, generator=generator), torch.rand(n, 4, generator=generator) > 0.5


def texts(n: int, generator: torch.Generator) -> Batch:
    """Few different tokens, so that sequences have much in common; of lengths that change from batch to batch."""
    return torch.randint(4, (n, 6 + n), generator=generator), torch.randint(4, (n, 9), generator=generator)


def tokens(n: int, generator: torch.Generator) -> Batch:
    return torch.randn(n, 6, 5, generator=generator), torch.randint(5, (n, 6), generator=generator)


def images(n: int, generator: torch.Generator) -> Batch:
    first = torch.rand(n, 3, 24, 20, generator=generator)
    return first, (first + 0.2 * torch.randn(first.shape, generator=generator)).clamp(0, 1)


def masks(n: int, generator: torch.Generator) -> Batch:
    return torch.randn(n, 3, 7, 5, generator=generator), torch.randint(3, (n, 7, 5), generator=generator)


def numbers(n: int, generator: torch.Generator) -> Batch:
    targets = torch.randn(n, 2, generator=generator) * torch.tensor([3.0, 500.0]) + torch.tensor([0.0, 4000.0])
    return targets + torch.randn(n, 2, generator=generator), targets


def losses(n: int, generator: torch.Generator) -> Batch:
    return torch.rand((), generator=generator), n


def rates(n: int, generator: torch.Generator) -> Batch:
    return torch.rand((), generator=generator), None


CASES = {
    "Loss": Case(m.LossConfig(), losses),
    "LearningRate": Case(m.LearningRateConfig(), rates),
    "Accuracy": Case(m.AccuracyConfig(), classes),
    "Accuracy, tokens": Case(m.AccuracyConfig(pad_token=2), tokens),
    "Accuracy, pixels": Case(m.AccuracyConfig(class_dim=1), masks),
    "TopKAccuracy": Case(m.TopKAccuracyConfig(k=2, pad_token=1), classes),
    "Perplexity": Case(m.PerplexityConfig(pad_token=0), tokens),
    "ConfusionStats": Case(m.ConfusionStatsConfig(), labels),
    "ConfusionStats, Micro": Case(m.ConfusionStatsConfig(class_reduction="Micro", top_k=2), classes),
    "Precision": Case(m.PrecisionConfig(top_k=1), classes),
    "Precision, pixels": Case(m.PrecisionConfig(top_k=1, class_dim=1), masks),
    "Recall": Case(m.RecallConfig(threshold=0.4), labels),
    "FBetaScore": Case(m.FBetaScoreConfig(beta=2, class_reduction="Micro"), labels),
    "Hamming": Case(m.HammingConfig(threshold=0.6), labels),
    "Auroc": Case(m.AurocConfig(), classes),
    "Auroc, Micro": Case(m.AurocConfig(class_reduction="Micro"), labels),
    "AucPr": Case(m.AucPrConfig(), labels),
    "CharErrorRate": Case(m.CharErrorRateConfig(pad_token=3), texts),
    "WordErrorRate": Case(m.WordErrorRateConfig(), texts),
    "Bleu": Case(m.BleuConfig(max_n=2), texts),
    "RougeL": Case(m.RougeLConfig(), texts),
    "RougeN": Case(m.RougeNConfig(n=2), texts),
    "SpanF1": Case(m.SpanF1Config(classes=("O", "B-x", "I-x", "B-y", "I-y")), tokens),
    "Mae": Case(m.MaeConfig(targets=("days", "price")), numbers),
    "Rmse": Case(m.RmseConfig(), numbers),
    "Mape": Case(m.MapeConfig(targets=("days", "price")), numbers),
    "R2": Case(m.R2Config(targets=("days", "price")), numbers),
    "Dice": Case(m.DiceConfig(), masks),
    "Psnr": Case(m.PsnrConfig(), images),
    "Ssim": Case(m.SsimConfig(), images),
    "MsSsim": Case(m.MsSsimConfig(kernel_size=5, betas=(0.4, 0.6)), images),
}

SYSTEM = (m.IterationSpeedConfig, m.CpuUseConfig, m.CpuMemoryConfig, m.CudaUseConfig, m.CudaMemoryConfig)
"""They look at neither predictions nor targets: tests/train/metrics/test_in_training.py."""


def fed(config: MetricConfig, batches: list[Batch]) -> Any:
    """The metric after these batches."""
    metric = config.init()
    for batch in batches:
        metric.update(*batch)
    return metric


def whole(batches: list[Batch]) -> Batch:
    """One batch with the items of all; for texts the shorter ones are not padded, so they must be of one length."""
    return torch.cat([batch[0] for batch in batches]), torch.cat([batch[1] for batch in batches])


def values(metric: Any) -> Tensor:
    """All values of a metric: `[n]`."""
    found = metric.compute()
    return torch.stack([*found.values()]).flatten() if isinstance(found, dict) else found.reshape(1)
