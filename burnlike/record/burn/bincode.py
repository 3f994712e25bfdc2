"""Bincode: records without names, as Burn 0.21 writes them; a layout says what is where. Imports no torch.

https://git.sr.ht/~stygianentity/bincode/tree/v2.0.1/item/docs/spec.md, standard configuration: whole numbers are
little-endian, short ones in one byte. Every length is checked against the file before anything of that length is made,
and lists take no more memory than the file justifies. Without a layout, tensors are found by their form.
"""

import re
import struct
from collections.abc import Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass, replace
from itertools import groupby
from typing import Any

from ...errors import RecordError, RecordFormatError
from ..bytes.budget import CONTAINER, MAX_DIMENSIONS, NUMBER, TEXT, TensorCost
from ..bytes.source import Cursor, Source
from ..formats import Outline, Payload, Segment, StoredTensor
from ..layout import (
    LAYOUTS,
    WRITTEN,
    BurnVersion,
    Layout,
    LayoutOf,
    check_layout,
    holds_states,
    is_map,
    join,
    known_layout,
    tag_of,
)
from ..metadata import ENTRY, flat
from .envelope import KEYS, EnvelopeFormat, metadata_of, no_text, told_states
from .record_tree import LayoutFiller, is_scalar
from .state_layouts import full_id, is_id, states_before
from .tensor_collector import (
    BOOL_STORES,
    TensorCollector,
    bool_has_store,
    dtype_bytes,
    numbered_dtypes,
    read_dtype,
    with_ids_of_clones,
)

_NUMBERS = {251: "<H", 252: "<I", 253: "<Q"}  # a first byte below these is the number
_LONGEST_LABEL = 4096
_LONGEST_TEXT = 1 << 20
_TENSOR = TensorCost(memory=1000, steps=180, file_bytes=8)


_COSTS = {
    **dict.fromkeys(("param", "tensor"), (12, 2 * CONTAINER, 80)),
    "unit": (0, 4 * NUMBER, 25),  # a list of any length takes no byte of the file
}
"""Leaf of a layout -> its bytes in the file, at least; those of memory; steps."""


def take_envelope(cursor: Cursor) -> dict[str, str]:
    try:
        return {key: take_text(cursor, _LONGEST_LABEL) for key in KEYS}
    except RecordFormatError as error:
        raise RecordFormatError(
            f"{cursor.source.path}: expected the texts {', '.join(KEYS)} at its beginning; it is no record of Burn's"
            f" in bincode ({error})"
        ) from error


def take_number(cursor: Cursor) -> int:
    first = cursor.take_byte()
    if first < 251:
        return first
    if first not in _NUMBERS:
        raise RecordFormatError(
            f"{cursor.source.path}: byte {cursor.position - 1} (0x{first:02x}) begins no number of 64 bits;"
            " the file is damaged, or the layout is that of another model"
        )
    return struct.unpack(_NUMBERS[first], cursor.take(struct.calcsize(_NUMBERS[first])))[0]


def take_text(cursor: Cursor, longest: int) -> str:
    start = cursor.position
    count = take_number(cursor)
    if count > longest:
        raise RecordFormatError(
            f"{cursor.source.path}: the text at byte {start} has {count} bytes, more than {longest}"
        )
    try:
        return cursor.take(count).decode()
    except UnicodeDecodeError as error:
        raise RecordFormatError(f"{cursor.source.path}: the text at byte {start} is not UTF-8") from error


def version_of(text: str, path: str) -> BurnVersion:
    """The first two numbers of a version of Burn."""
    try:
        major, minor = (int(number) for number in text.split(".")[:2])
    except ValueError as error:
        raise RecordFormatError(f"{path}: expected a version of Burn such as 0.21.0, got {text!r:.40}") from error
    if (major, minor) < (0, 14):
        raise RecordFormatError(
            f"{path}: Burn {text} wrote it, whose bincode has no types and can't be read; save the model as .mpk with"
            f" that Burn, and that file again with Burn 0.14 and its feature record-backward-compat"
        )
    return major, minor


