"""Tags of words, and the spans that they mark; needs neither torch nor torchmetrics."""

from collections.abc import Sequence
from typing import NamedTuple

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
    found: list[Span] = []
    before, start = ("", ""), 0
    for place, tag in enumerate([*tags, OUTSIDE]):
        mark, label = _parts(tag)
        continues = mark in ("I", "E") and before[0] in ("B", "I") and before[1] == label
        if before[0] and not continues:
            found.append(Span(before[1], start, place))
        if mark and not continues:
            start = place
        before = (mark, label)
    return found


def _parts(tag: str) -> tuple[str, str]:
    """The mark and the label of a tag; both empty for none."""
    if tag == OUTSIDE:
        return "", ""
    mark, dash, label = tag.partition("-")
    return (mark, label) if dash and mark in _MARKS and mark else ("I", tag)
