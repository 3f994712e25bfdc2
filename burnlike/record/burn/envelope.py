"""Files of v0.21: five texts about how it was written, the record as `item`, and an empty `_b`. Imports no torch.

In formats with names, what Burn has no place for (aliases without ids, plain values) stands beside these under
`burnlike`, which Burn's readers pass over.

NamedMpk is the record as MessagePack with field names:
https://github.com/msgpack/msgpack/blob/master/spec.md; integers and lengths in their shortest form, as in rmp-serde.
"""

import secrets
import struct
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from itertools import zip_longest
from typing import Any, cast

import msgspec

from ...errors import RecordError, RecordFormatError
from ..bytes.budget import NUMBER, TensorCost
from ..bytes.source import Source
from ..formats import Format, Outline, Payload, Segment, StoredTensor, TensorEntry
from ..metadata import FORMAT_VERSION, from_json, to_json
from .record_tree import Blob, Make, TensorLeaf, TreeReader, has_values, item_of, outline_of_item
from .tensor_collector import burn_dtype, differing, with_ids_of_clones

VERSION = "0.21.0"
"""Of burn-core, whose files these are."""

_SETTINGS = {
    "F32": ("f32", "i32", "FullPrecisionSettings"),
    "F64": ("f64", "i64", "DoublePrecisionSettings"),
    "F16": ("half::binary16::f16", "i16", "HalfPrecisionSettings"),
    "BF16": ("half::bfloat::bf16", "i32", "BFloat16PrecisionSettings"),  # Burn has none of this name
}
KEYS = ("float", "int", "format", "version", "settings")
"""The texts, in order."""

_KEY = "burnlike"
_RUNNING = ("running_mean", "running_var")


@dataclass(frozen=True)
class EnvelopeFormat(Format):
    """A format of v0.21; `recorder` is Burn's name of the recorder, with its module."""

    name: str
    extension: str
    compressed: bool
    recorder: str


def metadata_of(outline: Outline, recorder: str) -> dict[str, str]:
    """The five texts; without a precision those of the file that the record came from, or what its floats suggest."""
    additions = {key: text for key, text in outline.metadata.items() if key in KEYS and isinstance(text, str)}
    floats = {entry.dtype for entry in outline.entries.values() if entry.kind == "float"}
    can_hold = {name: {dtype} for dtype, (_, _, name) in _SETTINGS.items()}  # the tensors may have been converted since
    told = outline.precision is None and {"float", "int", "settings"} <= additions.keys()
    if told and floats <= can_hold.get(additions["settings"], floats):
        float_name, int_name, settings = additions["float"], additions["int"], additions["settings"]
    else:
        dtype = outline.precision or (floats.pop() if len(floats) == 1 else "F32")
        float_name, int_name, settings = _SETTINGS.get(dtype, _SETTINGS["F32"])
    return {
        "float": float_name,
        "int": int_name,
        "format": f"{recorder}<burn_core::record::settings::{settings}>",
        "version": VERSION,
        "settings": settings,
    }


def _with_additions(additions: Any, outline: Outline, path: str) -> Outline:
    if additions is None:
        return replace(outline, states=told_states(outline))
    if not isinstance(additions, dict) or additions.get("format") != FORMAT_VERSION:
        raise RecordFormatError(f"{path}: its entry '{_KEY}' is damaged, or a newer burnlike wrote it: update")
    values, aliases = from_json(additions.get("values", {}), f"{path}: values"), additions.get("aliases", {})
    if not isinstance(values, dict):
        raise RecordFormatError(f"{path}: its values are no map")
    entries, texts = outline.entries, additions.get("metadata", {})
    stored = cast(Mapping[str, StoredTensor], entries)
    if not isinstance(aliases, dict) or not all(isinstance(name, str) for name in aliases.values()):
        raise RecordFormatError(f"{path}: its aliases are no map from text to text")
    # The tree may have a place for a tied tensor without an id at each of its names.
    copies = [(name, alias) for alias, name in aliases.items() if alias in entries and name in entries]
    wrong = any(name not in entries or name in aliases for name in aliases.values())
    if wrong or differing([(stored[name], stored[alias]) for name, alias in copies]):
        raise RecordFormatError(f"{path}: its aliases contradict its tensors")
    entries = {name: entry for name, entry in entries.items() if name not in aliases}
    if not isinstance(texts, dict) or not all(isinstance(text, str) for text in texts.values()):
        raise RecordFormatError(f"{path}: its metadata is no map from text to text")
    outline = replace(outline, entries=entries)
    states = additions.get("states", told_states(outline))
    if not isinstance(states, list | frozenset) or not all(isinstance(it, str) and it in entries for it in states):
        raise RecordFormatError(f"{path}: its states are no list of its tensors")
    return replace(
        outline,
        states=frozenset(states),
        values={**outline.values, **values},
        aliases={**outline.aliases, **aliases},
        metadata={**texts, **outline.metadata},
    )


