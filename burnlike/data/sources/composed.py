"""Several data sets as one."""

from collections.abc import Sequence
from typing import Any

from ...errors import DataError
from ..transforms.joining import ComposedDataset
from .splits import Splits


def composed(parts: Sequence[Any]) -> Splits:
    """The data sets that configs have made, one after the other.

    Raises:
        DataError: their classes differ, or what makes their batches.
    """
    classes = [classes_of(it) for it in parts]
    batchers = [type(it.batcher) for it in parts]
    for place, (its_classes, batcher) in enumerate(zip(classes, batchers, strict=True)):
        if its_classes != classes[0]:
            raise DataError(
                f"data.datasets.{place}: expected the classes of the first data set, {classes[0]}, got {its_classes}:"
                " their numbers would mean other things"
            )
        if batcher is not batchers[0]:
            raise DataError(
                f"data.datasets.{place}: expected data whose batches are made by {batchers[0].__name__}, as those of"
                f" the first data set, got {batcher.__name__}"
            )
    names = [name for it in parts for name in getattr(it, "splits", {})]
    splits = {name: [it.splits[name] for it in parts if name in getattr(it, "splits", {})] for name in names}
    train = ComposedDataset([it.train for it in parts])
    return Splits(
        train,
        ComposedDataset([it.valid for it in parts]),
        batcher=parts[0].batcher,
        splits={name: ComposedDataset(some) for name, some in splits.items()},
        fingerprint=lambda: train.fingerprint,
    )


def classes_of(data: Any) -> list[str] | None:
    """The names of the classes, of the data or of the innermost data set that its items come from."""
    while True:
        if (found := getattr(data, "classes", None)) is not None:
            return list(found)
        data = getattr(data, "train", None) or getattr(data, "dataset", None)
        if data is None:
            return None
