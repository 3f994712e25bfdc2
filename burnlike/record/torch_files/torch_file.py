"""Files of `torch.save` (`.pt`, `.pth`, `.bin`): zip archives, or pickles of older versions. Nothing in them is run.

The tensors stay in the file and are read when they are asked for. `torch.load(weights_only=True, mmap=True)` can't do
this: it reads zip archives alone; it maps the file, and one that is cut meanwhile kills the process; a hostile pickle
of 3 MB took it 213 MB (torch 2.13), where `burnlike.record.ReadLimits` refuses it; it compares no checksums; whole
modules, whose weights are read here without their code, are an error; and `burnlike inspect` loads no torch.
https://pkware.cachefly.net/webdocs/casestudies/APPNOTE.TXT, 4.3: the list of an archive's members stands at the end.
"""

import io
import struct
import threading
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import prod
from typing import Any, NamedTuple

from ...errors import RecordError, RecordFormatError
from ..bytes.budget import TensorCost
from ..bytes.source import CheckedSource, Cursor, Source
from ..files.chunks import elements_in
from ..formats import DTYPE_BITS, Format, Outline, Segment, StoredTensor
from ..metadata import PICKLED, VERSIONS
from .torch_pickle import Opaque, PickledTensor, flatten, load_pickle

ZIP_MAGIC = b"PK\x03\x04"

_END = struct.Struct("<4s4H2LH")
_END_64 = struct.Struct("<4sQ2H2L4Q")
_LOCATOR_64 = struct.Struct("<4sLQL")
_ENTRY = struct.Struct("<4s6H3L5H2L")
_MOST_COMMENT = 0xFFFF
_UNKNOWN = 0xFFFFFFFF  # stands in an extra field, as 64 bits
_MEMBER = TensorCost(memory=600, steps=140, file_bytes=128)
_ENCRYPTED, _UTF8 = 0x1, 0x800


class ArchiveMember(NamedTuple):
    """A file in the archive: offset of its first byte, size, and checksum, None where there is none."""

    start: int
    size: int
    crc32: int | None


def members(source: Source) -> dict[str, ArchiveMember]:
    """The members by name."""
    listed = _list_of(source)
    source.budget.add_header(len(listed))
    by_name: dict[str, ArchiveMember] = {}
    at = 0
    while at < len(listed):
        source.budget.take(_MEMBER.memory, _MEMBER.steps)
        if at + _ENTRY.size > len(listed) or not listed.startswith(b"PK\x01\x02", at):
            raise _damaged(source, "its list of members is cut or overwritten")
        _, _, _, flags, method, _, _, crc, packed, count, *lengths, _, _, _, start = _ENTRY.unpack_from(listed, at)
        name_end = at + _ENTRY.size + lengths[0]
        name = listed[at + _ENTRY.size : name_end].decode("utf-8" if flags & _UTF8 else "cp437", "replace")
        extra, extra_at = listed[name_end : name_end + lengths[1]], 0
        while _UNKNOWN in (count, packed, start) and extra_at + 4 <= len(extra):  # 4.5.3
            kind, size = struct.unpack_from("<HH", extra, extra_at)
            extra_at += 4
            if kind == 1:
                values = iter(struct.unpack_from(f"<{min(size, len(extra) - extra_at) // 8}Q", extra, extra_at))
                count, packed, start = (next(values, it) if it == _UNKNOWN else it for it in (count, packed, start))
                break
            extra_at += size
        if name in by_name:
            raise RecordFormatError(f"{source.path}: the name '{name[:80]}' comes twice in its zip archive")
        if method != 0 or flags & _ENCRYPTED or count != packed:
            raise RecordFormatError(f"{source.path}: '{name[:80]}' is compressed or encrypted, torch.save does neither")
        head = source.read(start, 30)
        if head[:4] != ZIP_MAGIC:
            raise RecordFormatError(f"{source.path}: '{name[:80]}' is not where the zip archive says")
        start += 30 + sum(struct.unpack_from("<HH", head, 26))
        by_name[name] = ArchiveMember(start, count, crc)
        source.require(start, count)
        if count:
            source.budget.add_tensor(_MEMBER)
        at = name_end + lengths[1] + lengths[2]
    if not any(it.crc32 for it in by_name.values()):  # as torch.serialization.set_crc32_options(False) leaves them
        return {name: value._replace(crc32=None) for name, value in by_name.items()}
    return by_name


def _list_of(source: Source) -> bytes:
    size = source.stored_bytes
    tail_at = max(size - _END.size - _MOST_COMMENT, 0)
    tail = source.read(tail_at, size - tail_at)
    at = tail.rfind(b"PK\x05\x06")
    if at < 0 or at + _END.size > len(tail):
        raise _damaged(source, "it has no end, which tells its members")
    _, _, _, _, _, count, start, _ = _END.unpack_from(tail, at)
    locator_at = tail_at + at - _LOCATOR_64.size
    if locator_at >= 0 and source.read(locator_at, 4) == b"PK\x06\x07":
        _, _, end_at, _ = _LOCATOR_64.unpack(source.read(locator_at, _LOCATOR_64.size))
        end_fields = _END_64.unpack(source.read(end_at, _END_64.size))
        if end_fields[0] != b"PK\x06\x06":
            raise _damaged(source, "its end is not where it says")
        count, start = end_fields[-2:]
    if start + count > size:
        raise _damaged(source, "its list of members is not where it says")
    return source.read(start, count)


