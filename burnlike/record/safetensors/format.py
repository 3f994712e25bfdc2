"""The safetensors file format: headers are checked when read and built from shapes alone. Imports no torch.

A file is 8 bytes (the header's length, little-endian), the header (JSON, padded with spaces), and the tensors' bytes
without a gap, little-endian and in row-major order: https://github.com/huggingface/safetensors#format. msgspec reads
the header, in parts: one of 100 MB may describe two million tensors, or be thirty million empty lists (`map_parts`).

Files in a directory may have parts of tensors, one or more for each process. torch's HuggingFaceStorageWriter notes in
each file where its parts begin. `DistributedRecorder` adds a file without tensors, which has the rest of a record, the
names of all files and the checksums of what they have.
"""

import json
import os
import re
import struct
import zlib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from operator import attrgetter
from typing import Annotated, Any

import msgspec

from ...errors import ArgumentError, RecordError, RecordFormatError, RecordIOError
from ...record import metadata
from ..bytes.budget import (
    CONTAINER,
    MAX_DIMENSIONS,
    MAX_HEADER_BYTES,
    MAX_NAME,
    NUMBER,
    Budget,
    NotThisError,
    checked_texts,
    load_json,
    map_parts,
    text_map,
    texts_of,
)
from ..bytes.source import HEX_DIGITS, CheckedSource, FileSource, Source, checksum_of
from ..files.chunks import Chunk, stored_in_chunks
from ..formats import (
    DEFAULT_EXTENSION,
    DETAILS,
    DTYPE_BITS,
    ChecksumSlot,
    Format,
    Outline,
    Payload,
    Segment,
    StoredTensor,
    TensorEntry,
    byte_count,
)
from ..metadata import CHECKSUMS, decode

LENGTH_BYTES = 8
METADATA = "__metadata__"

_BETWEEN_TENSORS = re.compile(rb'\}[ \t\n\r]*+,[ \t\n\r]*+"')
"""The brace that ends a member of the header, and the quote that begins the next."""
_BEGINS_WITH_TEXTS = re.compile(rb'[ \t\n\r]*+\{[ \t\n\r]*+"__metadata__"')
_SLOT = f'"{CHECKSUMS}":"'.encode()
_ENTRY_BYTES, _ENTRY_STEPS = 250, 30
_ENTRY_QUOTES = 10  # of a name, three keys and the dtype
_Natural = Annotated[int, msgspec.Meta(ge=0, le=2**63 - 1)]
_KEYS = {"dtype", "shape", "data_offsets"}


class _Entry(msgspec.Struct, gc=False, forbid_unknown_fields=True):
    """The member of the header for one tensor."""

    dtype: str
    shape: list[_Natural]
    data_offsets: tuple[_Natural, _Natural]


_ENTRIES = msgspec.json.Decoder(dict[str, _Entry])


@dataclass(frozen=True, slots=True)
class Header:
    """A file's header, checked.

    Attributes:
        tensors: by name, in the order of their bytes.
        metadata: the free-form texts under `__metadata__`.
        crc32: checksum of the header, with zeros for the checksums in it; None where it has none.
    """

    tensors: Mapping[str, StoredTensor]
    metadata: Mapping[str, str]
    crc32: int | None = None


def checksums_start(head: bytes) -> int:
    """The position of the digits of the checksums in a header; -1 if it has none."""
    at = head.find(_SLOT)  # within a text its quotes have backslashes
    return at if at < 0 else at + len(_SLOT)


def read_header(source: Source) -> Header:
    """Read and check the header of a file; no tensor's bytes are read."""
    path = source.path
    if not source.has(0, LENGTH_BYTES):
        raise RecordFormatError(
            f"{path}: expected a safetensors file, got fewer than {LENGTH_BYTES} bytes, too short for any record;"
            " it may be an interrupted download or copy: fetch it again"
        )
    length = int.from_bytes(source.read(0, LENGTH_BYTES), "little")
    try:
        if length > MAX_HEADER_BYTES:
            raise RecordFormatError(f"its first 8 bytes promise a header of {length} bytes, it is no safetensors file")
        if not source.has(LENGTH_BYTES, length):
            raise RecordFormatError(
                f"truncated within the header: it takes {length + LENGTH_BYTES} bytes, more than the file has"
            )
        source.budget.add_header(length)
        text, start = source.read(LENGTH_BYTES, length), LENGTH_BYTES + length
        tensors, texts, end = _members(text, source, start)
        if not source.has(start, end - start):
            raise RecordFormatError(f"truncated: the tensors end at byte {end}, the file ends before")
        if source.has(end, 1):
            raise RecordFormatError("bytes lie behind the last tensor")
        return Header(tensors, texts, _crc32(text))
    except NotThisError as error:
        raise _whole_file(path, f"the header {error}") from error
    except RecordFormatError as error:
        if str(error).startswith(f"{path}: "):  # the budget's
            raise
        raise _whole_file(path, str(error)) from error


