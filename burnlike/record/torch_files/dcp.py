"""Directories of `torch.distributed.checkpoint`, read without torch, without its processes, and running nothing.

`.metadata` is a pickle that says of which parts each tensor is made and where these are; `__0_0.distcp` and the like
have them, each as `torch.save` writes it. torch's own reader does not do: `FileSystemReader.read_metadata` calls
`pickle.load`, which runs what the file says, and it reads into tensors that must be there before.
"""

import io
import os
import threading
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from ..._dtypes import DTYPES
from ...errors import ArgumentError, RecordError, RecordFormatError, nearest
from ..bytes.budget import MAX_DIMENSIONS, Budget, TensorCost
from ..bytes.source import MOST_OPEN, CheckedSource, FileSource, Source
from ..files.chunks import Chunk, stored_in_chunks
from ..formats import DTYPE_BITS, Outline, StoredTensor
from ..metadata import MAX_DEPTH, aliases_of, decode
from .torch_file import archive_of, entry_of
from .torch_pickle import MAX_INT_BITS, Opaque, PickledTensor, Symbol, flatten, kind_of, load_pickle

METADATA_NAME = ".metadata"
OWN_TEXTS = "burnlike"
"""The entry with what burnlike adds: ids, aliases and the like, as a safetensors file has them."""
SKIPPED = "dcp.skipped"
"""In the metadata of a record: objects of the directory that only code could make."""

_CHUNK = TensorCost(memory=6000, steps=1600, file_bytes=160)
_PICKLE_BYTES = 150  # the least that a part takes in `.metadata`
_DTYPES = {dtype.torch: dtype.record for dtype in DTYPES if dtype.torch}


def read_dcp(path: str, top_level_key: str | None = None) -> tuple[Source, Outline]:
    """The content of a directory; see `burnlike.record.files.reading.read_outline`."""
    source = FileSource(os.path.join(path, METADATA_NAME))
    files = _Files(path, source)
    entries, chunks = _content(source)
    names = _names(source.path, entries, top_level_key)
    tensors: dict[str, StoredTensor] = {}
    values: dict[str, Any] = {}
    skipped: list[str] = []
    for name, entry in entries.items():
        if (shown := names.get(name)) is None:
            continue
        places = chunks.get(name, {})
        if _is(entry, "TensorStorageMetadata"):
            tensors[shown] = _tensor(path, name, shown, entry, places, files)
        elif _is(entry, "BytesStorageMetadata"):
            if not _add_object(shown, files.part(places.get(None), name), values, tensors):
                skipped.append(shown)
        else:
            raise RecordFormatError(f"{source.path}: expected '{name[:80]}' to be a tensor or an object of torch's")
    source.budget.end()
    source.path = path
    metadata = {SKIPPED: ", ".join(skipped)} if skipped else {}
    return source, _with_own_texts(path, Outline(tensors, values=values, metadata=metadata, format="dcp"))


def _with_own_texts(path: str, outline: Outline) -> Outline:
    """The outline with what `DcpRecorder` noted, if it wrote the directory."""
    texts = outline.values.get(OWN_TEXTS)
    if not isinstance(texts, dict) or not all(isinstance(text, str) for text in (*texts, *texts.values())):
        return outline
    aliases = aliases_of(texts, path, Budget(path))
    entries = {name: entry for name, entry in outline.entries.items() if name not in aliases}
    return replace(decode(texts, entries, path), format=outline.format)


