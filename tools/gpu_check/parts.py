"""The parts of the check in their order, and the process that each of them is.

python -m tools.gpu_check.parts NAME FOLDER DEVICE SECONDS
"""

import importlib
import signal
import sys
from dataclasses import dataclass
from pathlib import Path

from .results import CUT, Part


@dataclass(frozen=True)
class PartOfCheck:
    """A part.

    Attributes:
        name: of the part, its module and its file.
        share: seconds of nine minutes; what one leaves goes to those after it.
        tool: a program without which a GPU can't be looked at in this way.
        without_device: True if something of it can be done without a device.
    """

    name: str
    share: int
    tool: str | None = None
    without_device: bool = False


BUILD_SHARE = 120
PARTS = (
    PartOfCheck("load", 30, without_device=True),
    PartOfCheck("tests", 110, without_device=True),
    PartOfCheck("sanitizer", 60, tool="compute-sanitizer"),
    PartOfCheck("rates", 90),
    PartOfCheck("steps", 40),
    PartOfCheck("trainings", 60),
    PartOfCheck("profile", 30, tool="ncu"),
)
NO_DEVICE = "no device"


def main(name: str, folder: str, device: str, seconds: str) -> int:
    """Run a part to its end, or until it is asked to end."""
    part = Part(name, Path(folder), "cpu" if device == "cpu" else "cuda", float(seconds))

    def end(*_: object) -> None:
        part.result.status, part.result.reason = CUT, part.result.reason or "it was ended when its time was over"
        part.save()
        sys.exit(1)  # so that what it has started ends too

    signal.signal(signal.SIGTERM, end)
    try:
        module = importlib.import_module(f"tools.gpu_check.{name}")
        module.run(part, True) if device == "none" else module.run(part)
    except Exception as error:
        import traceback

        traceback.print_exc()
        part.result.fail(f"{name}: {type(error).__name__}: {error}")
    return part.end()


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