def _whole_file(path: str, what: str) -> RecordFormatError:
    return RecordFormatError(f"{path}: {what}; expected a whole safetensors file: save or fetch it again")


def _members(text: bytes, source: Source, start: int) -> tuple[dict[str, StoredTensor], dict[str, str], int]:
    """The tensors of a header, in the order of their bytes, which begin at `start`; its texts; where the bytes end."""
    budget, tensors = source.budget, dict[str, StoredTensor]()
    end, in_order = 0, True
    texts: dict[str, str] | None = None
    forms: dict[tuple[str, tuple[int, ...]], tuple[str, tuple[int, ...], int]] = {}  # shared by tensors of one form

    def exact(part: bytes) -> dict[str, _Entry]:
        nonlocal texts
        header = load_json(part, budget, parse_int=_natural)
        if METADATA in header:
            if texts is not None:
                raise RecordFormatError(f"the name '{METADATA}' comes twice in the header")
            try:
                texts = checked_texts(header.pop(METADATA))
            except NotThisError as error:
                raise RecordFormatError(f"'{METADATA}' is not a map from text to text: it {error}") from error
        for name, fields in header.items():
            header[name] = _checked_entry(name, fields)
        return header

    count = text.count(b'"data_offsets"')  # of the usual ones; `load_json` counts the others
    budget.take(count * _ENTRY_BYTES + len(text), count * _ENTRY_STEPS)
    # The texts are a part of their own, so that msgspec can read the others.
    first_bytes = {"first_bytes": 0} if _BEGINS_WITH_TEXTS.match(text) else {}
    for entries in map_parts(text, _ENTRIES, _BETWEEN_TENSORS, _ENTRY_QUOTES, exact, **first_bytes):
        for name, entry in entries.items():
            dtype, shape, nbytes = forms.get(key := (entry.dtype, (*entry.shape,))) or _add_form(name, key, forms)
            begin, stop = entry.data_offsets
            if stop - begin != nbytes:
                raise RecordFormatError(
                    f"tensor {name[:80]!r} of shape {[*shape[:16]]} and dtype {dtype} takes {nbytes} bytes,"
                    f" its offsets give {stop - begin}"
                )
            if name in tensors:
                raise RecordFormatError(f"the name {name[:80]!r} comes twice in the header")
            if len(name) > MAX_NAME:
                raise RecordFormatError(f"the name '{name[:80]}...' is longer than {MAX_NAME} characters")
            tensors[name] = StoredTensor(name, dtype, shape, source, start + begin)
            in_order = in_order and begin == end
            end = stop
    if METADATA in tensors:
        raise RecordFormatError(f"'{METADATA}' is not a map from text to text")
    tensors, end = (tensors, start + end) if in_order else _sorted(tensors, start)
    return tensors, texts or {}, end


def _natural(digits: str) -> int:
    """The number, -1 for one of so many digits that Python would refuse it."""
    return int(digits) if len(digits) < 20 else -1


def _checked_entry(name: str, fields: Any) -> _Entry:
    """A member of the header that json read; the error says what is wrong with it."""
    if not isinstance(fields, dict) or fields.keys() != _KEYS:
        raise RecordFormatError(f"tensor {name[:80]!r} needs exactly dtype, shape and data_offsets")
    try:
        name.encode()
        return msgspec.convert(fields, _Entry)
    except UnicodeEncodeError as error:
        raise NotThisError("has half of a surrogate pair in a name") from error
    except msgspec.ValidationError as error:
        if not isinstance(fields["dtype"], str):
            raise _unknown_dtype(name, fields["dtype"]) from error
        raise RecordFormatError(
            f"tensor {name[:80]!r}: shape and data_offsets must be lists of non-negative integers"
        ) from error


