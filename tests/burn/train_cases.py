"""Cases of metrics, early stopping and checkpoints: drawn, run by burnlike, and compared with what Burn answered."""

import json
import math
import subprocess
from collections.abc import Mapping, Sequence
from functools import cache
from pathlib import Path
from random import Random
from typing import Any

import torch
from torch import Tensor

from burnlike.config import MetricConfig
from burnlike.train import (
    ComposedCheckpointingStrategy,
    EarlyStoppingConfig,
    KeepLastNCheckpoints,
    MetricCheckpointingStrategy,
    MetricEarlyStoppingStrategy,
    metrics,
)
from burnlike.train.checkpoint.checkpointer import Save

from .running import HERE, TARGET, cargo

VECTORS = HERE.parent / "vectors" / "burn_train.json"
"""Burn's answers to some cases, for tests that run without it; `python -m tests.burn.train_cases` writes them."""
Case = dict[str, Any]
METRICS = (
    *("Loss", "LearningRate", "Accuracy", "TopKAccuracy", "Perplexity", "Precision", "Recall", "FBetaScore", "Hamming"),
    *("Auroc", "AucPr", "CharErrorRate", "WordErrorRate", "Bleu", "RougeL", "Dice", "Psnr", "Ssim", "MsSsim"),
)
_OF_LABELS = ("Precision", "Recall", "FBetaScore", "Auroc", "AucPr")
_OF_TEXTS = ("CharErrorRate", "WordErrorRate", "Bleu", "RougeL")
_OF_IMAGES = ("Psnr", "Ssim", "MsSsim")


@cache
def _built() -> Path:
    cargo("build", "--locked", folder=HERE / "train")
    return TARGET / "debug" / "burn_train_cases"


def ask_train(cases: Sequence[Case]) -> list[dict[str, Any]]:
    """The answers of the program in `train`, beside which its trainings print their progress."""
    lines = "".join(f"{json.dumps(case)}\n" for case in cases)
    done = subprocess.run([_built()], input=lines, capture_output=True, text=True, check=True)
    answers = [json.loads(line) for line in done.stdout.splitlines() if line.startswith("{")]
    assert len(answers) == len(cases), (len(answers), done.stdout[-2000:], done.stderr[-2000:])
    return answers


def number_of(value: Any) -> float:
    """A number of JSON, which is a text where it is not finite."""
    return math.nan if value is None else float(value)


def _number(value: float) -> float | str:
    return value if math.isfinite(value) else str(value).replace("nan", "NaN")


def written(tensor: Tensor) -> Case:
    """A tensor for a case, its floats to 4 digits."""
    values = [_number(it) if isinstance(it, float) else int(it) for it in tensor.flatten().tolist()]
    return {"shape": [*tensor.shape], "values": [round(it, 4) if isinstance(it, float) else it for it in values]}


def _read(value: Case, dtype: torch.dtype) -> Tensor:
    numbers = [float(it) for it in value["values"]]
    return torch.tensor(numbers, dtype=torch.float64).to(dtype).reshape(value["shape"])


def _drawn_batch(random: Random, name: str, config: Case, sizes: Mapping[str, int]) -> Case:
    generator = torch.Generator().manual_seed(random.getrandbits(40))
    n, classes = random.choice((1, 2, 5, 9)), sizes["classes"]
    steps = random.choice((2.0, 10.0, 1000.0))  # few different scores are often equal

    def ints(high: int, *shape: int) -> Tensor:
        return torch.randint(high, shape, generator=generator)

    def scores(*shape: int) -> Tensor:
        return (torch.rand(shape, generator=generator) * steps).round() / steps

    if name == "Loss":
        return {"predictions": written(torch.randn(1, generator=generator)), "targets": None}
    if name == "LearningRate":
        return {"predictions": None, "targets": None, "rate": random.choice((1e-5, 0.1, 0.3))}
    if name in ("Accuracy", "TopKAccuracy", "Perplexity"):
        logits = (torch.randn(n, classes, generator=generator) * steps).round() / steps + 0.0  # no -0.0
        targets = ints(classes, n)
        targets[0] = 1  # something that counts
        return {"predictions": written(logits), "targets": written(targets)}
    if name in _OF_LABELS or name == "Hamming":
        truth = ints(2, n, classes)
        if config.get("top_k") is not None:
            truth = torch.nn.functional.one_hot(ints(classes, n), classes)
        values = scores(n, classes)
        return {
            "predictions": written(values * 4 - 2 if config.get("sigmoid") else values),
            "targets": written(truth),
        }
    if name in _OF_TEXTS:
        shape = (random.choice((1, 3)), random.choice((5, 8)))
        texts = [ints(5, *shape) + 1, ints(5, *shape) + 1]
        if config.get("pad_token") is not None:
            for text in texts:
                for row in text:
                    row[random.randrange(1, shape[1] + 1) :] = config["pad_token"]
        return {"predictions": written(texts[0]), "targets": written(texts[1])}
    if name == "Dice":
        predicted, true = ints(2, n, classes, 3, 2), ints(2, n, classes, 3, 2)
        return {"predictions": written(predicted), "targets": written(true)}
    side = 12 if name == "MsSsim" else random.choice((7, 9))
    shape = (random.choice((1, 3)), sizes["channels"], side, side)
    image = scores(*shape)
    noise = torch.randn(shape, generator=generator) * random.choice((0.0, 0.05, 0.5))
    return {"predictions": written((image + noise).clamp(0, 1)), "targets": written(image)}


