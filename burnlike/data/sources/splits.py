"""Splits: a data set in parts, as a training job takes it; described, changed by transforms, and several as one.

`burnlike data` prints the description: numbers of items and classes, lengths, and items as text.
"""

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from types import MappingProxyType
from typing import Any, Literal, NamedTuple, TypeVar

import torch
from torch import Tensor

from ...config import TransformConfig
from ...errors import DataError
from ..dataset import Dataset, Fingerprint, Fingerprinted, kind_of_batches
from ..transforms.datasets import ComposedDataset, MixedDataset, SelectionDataset

MASKED, UNMASKED = "\x0e", "\x0f"
"""Around text that a training has no loss on; a terminal shows it grey."""

_COUNTED_ITEMS = 200_000
_SHOWN_NAMES = 20
_SHOWN_NUMBERS = 8
_BARS = " ▁▂▃▄▅▆▇█"
_BINS = 20


def described(data: Any, targets: Sequence[int] | None = None) -> list[str]:
    """Lines about any data set: the items of each part, and how many of them each class has.

    Args:
        targets: all labels of the items to train on, where these have not one class each.
    """
    lines = ["items     " + ", ".join(f"{len(part):,} {name}" for name, part in parts_of(data).items())]
    if (size := getattr(data, "vocab_size", None)) is not None:
        lines.append(f"tokens    {size:,} different ones")
    if (names := getattr(data, "classes", None)) is not None:
        targets = targets_of(data.train) if targets is None else targets
        counts = None if targets is None else Counter(targets)
        shown_names = [f"{name} {counts[number]:,}" if counts else str(name) for number, name in enumerate(names)]
        more = f", ... ({len(names)} in all)" if len(names) > _SHOWN_NAMES else ""
        lines.append(f"classes   {', '.join(shown_names[:_SHOWN_NAMES])}{more}")
    return lines


def parts_of(data: Any) -> dict[str, Any]:
    """The parts of the data of a config by their names; a DataError if it has none, as a class of one's own made it."""
    if not (hasattr(data, "train") and hasattr(data, "valid")):
        raise DataError(f"expected Splits(train, valid) from init() of the data's config, got {type(data).__name__}")
    return {"train": data.train, "valid": data.valid, **getattr(data, "splits", {})}


def targets_of(dataset: Any) -> list[int] | None:
    """The classes of items that are pairs with a tensor of one whole number; None where they are none, or too many."""
    if len(dataset) > _COUNTED_ITEMS or (targets := getattr(dataset, "targets", None)) is None:
        return None
    numbers = torch.as_tensor(targets)
    return numbers.tolist() if numbers.dim() == 1 and not numbers.is_floating_point() else None


def shown(item: Any) -> str:
    """An item on one line: small tensors by their values, others by their shapes."""
    if isinstance(item, Tensor):
        if item.numel() <= _SHOWN_NUMBERS:
            return str(item.tolist())
        low, high = (f"{it:.4g}" for it in (item.min().item(), item.max().item()))
        return f"{str(item.dtype).removeprefix('torch.')}{list(item.shape)} in {low}..{high}"
    if isinstance(item, Mapping):
        return ", ".join(f"{name}: {shown(value)}" for name, value in item.items())
    if isinstance(item, tuple | list) and not all(isinstance(it, int | float | str) for it in item):
        return "; ".join(shown(it) for it in item)
    return repr(item)


def marked_text(tokens: Tensor, has_loss: Sequence[bool], decode: Callable[[Tensor], str]) -> str:
    """The text of tokens `[n]`, with what has no loss between `MASKED` and `UNMASKED`."""
    pieces, begin = [], 0
    for place in range(1, len(tokens) + 1):
        if place == len(tokens) or has_loss[place] != has_loss[begin]:
            text = decode(tokens[begin:place])
            pieces.append(text if has_loss[begin] else f"{MASKED}{text}{UNMASKED}")
            begin = place
    return "".join(pieces)