def _add_form(
    name: str,
    key: tuple[str, tuple[int, ...]],
    forms: dict[tuple[str, tuple[int, ...]], tuple[str, tuple[int, ...], int]],
) -> tuple[str, tuple[int, ...], int]:
    """Type, shape and bytes of the tensor `name`, which further tensors may share."""
    dtype, shape = key
    if dtype not in DTYPE_BITS:
        raise _unknown_dtype(name, dtype)
    if len(shape) > MAX_DIMENSIONS:
        raise RecordFormatError(f"tensor {name[:80]!r} has {len(shape)} dimensions, at most {MAX_DIMENSIONS} are read")
    form = forms[key] = dtype, shape, byte_count(dtype, shape)
    return form


def _unknown_dtype(name: str, dtype: object) -> RecordFormatError:
    return RecordFormatError(
        f"tensor {name[:80]!r} has the unknown dtype {str(dtype)[:40]!r}; known: {', '.join(DTYPE_BITS)}"
    )


def _sorted(tensors: Mapping[str, StoredTensor], start: int) -> tuple[dict[str, StoredTensor], int]:
    """The tensors in the order of their bytes, which lie without a gap from `start` on, and where the last ends."""
    ordered, end = {it.name: it for it in sorted(tensors.values(), key=lambda it: (it.start, it.nbytes))}, start
    for info in ordered.values():
        if info.start != end:
            raise RecordFormatError(
                f"tensor '{info.name[:80]}' begins at data byte {info.start - start}, expected {end - start} (a gap or"
                " an overlap)"
            )
        end += info.nbytes
    return ordered, end


def _crc32(text: bytes) -> int | None:
    """The checksum of the header that `text` was before checksums were filled in; None if it has none."""
    begin = checksums_start(text)
    if begin < 0:
        return None
    end = text.find(b'"', begin)
    whole = memoryview(text)
    return zlib.crc32(whole[end:], zlib.crc32(b"0" * (end - begin), zlib.crc32(whole[:begin])))


def build_header(entries: Iterable[TensorEntry], texts: Mapping[str, str]) -> tuple[bytes, list[TensorEntry]]:
    """Make the first bytes of a file from names, dtypes and shapes; `texts` are for `__metadata__`.

    The tensors are laid out in their order, but wider elements first, so that every tensor is aligned to its element.
    Returns the length and header, a multiple of 8 bytes long, and the entries in file order.
    """
    ordered = sorted(entries, key=lambda entry: -DTYPE_BITS[entry.dtype])
    header: dict[str, Any] = {METADATA: dict(texts)} if texts else {}
    offset = 0
    for entry in ordered:
        if entry.name in header or entry.name == METADATA:
            raise RecordError(f"tensor name {entry.name!r} is reserved or comes twice; rename it")
        stop = offset + byte_count(entry.dtype, entry.shape)
        header[entry.name] = {"dtype": entry.dtype, "shape": list(entry.shape), "data_offsets": [offset, stop]}
        offset = stop
    try:
        text = json.dumps(header, separators=(",", ":"), ensure_ascii=False).encode()
    except UnicodeEncodeError as error:
        raise RecordError(f"a tensor's name or a text is not valid Unicode ({error}); rename it") from error
    text += b" " * (-len(text) % LENGTH_BYTES)
    if len(text) > MAX_HEADER_BYTES:
        raise RecordError(
            f"the names and values of the record take {len(text)} bytes, readers accept {MAX_HEADER_BYTES}; "
            "store long values as tensors"
        )
    return len(text).to_bytes(LENGTH_BYTES, "little") + text, ordered