def read_item(cursor: Cursor, layout: Layout, version: BurnVersion) -> Outline:
    """The record that begins at the cursor, behind the envelope, as a version of Burn wrote it."""
    reader = _Reader(cursor, version)
    layout_read, values = reader.read(layout, "")
    tensors = reader.found
    tensors.find_clones()
    if holds_states(layout):
        return Outline(
            tensors.entries, values={"states": flat(values) if values else {}, "paths": {}}, layout=layout_read
        )
    plain = tensors.values({} if values is None else values if isinstance(values, dict) else {"": values})
    return Outline(tensors.entries, tensors.ids, tensors.aliases, plain, layout=layout_read)


def take_tensor(cursor: Cursor, name: str, version: tuple[int, int], collector: TensorCollector) -> StoredTensor:
    """A tensor: its bytes, its shape and the number of its dtype."""
    count = take_number(cursor)
    start = cursor.position
    cursor.skip(count)
    dimensions = take_number(cursor)
    if dimensions > MAX_DIMENSIONS:
        raise collector.wrong(name, f"{dimensions} dimensions")
    shape = [take_number(cursor) for _ in range(dimensions)]
    names, number = numbered_dtypes(version), take_number(cursor)
    if number >= len(names):
        raise collector.wrong(name, f"the dtype number {number} (from 0 to {len(names) - 1})")
    label: Any = names[number]
    if label == "Bool" and bool_has_store(version):
        store = take_number(cursor)
        if store >= len(BOOL_STORES):
            raise collector.wrong(name, f"bools of an unknown kind ({store})")
        label = {"Bool": BOOL_STORES[store]}
    elif label == "QFloat":
        label = {"QFloat": None}
    dtype, stored_as = read_dtype(label, f"{cursor.source.path}: '{name}'")
    collector.check_bytes(name, count, stored_as or dtype, shape)
    if count:
        cursor.source.budget.add_tensor(_TENSOR)
    return StoredTensor(name, dtype, tuple(shape), cursor.source, start, stored_as)


