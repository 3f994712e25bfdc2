"""Splits: a data set in parts, as a training job takes it, and several data sets as one."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from types import MappingProxyType
from typing import Any, Literal

import torch

from ...errors import DataError
from ..dataset import Dataset, Fingerprint, Fingerprinted
from ..describing import described, shown
from ..transforms.datasets import ComposedDataset, SelectionDataset


class Splits(Fingerprinted):
    """The parts of a data set, as its config makes them.

    Attributes:
        train: the items to train on.
        valid: the items to validate on.
        batcher: makes a batch; None is the loader's default.
        splits: further parts by name, which are evaluated at the end.
        fingerprint: a hash of the data, by which a resumed run knows it again.
        classes: the names of the classes, where they are known and the items don't say them.
        facts: plain values that predictions need beside the config, such as the names of features.
        files: files and directories that a run keeps a copy of, such as a tokenizer, by their names there.
    """

    classes: Sequence[str] | None = None
    facts: Mapping[str, Any] = MappingProxyType({})
    files: Mapping[str, Path] = MappingProxyType({})

    def __init__(
        self,
        train: Dataset[Any],
        valid: Dataset[Any],
        batcher: Any = None,
        splits: Mapping[str, Dataset[Any]] | None = None,
        fingerprint: Fingerprint = None,
        classes: Sequence[str] | None = None,
        facts: Mapping[str, Any] | None = None,
        files: Mapping[str, Path] | None = None,
    ) -> None:
        self.train = train
        self.valid = valid
        self.batcher = batcher
        self.splits = dict(splits or {})
        self.fingerprint = fingerprint
        if classes is not None:
            self.classes = classes
        if facts is not None:
            self.facts = facts
        if files is not None:
            self.files = files

    def describe(self) -> list[str]:
        """Lines for a person about the data, for `burnlike data`; a kind of data that knows more than the numbers of
        items and of each class defines its own.
        """
        return described(self, self.labels())

    def labels(self) -> list[int] | None:
        """The numbers of all labels of the items to train on, where an item may have several; else None."""
        return None

    def examples(self, count: int) -> list[str]:
        """The first items to train on, as text; parts without loss are between `MASKED` and `UNMASKED`."""
        return [shown(self.train[index]) for index in range(min(count, len(self.train)))]


def split(dataset: Any, fraction: float, seed: int, name: str) -> tuple[SelectionDataset[Any], SelectionDataset[Any]]:
    """The items to train on and those to validate on, drawn by a seed; each part keeps the order of the items."""
    count = len(dataset)
    train, valid = drawn(count, fraction, seed)
    if not train:
        raise DataError(
            f"{name}: expected at least two items, some to train on and some to validate on, got {count} with"
            f" validation_fraction {fraction}"
        )
    return SelectionDataset(dataset, train), SelectionDataset(dataset, valid)


def drawn(count: int, fraction: float, seed: int) -> tuple[list[int], list[int]]:
    """The indices to train on, and those to validate on, at least one; each in their order."""
    n_valid = max(1, round(count * fraction))
    order = torch.randperm(count, generator=torch.Generator().manual_seed(seed)).tolist()
    return sorted(order[n_valid:]), sorted(order[:n_valid])


def existing(path: str, field_name: str, kind: Literal["file", "directory"]) -> Path:
    """The path of a regular file or of a directory, `~` expanded."""
    expanded = Path(path).expanduser()
    if not expanded.exists():
        raise DataError(f"{field_name}: there is no file or directory {expanded.absolute()}; check the path")
    if not (expanded.is_file() if kind == "file" else expanded.is_dir()):
        wanted = "regular file" if kind == "file" else kind
        raise DataError(f"{field_name}: expected a {wanted}, got {expanded.absolute()}, which is none")
    return expanded


def composed(parts: Sequence[Any]) -> Splits:
    """The data sets that configs have made, one after the other."""
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
    features = [getattr(it, "facts", {}).get("columns") for it in parts]
    if wrong := [place for place, it in enumerate(features) if it != features[0]]:
        raise DataError(
            f"data.datasets.{wrong[0]}: expected the features of the first table: it has other columns, categories or"
            " means, which each table learns by itself; put the rows of both into one file, or leave such rules out"
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
        facts=getattr(parts[0], "facts", None),
        files=getattr(parts[0], "files", None),
    )


def outputs_of(classes: Sequence[str] | None, facts: Mapping[str, Any]) -> Sequence[str] | None:
    """The names of what a model is to give for each item: classes, or else the numbers that the data is to be
    predicted as; None where neither is known.
    """
    return classes or [*(facts.get("targets") or ())] or None


def classes_of(data: Any) -> list[str] | None:
    """The names of the classes, of the data or of the innermost data set that its items come from; None for none."""
    while True:
        if (classes := getattr(data, "classes", None)) is not None:
            return list(classes) or None
        data = getattr(data, "train", None) or getattr(data, "dataset", None)
        if data is None:
            return None
