"""Options of commands that write files, and what they must not write over."""

import argparse
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

_LONGEST = 4096
_GLOB = "*?["


def add_force_option(parser: argparse.ArgumentParser, option: str = "--out") -> None:
    """`--force`, for `burnlike._outputs.Output`."""
    text = f"let {option} replace a file that is there already; never one that is read, nor one in a run's directory"
    parser.add_argument("--force", action="store_true", help=text)


def paths_in(value: Any) -> Iterator[Path]:
    """Files and directories that a config, given as plain values, names: its data, the model it starts from, and so on.

    Of a pattern such as `shards/*.parquet` it is the directory before the first wildcard.
    """
    if isinstance(value, dict | list | tuple):
        for item in value.values() if isinstance(value, dict) else value:
            yield from paths_in(item)
    elif isinstance(value, str) and 0 < len(value) < _LONGEST and "\0" not in value:
        path = Path(value).expanduser() if value.startswith("~/") else Path(value)
        parts = path.parts
        wild = next((number for number, part in enumerate(parts) if any(it in part for it in _GLOB)), None)
        path = path if wild is None else Path(*parts[:wild])
        if path.parts and os.path.exists(path):
            yield path
