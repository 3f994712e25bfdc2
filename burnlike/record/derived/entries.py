"""Entries of state dicts that are not parameters or buffers, among the values of a record.

An entry stands under its name, `{"$entry": tree}`, where the tree names its tensors by their paths below the entry; the
record has them under the entry's name and that path.
"""

import json
from collections.abc import Callable, Iterator, Mapping
from typing import TYPE_CHECKING, Any

from ...errors import RecordFormatError
from ..layout import join
from ..metadata import VERSIONS, dump_versions
from ..values import ENTRY, from_json
from .state_tree import TENSOR_TAGS, decode_tree

if TYPE_CHECKING:
    from ..record import Record


def is_entry(value: Any) -> bool:
    """Whether a value of a record is an entry of a state dict."""
    return isinstance(value, Mapping) and len(value) == 1 and ENTRY in value


def entries_of(values: Mapping[str, Any], prefix: str = "") -> Iterator[tuple[str, Any]]:
    """Each entry's name and tree, wherever it is among a record's values."""
    for key, value in values.items():
        if is_entry(value):
            yield join(prefix, key), value[ENTRY]
        elif isinstance(value, Mapping):
            yield from entries_of(value, join(prefix, key))


def tensors_in(tree: Any, name: str) -> Iterator[str]:
    """The names of the record's tensors that the entry `name` has."""
    if isinstance(tree, list):
        for item in tree:
            yield from tensors_in(item, name)
    elif isinstance(tree, Mapping):
        tag, path = next(iter(tree.items()), ("", None))
        if len(tree) == 1 and tag in TENSOR_TAGS and isinstance(path, str):
            yield join(name, path) if path else name
        else:
            for item in tree.values():
                yield from tensors_in(item, name)


def entry_tensors(values: Mapping[str, Any]) -> set[str]:
    """The names of all tensors of entries; they are stored in their own types, as nothing says what is to be loaded."""
    return {at for name, tree in entries_of(values) for at in tensors_in(tree, name)}


def decoded(tree: Any, name: str, record: "Record") -> Any:
    """The entry `name` of a record as the module gave it; its tensors are read.

    Raises:
        RecordFormatError: it is damaged.
    """
    tensors = {}
    for at in tensors_in(tree, name):
        first = record.aliases.get(at, at)
        if first in record.tensors:
            tensors[at.removeprefix(name).removeprefix(".")] = record.tensors[first].detach()
    return decode_tree(tree, tensors, record.source)


def versions_in(metadata: Mapping[str, Any], source: str) -> dict[str, dict[str, Any]] | None:
    """Path -> what torch noted about that module; None if the record doesn't say.

    Raises:
        RecordFormatError: it is damaged.
    """
    text = metadata.get(VERSIONS)
    if text is None:
        return None
    try:
        found = from_json(json.loads(text), f"{source}: {VERSIONS}")
    except (ValueError, TypeError, RecursionError) as error:
        raise RecordFormatError(f"{source}: {VERSIONS} is damaged ({error}); save or fetch it again") from error
    if not isinstance(found, dict) or not all(isinstance(it, dict) for it in found.values()):
        raise RecordFormatError(f"{source}: {VERSIONS} is damaged; save or fetch it again")
    return found


def renamed_versions(metadata: Mapping[str, Any], source: str, new_name: Callable[[str], str | None]) -> dict[str, str]:
    """The text of the versions in a record's metadata, by its key, for modules of other names; nothing if it has none.

    Args:
        metadata: of the record.
        source: for messages.
        new_name: path of a module -> its new one, None to leave it out.

    Raises:
        RecordFormatError: it is damaged.
    """
    found = versions_in(metadata, source)
    if found is None:
        return {}
    named = {new: it for path, it in found.items() if (new := new_name(path)) is not None}
    return {VERSIONS: dump_versions(named)}


def versions_together(parts: Mapping[str, "Record"]) -> dict[str, str]:
    """As `renamed_versions`, of several records: path -> the record that goes there."""
    noted = {path: versions_in(record.metadata, record.source) for path, record in parts.items()}
    if all(it is None for it in noted.values()):
        return {}
    pairs = [(path, name, it) for path, versions in noted.items() for name, it in (versions or {}).items()]
    return {VERSIONS: dump_versions({join(path, name) if name else path: it for path, name, it in pairs})}
