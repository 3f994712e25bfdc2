"""Reads a record in several files (see `shards`) as one, each tensor from its file."""

import os
from collections.abc import Callable, Mapping, Sequence
from itertools import islice
from typing import Any

from ...errors import RecordFormatError, RecordIOError, nearest
from ...module.identity.param_id import ParamId
from ..formats import DEFAULT_EXTENSION
from ..outline import Outline, TensorEntry
from ..safetensors.header import MAX_HEADER_BYTES
from ..saving.shards import DETAILS, INDEX_SUFFIX, SINGLE_NAME, places_of
from .budget import Budget
from .json_scan import NotThisError
from .source import FileSource, Source

_TRIES = 5


def find_record(path: str | os.PathLike[str]) -> str:
    """The file to read for a path: in a directory the single file or, where there is none, the index of a set.

    A path that is not there may lack the extension that saving appends.

    Raises:
        RecordIOError: a directory has neither.
    """
    text = os.fspath(path)
    if os.path.isdir(text):
        single = os.path.join(text, SINGLE_NAME)
        for found in (single, single + INDEX_SUFFIX):
            if os.path.exists(found):
                return found
        if is_distributed_record(text):
            raise RecordIOError(f"{text}: several processes wrote this directory; burnlike.record.open_record reads it")
        raise RecordIOError(
            f"{text}: expected a record's file, got a directory without {SINGLE_NAME} and {SINGLE_NAME}{INDEX_SUFFIX}"
        )
    if not os.path.exists(text):
        for suffix in (DEFAULT_EXTENSION, INDEX_SUFFIX):
            if os.path.exists(text + suffix):
                return text + suffix
    return text


def is_distributed_record(path: str | os.PathLike[str]) -> bool:
    """Whether `path` is a directory that `DistributedRecorder` wrote."""
    files = (SINGLE_NAME, SINGLE_NAME + INDEX_SUFFIX)
    return os.path.isfile(os.path.join(path, DETAILS)) and not any(
        os.path.exists(os.path.join(path, name)) for name in files
    )


def read_sharded(index: str, read: Callable[[str, Budget], Outline]) -> tuple[Source, Outline]:
    """Read all files of a set.

    Args:
        index: path of the index.
        read: reads one of them, with the budget of all.

    Returns:
        The index, and what is in the files together.

    Raises:
        RecordFormatError: the index is damaged, or names a file that is not beside it; or the files do not have just
            the tensors that it says.
        RecordIOError: a file can't be read.
    """
    for attempt in range(_TRIES):
        source = FileSource(index)
        if source.size > MAX_HEADER_BYTES:
            raise RecordFormatError(f"{index}: has {source.size} bytes, at most {MAX_HEADER_BYTES} are read")
        text = source.read(0, source.size)
        try:
            outline = _merged(index, _places(text, source), read, source.budget)
            source.budget.end()
            return source, outline
        except (RecordIOError, RecordFormatError):
            # A save may have replaced the set in the meantime: its files are removed only after the index.
            if attempt == _TRIES - 1 or _text(index) == text:
                raise
    raise AssertionError("the last attempt returns or raises")


def _text(index: str) -> bytes:
    source = FileSource(index)
    return source.read(0, source.size)


def _places(text: bytes, source: Source) -> dict[str, str]:
    """Name of each tensor -> name of its file."""
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
    directory = os.path.dirname(index)
    entries: dict[str, TensorEntry] = {}
    ids: dict[str, ParamId] = {}
    aliases: dict[str, str] = {}
    values: dict[str, Any] = {}
    metadata: dict[str, Any] = {}
    states: set[str] = set()
    known_ids: set[ParamId] = set()
    layout, first, changed = None, None, ""
    names: dict[str, list[str]] = {}
    for name, file in places.items():
        names.setdefault(file, []).append(name)
    for file in sorted(names):
        shard = read(os.path.join(directory, file), budget)
        first = first or shard
        _check_names(index, file, names[file], places, shard)
        for name, param_id in shard.ids.items():
            if param_id in known_ids:
                raise RecordFormatError(f"{index}: '{name}' and another tensor have the ParamId {param_id}")
            ids[name] = param_id
            known_ids.add(param_id)
        entries.update(shard.entries)
        aliases.update(shard.aliases)
        values.update(shard.values)
        metadata.update(shard.metadata)
        states.update(shard.states)
        layout = shard.layout if layout is None else layout
        changed = changed or shard.changed
    for alias in aliases:
        if alias in entries:
            raise RecordFormatError(f"{index}: '{alias}' is a tensor in one file and the name of another in a second")
    version, name = (first.version, first.format) if first else (None, "safetensors")
    return Outline(entries, ids, aliases, values, frozenset(states), layout, metadata, name, version, changed=changed)


def _check_names(index: str, file: str, names: Sequence[str], places: Mapping[str, str], shard: Outline) -> None:
    for name in [name for name in names if name not in shard.entries][:1]:
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
