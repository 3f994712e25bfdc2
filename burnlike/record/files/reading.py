"""Records in files of any format: all but the tensors' values is read, and these are compared with their checksums.

A record may be in several safetensors files, as Hugging Face lays them out. Beside `model-00001-of-00003.safetensors`
and the others lies `model.safetensors.index.json`, which says in which file each tensor is. A record that fits one file
is `model.safetensors`, without an index; where both are there, the single file counts, as it does for `transformers`.
Imports no torch.
"""

import gc
import json
import os
import re
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from itertools import islice
from typing import Any

import msgspec

from ...errors import ArgumentError, RecordError, RecordFormatError, RecordIOError, nearest
from ...module.identity.param_id import ParamId
from ..bytes.budget import MAX_HEADER_BYTES, Budget, NotThisError, text_map
from ..bytes.source import FileSource, GzipSource, Source, checksum_of
from ..formats import (
    DEFAULT_EXTENSION,
    INDEX_SUFFIX,
    SINGLE_NAME as SINGLE_NAME,
    Format,
    Outline,
    StoredTensor,
    TensorEntry,
    detect,
    directory_reader,
    path_text,
)

WEIGHTS = [f"{name}{suffix}" for name in (SINGLE_NAME, "pytorch_model.bin") for suffix in ("", INDEX_SUFFIX)]
_TRIES = 5


def divide(outline: Outline, shard_bytes: int) -> list[Outline]:
    """Divide the tensors, in their order, among outlines of at most `shard_bytes` each.

    A larger tensor is alone in its outline. Ids, aliases and states go with their tensors; values and layout are in the
    first.
    """
    groups: list[list[TensorEntry]] = [[]]
    filled = 0
    for entry in outline.entries.values():
        if groups[-1] and filled + entry.nbytes > shard_bytes:
            groups.append([])
            filled = 0
        groups[-1].append(entry)
        filled += entry.nbytes
    first, *others = [_part(outline, group) for group in groups]
    return [first, *(replace(other, values={}, layout=None) for other in others)]


def _part(outline: Outline, group: Sequence[TensorEntry]) -> Outline:
    entries = {entry.name: entry for entry in group}
    return replace(
        outline,
        entries=entries,
        ids={name: outline.ids[name] for name in entries if name in outline.ids},
        aliases={alias: name for alias, name in outline.aliases.items() if name in entries},
        states=frozenset(name for name in outline.states if name in entries),
    )


def shard_name(stem: str, tag: str, number: int, count: int) -> str:
    """The name of file `number` of `count`, from 1; the tag tells apart sets that are there at the same time."""
    between = f"-{tag}-" if tag else "-"
    return f"{stem}{between}{number:05}-of-{count:05}{DEFAULT_EXTENSION}"


def shard_pattern(stem: str) -> re.Pattern[str]:
    """Finds the names of files that `shard_name` makes, by `fullmatch`."""
    return re.compile(rf"{re.escape(stem)}(-\d{{1,4}})?-\d{{5,}}-of-\d{{5,}}{re.escape(DEFAULT_EXTENSION)}")


def index_text(shards: Sequence[Outline], names: Sequence[str]) -> bytes:
    places = {name: file for shard, file in zip(shards, names, strict=True) for name in shard.entries}
    total = sum(entry.nbytes for shard in shards for entry in shard.entries.values())
    index = {"metadata": {"total_size": total}, "weight_map": places}
    return (json.dumps(index, indent=2, ensure_ascii=False) + "\n").encode()


def places_of(index: bytes, budget: Budget) -> dict[str, str]:
    """Name of each tensor -> name of its file, as an index says it."""
    try:
        decoded = msgspec.json.decode(index, type=_Index)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise NotThisError(f"is not JSON with a weight_map ({error})") from error
    return text_map(bytes(decoded.weight_map), budget)


class _Index(msgspec.Struct, gc=False):
    """The fields of an index that are used; the rest is skipped."""

    weight_map: msgspec.Raw


def listed_names(index: bytes) -> set[str] | None:
    """The files that an index speaks of and that lie beside it; None if it is not an index."""
    try:
        places = places_of(index, Budget("the index"))
    except (NotThisError, RecordFormatError):
        return None
    return {name for name in places.values() if name.endswith(DEFAULT_EXTENSION) and os.path.basename(name) == name}


