"""Bincode: records without names, as Burn 0.21 writes them; a layout says what is where. Imports no torch.

https://git.sr.ht/~stygianentity/bincode/tree/v2.0.1/item/docs/spec.md, standard configuration: whole numbers are
little-endian, short ones in one byte.
"""

import struct
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import replace
from itertools import groupby
from typing import Any

from ...errors import RecordError, RecordFormatError
from ..bytes.source import Cursor, Source
from ..layout import LAYOUTS, WRITTEN, BurnVersion, Layout, LayoutOf, check_layout, holds_states, known_layout
from ..outline import Outline, Payload, Segment
from ..values import ENTRY
from .bincode_reader import read_item, take_envelope, version_of
from .envelope import KEYS, EnvelopeFormat, metadata_of, no_text, told_states
from .layout_filler import LayoutFiller
from .state_layouts import states_before
from .tensor_collector import dtype_bytes, with_ids_of_clones

_BINCODE = "::Bin"  # in what files say of their recorder
_REMEDY = (
    "bincode carries no names: give the layout, that of a module (burnlike.record.layout_of; burnlike.record.load takes"
    " it by itself) or one declared as data, see burnlike.record.layout"
)


class Bincode(EnvelopeFormat):
    """See `burnlike.record.formats.Format`."""

    has_names = False

    def segments(self, outline: Outline) -> Iterator[Segment]:
        """The envelope's texts and the record by its layout."""
        outline = with_ids_of_clones(outline)
        entries = [name for name, value in outline.values.items() if isinstance(value, dict) and ENTRY in value]
        if entries:
            raise RecordError(
                f"bincode has no place for {', '.join(map(repr, entries[:5]))}, which the module's own code saves; save"
                " it as .mpk, .json or .safetensors"
            )
        layout = known_layout(outline.layout)
        if layout is None:
            raise RecordError(f"the record has no layout; {_REMEDY}")
        check_layout(layout)
        metadata, version = metadata_of(outline, self.recorder), WRITTEN
        if not isinstance(outline.layout, LayoutOf) and _BINCODE in str(outline.metadata.get("format")):
            metadata["version"] = str(outline.metadata["version"])  # of the file, whose layout the record has
            version = version_of(metadata["version"], "the record")
        fill = LayoutFiller(outline)
        segments = [b"".join(_text(metadata[key]) for key in KEYS), *_write(fill, layout, "", version)]
        fill.check_tensors()
        left = [name for name in fill.unplaced() if name not in ("paths", LAYOUTS)]  # of optimizers: only ids
        if left:
            raise RecordError(
                f"the record's layout has no place for its values {', '.join(map(repr, left[:5]))}, and bincode none"
                " beside it; save it as .mpk, .json or .safetensors"
            )
        for plain, group in groupby(segments, lambda segment: isinstance(segment, bytes)):
            if plain:
                yield b"".join(group)  # pyright: ignore[reportArgumentType, reportCallIssue]
            else:
                yield from group

    def read(self, source: Source, layout: object = None) -> Outline:
        """The record by its layout; the outline's layout says which options, variants and lengths the file has.

        Bytes behind the record are refused, although Burn reads past them: nothing else shows that the layout is that
        of a similar, smaller model.
        """
        cursor = Cursor(source)
        metadata = take_envelope(cursor)
        known = known_layout(layout, version_of(metadata["version"], source.path))
        if known is None:
            raise RecordError(f"{source.path}: {_REMEDY}")
        layouts = known if isinstance(known, tuple) else (known,)
        outline = _read_by_one_of(source, cursor.position, layouts, metadata["version"])
        states = told_states(outline)
        return replace(outline, states=states, metadata=metadata, format=self.name, version=metadata["version"])


def _read_by_one_of(source: Source, start: int, layouts: tuple[Layout, ...], version: str) -> Outline:
    """The record by the first of the layouts that fits it; the last one says what is wrong."""
    for layout in layouts[:-1]:
        with suppress(RecordFormatError):
            return _read(Cursor(source, start), layout, version)
    return _read(Cursor(source, start), layouts[-1], version)


