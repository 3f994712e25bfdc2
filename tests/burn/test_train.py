"""Metrics, early stopping and checkpoints of burn-train, whose build takes a quarter of an hour."""

import pytest

from .running import random_of
from .train_cases import ask_train, difference, drawn_cases

pytestmark = pytest.mark.burn_train


def test_metrics_stopping_and_checkpoints_are_burns() -> None:
    cases = drawn_cases(random_of("burn-train"), 60, 60, 200)
    wrong = [it for case, answer in zip(cases, ask_train(cases), strict=True) if (it := difference(case, answer))]
    assert not wrong, f"{len(wrong)} of {len(cases)}:\n" + "\n".join(wrong[:10])
