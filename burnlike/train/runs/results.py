"""`results.json` of a run: what was measured and said of the trained model at the end."""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from ..._atomic import replace_file
from ...errors import RunDirError
from .metrics_log import finite

RESULTS_NAME = "results.json"


def write_results(run: Path, values: Mapping[str, Mapping[str, float]], said: Mapping[str, Any]) -> None:
    """Write the results of a run.

    Args:
        values: the loss and the metrics over all of each split, by its name.
        said: what the task says of the model, such as a sample, by its label; numbers or text.

    Raises:
        RunDirError: the file can't be written.
    """
    found = {"values": {split: dict(it) for split, it in values.items()}, "said": dict(said)}
    text = json.dumps(finite(found), indent=2, default=str, ensure_ascii=False)
    try:
        replace_file(run / RESULTS_NAME, text.encode("utf-8", "backslashreplace") + b"\n")
    except OSError as error:
        raise RunDirError(f"{run / RESULTS_NAME} can't be written: {error.strerror or error}") from error
