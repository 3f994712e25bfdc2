"""Where the weights lie that `init_from` names: a record, a checkpoint, a run (of Burn's too), or a directory of
transformers.

Imports no torch.
"""

import os
from pathlib import Path

from ...errors import RecordIOError
from ...models.by_path.directory import adapters_in, weights_of, weights_problem
from ..runs.burn_checkpoints import burn_checkpoint, burn_file
from ..runs.run_dir import CONFIG_NAME, LOCK_NAME

_MODEL, _CHECKPOINTS = "model", "checkpoints"


def record_at(text: str) -> str:
    """The record to read for a path: a file is it itself; of a checkpoint that of its model; of a run its result, of
    one of Burn's Learner its last checkpoint's model; of another directory the weights in it, one file or several.

    Raises:
        RecordIOError: the directory has none; the message says what it is.
    """
    path = Path(text).expanduser()
    if not path.is_dir():
        return text if "://" in text else str(path)  # a path has no empty part
    file, sharded = path / f"{_MODEL}.safetensors", path / _MODEL
    if path.parent.name == _CHECKPOINTS or (path / "training.safetensors").exists():
        if found := next((it for it in (file, sharded) if it.exists()), None):
            return str(found)
        raise RecordIOError(f"{text}: expected a checkpoint with {file.name} or a folder {_MODEL}, which has none")
    if (path / LOCK_NAME).exists() or (path / CONFIG_NAME).exists():
        if file.exists():
            return str(file)
        if adapters_in(path):
            return weights_of(path)  # which says it
        steps = sorted((path / _CHECKPOINTS).glob("step-*"))
        remedy = f"; its last checkpoint is {steps[-1]}" if steps else ", and no checkpoint"
        raise RecordIOError(f"{text}: this run has no {file.name} yet, which it writes at its end{remedy}")
    if (found := burn_checkpoint(path)) is not None:
        return str(burn_file(found[0], _MODEL, found[1]))
    if not any(path.iterdir()):
        raise RecordIOError(f"{text}: expected a record, a checkpoint, a run or a directory of weights; it is empty")
    return weights_of(path)


def record_problem(text: str) -> str:
    """What is wrong with the record that a path names, but for its values; empty if nothing is, or it is missing."""
    if not os.path.exists(os.path.expanduser(text)):
        return ""
    try:
        return weights_problem(record_at(text))
    except RecordIOError as error:
        return str(error)
