"""Puts one tree over another: the files under `defaults:`, and the mappings that options give."""

from .node import Entries, MappingEntry, Node
from .registry import TAG_FIELD


def merged(lower: Node, upper: Node) -> Node:
    """The values of `upper`, and those of `lower` that it does not have: mappings key by key, all else is replaced.

    Where a `type` changes, keys of the type before that the new one lacks are dropped when the tree is read.
    """
    if not (lower.is_map and upper.is_map):
        return upper
    kept: Entries = lower.value
    if type_in(upper) not in (None, type_in(lower)):
        kept = written_for_type(kept)
    entries = Entries(kept)
    for key, entry in upper.value.items():
        below = kept.get(key)
        entries[key] = entry._replace(value=merged(below.value, entry.value) if below else entry.value)
    return upper.with_value(entries)


def written_for_type(entries: Entries) -> Entries:
    """The entries of a mapping whose `type` is about to be replaced, marked with that type.

    Those that options gave stay as they are: an option that the new type has no key for is a mistake.
    """
    old = entries.get(TAG_FIELD)
    if old is None or old.from_option or not isinstance(old.value.value, str):
        return entries
    tag = old.value.value
    marked: dict[str, MappingEntry] = {
        key: entry if entry.from_option or entry.written_for else entry._replace(written_for=tag)
        for key, entry in entries.items()
    }
    return Entries(marked)


def type_in(node: Node) -> str | None:
    """The text of a mapping's `type:`, None where it has none."""
    entry = node.value.get(TAG_FIELD) if node.is_map else None
    return entry.value.value if entry and isinstance(entry.value.value, str) else None
