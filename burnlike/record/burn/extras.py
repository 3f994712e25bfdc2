"""burnlike's additions to files of v0.21 that have names, for what Burn has no place. Imports no torch."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any, cast

from ...errors import RecordFormatError
from ..metadata import FORMAT_VERSION
from ..outline import Outline, StoredTensor
from ..values import from_json, to_json
from .envelope import KEYS
from .gathered import differing
from .roles import told_states

KEY = "burnlike"
"""Beside `metadata`, `item` and `_b`; Burn's readers pass over it."""


def encode(outline: Outline, values: Mapping[str, Any]) -> dict[str, Any] | None:
    """The value to write under `KEY`; None for nothing.

    Args:
        outline: the record.
        values: those of its values that have no place in its tree.
    """
    found: dict[str, Any] = {}
    if values:
        found["values"] = to_json(values, "values")
    aliases = {alias: name for alias, name in outline.aliases.items() if name not in outline.ids}
    if aliases:
        found["aliases"] = aliases
    if frozenset(outline.states) != told_states(outline):
        found["states"] = sorted(outline.states)
    texts = {key: text for key, text in outline.metadata.items() if key not in KEYS and isinstance(text, str)}
    if texts:
        found["metadata"] = texts
    return {"format": FORMAT_VERSION, **found} if found else None


def decode(found: Any, outline: Outline, path: str) -> Outline:
    """The outline with what stands under `KEY`.

    Raises:
        RecordFormatError: it is damaged or of a later version.
    """
    if found is None:
        return replace(outline, states=told_states(outline))
    if not isinstance(found, dict) or found.get("format") != FORMAT_VERSION:
        raise RecordFormatError(f"{path}: its entry '{KEY}' is damaged, or a newer burnlike wrote it: update")
    values, aliases = from_json(found.get("values", {}), f"{path}: values"), found.get("aliases", {})
    if not isinstance(values, dict):
        raise RecordFormatError(f"{path}: its values are no map")
    entries, texts = outline.entries, found.get("metadata", {})
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
    states = found.get("states", told_states(outline))
    if not isinstance(states, list | frozenset) or not all(isinstance(it, str) and it in entries for it in states):
        raise RecordFormatError(f"{path}: its states are no list of its tensors")
    return replace(
        outline,
        states=frozenset(states),
        values={**outline.values, **values},
        aliases={**outline.aliases, **aliases},
        metadata={**texts, **outline.metadata},
    )
