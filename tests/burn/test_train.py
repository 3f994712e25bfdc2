"""Metrics, early stopping and checkpoints of burn-train, whose build takes a quarter of an hour; rows about them."""

import json
import math
import re
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor

from burnlike.train import MetricCheckpointingStrategy, metrics
from burnlike.train.checkpoint.checkpointer import Delete, Save

from .running import HERE, cargo, random_of
from .train_cases import ask_train, burn_kept, difference, drawn_cases, number_of, written

pytestmark = pytest.mark.burn_train


def test_metrics_stopping_and_checkpoints_are_burns() -> None:
    cases = drawn_cases(random_of("burn-train"), 60, 60, 200)
    wrong = [it for case, answer in zip(cases, ask_train(cases), strict=True) if (it := difference(case, answer))]
    assert not wrong, f"{len(wrong)} of {len(cases)}:\n" + "\n".join(wrong[:10])


_LEFT_OUT = {
    **dict.fromkeys(("IterationSpeedMetric", "CpuUse", "CpuMemory", "CpuTemperature", "CudaMetric"), "of the clock"),
    **dict.fromkeys(("CumulativeRewardMetric", "EpisodeLengthMetric", "ExplorationRateMetric"), "of another learning"),
}


def test_no_metric_of_burn_train_is_left_out() -> None:
    words = ("metadata", "--format-version", "1", "--locked", "--filter-platform", "x86_64-unknown-linux-gnu")
    packages = json.loads(cargo(*words, folder=HERE / "train"))["packages"]
    (source,) = (Path(it["manifest_path"]).parent / "src" for it in packages if it["name"] == "burn-train")
    kind = re.compile(r"^impl(?:<[^>]*>)? Metric for (\w+)", re.MULTILINE)
    there = {name for path in source.rglob("*.rs") for name in kind.findall(path.read_text().partition("cfg(test)")[0])}
    program = (HERE / "train" / "src" / "metrics.rs").read_text()
    assert {name for name in there if name not in program} == {*_LEFT_OUT}


def _burns(metric: str, config: dict[str, Any], *batches: tuple[Tensor, Tensor]) -> tuple[list[float], float]:
    """Burn's values of the batches, and of the epoch."""
    given = [{"predictions": written(a), "targets": written(b)} for a, b in batches]
    (answer,) = ask_train([{"task": "metric", "metric": metric, "config": config, "batches": given}])
    assert "refused" not in answer, answer
    return [number_of(it) for it in answer["batches"]], number_of(answer["epoch"])


def _ours(config: Any, *batches: tuple[Tensor, Tensor], **fields: Any) -> float:
    metric = config.init()
    for predictions, targets in batches:
        metric.update(predictions, targets, **fields)
    return metric.compute().item()


def _tokens(*rows: list[int]) -> Tensor:
    return torch.tensor(rows)


def test_values_over_an_epoch_are_means_of_those_of_batches_in_burn() -> None:
    batches = [(_tokens([1, 2, 3, 4]), _tokens([1, 2, 3, 4])), (_tokens([1, 2, 5, 6]), _tokens([1, 2, 3, 4]))]
    (first, second), epoch = _burns("Bleu", {"max_n": 2, "smoothing": "none"}, *batches)
    assert epoch == pytest.approx((first + second) / 2)
    config = metrics.BleuConfig(max_n=2)
    assert _ours(config, batches[0]) == pytest.approx(first)
    joined = tuple(torch.cat(it) for it in zip(*batches, strict=True))
    assert _ours(config, *batches) == pytest.approx(_burns("Bleu", {"max_n": 2, "smoothing": "none"}, joined)[1])
    assert _ours(config, *batches) != pytest.approx(epoch)