def drawn_metric(random: Random, name: str) -> Case:
    """A metric with a drawn config, and batches of items."""
    config: Case = {}
    sizes = {"classes": random.choice((2, 3, 6)), "channels": random.choice((1, 3))}
    if name in ("Accuracy", "TopKAccuracy", "Perplexity"):
        config["pad_token"] = random.choice((None, 0))
    if name == "TopKAccuracy":
        config["k"] = random.choice((1, 2, sizes["classes"]))
    if name in ("Precision", "Recall", "FBetaScore"):
        config |= random.choice(({"threshold": 0.5}, {"threshold": 0.2}, {"top_k": 1}, {"top_k": 2}, {"top_k": 2}))
        config["class_reduction"] = random.choice(("Macro", "Micro"))
    if name in ("Auroc", "AucPr"):
        config["class_reduction"] = random.choice(("Macro", "Micro"))
    if name == "FBetaScore":
        config["beta"] = random.choice((0.5, 1.0, 2.0))
    if name == "Hamming":
        config = {"threshold": random.choice((0.5, 0.7)), "sigmoid": random.random() < 0.4}
    if name in _OF_TEXTS:
        config["pad_token"] = random.choice((None, 0))
    if name == "Bleu":
        config |= {"max_n": random.choice((1, 2, 4)), "smoothing": random.choice(("none", "epsilon", "exponential"))}
        config["epsilon"] = random.choice((0.1, 0.5))
    if name == "Dice":
        config = {"epsilon": 1e-7, "include_background": random.random() < 0.5}
    if name == "Psnr":
        config = {"max_pixel_val": random.choice((1.0, 2.0)), "epsilon": random.choice((1e-10, 1e-3))}
    if name in ("Ssim", "MsSsim"):
        config = {"pixel_range": 1.0, "k1": 0.01, "k2": 0.03, "kernel_size": random.choice((3, 5)), "sigma": 1.5}
    if name == "MsSsim":
        config |= {"channels": sizes["channels"], "betas": [0.4, 0.6], "kernel_size": 3}
    batches = [_drawn_batch(random, name, config, sizes) for _ in range(random.choice((1, 1, 2, 3)))]
    return {"task": "metric", "metric": name, "config": config, "batches": batches}


def drawn_stopping(random: Random) -> Case:
    return {
        "task": "stopping",
        **_drawn_history(random),
        "n_epochs": random.choice((1, 2, 3)),
        "warmup_epochs": random.choice((None, None, 1, 3)),
    }


def drawn_checkpoints(random: Random) -> Case:
    keep_last, keep_best = random.choice(((1, False), (2, False), (None, True), (1, True), (2, True)))
    return {
        "task": "checkpoints",
        **_drawn_history(random),
        "keep_last": keep_last,
        "keep_best": keep_best,
    }


def _drawn_history(random: Random) -> Case:
    broken = (math.nan, math.inf, -math.inf)
    values = [
        random.choice((0.25, 0.5, 1.0, 2.0, -0.5, random.choice(broken))) for _ in range(random.choice((3, 6, 9)))
    ]
    direction = random.choice(("lowest", "highest"))
    return {"values": [_number(it) for it in values], "direction": direction}


def _metric_of(case: Case) -> Any:
    fields = {name: tuple(it) if isinstance(it, list) else it for name, it in case["config"].items()}
    config: MetricConfig = getattr(metrics, f"{case['metric']}Config")(**fields)
    return config.init()


def _update(metric: Any, case: Case, batch: Case) -> None:
    name = case["metric"]
    if name == "LearningRate":
        metric.update(batch["rate"])
        return
    kinds = {"Loss": (torch.float32, None), "Dice": (torch.int64, torch.int64)}
    kinds |= dict.fromkeys(_OF_TEXTS, (torch.int64, torch.int64)) | dict.fromkeys(_OF_IMAGES, (torch.float32,) * 2)
    of_predictions, of_targets = kinds.get(name, (torch.float32, torch.int64))
    predictions = _read(batch["predictions"], of_predictions)
    metric.update(predictions, *([] if of_targets is None else [_read(batch["targets"], of_targets)]))


def _value(case: Case, batches: Sequence[Case]) -> float:
    metric = _metric_of(case)
    for batch in batches:
        _update(metric, case, batch)
    return metric.compute().item()