def histogram(values: Sequence[float]) -> list[str]:
    """Least, median, 95th percentile and largest of some numbers, and a row of bars between the least and largest."""
    numbers = torch.as_tensor(values).double()
    low, middle, high, top = (float(it) for it in numbers.quantile(torch.tensor([0, 0.5, 0.95, 1]).double()))
    counts = torch.histc(numbers, bins=_BINS, min=low, max=max(top, low + 1)).tolist()
    scale = (len(_BARS) - 1) / max(counts)
    bars = "".join(_BARS[max(round(count * scale), 1) if count else 0] for count in counts)
    return [f"min {low:,.0f}, median {middle:,.0f}, 95 % up to {high:,.0f}, max {top:,.0f}", bars]


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
        files: files and directories that a run keeps a copy of, such as a tokenizer, or contents, by their names there.
    """

    classes: Sequence[str] | None = None
    facts: Mapping[str, Any] = MappingProxyType({})
    files: Mapping[str, Path | bytes] = MappingProxyType({})

    def __init__(
        self,
        train: Dataset[Any],
        valid: Dataset[Any],
        batcher: Any = None,
        splits: Mapping[str, Dataset[Any]] | None = None,
        fingerprint: Fingerprint = None,
        classes: Sequence[str] | None = None,
        facts: Mapping[str, Any] | None = None,
        files: Mapping[str, Path | bytes] | None = None,
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


Part = TypeVar("Part")


def named_parts(config: Any, parts: Mapping[str, Part], where: object) -> tuple[Part, Part | None, dict[str, Part]]:
    """The part to train on, the one to validate on, if there is one, and the others, by the names in a config.

    Args:
        where: what the parts are of, for the DataError that says that there is none to train on.
    """
    rest = dict(parts)
    if config.train_split not in rest:
        raise DataError(f"{where}: there is no part '{config.train_split}'; it has {', '.join(rest)}")
    return rest.pop(config.train_split), rest.pop(config.valid_split, None), rest


def drawn(count: int, fraction: float, seed: int) -> tuple[list[int], list[int]]:
    """The indices to train on, and those to validate on, at least one; each in their order."""
    n_valid = max(1, round(count * fraction))
    order = torch.randperm(count, generator=torch.Generator().manual_seed(seed)).tolist()
    return sorted(order[n_valid:]), sorted(order[:n_valid])


def visible(root: Path, pattern: str = "**/*", *, hidden: tuple[str, ...] = (".",)) -> list[Path]:
    """The paths below a directory that fit a pattern, sorted; none of which a part begins as hidden ones do."""
    below = (it for it in root.glob(pattern) if not any(part.startswith(hidden) for part in it.relative_to(root).parts))
    return sorted(below)


def existing(path: str, field_name: str, kind: Literal["file", "directory", "any"]) -> Path:
    """The path of a regular file or of a directory, `~` expanded; `any` may be anything that is there."""
    expanded = Path(path).expanduser()
    if not expanded.exists():
        raise DataError(f"{field_name}: there is no file or directory {expanded.absolute()}; check the path")
    if kind != "any" and not (expanded.is_file() if kind == "file" else expanded.is_dir()):
        wanted = "regular file" if kind == "file" else kind
        raise DataError(f"{field_name}: expected a {wanted}, got {expanded.absolute()}, which is none")
    return expanded


def composed(parts: Sequence[Any]) -> Splits:
    """The data sets that configs have made, one after the other."""
    classes = [classes_of(part) for part in parts]
    batches = [kind_of_batches(part.batcher) for part in parts]
    for place, (its_classes, its_batches) in enumerate(zip(classes, batches, strict=True)):
        if its_classes != classes[0]:
            raise DataError(
                f"data.datasets.{place}: expected the classes of the first data set, {classes[0]}, got {its_classes}:"
                " their numbers would mean other things"
            )
        if its_batches != batches[0]:
            raise DataError(
                f"data.datasets.{place}: expected data whose batches are {batches[0]}, as those of the first data set,"
                f" got {its_batches}"
            )
    learned: list[Mapping[str, Any]] = [getattr(part, "facts", {}) for part in parts]
    features = [(it.get("columns"), it.get("target_scale")) for it in learned]
    if wrong := [place for place, feature in enumerate(features) if feature != features[0]]:
        raise DataError(
            f"data.datasets.{wrong[0]}: expected the features of the first table: it has other columns, categories or"
            " means, which each table learns by itself; put the rows of both into one file, or leave such rules out"
        )
    names = [name for part in parts for name in getattr(part, "splits", {})]
    splits = {name: [part.splits[name] for part in parts if name in getattr(part, "splits", {})] for name in names}
    train = ComposedDataset([part.train for part in parts])
    return Splits(
        train,
        ComposedDataset([part.valid for part in parts]),
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


class TransformedData:
    """A data set whose parts were changed; everything else is as it was.

    Attributes:
        train: the items to train on.
        valid: the items to validate on.
        splits: further parts by name.
    """

    def __init__(self, data: Any, transforms: Sequence[TransformConfig]) -> None:
        self._data, parts = data, parts_of(data)
        self.train = _changed(parts.pop("train"), transforms, "train")
        if isinstance(self.train, MixedDataset):
            self.train.expect(classes_of(data), data.batcher)
        self.valid = measured(parts.pop("valid"), transforms)
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
        BurnlikeError: one does not fit the data, or the data has no parts.
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
