"""`burnlike inspect FILE`: what a record's file holds, read from its header alone. Imports no torch."""

import argparse
import json
from collections.abc import Sequence
from typing import Any

from ..record.formats import detect
from ..record.gzip_source import GzipSource
from ..record.outline import Entry, Outline
from ..record.source import FileSource
from ..record.values import to_json

_LONGEST_VALUE = 100


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the command's arguments."""
    parser.add_argument("file", help="a record (safetensors), written by burnlike or any other program")
    parser.add_argument("--json", action="store_true", help="print one JSON object")


def run(args: argparse.Namespace) -> int:
    """Print the tensors, metadata and values of `args.file`.

    Returns:
        0.

    Raises:
        RecordIOError: the file can't be read.
        RecordFormatError: it is damaged, truncated, or not a safetensors file.
    """
    source = FileSource(args.file)
    found = detect(source)
    outline = found.read(GzipSource(source) if found.compressed else source)
    summary = _summary(args.file, source.size, outline)
    print(json.dumps(summary, indent=2, ensure_ascii=False) if args.json else _text(summary))
    return 0


def _summary(path: str, file_bytes: int, outline: Outline) -> dict[str, Any]:
    aliases: dict[str, list[str]] = {}
    for alias, name in outline.aliases.items():
        aliases.setdefault(name, []).append(alias)
    tensors = [_tensor(entry, outline, aliases.get(entry.name, [])) for entry in outline.entries.values()]
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
    }


def _tensor(entry: Entry, outline: Outline, aliases: list[str]) -> dict[str, Any]:
    param_id = outline.ids.get(entry.name)
    return {
        "path": entry.name,
        "id": None if param_id is None else str(param_id),
        "kind": entry.kind,
        "dtype": entry.dtype,
        "shape": list(entry.shape),
        "bytes": entry.nbytes,
        "aliases": aliases,
    }


def _text(summary: dict[str, Any]) -> str:
    tensors = summary["tensors"]
    version = f"burnlike format {summary['version']}" if summary["version"] else "written by another program"
    lines = [f"{summary['file']}: safetensors, {version}, {summary['file_bytes']} bytes", ""]
    if tensors:
        rows = [("tensor", "dtype", "shape", "bytes", "id", "tied to")]
        rows += [
            (
                _printable(tensor["path"]),
                tensor["dtype"],
                str(tensor["shape"]),
                str(tensor["bytes"]),
                tensor["id"] or "-",
                ", ".join(map(_printable, tensor["aliases"])),
            )
            for tensor in tensors
        ]
        lines += _table(rows)
    lines.append(f"{len(tensors)} tensors, {summary['tensor_bytes']} bytes")
    for title in ("metadata", "values"):
        entries = summary[title]
        if entries:
            lines += [
                "",
                f"{title}:",
                *(f"  {_printable(name)}: {_shortened(value)}" for name, value in entries.items()),
            ]
    return "\n".join(lines)


def _table(rows: Sequence[Sequence[str]]) -> list[str]:
    """Rows as aligned text; the column of bytes is flush right."""
    widths = [max(len(row[column]) for row in rows) for column in range(len(rows[0]))]
    return [
        "  ".join(
            cell.rjust(width) if column == 3 else cell.ljust(width)
            for column, (cell, width) in enumerate(zip(row, widths, strict=True))
        ).rstrip()
        for row in rows
    ]


def _shortened(value: Any) -> str:
    text = _printable(value if isinstance(value, str) else json.dumps(value, ensure_ascii=False))
    return text if len(text) <= _LONGEST_VALUE else f"{text[:_LONGEST_VALUE]}... ({len(text)} characters)"


def _printable(text: str) -> str:
    """The text; quoted if it holds line breaks or codes that a terminal would obey."""
    return text if text.isprintable() else repr(text)
