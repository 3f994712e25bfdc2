"""A process whose system calls can be made to fail, see `shim.c`."""

import json
import os
import select
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

from ...processes import HANGS_S

FULL, EIO, SHORT, KILL, EINTR, FILLED = 1, 2, 3, 4, 5, 6
JOURNAL = -2


class Shimmed:
    """A process that obeys lines of JSON; its calls that change `folder` are logged and can be made to fail."""

    def __init__(self, place: Path, folder: Path, module: str, *arguments: str) -> None:
        """Compile the shim into `place` and start the module."""
        self.folder, self.log, shim = folder, place / "log", place / "shim.so"
        source = Path(__file__).with_name("shim.c")
        compiler = os.environ.get("CC") or shutil.which("cc") or "gcc"
        subprocess.run([compiler, "-O1", "-shared", "-fPIC", "-o", shim, source, "-ldl"], check=True)
        self.journal = place / "journal"
        names = {"SHIM_FOLDER": folder, "SHIM_LOG": self.log, "SHIM_JOURNAL": self.journal, "LD_PRELOAD": shim}
        environment = os.environ | {name: str(path) for name, path in names.items()}
        command = [sys.executable, "-W", "ignore", "-m", module, *arguments]
        pipes: Any = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "text": True}
        self.process = subprocess.Popen(command, env=environment, **pipes)

    def ask(self, **order: Any) -> dict[str, Any]:
        """Send an order; the answer."""
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        self.process.stdin.write(json.dumps(order) + "\n")
        self.process.stdin.flush()
        assert select.select([self.process.stdout], [], [], HANGS_S)[0], "the process hangs"
        return json.loads(self.process.stdout.readline())

    def logged(self) -> list[list[str]]:
        """The name of each call in the log, and its path below the folder."""
        lines = (line.split(maxsplit=3) for line in self.log.read_text().splitlines())
        return [[call, os.path.relpath(path, self.folder)] for _, call, _, path in lines]

    def kill(self) -> None:
        self.process.kill()
        self.process.communicate()