def _metric_difference(case: Case, answer: Mapping[str, Any]) -> str:
    metric = _metric_of(case)
    name, unit = answer["name"], answer["unit"]
    if case["metric"] == "Dice":  # the number of dimensions is that of what comes
        name = name.removeprefix("4D ")
    if case["metric"] == "Precision" and case["config"].get("top_k") is None:  # Burn's is always that of the defaults
        name = metric.name
    if case["metric"] == "Auroc":  # Burn's says nothing of itself
        unit = metric.unit
    if metric.name != name or (metric.unit or None) != unit:
        return f"the name {metric.name} [{metric.unit}], {answer['name']} [{answer['unit']}] of Burn"
    better = metric.config.higher_is_better
    if answer["higher_is_better"] is not None and better != answer["higher_is_better"]:
        return f"higher_is_better {better}, {answer['higher_is_better']} of Burn"
    # Of corpora burnlike takes the value of all texts together, Burn a mean of those of the batches.
    pairs = [] if case["metric"] == "Bleu" and len(case["batches"]) > 1 else [(case["batches"], answer["epoch"])]
    pairs += [([batch], value) for batch, value in zip(case["batches"], answer["batches"], strict=True)]
    for batches, expected in pairs:
        if expected is None:  # areas under curves have none for a batch
            continue
        ours, theirs = _value(case, batches), number_of(expected)
        near = abs(ours - theirs) <= 2e-5 * max(abs(theirs), 1) or ours == theirs
        if not near and not (math.isnan(ours) and math.isnan(theirs)):
            return f"{len(batches)} batches: {ours}, {theirs} of Burn"
    return ""


def stops_of(case: Case) -> list[bool]:
    config = EarlyStoppingConfig(
        metric="loss" if case["direction"] == "lowest" else "accuracy",
        direction=case["direction"],
        n_epochs=case["n_epochs"],
        warmup_epochs=case["warmup_epochs"] or 0,
    )
    strategy, stops = MetricEarlyStoppingStrategy(config), []
    for epoch, value in enumerate(case["values"], start=1):
        stops.append(strategy.should_stop(epoch, number_of(value)))
        if stops[-1]:
            break
    return stops


def kept_of(case: Case) -> list[list[int]]:
    """The epochs whose checkpoints are there after each epoch."""
    strategies: list[Any] = [] if case["keep_last"] is None else [KeepLastNCheckpoints(case["keep_last"])]
    if case["keep_best"]:
        strategies.append(MetricCheckpointingStrategy("valid.loss", case["direction"]))
    strategy, kept, after = ComposedCheckpointingStrategy(strategies), set[int](), []
    for epoch, value in enumerate(case["values"], start=1):
        for action in strategy.checkpointing(epoch, {"valid.loss": number_of(value)}):
            _apply(kept, epoch, "save" if isinstance(action, Save) else action.number)
        after.append(sorted(kept))
    return after


def _apply(kept: set[int], epoch: int, action: Any) -> None:
    if action == "save":
        kept.add(epoch)
    else:
        kept.discard(action)


def burn_kept(answer: Mapping[str, Any]) -> list[list[int]]:
    kept, after = set[int](), []
    for epoch, actions in enumerate(answer["actions"], start=1):
        for action in actions:
            _apply(kept, epoch, action)
        after.append(sorted(kept))
    return after


def difference(case: Case, answer: Mapping[str, Any]) -> str:
    """How burnlike's answer to a case differs from Burn's; "" if it does not."""
    if "refused" in answer:
        return f"{case}: {answer}"
    if case["task"] == "metric":
        found = _metric_difference(case, answer)
        return found and f"{case}: {found}"
    ours, theirs = (
        (stops_of(case), answer["stops"]) if case["task"] == "stopping" else (kept_of(case), burn_kept(answer))
    )
    return "" if ours == theirs else f"{case}: {ours}, {theirs} of Burn"


def drawn_cases(random: Random, of_metrics: int, of_images: int, of_trainings: int) -> list[Case]:
    """So many cases of each metric, of each metric of images, and of early stopping and of checkpoints."""
    counts = {name: of_images if name in _OF_IMAGES else of_metrics for name in METRICS}
    cases = [drawn_metric(random, name) for name, count in counts.items() for _ in range(count)]
    cases += [drawn_stopping(random) for _ in range(of_trainings)]
    return cases + [drawn_checkpoints(random) for _ in range(of_trainings)]


def _write_vectors() -> None:
    cases = drawn_cases(Random("vectors"), 8, 2, 40)
    lines = [json.dumps({"case": it, "burn": answer}) for it, answer in zip(cases, ask_train(cases), strict=True)]
    VECTORS.write_text("[\n" + ",\n".join(lines) + "\n]\n")


if __name__ == "__main__":
    _write_vectors()
