"""The places of the weights that `init_from` names: a record, a checkpoint, a run (of Burn's too), or a directory of
transformers.

Imports no torch.
"""

import os
import re
from pathlib import Path

from ...errors import RecordIOError
from ...models.by_path.directory import adapters_in, weights_of, weights_problem
from .run_dir import CONFIG_NAME, LOCK_NAME

_MODEL, _CHECKPOINTS = "model", "checkpoints"
_FOLDER = "checkpoint"  # in the directory of the training's artifacts
_BURN_MODEL = re.compile(r"model-(\d+)\.bpk")


def record_at(text: str) -> str:
    """The record to read for a path: a file itself; a checkpoint's model; a run's result; the model of the last
    checkpoint of Burn's Learner; or the weights in another directory, in one file or several.

    Raises:
        RecordIOError: the directory has none; the message says what it is.
    """
    path = Path(text).expanduser()
    if not path.is_dir():
        return text if "://" in text else str(path)  # a path has no empty part
    file, sharded = path / f"{_MODEL}.safetensors", path / _MODEL
    if path.parent.name == _CHECKPOINTS or (path / "training.safetensors").exists():
        if existing := next((it for it in (file, sharded) if it.exists()), None):
            return str(existing)
        raise RecordIOError(f"{text}: expected a checkpoint with {file.name} or a folder {_MODEL}, which has none")
    if (path / LOCK_NAME).exists() or (path / CONFIG_NAME).exists():
        if file.exists():
            return str(file)
        if adapters_in(path):
            return weights_of(path)  # which says it
        steps = sorted((path / _CHECKPOINTS).glob("step-*"))
        remedy = f"; its last checkpoint is {steps[-1]}" if steps else ", and no checkpoint"
        raise RecordIOError(f"{text}: this run has no {file.name} yet, which it writes at its end{remedy}")
    if (existing := burn_checkpoint(path)) is not None:
        return str(burn_file(existing[0], _MODEL, existing[1]))
    if not any(path.iterdir()):
        raise RecordIOError(f"{text}: expected a record, a checkpoint, a run or a directory of weights; it is empty")
    return weights_of(path)


def record_problem(text: str) -> str:
    """The problem of the record that a path names, its values left unread; empty if there is none, or no record."""
    if not os.path.exists(os.path.expanduser(text)):
        return ""
    try:
        return weights_problem(record_at(text))
    except RecordIOError as error:
        return str(error)


def burn_checkpoint(directory: str | os.PathLike[str]) -> tuple[Path, int] | None:
    """The directory of the files and the last epoch, for it or the one around it; None if there are no such files."""
    for folder in (Path(directory), Path(directory) / _FOLDER):
        if folder.is_dir():
            epochs = [int(match[1]) for name in os.listdir(folder) if (match := _BURN_MODEL.fullmatch(name))]
            if epochs:
                return folder, max(epochs)
    return None


def burn_file(folder: Path, kind: str, epoch: int) -> Path:
    """The file of a `model`, `optim` or `scheduler`."""
    return folder / f"{kind}-{epoch}.bpk"