def artifact_of(outline: Outline, recorder: str, phantom: Any, finite: bool = False) -> dict[str, Any]:
    """The tree of a file: maps, lists, plain values, None and `TensorLeaf`s.

    `phantom` stands for `_b`, which is empty. In a `finite` format inf and nan stand under `burnlike` alone.
    """
    item, values = item_of(outline, finite)
    artifact = {"metadata": metadata_of(outline, recorder), "item": item, "_b": phantom}
    extra: dict[str, Any] = {"values": to_json(values, "values")} if values else {}
    if aliases := {alias: name for alias, name in outline.aliases.items() if name not in outline.ids}:
        extra["aliases"] = aliases
    if frozenset(outline.states) != told_states(outline):
        extra["states"] = sorted(outline.states)
    if texts := {key: value for key, value in outline.metadata.items() if key not in KEYS and isinstance(value, str)}:
        extra["metadata"] = texts
    return {**artifact, _KEY: {"format": FORMAT_VERSION, **extra}} if extra else artifact


def pieces_of(
    tree: Any,
    outline: Outline,
    encode: Callable[[Any], bytes],
    hole: Callable[[bytes, TensorEntry], bytes] = lambda mark, entry: mark,
    number: Callable[[float], Any] = float,
) -> Iterator[bytes | TensorEntry]:
    """The text of a tree (see `artifact_of`) in pieces, and between them the tensors whose values stand there.

    `hole` makes what stands in the text for a tensor's values, with the mark once, which is then cut out.
    """
    mark = b'"%s"' % secrets.token_hex(16).encode()  # a text in JSON too; none of the record's has it
    entries: list[TensorEntry] = []

    def part(value: Any) -> Any:
        if isinstance(value, TensorLeaf):
            entry = outline.entries[value.name]
            entries.append(entry)
            dtype = burn_dtype(entry.dtype, value.name)
            tensor = {"bytes": msgspec.Raw(hole(mark, entry)), "shape": list(entry.shape), "dtype": dtype}
            return tensor if value.id is None else {"id": str(value.id), "param": tensor}
        if isinstance(value, Mapping):
            return {key: part(it) for key, it in value.items()}
        if isinstance(value, list):
            return [part(it) for it in value]
        return number(value) if isinstance(value, float) else value

    try:
        texts = encode(part(tree)).split(mark)
    except UnicodeEncodeError as error:
        raise no_text(error) from error
    for text, entry in zip_longest(texts, entries):
        yield text
        if entry is not None:
            yield entry


def no_text(error: UnicodeEncodeError) -> RecordError:
    text = str(error.object)[max(error.start - 20, 0) : error.end]
    return RecordError(f"the record's text {text!r} has half of a surrogate pair, which no file can hold; replace it")


def outline_of_artifact(artifact: Any, source: Source, name: str, make: Make | None = None) -> Outline:
    if not isinstance(artifact, Mapping) or not {"metadata", "item"} <= artifact.keys():
        raise RecordFormatError(f"{source.path}: expected a map with metadata and item; it is no record of Burn's")
    texts = artifact["metadata"]
    if not isinstance(texts, Mapping) or not all(isinstance(texts.get(key), str) for key in KEYS):
        raise RecordFormatError(
            f"{source.path}: its metadata lacks the texts {', '.join(KEYS)}; it is no record of Burn's"
        )
    metadata = {key: texts[key] for key in KEYS}
    outline = outline_of_item(artifact["item"], source, make)
    outline = replace(outline, metadata=metadata, format=name, version=metadata["version"])
    return _with_additions(artifact.get(_KEY), outline, source.path)


