"""What logits of classes mean, for tasks and for metrics."""

from torch import Tensor
from torch.nn import functional


def as_probabilities(logits: Tensor, is_exclusive: bool) -> Tensor:
    """The probabilities `[n, classes]` of logits, float64, as `predict` writes them: by softmax where an item has one
    class of several, else by the sigmoid.
    """
    exact = logits.detach().double()
    return exact.softmax(1) if is_exclusive and exact.shape[1] > 1 else exact.sigmoid()


def with_both_classes(logits: Tensor) -> Tensor:
    """Logits `[n, classes]`; a single column says how likely class 1 is, beside class 0 with a logit of 0: `[n, 2]`."""
    return functional.pad(logits, (1, 0)) if logits.shape[1] == 1 else logits