def _read(cursor: Cursor, layout: Layout, version: str) -> Outline:
    """The record from the cursor to the end of the file, which a version of Burn wrote."""
    check_layout(layout)
    of_another = f"the layout is that of another model (Burn {version} wrote it)"
    numbers = version_of(version, cursor.source.path)
    try:
        outline = read_item(cursor, states_before(layout, numbers) if holds_states(layout) else layout, numbers)
    except RecordFormatError as error:
        if "layout" in str(error):
            raise
        raise RecordFormatError(f"{error}; or {of_another}") from error
    if not cursor.at_end():
        raise RecordFormatError(
            f"{cursor.source.path}: bytes lie behind the record, at byte {cursor.position}; the file is damaged, or"
            f" {of_another}"
        )
    return outline


def _write(fill: LayoutFiller, layout: Layout, path: str, version: BurnVersion) -> Iterator[Segment]:
    if isinstance(layout, str):
        yield from _leaf(fill, layout, path, version)
        return
    tag, head, parts = fill.parts(layout, path)
    match tag:
        case "$option":
            yield bytes([head])
        case "$vec" | "$map":
            yield encoded(len(parts))
        case "$enum":
            yield encoded(head)
        case "$state":
            yield b"\0" + encoded(head)  # versioned: V1 is the first
        case "$named":
            raise RecordError(f"the layout of '{path}' is that of a file with names ($named); {_REMEDY}")
    for name, below, at in parts:
        if tag == "$map":
            yield _text(name)
        yield from _write(fill, below, at, version)


def _leaf(fill: LayoutFiller, leaf: str, path: str, version: BurnVersion) -> Iterator[Segment]:
    if leaf in ("param", "tensor"):
        name = fill.tensor(path)
        if leaf == "param":
            param_id = fill.outline.ids.get(name)
            if param_id is None:
                raise RecordError(
                    f"'{name}' has no ParamId, without which Burn reads no parameter; load the record into a"
                    " module and save that"
                )
            yield _text(str(param_id))
        entry = fill.outline.entries[name]
        yield encoded(entry.nbytes)
        yield Payload(name)
        shape = encoded(len(entry.shape)) + b"".join(map(encoded, entry.shape))
        yield shape + dtype_bytes(entry.dtype, name, version)
    elif leaf == "constant":
        yield b"\0"
    elif leaf != "unit":
        yield _scalar(leaf, fill.value(path, leaf), path)


def encoded(number: int) -> bytes:
    """The bytes of a number from 0 to 2**64 - 1."""
    if number < 251:
        return bytes([number])
    if number < 1 << 16:
        return struct.pack("<BH", 251, number)
    return struct.pack("<BI", 252, number) if number < 1 << 32 else struct.pack("<BQ", 253, number)


def _text(text: str) -> bytes:
    try:
        raw = text.encode()
    except UnicodeEncodeError as error:
        raise no_text(error) from error
    return encoded(len(raw)) + raw


def _scalar(kind: str, value: Any, path: str) -> bytes:
    match kind:
        case "usize" | "u64" | "u32":
            return encoded(value)
        case "i64" | "i32":
            return encoded(2 * value if value >= 0 else -2 * value - 1)  # 0, -1, 1, -2, ... are 0, 1, 2, 3, ...
        case "bool":
            return bytes([value])
        case "str":
            return _text(value)
        case "f64":
            return struct.pack("<d", value)
    try:
        return struct.pack("<f", value)
    except OverflowError as error:
        raise RecordError(f"'{path}': the layout has a place for f32, for which {value!r} is too large") from error


_FILE = "burn_core::record::file::Bin{}FileRecorder"
BIN = Bincode("Bin", ".bin", False, _FILE.format(""))
BIN_GZ = Bincode("BinGz", ".bin.gz", True, _FILE.format("Gz"))
BIN_BYTES = Bincode("Bin", ".bin", False, "burn_core::record::memory::BinBytesRecorder")
