"""Checkpoints of Burn's Learner: `model-N.bpk`, `optim-N.bpk`, `scheduler-N.bpk` of an epoch N. Imports no torch."""

import os
import re
from pathlib import Path

_FOLDER = "checkpoint"  # in the directory of the training's artifacts
_MODEL = re.compile(r"model-(\d+)\.bpk")


def burn_checkpoint(directory: str | os.PathLike[str]) -> tuple[Path, int] | None:
    """The directory of the files and the last epoch, for it or the one around it; None if there are no such files."""
    for folder in (Path(directory), Path(directory) / _FOLDER):
        if folder.is_dir():
            epochs = [int(match[1]) for name in os.listdir(folder) if (match := _MODEL.fullmatch(name))]
            if epochs:
                return folder, max(epochs)
    return None


def burn_file(folder: Path, kind: str, epoch: int) -> Path:
    """The file of a `model`, `optim` or `scheduler`."""
    return folder / f"{kind}-{epoch}.bpk"