def told_states(outline: Outline) -> frozenset[str]:
    """The tensors that Burn's files show to be states: parameters that are no floats, and the statistics of BatchNorm.

    Only records that differ from this need to say which tensors are states.
    """
    return frozenset(
        name
        for name in with_ids_of_clones(outline).ids
        if outline.entries[name].kind != "float" or name.rpartition(".")[2] in _RUNNING
    )


class NamedMpk(EnvelopeFormat):
    """See `burnlike.record.formats.Format`."""

    def segments(self, outline: Outline) -> Iterator[Segment]:
        tree = artifact_of(outline, self.recorder, [])
        for piece in pieces_of(tree, outline, msgspec.msgpack.encode, _hole):
            yield Payload(piece.name) if isinstance(piece, TensorEntry) else piece

    def read(self, source: Source, layout: object = None) -> Outline:
        return outline_of_artifact(_Reader(source).whole(), source, self.name)


def _hole(mark: bytes, entry: TensorEntry) -> bytes:
    count = entry.nbytes
    if count >= 2**32:
        raise RecordError(f"'{entry.name}' has {count} bytes, MessagePack holds 4 GiB; save it as safetensors")
    form, code = (">BB", 0xC4) if count < 2**8 else (">BH", 0xC5) if count < 2**16 else (">BI", 0xC6)
    return struct.pack(form, code, count) + mark


class _Reader(TreeReader):
    """Reads values; bytes are gone over, and their place is kept."""

    tensor = TensorCost(memory=3600, steps=500, file_bytes=8)
    has_values = staticmethod(has_values)

    def value(self, depth: int) -> Any:
        byte = self.cursor.take_byte()
        if 0xA0 <= byte < 0xC0:
            return self.text(byte - 0xA0)
        if 0x80 <= byte < 0x90:
            return self.map_of(byte - 0x80, depth)
        if 0x90 <= byte < 0xA0:
            return self.list_of(byte - 0x90, depth)
        self.budget.take(NUMBER, 10, 1)
        if byte < 0x80 or byte >= 0xE0:
            return byte if byte < 0x80 else byte - 0x100
        if byte in _CONSTANTS:
            return _CONSTANTS[byte]
        if byte in _NUMBERS:
            return self.number(_NUMBERS[byte])
        if byte not in _LENGTHS:
            raise self.wrong(f"0x{byte:02x} begins no value")
        kind, form = _LENGTHS[byte]
        count = self.number(form)
        match kind:
            case "text":
                return self.text(count)
            case "list":
                return self.list_of(count, depth)
            case "map":
                return self.map_of(count, depth)
        start = self.cursor.position
        self.cursor.skip(count)
        self.budget.take(2 * NUMBER, 20)
        return Blob(start, count)


_CONSTANTS = {0xC0: None, 0xC2: False, 0xC3: True}
_NUMBERS = dict(enumerate((">f", ">d", ">B", ">H", ">I", ">Q", ">b", ">h", ">i", ">q"), 0xCA))
_LENGTHS = {
    first + index: (kind, form)
    for kind, first, forms in (
        *(("bytes", 0xC4, (">B", ">H", ">I")), ("text", 0xD9, (">B", ">H", ">I"))),
        *(("list", 0xDC, (">H", ">I")), ("map", 0xDE, (">H", ">I"))),
    )
    for index, form in enumerate(forms)
}
_FILE = "burn_core::record::file::NamedMpk{}FileRecorder"
NAMED_MPK = NamedMpk("NamedMpk", ".mpk", False, _FILE.format(""))
NAMED_MPK_GZ = NamedMpk("NamedMpkGz", ".mpk.gz", True, _FILE.format("Gz"))
NAMED_MPK_BYTES = NamedMpk("NamedMpk", ".mpk", False, "burn_core::record::memory::NamedMpkBytesRecorder")
