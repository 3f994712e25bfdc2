"""Records in several safetensors files, as Hugging Face lays them out. Imports no torch.

Beside `model-00001-of-00003.safetensors` and the others lies `model.safetensors.index.json`, which says in which file
each tensor is. A record that fits one file is `model.safetensors`, without an index; where both are there, the single
file counts, as it does for `transformers`.
"""

import json
import os
import re
from collections.abc import Sequence
from dataclasses import replace

import msgspec

from ...errors import RecordError, RecordFormatError
from ..files.budget import Budget
from ..files.json_scan import NotThisError, text_map
from ..outline import Outline, TensorEntry

DETAILS = "record.safetensors"
"""In a directory that `DistributedRecorder` wrote, the file without tensors that has what burnlike adds to torch's."""
SINGLE_NAME = "model.safetensors"
"""What `transformers` looks for in a directory."""

EXTENSION = ".safetensors"
INDEX_SUFFIX = ".index.json"


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
    return f"{stem}{between}{number:05}-of-{count:05}{EXTENSION}"


def shard_pattern(stem: str) -> re.Pattern[str]:
    """Finds the names of files that `shard_name` makes, by `fullmatch`."""
    return re.compile(rf"{re.escape(stem)}(-\d{{1,4}})?-\d{{5,}}-of-\d{{5,}}{re.escape(EXTENSION)}")


def index_text(shards: Sequence[Outline], names: Sequence[str]) -> bytes:
    """The index of shards that have these file names."""
    places = {name: file for shard, file in zip(shards, names, strict=True) for name in shard.entries}
    total = sum(entry.nbytes for shard in shards for entry in shard.entries.values())
    index = {"metadata": {"total_size": total}, "weight_map": places}
    return (json.dumps(index, indent=2, ensure_ascii=False) + "\n").encode()


def places_of(index: bytes, budget: Budget) -> dict[str, str]:
    """Name of each tensor -> name of its file, as an index says it.

    Raises:
        NotThisError: it is not an index.
        RecordFormatError: the budget is over.
    """
    try:
        found = msgspec.json.decode(index, type=_Index)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise NotThisError(f"is not JSON with a weight_map ({error})") from error
    return text_map(bytes(found.weight_map), budget)


class _Index(msgspec.Struct, gc=False):
    """The fields of an index that are used; the rest is skipped."""

    weight_map: msgspec.Raw


def listed_names(index: bytes) -> set[str] | None:
    """The files that an index speaks of and that lie beside it; None if it is not an index."""
    try:
        places = places_of(index, Budget("the index"))
    except (NotThisError, RecordFormatError):
        return None
    return {name for name in places.values() if name.endswith(EXTENSION) and os.path.basename(name) == name}


def single_path(path: str | os.PathLike[str]) -> str:
    """The file that a record is in when it fits one, for a path that names it, its index or its directory.

    A name without an extension is that of a directory.

    Raises:
        RecordError: the name is not one of a safetensors file.
    """
    text = os.fspath(path)
    extension = os.path.splitext(text.removesuffix(INDEX_SUFFIX))[1]
    if os.path.isdir(text) or text.endswith(os.sep) or not extension:
        return os.path.join(text, SINGLE_NAME)
    if extension != EXTENSION:
        raise RecordError(f"{text}: expected a directory or a name that ends in {EXTENSION}, to divide among files")
    return text.removesuffix(INDEX_SUFFIX)
