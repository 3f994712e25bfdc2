"""A data set whose parts are changed by the transforms of a config."""

from collections.abc import Mapping, Sequence
from typing import Any

from ...config import TransformConfig
from ..dataset import Dataset
from ..sources.splits import classes_of
from .mixing import MixedDataset


class TransformedData:
    """A data set whose parts were changed; everything else is as it was.

    Attributes:
        train: the items to train on.
        valid: the items to validate on.
        splits: further parts by name.
    """

    def __init__(self, data: Any, transforms: Sequence[TransformConfig]) -> None:
        self._data = data
        self.train = _changed(data.train, transforms, "train")
        if isinstance(self.train, MixedDataset):
            self.train.expect(classes_of(data), data.batcher)
        self.valid = measured(data.valid, transforms)
        parts: Mapping[str, Dataset[Any]] = getattr(data, "splits", {})
        self.splits = {name: measured(part, transforms) for name, part in parts.items()}

    def __getattr__(self, name: str) -> Any:
        if name == "_data":  # of a copy that is being made
            raise AttributeError(name)
        return getattr(self._data, name)


def transformed(data: Any, transforms: Sequence[TransformConfig]) -> Any:
    """Apply transforms, in their order, to the data of a config.

    Args:
        data: has `train` and `valid`, and may have `splits`.
        transforms: each for the parts that it names.

    Raises:
        BurnlikeError: one does not fit the data.
    """
    return TransformedData(data, transforms) if transforms else data


def measured(dataset: Any, transforms: Sequence[TransformConfig]) -> Any:
    """A part of a data set as a model is measured on it and predicts it: changed by the transforms of `valid` alone,
    also where it is the part to train on.
    """
    return _changed(dataset, transforms, "valid")


def _changed(dataset: Any, transforms: Sequence[TransformConfig], part: str) -> Any:
    for transform in sorted(transforms, key=lambda it: getattr(it, "is_of_batches", False)):
        if part in transform.parts:
            dataset = transform.init(dataset)
    return dataset