class SafetensorsFormat(Format):
    """See `burnlike.record.formats.Format`; with `all_names` a tied tensor is written under each of its names."""

    name, extension, compressed = "safetensors", ".safetensors", False

    def __init__(self, *, all_names: bool = False) -> None:
        self._all_names = all_names

    def segments(self, outline: Outline) -> list[Segment]:
        again = outline.aliases if self._all_names else {}
        entries = [*outline.entries.values()]
        for alias, name in again.items():
            entries.append(replace(outline.entries[name], name=alias))
        zeros = "0" * (HEX_DIGITS * (1 + len(entries)))  # those of the tensors are known when they are written
        texts = metadata.encode(outline, zeros)
        head, ordered = build_header(entries, texts)
        at = checksums_start(head)
        names = [*map(attrgetter("name"), ordered)]
        payloads = [*map(Payload, map(again.get, names, names))]
        if at < 0:
            return [head, *payloads]
        checksum = b"%08x" % zlib.crc32(head[LENGTH_BYTES:])
        slot = ChecksumSlot(HEX_DIGITS * len(entries))
        return [head[:at] + checksum, slot, head[at + len(zeros) :], *payloads]

    def read(self, source: Source, layout: object = None) -> Outline:
        header = read_header(source)
        entries, again = header.tensors, dict[str, str]()
        if metadata.ALIASES in header.metadata:
            declared = metadata.aliases_of(header.metadata, source.path, source.budget)
            again = {alias: name for alias, name in declared.items() if alias in entries}
            entries = {name: it for name, it in entries.items() if name not in again} if again else entries
        outline = metadata.decode(header.metadata, entries, source.path, source.budget)
        checksums = header.metadata.get(metadata.CHECKSUMS)
        if checksums is None:
            if again:
                _check_again(again, header.tensors, source.path)
            return outline
        try:  # that of the header, then those of the tensors in the order of their bytes
            head_checksum, *numbers = struct.unpack(f">{1 + len(header.tensors)}I", bytes.fromhex(checksums))
        except (ValueError, struct.error) as error:
            raise RecordFormatError(
                f"{source.path}: {metadata.CHECKSUMS} is not {HEX_DIGITS} hexadecimal digits for the header and each of"
                f" {len(header.tensors)} tensors; another program has changed the file: save it again without this text"
            ) from error
        for entry, number in zip(header.tensors.values(), numbers, strict=True):
            entry.crc32 = number
        if again:
            _check_again(again, header.tensors, source.path)
        return outline if head_checksum == header.crc32 else replace(outline, changed=source.path)


def _check_again(again: Mapping[str, str], tensors: Mapping[str, StoredTensor], path: str) -> None:
    """Refuse tensors that are there again under names of ties, but for those of the same type and checksum."""
    for alias, name in again.items():
        one, other = tensors.get(name), tensors[alias]
        same = one and (one.dtype, one.shape, one.crc32) == (other.dtype, other.shape, other.crc32)
        if not same or other.crc32 is None:
            raise RecordFormatError(
                f"{path}: its metadata ties {alias!r:.80} to {name!r:.80}, which the tensors contradict"
            )


SAFETENSORS = SafetensorsFormat()
SAFETENSORS_ALL_NAMES = SafetensorsFormat(all_names=True)


FILES = "burnlike.files"
_BEGINS, _OFFSETS = "DCP_SHARDING_INFO", "saved_offsets"  # in the texts of a file, as torch writes them
_NAME_BYTES = 200


def read_parts(path: str, top_level_key: str | None = None) -> tuple[Source, Outline]:
    """The content of a directory; see `burnlike.record.files.reading.read_outline`."""
    if top_level_key is not None:
        raise ArgumentError(
            f"{path}: top_level_key is for files of torch.save and directories of torch.distributed.checkpoint; this"
            " directory has safetensors files"
        )
    budget = Budget(path)
    texts: dict[str, str] = {}
    checksums: dict[str, str] = {}
    if os.path.isfile(os.path.join(path, DETAILS)):
        details = FileSource(os.path.join(path, DETAILS), budget)
        texts = dict(read_header(details).metadata)
        checksums = _checksums(path, details, texts, budget)
    names = sorted(it for it in os.listdir(path) if it.endswith(DEFAULT_EXTENSION) and it != DETAILS)
    sources = [FileSource(os.path.join(path, name), budget) for name in names]
    chunks: dict[str, list[Chunk]] = {}
    dtypes: dict[str, str] = {}
    for file, source in zip(names, sources, strict=True):
        header = read_header(source)
        begins = _begins(source, header, budget)
        numbers = _numbers(source, header, checksums.get(file, ""))
        for (name, entry), number in zip(header.tensors.items(), numbers, strict=True):
            offsets = begins.get(name, (0,) * len(entry.shape))
            if dtypes.setdefault(name, entry.dtype) != entry.dtype or len(offsets) != len(entry.shape):
                raise RecordFormatError(f"{source.path}: '{name[:80]}' is of another form than in the files before it")
            part = CheckedSource(source, entry.start, entry.stored_bytes, number, name)
            chunks.setdefault(name, []).append(Chunk(offsets, entry.shape, part, 0))
    entries: dict[str, StoredTensor] = {}
    for name, parts in chunks.items():
        ends = [[at + size for at, size in zip(it.offsets, it.sizes, strict=True)] for it in parts]
        shape = tuple(map(max, zip(*ends, strict=True))) if len({*map(len, ends)}) == 1 else ()
        entries[name] = stored_in_chunks(name, dtypes[name], shape, parts, path)
    outline = decode(texts, entries, path, budget)
    budget.end()
    first = FileSource(os.path.join(path, DETAILS)) if texts else sources[0]
    # Messages are to name the directory, which the user gave.
    first.path = path
    return first, outline


