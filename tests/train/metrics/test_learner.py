"""Metrics in a Learner, of what the tasks give them."""

import math
from typing import Any

import torch
from torch import Tensor, nn

from burnlike.train import Classification, ClassificationConfig, Learner, Segmentation, metrics as m, next_token_loss

GENERATOR = torch.Generator().manual_seed(4)


def learner_of(model: nn.Module, metrics: dict[str, m.EpochMetric], **how: Any) -> Learner[Any]:
    return Learner(model, torch.optim.SGD(model.parameters(), lr=0.1), metrics=metrics, **how)


def batches(*shape: int, targets: tuple[int, ...], high: int) -> list[tuple[Tensor, Tensor]]:
    sizes = (5, 2)
    return [
        (torch.randn(n, *shape, generator=GENERATOR), torch.randint(high, (n, *targets), generator=GENERATOR))
        for n in sizes
    ]


def test_of_classification() -> None:
    data = batches(6, targets=(), high=3)
    model = nn.Linear(6, 3)
    metrics = {"accuracy": m.Accuracy(), "f1": m.FBetaScoreConfig(top_k=1).init(), "stats": m.ConfusionStats()}
    learner = learner_of(model, metrics, task=Classification())
    found = learner.evaluate(data)
    inputs, targets = (torch.cat(it) for it in zip(*data, strict=True))
    right = (model(inputs).argmax(1) == targets).double().mean().item()
    assert math.isclose(found["accuracy"], 100 * right)
    assert 0 <= found["f1"] <= 100
    assert sum(found[f"stats.positive.{place}"] for place in range(3)) == len(targets)
    assert found == learner.evaluate(data)  # nothing of an evaluation is left in the next
    assert learner.evaluate(data[:1])["accuracy"] != found["accuracy"]


def test_of_classification_with_several_labels() -> None:
    data = batches(6, targets=(3,), high=2)
    model = nn.Linear(6, 3)
    metrics = {"hamming": m.HammingConfig(sigmoid=True).init(), "recall": m.RecallConfig(threshold=0.3).init()}
    found = learner_of(model, metrics, task=Classification(ClassificationConfig(multi_label=True))).evaluate(data)
    inputs, targets = (torch.cat(it) for it in zip(*data, strict=True))
    right = ((model(inputs) > 0) == targets.bool()).double().mean().item()
    assert math.isclose(found["hamming"], 100 * right)
    assert 0 <= found["recall"] <= 100


def test_of_segmentation() -> None:
    data = batches(2, 4, 5, targets=(4, 5), high=3)
    model = nn.Conv2d(2, 3, 1)
    metrics = {"dice": m.Dice(), "accuracy": m.AccuracyConfig(class_dim=1, pad_token=2).init()}
    found = learner_of(model, metrics, task=Segmentation()).evaluate(data)
    inputs, targets = (torch.cat(it) for it in zip(*data, strict=True))
    right = (model(inputs).argmax(1) == targets)[targets != 2].double().mean().item()
    assert math.isclose(found["accuracy"], 100 * right)
    assert 0 <= found["dice"] <= 1


def test_perplexity_is_exp_of_the_loss_of_a_language_model() -> None:
    model = nn.Sequential(nn.Embedding(11, 8), nn.Linear(8, 11))
    data = [torch.randint(11, (n, 7), generator=GENERATOR) for n in (4, 1)]
    found = learner_of(model, {"perplexity": m.Perplexity()}, loss=next_token_loss).evaluate(data)
    assert math.isclose(found["perplexity"], math.exp(found["loss"]), rel_tol=1e-6)