def single_path(path: str | os.PathLike[str]) -> str:
    """The file that a record is in when it fits one, for a path that names it, its index or its directory.

    A name without an extension is that of a directory.
    """
    text = os.fspath(path)
    extension = os.path.splitext(text.removesuffix(INDEX_SUFFIX))[1]
    if os.path.isdir(text) or text.endswith(os.sep) or not extension:
        return os.path.join(text, SINGLE_NAME)
    if extension != DEFAULT_EXTENSION:
        raise RecordError(
            f"{text}: expected a directory or a name that ends in {DEFAULT_EXTENSION}, to divide among files"
        )
    return text.removesuffix(INDEX_SUFFIX)


def find_record(path: str | os.PathLike[str]) -> str:
    """The file for a path: in a directory the first of `WEIGHTS`; a name may lack the extension that saving appends."""
    text = os.fspath(path)
    in_directory = os.path.isdir(text)
    beside = (text, text + DEFAULT_EXTENSION, text + INDEX_SUFFIX)
    places = [os.path.join(text, name) for name in WEIGHTS] if in_directory else beside
    existing = next(filter(os.path.exists, places), None)
    if existing is not None or not in_directory:
        return existing or text
    lacks = f"without {', '.join(WEIGHTS[:-1])} and {WEIGHTS[-1]}"
    if any(name.endswith(".distcp") for name in os.listdir(text)):
        lacks = "of torch.distributed.checkpoint without .metadata, which is written last; take one that was finished"
    elif packs := sorted(name for name in os.listdir(text) if name.endswith(".bpk")):
        lacks = f"of {', '.join(packs[:3])}{', ...' if packs[3:] else ''}: name one of them"
    raise RecordIOError(f"{text}: expected a record's file, got a directory {lacks}")


def read_sharded(index: str, read: Callable[[str, Budget], Outline]) -> tuple[Source, Outline]:
    """The index, and what all files of the set hold; `read` gets the path of each file and the budget of all."""
    # Nothing locks a set of files: another process may put a new one in its place between two reads.
    for attempt in range(_TRIES):
        source = FileSource(index)
        if source.stored_bytes > MAX_HEADER_BYTES:
            raise RecordFormatError(f"{index}: has {source.stored_bytes} bytes, at most {MAX_HEADER_BYTES} are read")
        text = source.read(0, source.stored_bytes)
        try:
            outline = _merged(index, _places(text, source), read, source.budget)
            source.budget.end()
            return source, outline
        except (RecordIOError, RecordFormatError):
            # A save may have replaced the set in the meantime: its files are removed only after the index.
            again = FileSource(index)
            if attempt == _TRIES - 1 or again.read(0, again.stored_bytes) == text:
                raise
    raise AssertionError("the last attempt returns or raises")


def _places(text: bytes, source: Source) -> dict[str, str]:
    index = source.path
    source.budget.add_header(len(text))
    source.budget.take(len(text), 0)
    try:
        places = places_of(text, source.budget)
    except NotThisError as error:
        raise RecordFormatError(
            f"{index}: expected an index with a weight_map of names to files; it {error}"
        ) from error
    for name in set(places.values()):
        if os.path.basename(name) != name or name in ("", ".", "..") or "\0" in name or "\\" in name:
            raise RecordFormatError(
                f"{index}: names the file {name[:80]!r}, expected one beside it, without a directory"
            )
    return places


def _merged(index: str, places: Mapping[str, str], read: Callable[[str, Budget], Outline], budget: Budget) -> Outline:
    joined = Outline(format="safetensors")
    content: dict[str, Any] = {"entries": {}, "ids": {}, "aliases": {}, "values": {}, "metadata": {}, "states": set()}
    known_ids: set[ParamId] = set()
    names: dict[str, list[str]] = {}
    for name, file in places.items():
        names.setdefault(file, []).append(name)
    for number, file in enumerate(sorted(names)):
        shard = read(os.path.join(os.path.dirname(index), file), budget)
        _check_names(index, file, names[file], places, shard)
        if twice := next((name for name, param_id in shard.ids.items() if param_id in known_ids), None):
            raise RecordFormatError(f"{index}: '{twice}' and another tensor have the ParamId {shard.ids[twice]}")
        known_ids.update(shard.ids.values())
        for field, merged in content.items():
            merged.update(getattr(shard, field))
        layout = shard.layout if joined.layout is None else joined.layout
        joined = replace(shard if number == 0 else joined, layout=layout, changed=joined.changed or shard.changed)
    if alias := next((alias for alias in content["aliases"] if alias in content["entries"]), None):
        raise RecordFormatError(f"{index}: '{alias}' is a tensor in one file and the name of another in a second")
    return replace(joined, **content)