def _damaged(source: Source, what: str) -> RecordFormatError:
    return RecordFormatError(f"{source.path}: its zip archive is damaged: {what}; save or fetch it again")


_OLD_MAGIC = 0x1950A86A20F9469CFC6C
_OLD_VERSION = 1001
_MAX_PICKLE_BYTES = 1 << 30
_LONGEST_TEXT = 80
_STORAGE_BYTES, _STORAGE_STEPS = 260, 60


@dataclass(frozen=True, slots=True)
class Archive:
    """The content of the main pickle, where the bytes of each storage are, by key, and the version of the format."""

    content: Any
    places: Mapping[str, ArchiveMember]
    version: str


class TorchFormat(Format):
    """See `burnlike.record.formats.Format`; it reads only."""

    name, extension, compressed = "pt", ".pt", False
    has_top_level_keys = True

    def segments(self, outline: Outline) -> list[Segment]:
        """None: other formats say the same without pickle."""
        raise RecordError("burnlike writes no pickles; save to a name that ends in .safetensors")

    def read(self, source: Source, layout: object = None, top_level_key: str | None = None) -> Outline:
        archive = archive_of(source)
        tensors, values, versions = flatten(archive.content, top_level_key, source)
        entries: dict[str, StoredTensor] = {}
        aliases: dict[str, str] = {}
        first: dict[PickledTensor, str] = {}
        storages: dict[str, Source] = {}
        for name, tensor in tensors.items():
            same = first.setdefault(tensor, name)
            if same != name:
                aliases[name] = same
                continue
            key = tensor.storage.key
            if key in archive.places and key not in storages:
                storages[key] = CheckedSource(source, *archive.places[key], f"data/{key}")
            entries[name] = _stored(name, tensor, storages.get(key), source)
        noted = {} if versions is None else {VERSIONS: versions}
        if isinstance(archive.content, Opaque):
            noted[PICKLED] = str(archive.content.symbol)
        return Outline(
            entries, aliases=aliases, values=values, metadata=noted, format=self.name, version=archive.version
        )


def archive_of(source: Source) -> Archive:
    """The content of a file, its tensors' values unread; errors are those of `TorchFormat.read`."""
    return _zip(source) if source.read(0, 1) == b"P" else _old(source)


def entry_of(name: str, tensor: PickledTensor, archive: Archive, source: Source) -> StoredTensor:
    """The place of the values of one tensor; see `archive_of`."""
    place = archive.places.get(key := tensor.storage.key)
    return _stored(name, tensor, None if place is None else CheckedSource(source, *place, f"data/{key}"), source)


def _zip(source: Source) -> Archive:
    archive_members = members(source)
    main = next((name for name in archive_members if name.partition("/")[2] == "data.pkl"), None)
    if main is None:
        raise RecordFormatError(f"{source.path}: expected a file of torch.save, got a zip archive without data.pkl")
    prefix = main.removesuffix("data.pkl")
    if f"{prefix}constants.pkl" in archive_members:
        raise RecordFormatError(f"{source.path}: is a TorchScript program; save its state_dict() instead")
    places = {name.removeprefix(prefix): place for name, place in archive_members.items()}
    if _text(places, "byteorder", source) not in ("", "little"):
        raise RecordFormatError(f"{source.path}: its numbers are big-endian, which is not read")
    main_pickle = places["data.pkl"]
    if main_pickle.size > _MAX_PICKLE_BYTES:
        raise RecordFormatError(
            f"{source.path}: its pickle has {main_pickle.size} bytes, at most {_MAX_PICKLE_BYTES} are read"
        )
    source.budget.add_header(main_pickle.size)
    source.budget.take(main_pickle.size, 0)
    data = CheckedSource(source, *main_pickle, "data.pkl").read(0, main_pickle.size)
    content, _ = load_pickle(io.BytesIO(data), source)
    storages = {name.removeprefix("data/"): place for name, place in places.items() if name.startswith("data/")}
    return Archive(content, storages, _text(places, "version", source).strip())


def _text(places: Mapping[str, ArchiveMember], name: str, source: Source) -> str:
    place = places.get(name)
    if place is None or place.size > _LONGEST_TEXT:
        return ""
    return CheckedSource(source, *place, name).read(0, place.size).decode("ascii", "replace")


