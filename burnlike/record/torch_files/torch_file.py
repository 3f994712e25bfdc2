"""Files of `torch.save`: state dicts and other maps of tensors and plain values, read without torch, running nothing.

Since torch 1.6 a file is a zip archive: `data.pkl` has the structure, `data/<key>` the bytes of each storage. An older
one is several pickles, one behind the other, and then the storages: of each, how many elements it has (8 bytes) and
its bytes.
"""

import io
import zipfile
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from ...errors import RecordError, RecordFormatError
from ..files.source import Cursor, Source
from ..metadata import PICKLED, VERSIONS
from ..outline import DTYPE_BITS, Outline, Segment, StoredTensor
from .flat_pickle import flatten
from .pickled import Opaque, PickledTensor
from .strided_source import StridedSource, is_contiguous
from .torch_pickle import load_pickle

ZIP_MAGIC = b"PK\x03\x04"
PICKLE_MAGIC = b"\x80"

_OLD_MAGIC = 0x1950A86A20F9469CFC6C
_OLD_VERSION = 1001
_MAX_PICKLE_BYTES = 1 << 30


class TorchFormat:
    """See `burnlike.record.formats.Format`; it reads only."""

    name, extension, compressed = "pt", ".pt", False

    def segments(self, outline: Outline) -> list[Segment]:
        """None: other formats say the same without pickle."""
        raise RecordError("burnlike writes no pickles; save to a name that ends in .safetensors")

    def read(self, source: Source, layout: object = None, top_level_key: str | None = None) -> Outline:
        """Read all but the values of the tensors.

        Args:
            source: the file.
            layout: not used.
            top_level_key: reads only what is under this key of the outermost map.

        Raises:
            RecordFormatError: it is damaged, or has objects that only code could make.
            ArgumentError: there is no such key.
            RecordIOError: reading fails.
        """
        archive = _zip(source) if source.read(0, 1) == b"P" else _old(source)
        tensors, values, versions = flatten(archive.content, top_level_key, source.path, archive.pickle_bytes)
        entries: dict[str, StoredTensor] = {}
        aliases: dict[str, str] = {}
        first: dict[PickledTensor, str] = {}
        for name, tensor in tensors.items():
            same = first.setdefault(tensor, name)
            if same != name:
                aliases[name] = same
            else:
                entries[name] = _stored(name, tensor, archive.places, source)
        noted = {} if versions is None else {VERSIONS: versions}
        if isinstance(archive.content, Opaque):
            noted[PICKLED] = str(archive.content.symbol)
        return Outline(
            entries, aliases=aliases, values=values, metadata=noted, format=self.name, version=archive.version
        )


@dataclass(frozen=True, slots=True)
class _Archive:
    """What a file has.

    Attributes:
        content: of its main pickle.
        pickle_bytes: how long that is.
        places: key of each storage -> offset and length of its bytes.
        version: of the format.
    """

    content: Any
    pickle_bytes: int
    places: Mapping[str, tuple[int, int]]
    version: str


def _zip(source: Source) -> _Archive:
    try:
        with zipfile.ZipFile(_File(source)) as archive:
            infos = {info.filename: info for info in archive.infolist()}
            if len(infos) != len(archive.infolist()):
                raise RecordFormatError(f"{source.path}: a name comes twice in its zip archive")
            main = next((name for name in infos if name.partition("/")[2] == "data.pkl"), None)
            if main is None:
                raise RecordFormatError(
                    f"{source.path}: expected a file of torch.save, got a zip archive without data.pkl"
                )
            prefix = main.removesuffix("data.pkl")
            if f"{prefix}constants.pkl" in infos:
                raise RecordFormatError(f"{source.path}: is a TorchScript program; save its state_dict() instead")
            places = {name.removeprefix(prefix): _place(info, source) for name, info in infos.items()}
    except (zipfile.BadZipFile, OSError, ValueError, NotImplementedError, UnicodeDecodeError) as error:
        if isinstance(error, RecordError):
            raise
        raise RecordFormatError(
            f"{source.path}: its zip archive is damaged ({error}); save or fetch it again"
        ) from error
    if _text(places, "byteorder", source) not in ("", "little"):
        raise RecordFormatError(f"{source.path}: its numbers are big-endian, which is not read")
    begin, count = places["data.pkl"]
    data = _pickle_bytes(source, begin, count)
    content, _ = load_pickle(io.BytesIO(data), source.path)
    storages = {name.removeprefix("data/"): place for name, place in places.items() if name.startswith("data/")}
    return _Archive(content, count, storages, _text(places, "version", source).strip())


def _place(info: zipfile.ZipInfo, source: Source) -> tuple[int, int]:
    """Offset and length of a member's bytes."""
    if info.compress_type != zipfile.ZIP_STORED or info.flag_bits & 1 or info.file_size != info.compress_size:
        raise RecordFormatError(f"{source.path}: '{info.filename}' is compressed or encrypted, torch.save does neither")
    head = source.read(info.header_offset, 30)
    if head[:4] != ZIP_MAGIC:
        raise RecordFormatError(f"{source.path}: '{info.filename}' is not where the zip archive says")
    begin = info.header_offset + 30 + int.from_bytes(head[26:28], "little") + int.from_bytes(head[28:30], "little")
    source.require(begin, info.file_size)
    return begin, info.file_size


