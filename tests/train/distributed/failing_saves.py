"""For `--import` of a training: a save in the background fails in one process, and others hear of it late.

FAILS says how: `write`: the disk of rank 1 takes no more than a page of a file; `rename`: rank 0 can't name the
checkpoint. The rank that LATE does not name goes on training for half a second before it hears.
"""

import errno
import os
import resource
import time
from pathlib import Path
from typing import Any

from burnlike.train import Checkpointer

_write: Any = Checkpointer._write
_rename: Any = Path.rename
_BYTES = 4096
_LATE_S = 0.5
"""Many steps."""


def _late_write(self: Any, checkpoint: Any, records: Any, kept: Any) -> None:
    if checkpoint.step == 6 and (os.environ["FAILS"], os.environ["RANK"]) == ("write", "1"):
        resource.setrlimit(resource.RLIMIT_FSIZE, (_BYTES, _BYTES))
    try:
        _write(self, checkpoint, records, kept)
    finally:
        if os.environ["RANK"] != os.environ["LATE"]:
            time.sleep(_LATE_S)


def _failing_rename(self: Path, target: Any) -> Path:
    if Path(target).name == "step-00000006" and os.environ["FAILS"] == "rename":
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
    return _rename(self, target)


if "FAILS" in os.environ:  # and not where pytest looks for doctests
    Checkpointer._write = _late_write
    Path.rename = _failing_rename
