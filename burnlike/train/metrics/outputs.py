"""Outputs of classifiers: logits as probabilities, and tags of words as spans; torchmetrics is not loaded for them."""

from collections.abc import Sequence
from typing import NamedTuple

from torch import Tensor
from torch.nn import functional

OUTSIDE = "O"
"""The tag of a word that is in no span."""
_MARKS = "BIES"


class Span(NamedTuple):
    """Tokens with one label.

    Attributes:
        label: of all of them, without a mark.
        start: the first token.
        end: behind the last token.
    """

    label: str
    start: int
    end: int


def spans_of(tags: Sequence[str]) -> list[Span]:
    """The spans of a sequence's tags, read as conlleval and seqeval do: by `B-`, `I-`, `E-` and `S-` before a label, or
    without marks, where neighbours of one label are one span. `O` is no span.
    """
    spans: list[Span] = []
    before, start = ("", ""), 0
    for place, tag in enumerate([*tags, OUTSIDE]):
        mark, label = _parts(tag)
        continues = mark in ("I", "E") and before[0] in ("B", "I") and before[1] == label
        if before[0] and not continues:
            spans.append(Span(before[1], start, place))
        if mark and not continues:
            start = place
        before = (mark, label)
    return spans


def _parts(tag: str) -> tuple[str, str]:
    """The mark and the label of a tag; both empty for none."""
    if tag == OUTSIDE:
        return "", ""
    mark, dash, label = tag.partition("-")
    return (mark, label) if dash and mark in _MARKS and mark else ("I", tag)


def as_probabilities(logits: Tensor, is_exclusive: bool) -> Tensor:
    """The probabilities `[n, classes]` of logits, float64, as `predict` writes them: by softmax where an item has one
    class of several, else by the sigmoid.
    """
    exact = logits.detach().double()
    return exact.softmax(1) if is_exclusive and exact.shape[1] > 1 else exact.sigmoid()


def with_both_classes(logits: Tensor) -> Tensor:
    """Logits `[n, classes]`; a single column says how likely class 1 is, beside class 0 with a logit of 0: `[n, 2]`."""
    return functional.pad(logits, (1, 0)) if logits.shape[1] == 1 else logits
