"""Unlabeled: new inputs for predictions, read as the data of a training."""

from collections.abc import Sequence
from typing import Any, NamedTuple

from ..dataset import Dataset


class Unlabeled(NamedTuple):
    """Items without targets.

    Attributes:
        dataset: items of the training's form, with a placeholder for the target.
        names: of the items: a file, or a file and a line.
        batcher: makes a batch; None is the loader's default.
    """

    dataset: Dataset[Any]
    names: Sequence[str]
    batcher: Any = None