def _content(source: Source) -> tuple[Mapping[str, Any], dict[str, dict[Any, Any]]]:
    """The tensors and objects by name; and of each the places of its parts, by their offsets."""
    source.budget.add_header(source.stored_bytes)
    for _ in range(source.stored_bytes // _PICKLE_BYTES):
        source.budget.add_tensor(_CHUNK)
    content, _ = load_pickle(io.BytesIO(source.read(0, source.stored_bytes)), source)
    state = content.state if _is(content, "Metadata") and isinstance(content.state, dict) else {}
    entries, places = state.get("state_dict_metadata"), state.get("storage_data")
    if not isinstance(entries, dict) or not isinstance(places, dict):
        raise RecordFormatError(
            f"{source.path}: expected the metadata of torch.distributed.checkpoint, got {kind_of(content)}"
        )
    states: dict[str, dict[Any, Any]] = {}
    for index, place in places.items():
        about = index.state if _is(index, "MetadataIndex") and isinstance(index.state, dict) else {}
        if not isinstance(about.get("fqn"), str) or not _is(place, "_StorageInfo"):
            raise RecordFormatError(f"{source.path}: says in an unknown way where a tensor is ({kind_of(place)})")
        offset = about.get("offset")
        states.setdefault(about["fqn"], {})[None if offset is None else _whole(offset, source.path)] = place
    if wrong := [kind_of(entry) for entry in entries if not isinstance(entry, str)]:
        raise RecordFormatError(f"{source.path}: expected texts as names of tensors, got {wrong[0]}")
    return entries, states


def _names(path: str, entries: Mapping[str, Any], key: str | None) -> dict[str, str]:
    """Name in the directory -> name in the record, of what is wanted."""
    if key is None:
        return {name: name for name in entries}
    names_below = {name: name.removeprefix(f"{key}.") for name in entries if name.startswith(f"{key}.")}
    if not names_below:
        parts = [*dict.fromkeys(name.partition(".")[0] for name in entries)]
        raise ArgumentError(
            f"{path}: expected a key among {', '.join(map(repr, parts[:10])) or 'none'}, got top_level_key={key!r}"
            f"{nearest(key, parts)}"
        )
    return names_below


def _tensor(
    path: str, name: str, shown: str, entry: Opaque, places: Mapping[Any, Any], files: "_Files"
) -> StoredTensor:
    state = entry.state if isinstance(entry.state, dict) else {}
    properties, chunks = state.get("properties"), state.get("chunks")
    opaque_state = properties.state if isinstance(properties, Opaque) else None
    kind = (
        opaque_state[0]
        if isinstance(opaque_state, tuple) and opaque_state
        else opaque_state.get("dtype")
        if isinstance(opaque_state, dict)
        else None
    )
    if not isinstance(kind, Symbol) or not isinstance(chunks, list):
        raise RecordFormatError(f"{path}: says nothing of the type or the parts of '{name[:80]}'")
    if kind.name not in _DTYPES or (dtype := _DTYPES[kind.name]) not in DTYPE_BITS:
        raise RecordFormatError(f"{path}: '{name[:80]}' is in {kind.name[:40]}, a type that records do not have")
    shape = _whole(state.get("size"), path)
    stored_chunks = []
    for chunk in chunks:
        about = chunk.state if _is(chunk, "ChunkStorageMetadata") and isinstance(chunk.state, dict) else {}
        offsets, sizes = _whole(about.get("offsets"), path), _whole(about.get("sizes"), path)
        place = places.get(offsets, places.get(None) if len(chunks) == 1 else None)
        if 0 in sizes and place is None:
            continue  # of a process that has nothing of it
        stored_chunks.append(Chunk(offsets, sizes, _SavedTensor(files.part(place, name), name, dtype, sizes), 0))
    return stored_in_chunks(shown, dtype, shape, stored_chunks, path)


def _add_object(name: str, part: CheckedSource, values: dict[str, Any], tensors: dict[str, StoredTensor]) -> bool:
    """Put an object that is no tensor among the values, nested as its name says, and its tensors among the others.

    Returns whether it is plain: nothing is run to make another one.
    """
    archive = archive_of(part)
    try:
        inner, flat_tensors, _ = flatten({name: archive.content}, None, part)
        added = {key: entry_of(key, tensor, archive, part) for key, tensor in inner.items()}
    except RecordFormatError:
        return False
    tensors |= added
    if name not in flat_tensors:
        return True
    *above, last = name.split(".")
    if len(above) >= MAX_DEPTH:
        raise RecordFormatError(f"{part.path}: '{name[:80]}' is nested too deeply (more than {MAX_DEPTH} levels)")
    for step in above:
        values = values.setdefault(step, {})
        if not isinstance(values, dict):
            raise RecordFormatError(f"{part.path}: has two values with the name '{name[:80]}'")
    values[last] = flat_tensors[name]
    return True


def _is(item: Any, name: str) -> bool:
    """True if it is an object of this class of torch's checkpoints."""
    if not isinstance(item, Opaque) or item.symbol.name != name:
        return False
    return item.symbol.module.startswith(("torch.distributed.checkpoint.", "torch.distributed._shard."))


def _whole(item: Any, path: str) -> tuple[int, ...]:
    if not isinstance(item, tuple | list) or len(item) > MAX_DIMENSIONS:
        raise RecordFormatError(f"{path}: expected a shape of at most {MAX_DIMENSIONS} dimensions, got {kind_of(item)}")
    if not all(type(it) is int and 0 <= it < 1 << MAX_INT_BITS for it in item):
        raise RecordFormatError(f"{path}: a shape has something else than whole numbers")
    return tuple(item)


class _Files:
    """The files of a directory, opened once each."""

    def __init__(self, path: str, first: Source) -> None:
        self._path, self._budget = path, first.budget
        self._open: dict[str, FileSource] = {}
        try:
            for name in os.listdir(path):
                if name != METADATA_NAME and os.path.isfile(os.path.join(path, name)):
                    self._budget.add_file(os.path.getsize(os.path.join(path, name)))
        except OSError as error:
            raise RecordError(f"{path}: {error.strerror}") from error

    def part(self, place: Any, name: str) -> CheckedSource:
        """The place of one entry."""
        state = place.state if isinstance(place, Opaque) and isinstance(place.state, dict) else {}
        file, start, size = (state.get(key) for key in ("relative_path", "offset", "length"))
        if not (isinstance(file, str) and type(start) is int and type(size) is int and start >= 0 <= size):
            raise RecordFormatError(f"{self._path}: does not say where '{name[:80]}' is; fetch the directory again")
        if os.path.basename(file) != file or file in ("", ".", "..") or "\0" in file:
            raise RecordFormatError(f"{self._path}: names the file {file[:80]!r}, expected one in the directory itself")
        if state.get("transform_descriptors"):
            raise RecordFormatError(
                f"{self._path}: '{name[:80]}' was compressed or changed by an extension of torch's checkpoints; save"
                " the directory again without it"
            )
        if file not in self._open:
            self._open[file] = FileSource(os.path.join(self._path, file), stays_open=len(self._open) < MOST_OPEN)
            self._open[file].budget = self._budget
        self._open[file].require(start, size)
        return CheckedSource(self._open[file], start, size, None, name)  # without a checksum of its own


class _SavedTensor(Source):
    """The values of a tensor that `torch.save` wrote, which are looked for when they are first read."""

    def __init__(self, part: CheckedSource, name: str, dtype: str, shape: tuple[int, ...]) -> None:
        entry = StoredTensor(name, dtype, shape, part, 0)
        self.path, self.stored_bytes = part.path, entry.nbytes
        self._part, self._expected, self.parts = part, entry, (part,)
        self._lock = threading.Lock()
        self._found: StoredTensor | None = None

    def read_into(self, offset: int, into: memoryview) -> None:
        self.require(offset, len(into))
        self._entry().read_into(offset, into)

    def check(self) -> None:
        self._entry().source.check()

    def verify(self) -> bool:
        return self._entry().source.verify()

    def _entry(self) -> StoredTensor:
        with self._lock:
            if self._found is None:
                name, expected = self._expected.name, self._expected
                archive = archive_of(self._part)
                if not isinstance(archive.content, PickledTensor):
                    raise RecordFormatError(
                        f"{self.path}: expected the tensor '{name[:80]}', got {kind_of(archive.content)}"
                    )
                entry = entry_of(name, archive.content, archive, self._part)
                if (entry.dtype, entry.shape) != (expected.dtype, expected.shape):
                    raise RecordFormatError(
                        f"{self.path}: expected a part of '{name[:80]}' of {expected.dtype} {[*expected.shape]}, got"
                        f" {entry.dtype} {[*entry.shape]}; the files are not of one save"
                    )
                self._found = entry
            return self._found
