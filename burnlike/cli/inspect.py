"""`burnlike inspect FILE`: what a record's file holds, read without the tensors' values.

Imports no torch, but for `.pt` files and `--model`.
"""

import argparse
import json
import os
from collections.abc import Iterable, Sequence
from typing import Any

from ..module.param_id import ParamId
from ..record.outline import Entry, Outline
from ..record.reading import read_outline
from ..record.values import to_json
from .record_options import add_layout_options, layout_of
from .tables import printable, shortened, table

_COLUMNS = ("tensor", "dtype", "shape", "bytes", "id", "tied to")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the command's arguments."""
    parser.add_argument(
        "file", metavar="FILE", help="a record of any format, told by its content, written by burnlike, Burn or others"
    )
    parser.add_argument("--json", action="store_true", help="print one JSON object")
    add_layout_options(parser)


def run(args: argparse.Namespace) -> int:
    """Print the tensors, metadata and values of `args.file`.

    Returns:
        0.

    Raises:
        RecordIOError: the file can't be read.
        RecordFormatError: it is damaged, truncated, or of no format that is known.
        RecordError: the layout is wrong.
    """
    summary = summarize(args.file, *_read(args.file, layout_of(args)))
    print(json.dumps(summary, indent=2, ensure_ascii=False) if args.json else _text(summary))
    return 0


def summarize(path: str, file_bytes: int, outline: Outline, notes: Sequence[str] = ()) -> dict[str, Any]:
    """What `--json` prints.

    Args:
        path: of the file.
        file_bytes: its length; of a set of files that of all.
        outline: what it holds.
        notes: what the reader should know.
    """
    aliases: dict[str, list[str]] = {}
    for alias, name in outline.aliases.items():
        aliases.setdefault(name, []).append(alias)
    states = set(outline.states)
    tensors = [
        _tensor(entry, outline, aliases.get(entry.name, []), entry.name in states) for entry in outline.entries.values()
    ]
    return {
        "file": path,
        "format": outline.format,
        "version": outline.version,
        "file_bytes": file_bytes,
        "tensor_bytes": sum(entry.nbytes for entry in outline.entries.values()),
        "tensors": tensors,
        "metadata": dict(outline.metadata),
        # JSON has no inf and nan, which burnlike writes as {"$float": "inf"}.
        "values": to_json(outline.values, "values"),
        "notes": list(notes),
    }


def _tensor(entry: Entry, outline: Outline, aliases: list[str], is_state: bool) -> dict[str, Any]:
    param_id = outline.ids.get(entry.name) or _id_in_name(entry.name, outline)
    role = "state" if is_state else "weight" if param_id is not None and "states" not in outline.values else None
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


def _id_in_name(name: str, outline: Outline) -> ParamId | None:
    """The id that a tensor of an optimizer's record begins with."""
    if "states" not in outline.values:
        return None
    try:
        return ParamId.parse(name.partition(".")[0])
    except ValueError:
        return None


def _read(path: str, layout: Any) -> tuple[int, Outline, list[str]]:
    if _needs_torch(path):
        from ..record.opening import open_record
        from ..record.precision import Precision
        from ..record.recorder import outline_of

        record = open_record(path)
        return _total_bytes([path]), outline_of(record, Precision(None)), []
    _, outline = read_outline(path, layout)
    return _total_bytes([path]), outline, []


def _total_bytes(paths: Iterable[str]) -> int:
    return sum(os.stat(path).st_size for path in paths)


def _needs_torch(path: str) -> bool:
    return False


def _text(summary: dict[str, Any]) -> str:
    tensors = summary["tensors"]
    lines = [f"{summary['file']}: {_kind_of_file(summary)}, {summary['file_bytes']} bytes"]
    lines += [f"note: {note}" for note in summary["notes"]] + [""]
    if tensors:
        rows = [_COLUMNS, *map(_row, tensors)]
        lines += table(rows, right=_COLUMNS.index("bytes"))
    lines.append(f"{len(tensors)} tensors, {summary['tensor_bytes']} bytes")
    for title in ("metadata", "values"):
        entries = summary[title]
        if entries:
            lines += ["", f"{title}:", *(f"  {printable(name)}: {shortened(it)}" for name, it in entries.items())]
    return "\n".join(lines)


def _kind_of_file(summary: dict[str, Any]) -> str:
    name, version = summary["format"], summary["version"]
    if name != "safetensors":
        return f"{name} {version}" if version else name
    return f"{name}, " + (f"burnlike format {version}" if version else "written by another program")


def _row(tensor: dict[str, Any]) -> Sequence[str]:
    return (
        printable(tensor["path"]),
        tensor["dtype"],
        str(tensor["shape"]),
        str(tensor["bytes"]),
        tensor["id"] or "-",
        ", ".join(map(printable, tensor["aliases"])),
    )
