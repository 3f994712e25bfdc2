"""Data sets of Hugging Face's `datasets`, from the disk."""

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch

from ..._regular_file import read_regular, regular_size
from ...errors import DataError, nearest
from ..dataset import FileFingerprint, Fingerprint, Fingerprinted
from .configs import HuggingFaceConfig
from .rows import class_names
from .splits import Splits, existing, named_parts, split
from .table_cells import LARGEST


class HuggingFaceDataset(Fingerprinted):
    """Rows of a `datasets.Dataset`, with tensors for numbers and for images, which are in 0..1.

    Items are mappings of the columns, or with two chosen columns pairs. A value that is missing or larger than float32
    holds, or an image that has not 8 bits a channel, is a DataError.
    """

    draws = False

    def __init__(self, dataset: Any, columns: Sequence[str] = (), fingerprint: Fingerprint = None) -> None:
        """Take a data set.

        Args:
            dataset: a `datasets.Dataset`.
            columns: those to take; none: all.
            fingerprint: a hash of the data, by which a loader's saved position knows it again.

        Raises:
            DataError: a column is missing.
        """
        missing = [name for name in columns if name not in dataset.column_names]
        if missing:
            hint = nearest(missing[0], dataset.column_names) or f"; there are {', '.join(dataset.column_names)}"
            raise DataError(f"there is no column '{missing[0]}'{hint}")
        self.columns = list(columns)
        self.images = [name for name, feature in dataset.features.items() if type(feature).__name__ == "Image"]
        self.dataset = dataset.with_format("torch", columns=self.columns or None)
        self.fingerprint = fingerprint

    @property
    def classes(self) -> list[str] | None:
        """The names of the classes, where the second of two columns, or else `labels`, is a ClassLabel."""
        names = class_names(self.dataset.features).get(self.columns[1] if len(self.columns) == 2 else "labels")
        return None if names is None else list(names)

    def __len__(self) -> int:
        return len(self.dataset)

    def __getitem__(self, index: int, /) -> Any:
        """The row at `index`."""
        row = self.dataset[index]
        for name, value in row.items():
            is_tensor = isinstance(value, torch.Tensor)
            if value is None or (is_tensor and value.isnan().any()):
                raise DataError(f"row {index}, column '{name}': expected a value, got none, or NaN")
            if is_tensor and value.is_floating_point() and value.isinf().any():
                raise DataError(
                    f"row {index}, column '{name}': expected a number up to {LARGEST:.3g}, the largest of float32, got"
                    " a larger one, or infinity"
                )
            if name in self.images:
                if not is_tensor or value.dtype != torch.uint8:
                    got = value.dtype if is_tensor else type(value).__name__
                    raise DataError(f"row {index}, column '{name}': expected an image of 8 bits a channel, got {got}")
                row[name] = value.float() / 255
        return (row[self.columns[0]], row[self.columns[1]]) if len(self.columns) == 2 else row


def hugging_face(config: HuggingFaceConfig) -> Splits:
    path = existing(config.path, "data.path", "directory")
    saved = opened(path)
    is_one = not isinstance(saved, dict)
    parts = {"": saved} if is_one else {str(name): value for name, value in saved.items()}
    files = {
        f"{name}/{place}": Path(file["filename"])
        for name, part in parts.items()
        for place, file in enumerate(part.cache_files)
    }
    facts = {name: value for name, value in config.to_dict().items() if name != "path"}
    fingerprint = FileFingerprint(files, facts)
    for name, part in parts.items():
        try:
            parts[name] = HuggingFaceDataset(part, config.columns, fingerprint)
        except DataError as error:
            raise DataError(f"{path / name}: {error}") from error
    if is_one:
        train, valid = split(parts[""], config.validation_fraction, config.split_seed, config.path)
        return Splits(train, valid, fingerprint=fingerprint)
    train, valid, rest = named_parts(config, parts, path)
    if valid is None:
        train, valid = split(train, config.validation_fraction, config.split_seed, config.path)
    return Splits(train, valid, splits=rest, fingerprint=fingerprint)


def opened(path: Path) -> Any:
    """Open a directory of `save_to_disk`: a `Dataset`, or a `DatasetDict`, which is a dict of them."""
    try:
        import datasets
    except ImportError as error:
        raise DataError(
            f"{path}: data of Hugging Face needs the package datasets: pip install 'burnlike[datasets]'"
        ) from error
    try:
        for file in path.rglob("*"):
            if not file.is_dir():
                regular_size(file)  # a pipe would be waited for
            if file.name == "state.json":
                # A part without rows can't be loaded; one whose files lie elsewhere is refused.
                names = [it["filename"] for it in json.loads(read_regular(file))["_data_files"]]
                if not names:
                    raise DataError(f"{file.parent} has no rows")
                for name in names:
                    if name != Path(name).name:
                        raise DataError(f"{file} names a file outside of its folder, '{name}'")
        return datasets.load_from_disk(str(path))
    except DataError:
        raise
    except Exception as error:  # damaged files make exceptions of many kinds
        raise DataError(f"{path}: expected a folder that `save_to_disk` of datasets has written: {error}") from error