class _Reader:
    def __init__(self, cursor: Cursor, version: BurnVersion) -> None:
        self.cursor = cursor
        self.version = version
        self.found = TensorCollector(cursor.source.path, "the file is damaged, or the layout is that of another model")
        self._budget = cursor.source.budget

    def read(self, layout: Layout, path: str) -> tuple[Layout, Any]:
        """The layout as the file has it, and the plain values, None for none, of the part at `path`."""
        if isinstance(layout, str):
            size, memory, steps = _COSTS.get(layout, (1, NUMBER, 25))
            self._budget.take(memory, steps, size)
            return layout, self._leaf(layout, path)
        self._budget.take(CONTAINER, 30)
        match tag_of(layout):
            case None if is_map(layout):
                return self._map(layout, path)
            case None:
                parts = {name: self.read(below, join(path, name)) for name, below in layout.items()}
                values = {name: value for name, (_, value) in parts.items() if value is not None}
                return {name: below for name, (below, _) in parts.items()}, values or None
            case "$option":
                if not self._flag(path, "an option"):
                    return {"$option": layout["$option"], "some": False}, None
                if layout.get("some") is False:
                    raise self.found.wrong(path, "a value where the layout has none")
                inner_layout, values = self.read(layout["$option"], path)
                return {"$option": inner_layout, "some": True}, values
            case "$vec" | "$tuple" as tag:
                return self._list(tag, layout[tag], path)
            case "$enum":
                return self._enum(layout, path)
            case "$map":
                return self._map(layout, path)
            case "$state":
                version, rank = take_number(self.cursor), take_number(self.cursor)
                if version != 0 or rank > 8:
                    what = f"a state of version {version + 1} and rank {rank} (known: version 1, 0 to 8)"
                    raise self.found.wrong(path, what)
                inner_layout, values = self.read(layout["$state"], path)
                return {"$state": inner_layout, "rank": rank}, values
            case _:
                raise RecordError(
                    f"the layout of '{path}' is that of a file with names ($named), which says too little for bincode:"
                    " give that of a module, or declare one"
                )

    def _list(self, tag: str, content: Layout, path: str) -> tuple[Layout, Any]:
        layouts: Iterable[Layout] = content
        if tag == "$vec":
            count = take_number(self.cursor)
            if not isinstance(content, list):
                layouts = (content for _ in range(count))
            elif count != len(content):
                raise self.found.wrong(path, f"{count} items where the layout has {len(content)}")
        parts = [self.read(below, join(path, index)) for index, below in enumerate(layouts)]
        values = [value for _, value in parts]
        return {tag: [below for below, _ in parts]}, values if any(value is not None for value in values) else None

    def _enum(self, layout: dict[str, Any], path: str) -> tuple[Layout, Any]:
        variants, number = layout["$enum"], take_number(self.cursor)
        if number >= len(variants):
            raise self.found.wrong(path, f"the variant number {number} where the layout has {len(variants)}")
        name, below = variants[number]
        if layout.get("is") not in (None, name):
            raise self.found.wrong(path, f"the variant '{name}' where the layout has '{layout['is']}'")
        inner_layout, values = self.read(below, join(path, name))
        resolved = [[variant, inner_layout if variant == name else other] for variant, other in variants]
        return {"$enum": resolved, "is": name}, None if values is None else {name: values}

    def _map(self, layout: dict[str, Any], path: str) -> tuple[Layout, Any]:
        count = take_number(self.cursor)
        any_name = layout.get("$map")
        states = any_name is None or tag_of(any_name) == "$state"
        layouts: dict[str, Layout] = {}
        values: dict[str, Any] = {}
        for _ in range(count):
            name = take_text(self.cursor, _LONGEST_LABEL)
            self._budget.take(TEXT + len(name), 20, len(name))
            if name in layouts or not name or "." in name or (states and not is_id(name)):
                what = "comes twice" if name in layouts else "is no id" if states else "can't be part of a path"
                raise self.found.wrong(path, f"the key {name!r:.60}, which {what}")
            name = full_id(name) if states else name
            below = layout.get(name) if any_name is None else any_name
            if below is None:
                raise self.found.wrong(path, f"the id {name}, which is not in the layout")
            layouts[name], value = self.read(below, join(path, name))
            if value is not None:
                values[name] = value
        if any_name is None and len(layouts) < len(layout):
            raise self.found.wrong(path, f"{len(layouts)} ids where the layout has {len(layout)}")
        return layouts if states and layouts else layout, values or None

    def _leaf(self, leaf: str, path: str) -> Any:
        match leaf:
            case "param":
                text = take_text(self.cursor, _LONGEST_LABEL)
                self.found.param(text, take_tensor(self.cursor, path, self.version, self.found))
            case "tensor":
                self.found.tensor(take_tensor(self.cursor, path, self.version, self.found))
            case "constant":
                if self._flag(path, "a constant"):
                    raise self.found.wrong(path, "a value where the layout has a constant")
            case "f32" | "f64":
                form = "<f" if leaf == "f32" else "<d"
                return struct.unpack(form, self.cursor.take(struct.calcsize(form)))[0]
            case "bool":
                return self._flag(path, "a bool")
            case "str":
                text = take_text(self.cursor, _LONGEST_TEXT)
                self._budget.take(TEXT + len(text), 10, len(text))
                return text
            case "usize" | "u64" | "u32" | "i64" | "i32":
                number = take_number(self.cursor)
                if leaf.startswith("i"):  # 0, 1, 2, 3, ... are 0, -1, 1, -2, ...
                    number = -(number // 2) - 1 if number % 2 else number // 2
                if not is_scalar(number, leaf):
                    raise self.found.wrong(path, f"{number}, which is too large for {leaf}")
                return number
        return None

    def _flag(self, path: str, what: str) -> bool:
        byte = self.cursor.take_byte()
        if byte > 1:
            raise self.found.wrong(path, f"0x{byte:02x} for {what} at byte {self.cursor.position - 1}")
        return byte == 1


# An id with its length in front: 13 characters, 10 in Burn 0.14, or the 36 of a UUID in Burn's oldest files.
_ID = re.compile(rb"\x0d[0-9a-v]{13}|\x0a[0-9a-v]{10}|\x24[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}")
_ID_BYTES = 37
_GAP_BYTES = 64
_FIRST_WINDOW, _LARGEST_WINDOW = 1 << 9, 1 << 18


def scan(source: Source, name: str = "Bin") -> Outline:
    """Find the tensors of an unpacked file in bincode without its layout, which alone could tell names and arrangement.

    Parameters are found by their ids, and the tensors in an optimizer's states behind the ids that they belong to.
    Tensors without elements are overlooked. The names are made up: `?0`, `?1`, ... in the order of the file, in states
    `<id>.?0`, ... The outline has no values and no layout.
    """
    cursor = Cursor(source)
    metadata = take_envelope(cursor)
    version = metadata["version"]
    scanned = _Scanner(source, version_of(version, source.path)).run(cursor.position)
    return Outline(scanned.entries, scanned.ids, scanned.aliases, metadata=metadata, format=name, version=version)


@dataclass(frozen=True, slots=True)
class _Scanner:
    source: Source
    version: tuple[int, int]

    def run(self, position: int) -> TensorCollector:
        collector = TensorCollector(self.source.path)
        while (begin := self._next_id(position)) is not None:
            count = len(collector.entries) + len(collector.aliases)
            cursor = Cursor(self.source, begin, _FIRST_WINDOW)
            label = full_id(take_text(cursor, _ID_BYTES))
            behind = cursor.position
            tensor = self._tensor(cursor, f"?{count}")
            position = behind
            if tensor is None:
                for tensor, end in self._state(label, behind):
                    collector.tensor(tensor)
                    position = end
                continue
            with suppress(RecordFormatError):  # of an id that comes twice: bytes that look like a parameter
                collector.param(label, tensor)
                position = cursor.position
        return collector

    def _state(self, label: str, position: int) -> Iterator[tuple[StoredTensor, int]]:
        """The tensors of the optimizer's state that may begin here, each with the place behind it."""
        cursor = Cursor(self.source, position, _FIRST_WINDOW)
        head = self.source.read_some(position, 2)
        if len(head) < 2 or head[0] != 0 or head[1] > 8:
            return
        cursor.position = begin = position + 2
        count = 0
        while cursor.position - begin < _GAP_BYTES and not cursor.at_end():
            at = cursor.position
            if _ID.match(self.source.read_some(at, _ID_BYTES)):
                return
            tensor = self._tensor(cursor, f"{label}.?{count}")
            if tensor is not None and len(tensor.shape) <= head[1]:
                yield tensor, cursor.position
                begin, count = cursor.position, count + 1
            else:
                cursor.position = at + 1

    def _tensor(self, cursor: Cursor, name: str) -> StoredTensor | None:
        """The tensor at the cursor, if one that has elements can be there."""
        try:
            tensor = take_tensor(cursor, name, self.version, TensorCollector(self.source.path))
        except RecordFormatError:
            return None
        if not tensor.stored_bytes:
            return None
        self.source.budget.take(2 * CONTAINER, 50, 40)
        return tensor

    def _next_id(self, position: int) -> int | None:
        """The position of the next id. The window is small at first, as ids are mostly near each other."""
        window = _FIRST_WINDOW
        while True:
            piece = self.source.read_some(position, window)
            match = _ID.search(piece)
            if match is not None:
                return position + match.start()
            if len(piece) < window:
                return None
            position += window - _ID_BYTES
            window = min(window * 4, _LARGEST_WINDOW)


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
        layout_of_version = known_layout(layout, version_of(metadata["version"], source.path))
        if layout_of_version is None:
            raise RecordError(f"{source.path}: {_REMEDY}")
        layouts = layout_of_version if isinstance(layout_of_version, tuple) else (layout_of_version,)
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