def test_metrics_of_nothing_that_counts_have_several_values_in_burn() -> None:
    pads = torch.zeros(3, dtype=torch.int64)
    scores = torch.ones(3, 4)
    assert _burns("Perplexity", {"pad_token": 0}, (scores, pads))[1] == math.inf
    assert math.isnan(_burns("Accuracy", {"pad_token": 0}, (scores, pads))[1])
    texts = (_tokens([0, 0]), _tokens([0, 0]))
    assert _burns("CharErrorRate", {"pad_token": 0}, texts)[0] == [0]
    assert math.isnan(_ours(metrics.PerplexityConfig(pad_token=0), (scores, pads)))
    assert math.isnan(_ours(metrics.AccuracyConfig(pad_token=0), (scores, pads)))
    assert math.isnan(_ours(metrics.CharErrorRateConfig(pad_token=0), texts))


def test_nan_is_a_class_as_others_in_burn() -> None:
    batch = (torch.tensor([[0.1, math.nan], [0.9, 0.1]]), torch.tensor([0, 0]))
    assert math.isfinite(_burns("Accuracy", {}, batch)[1])
    assert math.isnan(_ours(metrics.AccuracyConfig(), batch))


def test_pad_tokens_within_a_sequence_end_it_in_burn() -> None:
    batch = (_tokens([1, 0, 2, 3]), _tokens([1, 2, 3, 0]))
    assert _burns("WordErrorRate", {"pad_token": 0}, batch)[1] == pytest.approx(200 / 3)
    assert _burns("CharErrorRate", {"pad_token": 0}, batch)[1] > 0
    assert _ours(metrics.WordErrorRateConfig(pad_token=0), batch) == 0
    assert _ours(metrics.CharErrorRateConfig(pad_token=0), batch) == 0


def test_without_a_rule_burn_has_a_threshold() -> None:
    scores, targets = torch.tensor([[0.4, 0.3], [0.2, 0.3]]), torch.tensor([[1, 0], [0, 1]])
    assert _burns("Recall", {"threshold": 0.5, "class_reduction": "Macro"}, (scores, targets))[1] == 0
    assert _ours(metrics.RecallConfig(), (scores, targets.argmax(1))) == 100
    assert _ours(metrics.RecallConfig(threshold=0.5), (scores, targets.argmax(1))) == 0


def test_of_checkpoints_with_equal_values_the_first_stays_in_burn() -> None:
    case = {"task": "checkpoints", "values": [0.5, 0.5], "direction": "highest", "keep_last": None, "keep_best": True}
    (answer,) = ask_train([case])
    assert burn_kept(answer) == [[1], [1]]
    strategy = MetricCheckpointingStrategy("valid.accuracy", "highest")
    assert strategy.checkpointing(1, {"valid.accuracy": 0.5, "valid.loss": 2.0}) == [Save()]
    assert strategy.checkpointing(2, {"valid.accuracy": 0.5, "valid.loss": 1.0}) == [Delete(1), Save()]


def test_logits_are_compared_as_they_are_in_burn() -> None:
    # Probabilities of class 1: 0.73 and 0.27, but the larger logit of class 1 is that of the other item.
    logits, truth = torch.tensor([[0.0, 1.0], [6.0, 5.0]]), torch.tensor([[0, 1], [1, 0]])
    assert _burns("Auroc", {"class_reduction": "Macro"}, (logits, truth))[1] == 50
    assert _ours(metrics.AurocConfig(), (logits, truth.argmax(1)), logits=True) == 100


def test_targets_of_minus_100_are_a_class_that_is_none_in_burn() -> None:
    batch = (torch.tensor([[0.9, 0.1], [0.9, 0.1]]), torch.tensor([0, -100]))
    assert _burns("Accuracy", {}, batch)[1] == 50
    assert _ours(metrics.AccuracyConfig(), batch) == 100


def test_a_learner_of_burn_sums_the_gradients_that_it_accumulates() -> None:
    (answer,) = ask_train([{"task": "accumulated", "batches": 5, "accumulation": 3}])
    weight = 1.0
    for count in (3, 2):  # the last window is shorter, and kept
        weight -= 0.125 * 2 * weight * count
    assert answer["weight"] == pytest.approx(weight)
