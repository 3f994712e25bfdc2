"""A whole file of v0.21 that has names: envelope, the record's tree, burnlike's additions. Imports no torch."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from ...errors import RecordError, RecordFormatError
from ..files.source import Source
from ..outline import Outline
from . import extras
from .envelope import check_metadata, metadata_of
from .items import Make, item_of, outline_of_item


def artifact_of(outline: Outline, recorder: str, phantom: Any, finite: bool = False) -> dict[str, Any]:
    """The tree of a file: maps, lists, plain values, None and `TensorLeaf`s.

    Args:
        outline: the record.
        recorder: Burn's name of the recorder, with its module.
        phantom: what stands for `_b`, which is empty.
        finite: whether the format has no inf and nan; they then stand under `burnlike` alone.

    Raises:
        RecordError: see `item_of`.
    """
    item, values = item_of(outline, finite)
    extra = extras.encode(outline, values)
    found = {"metadata": metadata_of(outline, recorder), "item": item, "_b": phantom}
    return found if extra is None else {**found, extras.KEY: extra}


def no_text(error: UnicodeEncodeError) -> RecordError:
    """The error that a text can't be written."""
    text = str(error.object)[max(error.start - 20, 0) : error.end]
    return RecordError(f"the record's text {text!r} has half of a surrogate pair, which no file can hold; replace it")


def outline_of_artifact(found: Any, source: Source, name: str, make: Make | None = None) -> Outline:
    """The record that the tree of a file holds.

    Args:
        found: maps, lists, plain values, None and `Blob`s.
        source: where the blobs are.
        name: the format's.
        make: see `outline_of_item`.

    Raises:
        RecordFormatError: it is not a record.
    """
    if not isinstance(found, Mapping) or not {"metadata", "item"} <= found.keys():
        raise RecordFormatError(f"{source.path}: expected a map with metadata and item; it is no record of Burn's")
    metadata = check_metadata(found["metadata"], source.path)
    outline = outline_of_item(found["item"], source, make)
    outline = replace(outline, metadata=metadata, format=name, version=metadata["version"])
    return extras.decode(found.get(extras.KEY), outline, source.path)
