"""What metrics refuse, and what they say."""

import re
from typing import Any

import pytest
import torch
from torch import Tensor
from torchmetrics import MeanMetric
from torchmetrics.text import ROUGEScore

from burnlike.config import MetricConfig
from burnlike.errors import ConfigError, DTypeError, RecordMismatchError, ShapeError
from burnlike.train import metrics as m

from .samples import CASES, fed


def floats(*shape: int) -> Tensor:
    return torch.zeros(shape)


def ints(*shape: int) -> Tensor:
    return torch.zeros(shape, dtype=torch.int64)


SHAPES: list[tuple[MetricConfig, Any, Any, str]] = [
    (m.AccuracyConfig(), floats(4, 3), ints(5), "predictions [n, ..., classes] with at least 2 classes"),
    (m.AccuracyConfig(), floats(4), ints(4), "with at least 2 classes"),
    (m.AccuracyConfig(), floats(4, 1), ints(4), "with at least 2 classes"),
    (m.AccuracyConfig(), floats(4, 3), ints(4, 3), "targets [n, ...]"),
    (m.AccuracyConfig(), floats(2, 3, 7, 5), ints(2, 7, 5), "(class_dim is -1)"),
    (m.AccuracyConfig(class_dim=1), floats(2, 6, 5), ints(2, 6), "[n, classes, ...]"),
    (m.PerplexityConfig(), floats(2, 6, 5), ints(2, 5), "predictions [n, ..., classes]"),
    (m.PrecisionConfig(), floats(4, 3), ints(4, 2), "[n, ...] of classes or [n, ..., classes] of zeros and ones"),
    (m.AurocConfig(), floats(4), ints(4), "of classes or"),
    (m.HammingConfig(), floats(), ints(), "of classes or"),
    (m.BleuConfig(), ints(4), ints(4), "predictions [n, length] and targets [n, length]"),
    (m.WordErrorRateConfig(), ints(4, 3), ints(5, 3), "predictions [n, length] and targets [n, length]"),
    (m.DiceConfig(), floats(4, 3), ints(4), "masks [n, classes, ...] of one shape, or scores"),
    (m.DiceConfig(), floats(4, 3, 5, 5), ints(4, 5, 6), "predictions [n, classes, ...]"),
    (m.PsnrConfig(), floats(4, 5, 5), floats(4, 5, 5), "of one shape [n, channels, height, width]"),
    (m.SsimConfig(), floats(1, 1, 10, 30), floats(1, 1, 10, 30), "images of at least 11 x 11 (kernel_size)"),
    (m.MsSsimConfig(), floats(1, 1, 300, 300), floats(1, 1, 300, 300), "3 channels (channels)"),
]


@pytest.mark.parametrize(("config", "predictions", "targets", "expected"), SHAPES)
def test_shapes_that_cannot_be_meant(config: MetricConfig, predictions: Any, targets: Any, expected: str) -> None:
    metric = config.init()
    before = m.metric_state(metric)
    shapes = f"got predictions of {list(predictions.shape)} and targets of {list(targets.shape)}"
    with pytest.raises(ShapeError, match=f"^{type(metric).__name__}: expected .*{re.escape(expected)}.*") as error:
        metric.update(predictions, targets)
    assert shapes in str(error.value)
    assert str(m.metric_state(metric)) == str(before)


DTYPES: list[tuple[MetricConfig, Any, Any, str]] = [
    (m.AccuracyConfig(), ints(4, 3), ints(4), "predictions: expected floats, got torch.int64"),
    (m.AccuracyConfig(), floats(4, 3), floats(4), "targets: expected integers, got torch.float32"),
    (m.RecallConfig(), floats(4, 3), floats(4), "targets: expected integers, got torch.float32"),
    (m.RecallConfig(), ints(4, 3), ints(4), "predictions: expected floats, got torch.int64"),
    (m.BleuConfig(), floats(4, 3), ints(4, 3), "predictions: expected integers, got torch.float32"),
    (m.BleuConfig(), ints(4, 3), floats(4, 3), "targets: expected integers, got torch.float32"),
    (m.DiceConfig(), floats(4, 3, 2), floats(4, 3, 2), "predictions: expected masks of integers or bools"),
    (m.PsnrConfig(), ints(1, 1, 4, 4), ints(1, 1, 4, 4), "predictions: expected floats, got torch.int64"),
    (m.AccuracyConfig(), [[0.1, 0.9]], ints(1), "predictions: expected a tensor, got list"),
    (m.AurocConfig(), floats(1, 2), None, "targets: expected a tensor, got NoneType"),
]


@pytest.mark.parametrize(("config", "predictions", "targets", "expected"), DTYPES)
def test_dtypes_that_cannot_be_meant(config: MetricConfig, predictions: Any, targets: Any, expected: str) -> None:
    metric = config.init()
    with pytest.raises(DTypeError, match=f"^{type(metric).__name__}: {re.escape(expected)}"):
        metric.update(predictions, targets)