def _text(places: Mapping[str, tuple[int, int]], name: str, source: Source) -> str:
    begin, count = places.get(name, (0, 0))
    return source.read(begin, min(count, 80)).decode("ascii", "replace")


def _pickle_bytes(source: Source, begin: int, count: int) -> bytes:
    if count > _MAX_PICKLE_BYTES:
        raise RecordFormatError(f"{source.path}: its pickle has {count} bytes, at most {_MAX_PICKLE_BYTES} are read")
    return source.read(begin, count)


def _old(source: Source) -> _Archive:
    file = _File(source)
    if load_pickle(file, source.path)[0] != _OLD_MAGIC or load_pickle(file, source.path)[0] != _OLD_VERSION:
        raise RecordFormatError(
            f"{source.path}: expected a record, got a pickle that torch.save did not write; only code could read it"
        )
    system, _ = load_pickle(file, source.path)
    if isinstance(system, dict) and system.get("little_endian") is False:
        raise RecordFormatError(f"{source.path}: its numbers are big-endian, which is not read")
    begin = file.tell()
    content, storages = load_pickle(file, source.path)
    pickle_bytes = file.tell() - begin
    keys, _ = load_pickle(file, source.path)
    if not isinstance(keys, list) or not all(isinstance(key, str) for key in keys):
        raise RecordFormatError(f"{source.path}: does not list its storages; save or fetch it again")
    places: dict[str, tuple[int, int]] = {}
    at = file.tell()
    for key in keys:
        dtype = storages[key].dtype or "U8" if key in storages else "?"
        if dtype not in DTYPE_BITS:
            raise RecordFormatError(f"{source.path}: has a storage of the type {dtype[:80]}, its length is not known")
        item_bytes = DTYPE_BITS[dtype] // 8
        count = int.from_bytes(source.read(at, 8), "little") * item_bytes
        source.require(at + 8, count)
        places[key] = (at + 8, count)
        at += 8 + count
    return _Archive(content, pickle_bytes, places, str(_OLD_VERSION))


def _stored(name: str, tensor: PickledTensor, places: Mapping[str, tuple[int, int]], source: Source) -> StoredTensor:
    """Where the values are.

    Raises:
        RecordFormatError: they are not all in the file.
    """
    what = f"{source.path}: the tensor '{name}'"
    if tensor.dtype not in DTYPE_BITS:
        raise RecordFormatError(
            f"{what} is in a {tensor.dtype[:80]}, a type that records do not have; save complex128 as"
            " torch.view_as_real(tensor), or read only a part of the file by top_level_key"
        )
    if tensor.storage.key not in places:
        raise RecordFormatError(f"{what} is in a storage that the file lacks; save or fetch it again")
    begin, storage_bytes = places[tensor.storage.key]
    shape, strides, size = tensor.shape, tensor.strides, DTYPE_BITS[tensor.dtype] // 8
    if tensor.metadata:
        raise RecordFormatError(f"{what} is a conjugated or negated view; save .resolve_conj().resolve_neg()")
    entry = StoredTensor(name, tensor.dtype, shape, source, begin + tensor.offset * size)
    if 0 in shape:
        return entry
    last = tensor.offset + sum((length - 1) * stride for length, stride in zip(shape, strides, strict=True))
    repeats = any(stride == 0 and length > 1 for length, stride in zip(shape, strides, strict=True))
    if (last + 1) * size > storage_bytes or entry.nbytes > storage_bytes or repeats:
        raise RecordFormatError(
            f"{what} takes more bytes than its storage has ({storage_bytes}); it is damaged, or an expanded tensor:"
            " save .contiguous()"
        )
    if is_contiguous(shape, strides):
        return entry
    strided = StridedSource(source, entry.start, size, shape, strides)
    return StoredTensor(name, tensor.dtype, shape, strided, 0)


class _File(io.RawIOBase):
    """A source as a file that `zipfile` and pickle read; a read takes no more memory than there are bytes."""

    def __init__(self, source: Source) -> None:
        self._source = source
        self._cursor = Cursor(source)

    def read(self, count: int | None = -1) -> bytes:
        """At most `count` bytes."""
        left = max(self._source.stored_bytes - self._cursor.position, 0)
        return self._cursor.take(left if count is None or count < 0 else min(count, left))

    def readline(self, size: int | None = -1) -> bytes:
        """Up to the next line's end, which old pickles have after numbers and names."""
        found = bytearray()
        while byte := self.read(1):
            found += byte
            if byte == b"\n" or len(found) > 1 << 16:
                break
        return bytes(found)

    def seek(self, offset: int, whence: int = 0) -> int:
        """Go to a place."""
        base = (0, self._cursor.position, self._source.stored_bytes)[whence]
        if base + offset < 0:
            raise ValueError("a place before the beginning")
        self._cursor.position = base + offset
        return base + offset

    def tell(self) -> int:
        """The place."""
        return self._cursor.position

    def readable(self) -> bool:
        """True."""
        return True

    def seekable(self) -> bool:
        """True."""
        return True


TORCH = TorchFormat()
