"""What a run keeps of its data, so that its model can be used without it: `data.json`, and files in `data/`."""

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from ..._atomic import AtomicDirectory, copy_files, replace_file
from ..._regular_file import read_regular
from ...errors import RunDirError

NAME, FOLDER = "data.json", "data"
_MOST_BYTES = 64_000_000


def keep_facts(run: Path, classes: Sequence[str] | None, facts: Mapping[str, Any], files: Mapping[str, Path]) -> None:
    """Write `data.json`, and a copy of each file and directory; copies that are there already stay."""
    text = json.dumps({"classes": None if classes is None else list(classes), "facts": dict(facts)}, indent=1)
    try:
        replace_file(run / NAME, text.encode() + b"\n")
        folder = run / FOLDER
        if not files or folder.is_dir():
            return
        with AtomicDirectory(folder) as partial:
            for name, source in files.items():
                copy_files(source, partial.path / name)
            partial.commit()
    except OSError as error:
        raise RunDirError(f"{run}: what is kept of the data can't be written: {error}") from error


def keep_description(run: Path, files: Mapping[str, bytes]) -> None:
    """Write what a run keeps of its model (`ModuleConfig.description`); files that are there already stay."""
    try:
        for name, content in files.items():
            if not (run / name).exists():
                replace_file(run / name, content)
    except OSError as error:
        raise RunDirError(f"{run}: what is kept of the model can't be written: {error}") from error


def kept_facts(run: Path) -> dict[str, Any]:
    """The facts of the data of a run, with its `classes` (None: it has none); a RunDirError if they can't be read."""
    path = run / NAME
    try:
        found = json.loads(read_regular(path, _MOST_BYTES, run))
        return {**found["facts"], "classes": found["classes"]}
    except FileNotFoundError:  # of a release before there was one
        return {"classes": None}
    except (OSError, ValueError, KeyError, TypeError, RecursionError) as error:
        raise RunDirError(f"{path} can't be read: {error}; expected what the run wrote when it began") from error