def test_more_scores_than_classes() -> None:
    with pytest.raises(ShapeError, match=r"TopKAccuracy: expected at least 4 classes \(k\), got 3"):
        m.TopKAccuracyConfig(k=4).init().update(floats(2, 3), ints(2))
    with pytest.raises(ShapeError, match=r"Precision: expected at least 4 classes \(top_k\), got 3"):
        m.PrecisionConfig(top_k=4).init().update(floats(2, 3), ints(2))


@pytest.mark.parametrize("config", [m.RecallConfig(), m.AurocConfig(), m.HammingConfig()])
@pytest.mark.parametrize("first", [1, 3])
def test_batches_have_the_same_classes(config: MetricConfig, first: int) -> None:
    metric = fed(config, [(floats(2, first), ints(2, first))])
    with pytest.raises(ShapeError, match=f"expected {first} classes, as in earlier batches, got 4"):
        metric.update(floats(2, 4), ints(2))
    metric.reset()
    metric.update(floats(2, 4), ints(2))


@pytest.mark.parametrize(
    "arguments",
    [(floats(4, 3), ints(4)), (floats(4, 3), None), (floats(4),  4), (floats(), None), (0.5, 3), (floats(3), ints(3))],
)  # fmt: skip
def test_what_is_no_loss(arguments: tuple[Any, ...]) -> None:
    with pytest.raises(ShapeError, match=r"Loss: expected the losses of items, \[n\], or their mean, \[\], and"):
        m.Loss().update(*arguments)


def test_what_is_no_learning_rate() -> None:
    with pytest.raises(ShapeError, match=r"LearningRate: expected the rate of a step, a number, got \[4, 3\]"):
        m.LearningRate().update(floats(4, 3), ints(4))


def test_states_of_other_metrics() -> None:
    metric = fed(*CASES["Accuracy"][:1], CASES["Accuracy"].batches())
    before = m.metric_state(metric)
    total, weight = before["total"], before["weight"]
    for state, message in (
        ({"total": total}, "Accuracy: the state has no 'weight'"),
        (
            {"total": total, "weight": weight, "more": weight},
            "Accuracy: the state has 'more', and the metric has not",
        ),
        ({"total": total, "weight": [weight]}, "Accuracy: the state 'weight': expected a tensor, got list"),
    ):
        with pytest.raises(RecordMismatchError, match=message):
            m.restore_metric(metric, state)
    with pytest.raises(RecordMismatchError, match="Auroc: the state 'scores': expected a list of tensors, got Tensor"):
        m.restore_metric(m.Auroc(), {"scores": weight, "truth": [], "classes": weight})
    assert m.metric_state(metric) == before


def test_states_of_any_metric_of_torchmetrics() -> None:
    metric, rouge = MeanMetric(), ROUGEScore(rouge_keys="rouge1")
    metric.update(torch.tensor([1.0, 5.0]))
    rouge.update(["a b"], ["a c"])
    for filled, empty in ((metric, MeanMetric()), (rouge, ROUGEScore(rouge_keys="rouge1"))):
        m.restore_metric(empty, m.metric_state(filled))
        assert str(m.metric_state(empty)) == str(m.metric_state(filled))
    other, state = MeanMetric(), m.metric_state(metric)
    for again in (metric, other):  # it adds in place, and the state stays as it is
        m.restore_metric(again, state)
        again.update(torch.tensor(6.0))
        assert again.compute() == 4


@pytest.mark.parametrize(
    ("config", "fields", "message"),
    [
        (m.PrecisionConfig, {"threshold": 0.5, "top_k": 1}, "top_k: expected either threshold or top_k, got both"),
        (m.PrecisionConfig, {"top_k": 0}, "top_k: expected"),
        (m.TopKAccuracyConfig, {"k": 0}, "k: expected"),
        (m.FBetaScoreConfig, {"beta": 0.0}, "beta: expected"),
        (m.BleuConfig, {"max_n": 0}, "max_n: expected"),
        (m.RougeNConfig, {"n": 10}, "n: expected"),
        (m.SsimConfig, {"kernel_size": 8}, "kernel_size: expected an odd number, got 8"),
        (m.MsSsimConfig, {"betas": ()}, "betas: expected"),
        (m.MsSsimConfig, {"betas": (0.5, -0.5)}, "betas"),
        (m.AurocConfig, {"class_reduction": "Weighted"}, "class_reduction: expected"),
        (m.AccuracyConfig, {"class_dim": 2}, "class_dim: expected"),
        (m.AccuracyConfig, {"name": ""}, "name: expected"),
    ],
)
def test_configs_out_of_bounds(config: Any, fields: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        config(**fields)