def part_checksums(path: str | os.PathLike[str]) -> str:
    """The checksums of the tensors of a file, in their order, 8 hexadecimal digits each."""
    source = FileSource(os.fspath(path))
    tensors = read_header(source).tensors.values()
    return "".join(f"{checksum_of(source, tensor.start, tensor.stored_bytes):0{HEX_DIGITS}x}" for tensor in tensors)


def _checksums(path: str, details: Source, texts: dict[str, str], budget: Budget) -> dict[str, str]:
    """The checksums of each file, empty where they were not saved; refuses a directory of which files are missing.

    Without one, tensors would look like smaller ones.
    """
    text = texts.pop(FILES, "{}").encode()
    try:
        is_list = text.startswith(b"[")  # as burnlike wrote it without checksums
        checksums = dict.fromkeys(texts_of(text, budget, _NAME_BYTES), "") if is_list else text_map(text, budget)
        missing = sorted(name for name in checksums if not os.path.exists(os.path.join(path, name)))
    except ValueError as error:
        raise RecordFormatError(f"{details.path}: {FILES} is no map of names: it {error}") from error
    if missing:
        raise RecordFormatError(
            f"{details.path}: of its files, {', '.join(missing[:10])} is missing; fetch the directory again"
        )
    return checksums


def _numbers(source: Source, header: Header, digits: str) -> list[int | None]:
    """The checksum of each tensor of a file; None where there is none."""
    if not digits:
        return [None] * len(header.tensors)
    try:
        return [*struct.unpack(f">{len(header.tensors)}I", bytes.fromhex(digits))]
    except (ValueError, struct.error) as error:
        raise RecordFormatError(
            f"{source.path}: {DETAILS} beside it has other checksums than of its {len(header.tensors)} tensors; fetch"
            " the directory again"
        ) from error


def _begins(source: Source, header: Header, budget: Budget) -> dict[str, tuple[int, ...]]:
    """Name of a tensor -> where the part of it begins that the file has."""
    text = header.metadata.get(_BEGINS)
    if text is None:
        return {}
    try:
        budget.take(len(text) + 2 * CONTAINER * text.count("{") + NUMBER * text.count(","), len(text))
        positions: Any = load_json(text.encode(), budget)
        begins = {name: tuple(position[_OFFSETS]) for name, position in positions.items()}
        if all(type(at) is int and 0 <= at < 1 << 60 for begin in begins.values() for at in begin):
            return begins
    except (ValueError, TypeError, KeyError, AttributeError, RecursionError) as error:
        raise RecordFormatError(f"{source.path}: {_BEGINS} is not as torch writes it ({error})") from error
    raise RecordFormatError(f"{source.path}: {_BEGINS} has something else than places in tensors")


def check_directory(path: str) -> None:
    """Refuse a path that is no directory of `DistributedRecorder`."""
    if not os.path.exists(path):
        raise RecordIOError(f"{path}: no such directory")
    if not os.path.isfile(os.path.join(path, DETAILS)):
        raise RecordFormatError(
            f"{path}: expected a directory that DistributedRecorder wrote, it has no file {DETAILS}"
        )
