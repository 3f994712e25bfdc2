"""`results.json` of a run: what was measured and said of the trained model at the end."""

import json
import math
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from ..._atomic import replace_file
from ...errors import RunDirError

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
    text = json.dumps(_finite(found), indent=2, default=str, ensure_ascii=False)
    try:
        replace_file(run / RESULTS_NAME, text.encode("utf-8", "backslashreplace") + b"\n")
    except OSError as error:
        raise RunDirError(f"{run / RESULTS_NAME} can't be written: {error.strerror or error}") from error


def _finite(value: Any) -> Any:
    """JSON has no NaN or infinity."""
    if isinstance(value, dict):
        return {str(key): _finite(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_finite(item) for item in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value
