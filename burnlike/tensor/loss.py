"""Losses."""

from ..errors import TensorValueError
from .core.base import B2, E, FloatLike, Tensor, like
from .core.kinds import D1, Float
from .core.operands import computed, float_spec, inner_as


def cross_entropy_with_logits(
    logits: "Tensor[B2, E, Float]", target_probs: "FloatLike[B2, E]"
) -> "Tensor[B2, D1, Float]":
    """Minus the mean over all rows of sum(log_softmax(logits) * target_probs). `[.., classes], same -> [1]`.
    Torch: `F.cross_entropy(logits, target_probs)`. Differs: classes are the last dimension (torch: dimension 1).
    """
    name = "cross_entropy_with_logits"
    spec = float_spec(name, logits)
    probs = inner_as(name, target_probs, spec)
    if probs.shape != logits.inner.shape:
        raise TensorValueError(
            "Cross Entropy With Logits",
            f"expected target_probs of the logits' shape {list(logits.inner.shape)}, got {list(probs.shape)}",
        )
    return like(computed(name, spec.module.cross_entropy_with_logits, logits.inner, probs), spec.ranks[1])