def _old(source: Source) -> Archive:
    file = _File(source)
    if load_pickle(file, source)[0] != _OLD_MAGIC or load_pickle(file, source)[0] != _OLD_VERSION:
        raise RecordFormatError(
            f"{source.path}: expected a record, got a pickle that torch.save did not write; only code could read it"
        )
    system, _ = load_pickle(file, source)
    if isinstance(system, dict) and system.get("little_endian") is False:
        raise RecordFormatError(f"{source.path}: its numbers are big-endian, which is not read")
    content, storages = load_pickle(file, source)
    keys, _ = load_pickle(file, source)
    if not isinstance(keys, list) or not all(isinstance(key, str) for key in keys):
        raise RecordFormatError(f"{source.path}: does not list its storages; save or fetch it again")
    source.budget.take(_STORAGE_BYTES * len(keys), _STORAGE_STEPS * len(keys))
    places: dict[str, ArchiveMember] = {}
    at = file.tell()
    for key in keys:
        dtype = storages[key].dtype or "U8" if key in storages else "?"
        if dtype not in DTYPE_BITS:
            raise RecordFormatError(f"{source.path}: has a storage of the type {dtype[:80]}, its length is not known")
        item_bytes = DTYPE_BITS[dtype] // 8
        count = int.from_bytes(source.read(at, 8), "little") * item_bytes
        source.require(at + 8, count)
        places[key] = ArchiveMember(at + 8, count, None)
        at += 8 + count
    return Archive(content, places, str(_OLD_VERSION))


def _stored(name: str, tensor: PickledTensor, storage: Source | None, source: Source) -> StoredTensor:
    what = f"{source.path}: the tensor '{name}'"
    if tensor.dtype not in DTYPE_BITS:
        raise RecordFormatError(
            f"{what} is in a {tensor.dtype[:80]}, a type that records do not have; save complex128 as"
            " torch.view_as_real(tensor), or read only a part of the file by top_level_key"
        )
    if storage is None:
        raise RecordFormatError(f"{what} is in a storage that the file lacks; save or fetch it again")
    shape, size = tensor.shape, DTYPE_BITS[tensor.dtype] // 8
    pairs = [*zip(shape, tensor.strides, strict=True)]
    if tensor.metadata:
        raise RecordFormatError(f"{what} is a conjugated or negated view; save .resolve_conj().resolve_neg()")
    entry = StoredTensor(name, tensor.dtype, shape, storage, tensor.offset * size)
    if 0 in shape:
        return entry
    end = tensor.offset + 1 + sum((length - 1) * stride for length, stride in pairs)
    repeats = any(stride == 0 and length > 1 for length, stride in pairs)
    if max(end * size, entry.nbytes) > storage.stored_bytes or repeats:
        raise RecordFormatError(
            f"{what} takes more bytes than its storage has ({storage.stored_bytes}); it is damaged, or an expanded"
            " tensor: save .contiguous()"
        )
    expected = 1
    for length, stride in reversed(pairs):
        if length != 1 and stride != expected:
            strided = StridedSource(storage, entry.start, size, shape, tensor.strides)
            return StoredTensor(name, tensor.dtype, shape, strided, 0)
        expected *= length
    return entry


class _File:
    """A source as a file that pickles are read from; a read takes no more memory than there are bytes."""

    def __init__(self, source: Source) -> None:
        self._cursor = Cursor(source)

    def read(self, count: int) -> bytes:
        return self._cursor.take(min(count, max(self._cursor.source.stored_bytes - self._cursor.position, 0)))

    def readline(self) -> bytes:
        """Up to the next line's end, which old pickles have after numbers and names."""
        data = bytearray()
        while len(data) <= 1 << 16 and not data.endswith(b"\n") and (byte := self.read(1)):
            data += byte
        return bytes(data)

    def tell(self) -> int:
        return self._cursor.position


class StridedSource(Source):
    """Puts the elements in order in memory when the first is asked for, and lets go of them once all were read.

    An element has 1, 2, 4 or 8 bytes. A stride is the number of elements from one index to the next; it is 0 only in
    dimensions of one element.
    """

    sequential = True

    def __init__(self, source: Source, start: int, size: int, shape: Sequence[int], strides: Sequence[int]) -> None:
        self.path = source.path
        self._source, self._start, self._size = source, start, size
        self.parts = (source,)
        self._shape, self._strides = shape, strides
        self.stored_bytes = prod(shape) * size
        self._lock = threading.Lock()
        self._ordered: memoryview | None = None
        self._left = 0

    def read_into(self, offset: int, into: memoryview) -> None:
        self.require(offset, len(into))
        with self._lock:
            if self._ordered is None:
                self._ordered, self._left = self._in_order(), self.stored_bytes
            into[:] = self._ordered[offset : offset + len(into)]
            self._left -= len(into)
            if self._left <= 0:
                self._ordered = None

    def _in_order(self) -> memoryview:
        reach = 1 + sum((length - 1) * stride for length, stride in zip(self._shape, self._strides, strict=True))
        data = bytearray(reach * self._size)
        self._source.read_into(self._start, memoryview(data))
        ordered = bytearray(self.stored_bytes)
        into = elements_in(ordered, self._size).view(self._shape)
        into.copy_(elements_in(data, self._size).as_strided(self._shape, self._strides))
        return memoryview(ordered)


TORCH = TorchFormat()
