"""Reading bincode by a layout. Imports no torch.

Every length is checked against the file before anything of that length is made, and lists take no more memory than the
file justifies.
"""

import struct
from collections.abc import Iterable
from typing import Any

from ...errors import RecordError, RecordFormatError
from ..bytes.budget import CONTAINER, MAX_DIMENSIONS, NUMBER, TEXT, TensorCost
from ..bytes.source import Cursor
from ..layout import BurnVersion, Layout, holds_states, is_map, join, tag_of
from ..outline import Outline, StoredTensor
from ..values import flat
from .envelope import KEYS
from .layout_filler import is_scalar
from .state_layouts import full_id, is_id
from .tensor_collector import BOOL_STORES, TensorCollector, bool_has_store, numbered_dtypes, read_dtype

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
    known, values = reader.read(layout, "")
    found = reader.found
    found.find_clones()
    if holds_states(layout):
        return Outline(found.entries, values={"states": flat(values) if values else {}, "paths": {}}, layout=known)
    plain = found.values({} if values is None else values if isinstance(values, dict) else {"": values})
    return Outline(found.entries, found.ids, found.aliases, plain, layout=known)


def take_tensor(cursor: Cursor, name: str, version: tuple[int, int], found: TensorCollector) -> StoredTensor:
    """A tensor: its bytes, its shape and the number of its dtype."""
    count = take_number(cursor)
    start = cursor.position
    cursor.skip(count)
    dimensions = take_number(cursor)
    if dimensions > MAX_DIMENSIONS:
        raise found.wrong(name, f"{dimensions} dimensions")
    shape = [take_number(cursor) for _ in range(dimensions)]
    names, number = numbered_dtypes(version), take_number(cursor)
    if number >= len(names):
        raise found.wrong(name, f"the dtype number {number} (from 0 to {len(names) - 1})")
    label: Any = names[number]
    if label == "Bool" and bool_has_store(version):
        store = take_number(cursor)
        if store >= len(BOOL_STORES):
            raise found.wrong(name, f"bools of an unknown kind ({store})")
        label = {"Bool": BOOL_STORES[store]}
    elif label == "QFloat":
        label = {"QFloat": None}
    dtype, stored_as = read_dtype(label, f"{cursor.source.path}: '{name}'")
    found.check_bytes(name, count, stored_as or dtype, shape)
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
                known, values = self.read(layout["$option"], path)
                return {"$option": known, "some": True}, values
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
                known, values = self.read(layout["$state"], path)
                return {"$state": known, "rank": rank}, values
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
        return {tag: [below for below, _ in parts]}, values if any(it is not None for it in values) else None

    def _enum(self, layout: dict[str, Any], path: str) -> tuple[Layout, Any]:
        variants, number = layout["$enum"], take_number(self.cursor)
        if number >= len(variants):
            raise self.found.wrong(path, f"the variant number {number} where the layout has {len(variants)}")
        name, below = variants[number]
        if layout.get("is") not in (None, name):
            raise self.found.wrong(path, f"the variant '{name}' where the layout has '{layout['is']}'")
        known, values = self.read(below, join(path, name))
        resolved = [[variant, known if variant == name else other] for variant, other in variants]
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
