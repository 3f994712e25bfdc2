"""SafetensorsRecorder: records as plain safetensors files, converted while they are written."""

import os
from collections.abc import Mapping
from typing import Any, Literal

from torch import Tensor

from ...errors import ArgumentError
from ..bytes.budget import Budget
from ..bytes.source import FileSource
from ..files.reading import INDEX_SUFFIX, divide, find_record, read_sharded, read_source, single_path
from ..formats import Format, Outline
from ..precision import PrecisionRule
from ..record import Record, record_of
from ..recorder import FileRecorder, with_extension
from ..saving.shard_set import replace_set
from ..saving.writing import write_file
from .format import SAFETENSORS, SAFETENSORS_ALL_NAMES


class SafetensorsRecorder(FileRecorder):
    """Writes and reads records as safetensors files, which every safetensors reader opens.

    Ids, aliases of tied tensors and plain values are JSON in the file's metadata. Files of other programs load too.

    Args:
        precision: types to store in; None stores each tensor as it is.
        shard_bytes: a record whose tensors take more is divided among several files, of at most so much each (a larger
            tensor is alone), with an index beside them as Hugging Face lays it out. Then `save` takes a directory
            (made if it is missing), in which it writes `model.safetensors` or `model.safetensors.index.json`, or the
            path of either; and it replaces what is there, single file or set of files, as a whole or not at all.
        ties: how often a tied tensor is stored: "once", or under "all" its names, for readers that know no ties, as
            Burn's SafetensorsStore. It is one tensor again when burnlike reads the file.

    Raises:
        ArgumentError: shard_bytes is not a positive whole number, or there is one with ties="all".

    Example:
        >>> import tempfile, torch
        >>> from burnlike.record import BFloat16Precision, Record, SafetensorsRecorder
        >>> record = Record(tensors={"weight": torch.ones(2, 3)}, values={"step": 7})
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     _ = SafetensorsRecorder(BFloat16Precision).save(record, f"{folder}/model")
        ...     loaded = SafetensorsRecorder().load(f"{folder}/model.safetensors")
        >>> loaded.tensors["weight"].dtype, loaded.values
        (torch.bfloat16, {'step': 7})
    """

    format: Format = SAFETENSORS

    def __init__(
        self,
        precision: PrecisionRule | None = None,
        shard_bytes: int | None = None,
        ties: Literal["once", "all"] = "once",
    ) -> None:
        super().__init__(precision)
        if ties not in ("once", "all") or (ties == "all" and shard_bytes is not None):
            raise ArgumentError(f"ties: expected 'once', or without shard_bytes 'all', got {ties!r}")
        if ties == "all":
            self.format = SAFETENSORS_ALL_NAMES
        if shard_bytes is not None and (type(shard_bytes) is not int or shard_bytes < 1):
            raise ArgumentError(
                f"shard_bytes: expected a positive whole number of bytes, as 5_000_000_000, got {shard_bytes!r}"
            )
        self.shard_bytes = shard_bytes

    def load(self, path: str | os.PathLike[str], layout: Any = None) -> Record:
        """Open the record at `path`; its tensors are read when they are asked for.

        Args:
            path: the file, whose name may lack the extension; or, of a record that is divided among files, the name
                that its single file would have, its index, or its directory.

        Raises:
            RecordIOError: a file can't be read.
            RecordFormatError: it is damaged, truncated, or no safetensors file; or the files are not of one set.
        """
        place = find_record(path if os.path.exists(path) else with_extension(path, self.format.extension))
        if not place.endswith(INDEX_SUFFIX):
            return super().load(place, layout)

        def read(shard: str, budget: Budget) -> Outline:
            return read_source(FileSource(shard, budget), self.format, ends=False)[1]

        return record_of(*read_sharded(place, read))

    def _target(self, path: str | os.PathLike[str]) -> str:
        return super()._target(path) if self.shard_bytes is None else single_path(path)

    def _save(self, outline: Outline, tensors: Mapping[str, Tensor], target: str) -> str:
        if self.shard_bytes is None:
            return super()._save(outline, tensors, target)

        def write(path: str, shard: Outline, like: str | None) -> None:
            write_file(path, self.format, shard, tensors, self._allow_overflow, like)

        return replace_set(target, divide(outline, self.shard_bytes), write)