def _check_names(index: str, file: str, names: Sequence[str], places: Mapping[str, str], shard: Outline) -> None:
    for name in [name for name in names if name not in shard.entries and name not in shard.aliases][:1]:
        hint = nearest(name, [*islice(shard.entries, 10_000)])
        raise RecordFormatError(
            f"{index}: says that '{name}' is in {file}, which lacks it{hint}; the files are not of one save: fetch them"
            " again"
        )
    for name in shard.entries:
        if places.get(name) != file:
            where = f"says that it is in {places[name]}" if name in places else "does not name it"
            raise RecordFormatError(
                f"{index}: {file} has '{name}', but the index {where}; the files are not of one save: fetch them again"
            )


_READERS = 4
_REMEDY = "the file is damaged, or another program has changed it; fetch or save it again"


def read_outline(
    path: str | os.PathLike[str], layout: Any = None, top_level_key: str | None = None
) -> tuple[Source, Outline]:
    """The source without what compresses it, and all that the file holds but the values; see `open_record`."""
    place = path_text(path)
    if not os.path.isfile(place):
        if (reader := directory_reader(place)) is not None:
            return reader(place, top_level_key)
        place = find_record(place)
    if not place.endswith(INDEX_SUFFIX):
        return read_file(place, layout, top_level_key)
    return read_sharded(place, lambda shard, budget: read_file(shard, layout, top_level_key, budget)[1])


def read_file(
    path: str | os.PathLike[str],
    layout: Any = None,
    top_level_key: str | None = None,
    budget: Budget | None = None,
) -> tuple[Source, Outline]:
    """The same as `read_outline`, of a single file; `budget` is that of the set of files which it is one of."""
    source = FileSource(path, budget)
    detected = detect(source)
    if top_level_key is not None and not detected.has_top_level_keys:
        raise ArgumentError(f"{source.path}: top_level_key is for files of torch.save, this is {detected.name}")
    options = () if top_level_key is None else (top_level_key,)
    return read_source(source, detected, layout, *options, ends=budget is None)


def read_source(
    source: Source, file_format: Format, layout: Any = None, *options: Any, ends: bool = True
) -> tuple[Source, Outline]:
    """The source without what compresses it, and all that it holds but the values.

    `options` are for the format's `read`; with `ends`, nothing more is opened with the source's budget.
    """
    collects = gc.isenabled()
    gc.disable()  # all of the many objects stay, and looking at them takes a third of the time
    try:
        inner = GzipSource(source) if file_format.compressed else source
        outline = file_format.read(inner, layout, *options)
    finally:
        if collects:
            gc.enable()
    if ends:
        source.budget.end()
    return inner, outline


def verify_outline(outline: Outline) -> int:
    """Read the values of a file's tensors and compare them, and the header, with their checksums.

    Returns how many tensors were compared; those without a checksum are left out.
    """
    if outline.changed:
        raise RecordFormatError(
            f"{outline.changed}: the header, which has names, ids and plain values, is not the one that was saved (its"
            f" checksum differs): {_REMEDY}"
        )
    entries = outline.entries.values()
    stored = [entry for entry in entries if isinstance(entry, StoredTensor)]
    with_checksum = [it for it in stored if it.crc32 is not None]
    others = [it for it in stored if it.crc32 is None]
    sources = {id(it.source): it.source for it in others}
    with ThreadPoolExecutor(_READERS) as pool:
        list(pool.map(_verify, with_checksum))
        verified = dict(zip(sources, pool.map(lambda it: it.verify(), sources.values()), strict=True))
    return len(with_checksum) + sum(verified[id(it.source)] for it in others)


def _verify(entry: StoredTensor) -> None:
    checksum = checksum_of(entry.source, entry.start, entry.stored_bytes)
    if checksum != entry.crc32:
        raise RecordFormatError(
            f"{entry.source.path}: the values of '{entry.name[:80]}' are not those that were saved (checksum"
            f" {checksum:08x}, expected {entry.crc32:08x}): {_REMEDY}"
        )
