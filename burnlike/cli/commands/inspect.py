"""`burnlike inspect FILE`: shows the content of a record's file without reading the tensors' values.

Imports no torch, but for `--model`.
"""

import argparse
import os
from collections.abc import Sequence
from contextlib import suppress
from typing import Any

from burnlike._terminal import table

from ...module.identity.param_id import ParamId
from ...record.burn.tensor_collector import with_ids_of_clones
from ...record.bytes.source import FileSource, GzipSource
from ...record.files.reading import INDEX_SUFFIX, read_outline, verify_outline
from ...record.formats import Outline, StoredTensor, TensorEntry, detect
from ...record.metadata import ids_of_clones, to_json
from ..options import add_shared, printable, say, say_json, shortened
from ..record_options import add_layout_options, layout_of, model_of

_COLUMNS = ("tensor", "dtype", "shape", "bytes", "id", "tied to")
_NAMELESS = (
    "bincode carries no names and no types of plain values: these are the tensors that were found by their form, in the"
    " order of the file; --layout or --model gives all, with their names"
)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    text = "a record of any format, told by its content; or the directory or index of a set of files"
    parser.add_argument("file", metavar="FILE", help=text)
    add_shared(parser, "--json")
    text = "read all values, too, and compare them with the checksums in the file; exit status 2 if one is another"
    parser.add_argument("--verify", action="store_true", help=text)
    add_layout_options(parser)


def run(args: argparse.Namespace) -> int:
    file_bytes, outline, notes = _read(args.file, layout_of(args, model_of(args)))
    if args.verify:
        count, total = verify_outline(outline), len(outline.entries)
        which, rest = ("all", "") if count == total else (f"{count} of", "; the others have no checksum")
        notes = [*notes, f"verified: the values of {which} {total} tensors are those that were saved{rest}"]
    summary = summarize(args.file, file_bytes, outline, notes)
    say_json(summary) if args.json else say(_text(summary))
    return 0


def summarize(path: str, file_bytes: int, outline: Outline, notes: Sequence[str] = ()) -> dict[str, Any]:
    """The content of `--json`; the bytes of a set of files are those of all."""
    if clones := ids_of_clones(outline.values):
        names = ", ".join([*clones][:5])
        notes = [
            *notes,
            f"{len(clones)} tensors have the id of another, with other values, as clones in Burn do: {names}",
        ]
        outline = with_ids_of_clones(outline)
    aliases: dict[str, list[str]] = {}
    for alias, name in outline.aliases.items():
        aliases.setdefault(name, []).append(alias)
    roles: dict[str, str] = {}
    if outline.states or (outline.format == "safetensors" and outline.version is not None):
        # Files that tell weights from running statistics and other buffers.
        roles = {**dict.fromkeys(outline.ids, "weight"), **dict.fromkeys(outline.states, "state")}
    entries = outline.entries.values()
    return {
        "file": path,
        "format": outline.format,
        "version": outline.version,
        "file_bytes": file_bytes,
        "tensor_bytes": sum(entry.nbytes for entry in entries),
        "tensors": [_tensor(entry, outline, aliases.get(entry.name, []), roles.get(entry.name)) for entry in entries],
        "metadata": dict(outline.metadata),
        # JSON has no inf and nan, which burnlike writes as {"$float": "inf"}.
        "values": to_json(outline.values, "values"),
        "notes": list(notes),
    }


def _tensor(entry: TensorEntry, outline: Outline, aliases: list[str], role: str | None) -> dict[str, Any]:
    param_id = outline.ids.get(entry.name)
    text, _, rest = entry.name.partition(".")
    if param_id is None and len(text) == 13 and ("states" in outline.values or rest.startswith("?")):
        with suppress(ValueError):  # a tensor of an optimizer's record begins with an id, also if found by its form
            param_id = ParamId.parse(text)
    return {
        "path": entry.name,
        "id": None if param_id is None else str(param_id),
        "id_u64": None if param_id is None else str(int(param_id)),  # as text: JSON's readers round large numbers
        "kind": entry.kind,
        "dtype": entry.dtype,
        "shape": list(entry.shape),
        "bytes": entry.nbytes,
        "role": role,
        "aliases": aliases,
    }


def _read(path: str, layout: Any) -> tuple[int, Outline, list[str]]:
    """Bytes of the file or the set of files, what is in it, and what the reader should know."""
    if layout is None and os.path.isfile(path):
        source = FileSource(path)
        detected = detect(source)
        if not detected.has_names:
            from ...record.burn.bincode import scan

            outline = scan(GzipSource(source) if detected.compressed else source, detected.name)
            return source.stored_bytes, outline, [_NAMELESS]
    _, outline = read_outline(path, layout)
    parts = {entry.source.path for entry in outline.entries.values() if isinstance(entry, StoredTensor)}
    is_one = os.path.isfile(path) and not path.endswith(INDEX_SUFFIX)
    return sum(map(os.path.getsize, [path] if is_one else parts)), outline, []


def _text(summary: dict[str, Any]) -> str:
    tensors, kind, version = summary["tensors"], summary["format"], summary["version"]
    if kind == "safetensors":
        kind += f", burnlike format {version}" if version else ", written by another program"
    elif version:
        kind += f" {version}"
    lines = [f"{printable(summary['file'])}: {printable(kind)}, {summary['file_bytes']} bytes"]
    lines += [f"note: {note}" for note in summary["notes"]] + [""]
    if tensors:
        rows: list[tuple[str, ...]] = [_COLUMNS]
        for tensor in tensors:
            tied = ", ".join(map(printable, tensor["aliases"]))
            shown = printable(tensor["path"]), tensor["dtype"], str(tensor["shape"]), str(tensor["bytes"])
            rows.append((*shown, tensor["id"] or "-", tied))
        lines += table(rows, right=_COLUMNS.index("bytes"))
    lines.append(f"{len(tensors)} tensors, {summary['tensor_bytes']} bytes")
    for title in ("metadata", "values"):
        entries = summary[title]
        if entries:
            lines += ["", f"{title}:", *(f"  {printable(name)}: {shortened(entry)}" for name, entry in entries.items())]
    return "\n".join(lines)
