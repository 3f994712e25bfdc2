"""One file of a values file: read, compared and written again."""

import gzip
import json
import tempfile
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import msgspec
import torch

import burnlike.record
from burnlike.errors import RecordError
from burnlike.record import FileRecorder, Precision, Record
from burnlike.record.bytes.source import FileSource
from burnlike.record.formats import detect

from .folder import Golden
from .layouts import infer, layout_for
from .numbers import FLOATS, INTS
from .outcomes import CheckError, expect

_BURNPACK = {"ModuleRecord": "module", "OptimizerRecord": "optimizer", "LrSchedulerRecord": "scheduler"}
_NAMED = (".json", ".json.gz", ".mpk", ".mpk.gz", ".mpkbytes")


@dataclass(frozen=True)
class RecordFile:
    """A file that a values file lists.

    Attributes:
        golden: the values file.
        name: the file's name.
        recorder_text: what Burn wrote it with.
        precision: `full`, `half`, `double` or `as it is`.
    """

    golden: Golden
    name: str
    recorder_text: str
    precision: str

    @property
    def path(self) -> Path:
        """Where it is."""
        return self.golden.folder / self.name

    @property
    def stem(self) -> str:
        """The name without extensions; files of one stem hold the same record."""
        rest = self.name.removeprefix(self.golden.name)
        return self.golden.name + rest.partition(".")[0]

    @property
    def extension(self) -> str:
        """What follows the stem."""
        return self.name.removeprefix(self.stem)

    @property
    def is_end(self) -> bool:
        """Whether it was written at the end of a run."""
        return "end" in self.stem.removeprefix(self.golden.name).split("-")

    @property
    def kind(self) -> str:
        """`module`, `optimizer` or `scheduler`."""
        return _BURNPACK.get(self.recorder_text.removesuffix(" (burnpack)"), self.golden.kind)

    @property
    def is_in_memory(self) -> bool:
        """Whether Burn's recorder of it writes bytes, not files."""
        return self.recorder_text.endswith("BytesRecorder")

    def recorder(self, precision: Precision | None = None) -> FileRecorder:
        """The recorder of burnlike for it.

        Raises:
            CheckError: there is none.
        """
        text = self.recorder_text
        name = {"SafetensorsStore": "SafetensorsRecorder"}.get(text, text)
        if text.endswith(" (burnpack)") and text.removesuffix(" (burnpack)") in _BURNPACK:
            name = "BurnpackRecorder"
        recorder = getattr(burnlike.record, name, None)
        if recorder is None or name not in burnlike.record.__all__:
            raise CheckError(f"no recorder for {text!r}")
        return recorder(precision)

    @cached_property
    def record(self) -> Record:
        """The record in it.

        Raises:
            RecordError: it can't be read.
            CheckError: it is bincode, and nothing tells its layout.
        """
        if not self.recorder_text.startswith("Bin"):
            return self._load(None)
        layout = layout_for(self.golden.values)
        if layout is not None:
            try:
                return self._load(layout)
            except RecordError:  # an option of the config that the layouts don't know: the other files may tell
                if (found := self._inferred_layout()) is None:
                    raise
                return self._load(found)
        found = self._inferred_layout()
        expect(found is not None, "nothing tells its layout: no config that is known, no file with names beside it")
        return self._load(found)

    def _load(self, layout: Any) -> Record:
        if self.is_in_memory:
            return self.recorder().from_bytes(self.path.read_bytes(), layout)
        return self.recorder().load(self.path, layout)

    def _inferred_layout(self) -> Any:
        data = _plain(self.path.read_bytes())
        for extension in _NAMED:
            sibling = self.path.with_name(self.stem + extension)
            if sibling.exists():
                named = _plain(sibling.read_bytes())
                tree = json.loads(named) if ".json" in extension else msgspec.msgpack.decode(named)
                if (layout := infer(tree["item"], data)) is not None:
                    return layout
        return None

    def check_detected(self) -> None:
        """Check that the format is told by the file's content.

        Raises:
            CheckError: another one is found.
        """
        found, expected = detect(FileSource(self.path)).name, self.recorder().format.name
        expect(found == expected, f"taken for {found}, expected {expected}")

    def stored_precision(self) -> Precision | None:
        """Burn's settings of the file's precision; None where a file has none."""
        if self.precision not in FLOATS:
            expect(self.precision == "as it is", f"unknown precision {self.precision!r}")
            return None
        return Precision(FLOATS[self.precision], INTS[self.precision], allow_overflow=True)

    def check_rewritten(self, record: Record, precision: Precision | None = None) -> None:
        """Check that `record` makes the bytes of this file, compressed ones after decompression.

        Args:
            record: what is written, without a precision into a file, which is synced, and with one in memory.
            precision: what it is converted to.

        Raises:
            CheckError: it makes others.
        """
        recorder = self.recorder(precision)
        if self.is_in_memory or precision is not None:
            found = recorder.to_bytes(record)
        else:
            with tempfile.TemporaryDirectory() as folder:
                found = Path(recorder.save(record, Path(folder) / f"again{self.extension}")).read_bytes()
        found, expected = _plain(found), _plain(self.path.read_bytes())
        if found != expected:
            shared = zip(found, expected, strict=False)
            place = next((index for index, (one, other) in enumerate(shared) if one != other), len(expected))
            here = slice(max(place - 8, 0), place + 24)
            raise CheckError(
                f"other bytes: {len(found)}, expected {len(expected)}; from byte {place} on {found[here]!r}, expected"
                f" {expected[here]!r}"
            )


def files_of(golden: Golden) -> list[RecordFile]:
    """The files that a values file lists."""
    return [RecordFile(golden, it["file"], it["recorder"], it["precision"]) for it in golden.values["files"]]


def wide_sibling(file: RecordFile, files: list[RecordFile]) -> RecordFile | None:
    """The file of full precision that has the same record in the same format."""
    stem = f"{file.stem.removesuffix(file.precision)}full"
    return next((it for it in files if it.precision == "full" and it.name == stem + file.extension), None)


def leaves_of(record: Record) -> Iterator[tuple[str, Any]]:
    """Every plain value of a record with its path."""
    yield from _leaves(record.values, "")


def _leaves(values: Any, path: str) -> Iterator[tuple[str, Any]]:
    items = values.items() if isinstance(values, Mapping) else enumerate(values) if isinstance(values, list) else None
    if items is None:
        yield path, values
        return
    for name, below in items:
        yield from _leaves(below, f"{path}/{name}")


def check_same_content(found: Record, expected: Record) -> None:
    """Check that two records hold the same tensors, values and ids.

    Raises:
        CheckError: they don't.
    """
    expect(
        set(found.tensors) == set(expected.tensors), f"the tensors {sorted(set(found.tensors) ^ set(expected.tensors))}"
    )
    for name in expected.tensors:
        one, other = found.tensors[name], expected.tensors[name]
        expect(one.dtype == other.dtype and torch.equal(one, other), f"'{name}' differs")
    expect(
        dict(leaves_of(found)) == dict(leaves_of(expected)), f"the values {found.values}, expected {expected.values}"
    )
    expect(dict(found.ids) == dict(expected.ids), "the ids differ")


def _plain(data: bytes) -> bytes:
    return gzip.decompress(data) if data[:2] == b"\x1f\x8b" else data
