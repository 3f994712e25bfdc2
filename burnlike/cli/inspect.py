"""`burnlike inspect FILE`: what a record's file holds, read from its header alone. Imports no torch."""

import argparse
import json
import os
from collections.abc import Sequence
from typing import Any

from ..record import metadata
from ..record.safetensors_format import Header, TensorInfo, open_file, read_header

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
    descriptor = open_file(args.file)
    try:
        header = read_header(descriptor, args.file)
    finally:
        os.close(descriptor)
    details = metadata.decode(header.metadata, header.tensors, args.file)
    summary = _summary(args.file, header, details)
    print(json.dumps(summary, indent=2, ensure_ascii=False) if args.json else _text(summary))
    return 0


def _summary(path: str, header: Header, details: metadata.Details) -> dict[str, Any]:
    aliases: dict[str, list[str]] = {}
    for alias, name in details.aliases.items():
        aliases.setdefault(name, []).append(alias)
    tensors = [_tensor(info, details, aliases.get(info.name, [])) for info in header.tensors.values()]
    return {
        "file": path,
        "format": "safetensors",
        "version": details.format,
        "file_bytes": header.file_bytes,
        "tensor_bytes": header.file_bytes - header.data_start,
        "tensors": tensors,
        "metadata": dict(details.other),
        # As in the file: JSON has no inf and nan, which burnlike writes as {"$float": "inf"}.
        "values": json.loads(header.metadata.get("burnlike.values", "{}")) if details.format else {},
    }


def _tensor(info: TensorInfo, details: metadata.Details, aliases: list[str]) -> dict[str, Any]:
    param_id = details.ids.get(info.name)
    return {
        "path": info.name,
        "id": None if param_id is None else str(param_id),
        "dtype": info.dtype,
        "shape": list(info.shape),
        "bytes": info.nbytes,
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
