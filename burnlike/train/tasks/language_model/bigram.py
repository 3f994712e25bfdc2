"""The bigram table: a baseline for language models."""

from typing import NamedTuple

import torch
from torch import Tensor

ALPHAS = (0.001, 0.003, 0.01, 0.03, 0.1, 0.3, 1.0, 3.0)
_CHUNK = 1 << 24


class BigramLoss(NamedTuple):
    """Loss of a bigram table, in nats per token, and the smoothing that gave it."""

    loss: float
    alpha: float
    vocab_size: int = 256


def bigram_loss(train: Tensor, valid: Tensor, vocab_size: int = 256) -> BigramLoss:
    """Cross-entropy on `valid` of a table p(next | token) that was counted on `train`, with add-alpha smoothing.

    p(b | a) = (n(a, b) + alpha) / (n(a) + alpha * vocab_size). Of several alphas the one that is best on `valid` is
    taken, which favours the table.

    Args:
        train: `[n]` tokens, any integer dtype.
        valid: `[m]` tokens, m >= 2.
        vocab_size: number of different tokens.
    """
    counts, wanted = _count_pairs(train, vocab_size), _count_pairs(valid, vocab_size)
    totals = counts.sum(1, keepdim=True)

    def loss(alpha: float) -> float:
        log_probabilities = ((counts + alpha) / (totals + alpha * vocab_size)).log()
        return -(wanted * log_probabilities).sum().item() / wanted.sum().item()

    return min(BigramLoss(loss(alpha), alpha, vocab_size) for alpha in ALPHAS)


def _count_pairs(tokens: Tensor, vocab_size: int) -> Tensor:
    """`[vocab_size, vocab_size]` float64: how often the second token follows the first."""
    counts = torch.zeros(vocab_size * vocab_size, dtype=torch.int64)
    for start in range(0, len(tokens) - 1, _CHUNK):
        piece = tokens[start : start + _CHUNK + 1].long()
        counts += torch.bincount(piece[:-1] * vocab_size + piece[1:], minlength=vocab_size * vocab_size)
    return counts.view(vocab_size, vocab_size).double()
