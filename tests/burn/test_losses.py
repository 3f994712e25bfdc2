"""Losses beside Burn's: values and gradients, by every reduction, at the edges too."""

from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
import torch

from .layer_case import LayerCase
from .layer_comparison import Flaw, compared, still_there, without
from .losses import DRAWS, ctc_case, loss_case
from .running import random_of

pytestmark = pytest.mark.burn

DRAWN = 30
"""Cases of each loss."""


def has_extremes(case: LayerCase) -> bool:
    """True if an input is not finite, or its square is not."""
    return any(not it.square().isfinite().all() for it in case.inputs.values() if it.is_floating_point())


def is_beside_nan(case: LayerCase) -> bool:
    """True if an input of a hinge is NaN, where torch has no gradient, and Burn that of the other part."""
    hinges = ("HingeEmbeddingLoss", "MarginRankingLoss", "TripletMarginLoss")
    return case.layer in hinges and has_extremes(case)


def has_hits(case: LayerCase) -> bool:
    """True if a prediction is its target, or is not finite."""
    return bool((case.inputs["x"] == case.inputs["y"]).any()) or has_extremes(case)


def has_a_target_without_alignment(case: LayerCase) -> bool:
    """True if a target of CTC is longer than its sequence, with a blank between labels that are alike."""
    if case.layer != "CTCLoss":
        return False
    for row, time, length in zip(*(case.inputs[name].tolist() for name in ("y", "times", "lengths")), strict=True):
        label = row[:length]
        if length + sum(one == other for one, other in pairwise(label)) > time:
            return True
    return False


def two(name: str, config: Any, x: list[float], y: list[float]) -> LayerCase:
    """A loss of a row of predictions and one of targets, which is not reduced."""
    inputs = {"x": torch.tensor([x]), "y": torch.tensor([y])}
    return loss_case(name, config, inputs, "none")


def ctc(labels: list[int], length: int, word: str) -> LayerCase:
    """CTC of two steps."""
    inputs = {
        "x": torch.zeros(2, 1, 3),
        "y": torch.tensor([labels]),
        "times": torch.tensor([2]),
        "lengths": torch.tensor([length]),
    }
    return ctc_case({"blank": 0, "zero_infinity": False}, inputs, word)


FLAWS = {
    "HuberLoss and SmoothL1Loss: gradients of infinite differences are NaN": Flaw(
        lambda case: case.layer in ("HuberLoss", "SmoothL1Loss") and has_extremes(case),
        "gradient",
        two("HuberLoss", {"delta": 1.0}, [torch.inf], [0.0]),
    ),
    "PoissonNllLoss, full: the gradient with respect to a target of 0 is NaN": Flaw(
        lambda case: case.layer == "PoissonNllLoss" and case.config["full"],
        "gradient of y",
        two("PoissonNllLoss", {"log_input": True, "full": True, "eps": 1e-8}, [1.0], [0.0]),
    ),
    "LpLoss with p < 1: the gradient where nothing is missed is NaN": Flaw(
        lambda case: case.layer == "LpLoss" and case.config["p"] < 1 and has_hits(case),
        "gradient",
        two("LpLoss", {"p": 0.5}, [1.0], [1.0]),
    ),
    "A hinge of NaN has the gradient of its other part": Flaw(
        is_beside_nan, "gradient", two("HingeEmbeddingLoss", {"margin": 1.0}, [torch.nan], [-1.0])
    ),
    "CTCLoss, mean: an empty target divides by 0": Flaw(
        lambda case: case.layer == "CTCLoss" and not case.inputs["lengths"].all(),
        "evaluation|training|gradient",
        ctc([1], 0, "mean"),
    ),
    "CTCLoss: gradients are wrong where paths have exactly the same probability": Flaw(
        lambda case: case.layer == "CTCLoss" and case.inputs["x"].unique().numel() == 1, "gradient", ctc([1], 1, "sum")
    ),
    "CTCLoss: a target without alignment has gradients at its last step": Flaw(
        has_a_target_without_alignment, "gradient", ctc([1, 1], 2, "sum")
    ),
}
"""Where Burn 0.22.1 gives NaN, or another number, by itself. Nothing else of these cases may differ."""


def test_losses(tmp_path: Path) -> None:
    cases = [draw(random) for name, draw in DRAWS.items() for random in [random_of(name)] for _ in range(DRAWN)]
    different = without(FLAWS.values(), compared("losses", cases, tmp_path))
    assert not different, f"{len(different)} of {len(cases)} cases:\n" + "\n".join(different)


def test_known_flaws_are_still_there(tmp_path: Path) -> None:
    assert still_there("losses", FLAWS, tmp_path) == []
