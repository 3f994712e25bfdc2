"""Splits: a data set in parts, as a training job takes it."""

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch

from ...errors import DataError
from ..dataset import Dataset
from ..transforms.selection import SelectionDataset


@dataclass
class Splits:
    """What the config of a data set makes.

    Attributes:
        train: the items to train on.
        valid: the items to validate on.
        batcher: makes a batch; None is the loader's default.
        splits: further parts by name, which are evaluated at the end.
        fingerprint: a hash of the data, by which a resumed run knows it again.
    """

    train: Dataset[Any]
    valid: Dataset[Any]
    batcher: Any = None
    splits: Mapping[str, Dataset[Any]] = field(default_factory=dict)
    fingerprint: str | None = None


def split(dataset: Any, fraction: float, seed: int, name: str) -> tuple[SelectionDataset[Any], SelectionDataset[Any]]:
    """The items to train on and those to validate on, drawn by a seed; each part keeps the order of the items.

    Raises:
        DataError: there are too few items for two parts.
    """
    count = len(dataset)
    n_valid = max(1, round(count * fraction))
    if n_valid >= count:
        raise DataError(
            f"{name}: expected at least two items, some to train on and some to validate on, got {count} with"
            f" validation_fraction {fraction}"
        )
    order = torch.randperm(count, generator=torch.Generator().manual_seed(seed)).tolist()
    return SelectionDataset(dataset, sorted(order[n_valid:])), SelectionDataset(dataset, sorted(order[:n_valid]))


def fingerprint_of(files: Sequence[Path], *facts: Any) -> str:
    """A hash of the names, sizes and times of files, and of facts such as options."""
    digest = hashlib.sha256(repr(facts).encode())
    for file in files:
        status = file.stat()
        digest.update(f"{file.name} {status.st_size} {status.st_mtime_ns}\n".encode())
    return digest.hexdigest()


def existing(path: str, field_name: str) -> Path:
    """The path, `~` expanded.

    Raises:
        DataError: there is nothing.
    """
    found = Path(path).expanduser()
    if not found.exists():
        raise DataError(f"{field_name}: there is no file or directory {found.absolute()}; check the path")
    return found
