"""Files of an export: they are made in a directory beside their place, and moved there when all is well."""

import os
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from ...errors import RunDirError


@contextmanager
def placed(out: Path) -> Iterator[Path]:
    """A directory whose files and directories go beside `out` at the end; nothing does after an error."""
    try:
        out.parent.mkdir(parents=True, exist_ok=True)
        folder = Path(tempfile.mkdtemp(prefix=".export-", dir=out.parent))
    except OSError as error:
        raise RunDirError(f"{out}: can't be written: {error.strerror}; choose another --out") from error
    try:
        yield folder
        for made in folder.iterdir():
            target = out.parent / made.name
            if target.is_dir() and made.is_dir():
                shutil.rmtree(target)
            os.replace(made, target)
    finally:
        shutil.rmtree(folder, ignore_errors=True)
