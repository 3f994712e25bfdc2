"""The bigram table against counting by hand."""

import math
from collections import Counter
from itertools import pairwise

import pytest
import torch

from burnlike.train import bigram_loss
from burnlike.train.tasks.language_model import ALPHAS


def by_hand(train: list[int], valid: list[int], vocab_size: int, alpha: float) -> float:
    pairs, firsts = Counter(pairwise(train)), Counter(train[:-1])
    losses = [-math.log((pairs[a, b] + alpha) / (firsts[a] + alpha * vocab_size)) for a, b in pairwise(valid)]
    return sum(losses) / len(losses)


def test_loss_is_that_of_counting_by_hand_with_the_best_alpha() -> None:
    train, valid = torch.randint(0, 6, (500,)), torch.randint(0, 6, (80,))
    expected = {alpha: by_hand(train.tolist(), valid.tolist(), 6, alpha) for alpha in ALPHAS}
    found = bigram_loss(train.to(torch.uint8), valid.to(torch.uint8), vocab_size=6)
    assert found.alpha == min(expected, key=expected.__getitem__)
    assert found.loss == pytest.approx(expected[found.alpha], rel=1e-12)


def test_counting_in_pieces_loses_no_pair(monkeypatch: pytest.MonkeyPatch) -> None:
    train, valid = torch.randint(0, 256, (1000,)), torch.randint(0, 256, (50,))
    whole = bigram_loss(train, valid)
    monkeypatch.setattr("burnlike.train.tasks.language_model._CHUNK", 7)
    assert bigram_loss(train, valid) == whole


def test_a_text_that_repeats_itself_is_predicted_almost_surely() -> None:
    text = torch.tensor([0, 1, 2] * 1000)
    assert bigram_loss(text, text, vocab_size=3).loss < 1e-4
