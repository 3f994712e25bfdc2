"""Reads the files of a run, which may be going on, unfinished or damaged; changes nothing and imports no torch."""

import fcntl
import json
import math
import os
import sys
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, NamedTuple

from ..._regular_file import open_regular, read_regular
from ...config.document import parse_plain
from ...errors import ConfigError, RunDirError
from ..metrics.directions import Directions, directions_in
from .environment import ENVIRONMENT_NAME
from .logs import DONE, FAILED, LOG_NAME, RANKS_NAME, RESULTS_NAME, STOPPED, MetricLines, read_log, read_metrics
from .run_dir import CONFIG_NAME, LOCK_NAME, checkpoint_step

RUNNING = "running"
EVALUATIONS = "evaluations"
_MOST_BYTES = 10_000_000
"""Of a config or a JSON file."""


class SavedCheckpoint(NamedTuple):
    """A checkpoint of a run: its step, its name, and the bytes of its files."""

    step: int
    name: str
    size: int


class RunFiles(NamedTuple):
    """Content of the files of a run.

    Attributes:
        path: the directory, and its `name`.
        state: `running`, `done`, `stopped` or `failed`.
        reason: of that state, such as the message of an error.
        seconds: how long the run has been working; None where nothing says so.
        config: the values by their paths, such as `training.epochs`; `config_text` is the YAML.
        values: the loss and metrics over all of each split, measured at the end.
        task_notes: the task's notes on the model at the end.
        evaluations: those of `burnlike evaluate`, the first first.
        problems: what could not be read.
        ranks: of several processes, what each did, a line for each look.
    """

    path: Path
    name: str
    state: str
    reason: str
    lines: list[dict[str, Any]]
    seconds: float | None
    config: dict[str, Any]
    config_text: str
    environment: dict[str, Any]
    values: dict[str, dict[str, float]]
    task_notes: dict[str, Any]
    checkpoints: list[SavedCheckpoint]
    evaluations: list[dict[str, Any]]
    problems: list[str]
    ranks: Sequence[dict[str, Any]] = ()

    @property
    def said(self) -> dict[str, Any]:
        """The `task_notes`, by their name of release 0.1.0 and of `results.json`."""
        return self.task_notes

    @property
    def directions(self) -> Directions:
        """Directions of its metrics, as its config says."""
        return directions_in(self.config)

    @property
    def steps(self) -> int:
        """Optimizer steps that were taken, as far as metrics and checkpoints say."""
        return max([0, *(line["step"] for line in self.lines), *(checkpoint.step for checkpoint in self.checkpoints)])


def find_runs(root: str | os.PathLike[str]) -> list[Path]:
    """The directories of runs in `root`, and in the folders of sweeps below it, by name."""
    try:
        folders = sorted(path for path in Path(root).iterdir() if path.is_dir() and not path.name.startswith("."))
        runs = []
        for folder in folders:
            below = [folder] if _is_run(folder) else sorted(path for path in folder.iterdir() if path.is_dir())
            runs += [it for it in below if _is_run(it)]
        return runs
    except OSError as error:
        raise RunDirError(f"{root}: {error.strerror}; expected a directory that holds runs") from error


def read_run(path: str | os.PathLike[str]) -> RunFiles:
    """Read the files of a run; a RunDirError if there is none at `path`."""
    path = Path(path)
    if not path.is_dir():
        raise RunDirError(f"there is no run at {path}; `burnlike runs` lists those in runs/")
    if not _is_run(path):
        raise RunDirError(f"{path} is not the directory of a run: it has no {LOCK_NAME} and no metrics.jsonl")
    problems: list[str] = []
    try:
        metrics = read_metrics(path / "metrics.jsonl")
    except RunDirError as error:
        metrics = MetricLines([], [])
        problems.append(str(error))
    if metrics.left_out:
        problems.append(f"metrics.jsonl: {metrics.left_out:,} metrics are left out; the first 500 can be shown")
    if lines := metrics.damaged:
        shown = ", ".join(map(str, lines[:5])) + (f" and {len(lines) - 5} more" if lines[5:] else "")
        problems.append(f"metrics.jsonl: line{'s' * (len(lines) > 1)} {shown} can't be read and left out")
    log = read_log(path / LOG_NAME)
    text, config = _config(path / CONFIG_NAME, problems)
    results = _json(path / RESULTS_NAME, problems)
    values = results.get("values")
    times = [line["time"] for line in metrics.lines if line.get("time") is not None]
    state = _state(path, log.ending)
    checkpoints: list[SavedCheckpoint] = []
    with suppress(OSError):  # none, or one that is removed at this moment
        for folder in (path / "checkpoints").iterdir():
            if (step := checkpoint_step(folder.name)) is not None:
                size = sum(file.stat().st_size for file in folder.iterdir() if file.is_file())
                checkpoints.append(SavedCheckpoint(step, folder.name, size))
    run_environment = _json(path / ENVIRONMENT_NAME, problems)
    contents = [_json(it, problems, path) for it in sorted((path / EVALUATIONS).glob("*.json"))]
    usable = [it for it in contents if isinstance(it.get("values"), dict) and isinstance(it.get("split"), str)]
    evaluations = [{**it, "values": _numbers(it["values"])} for it in usable]
    return RunFiles(
        path=path,
        name=path.resolve().name,  # `.` has no name by itself
        state=state,
        reason=log.reason if state == log.ending else "",
        lines=metrics.lines,
        seconds=(max(times) - min(times) if times[1:] else None) if log.seconds is None else log.seconds,
        config=flattened(config),
        config_text=text,
        environment=run_environment,
        values={split: _numbers(value) for split, value in values.items()} if isinstance(values, dict) else {},
        task_notes=task_notes if isinstance(task_notes := results.get("said"), dict) else {},
        checkpoints=sorted(checkpoints),
        evaluations=sorted(evaluations, key=lambda it: str(it.get("time"))),
        problems=problems,
        ranks=_ranks(path / RANKS_NAME),
    )


def _ranks(path: Path) -> list[dict[str, Any]]:
    """The lines about each process that can be used: the time of a step, and lists of numbers or of names of hosts."""
    try:
        rows = read_regular(path, _MOST_BYTES, path.parent).splitlines()
    except OSError:
        return []

    def is_usable(name: str, value: Any) -> bool:
        if name == "seconds_per_step":
            return isinstance(value, int | float) and 0 < value < math.inf
        kinds = (str,) if name == "host" else (int, float, type(None))
        return isinstance(value, list) and all(isinstance(it, kinds) for it in value)

    lines = []
    for row in rows:
        with suppress(ValueError, RecursionError):
            line = json.loads(row)
            if isinstance(line, dict):
                lines.append({name: it for name, it in line.items() if is_usable(name, it)})
    return [line for line in lines if line.keys() - {"seconds_per_step"}]


def flattened(value: Any, path: str = "") -> dict[str, Any]:
    """The plain values in dicts and lists by their paths: `{"a": {"b": [1]}}` becomes `{"a.b[0]": 1}`."""
    if isinstance(value, dict) and value:
        pairs = [(f"{path}.{key}" if path else str(key), item) for key, item in value.items()]
    elif isinstance(value, list) and any(isinstance(item, dict | list) for item in value):
        pairs = [(f"{path}[{place}]", item) for place, item in enumerate(value)]
    else:
        return {path: value} if path else {}
    return {key: plain for below, item in pairs for key, plain in flattened(item, below).items()}


def config_differences(runs: list[RunFiles]) -> dict[str, list[Any]]:
    """The fields whose values are not the same in all runs, with the value of each run; None where it has none."""
    names = dict.fromkeys(name for run in runs for name in run.config)
    fields = {name: [run.config.get(name) for run in runs] for name in names}
    return {name: values for name, values in fields.items() if any(value != values[0] for value in values)}


def _is_run(path: Path) -> bool:
    return (path / LOCK_NAME).exists() or (path / "metrics.jsonl").exists()


def _state(path: Path, ending: str | None) -> str:
    # Whether a process works on it: the lock can only be asked for by taking it for a moment, shared.
    with suppress(OSError), open_regular(path / LOCK_NAME) as file:  # no lock, or a file system without them
        try:
            fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
        except BlockingIOError:
            return RUNNING
    if ending in (DONE, FAILED):
        return ending
    has_result = any((path / it).exists() for it in ("model.safetensors", "adapter/base.json"))
    return DONE if ending is None and has_result else STOPPED


def config_values(path: Path) -> dict[str, Any]:
    """The values of the config of a run by their paths; none where it can't be read."""
    return flattened(_config(path / CONFIG_NAME, [])[1])


def _config(path: Path, problems: list[str]) -> tuple[str, Any]:
    try:
        text = read_regular(path, _MOST_BYTES, path.parent).decode("utf-8", "replace")
    except FileNotFoundError:
        return "", {}
    except OSError as error:
        problems.append(f"{path.name}: {error.strerror}")
        return "", {}
    try:
        return text, parse_plain(text, path.name)
    except ConfigError as error:
        problems.append(f"{path.name} is damaged: {error}")
        return text, {}


def _json(path: Path, problems: list[str], run: Path | None = None) -> dict[str, Any]:
    try:
        content = json.loads(read_regular(path, _MOST_BYTES, run or path.parent))
    except FileNotFoundError:
        return {}
    except (OSError, ValueError, RecursionError) as error:
        problems.append(f"{path.name} can't be read: {error}")
        return {}
    if isinstance(content, dict):
        return content
    problems.append(f"{path.name} can't be read: expected an object")
    return {}


def evaluated_on(evaluation: dict[str, Any], before: str = "") -> str:
    """The name of the data of an evaluation, behind `before`; an empty text for the run's own data."""
    name = evaluation.get("data_name")
    return f"{before}{name}" if isinstance(name, str) and name else ""


def results_of(path: Path) -> dict[str, Any]:
    """Content of the file of results of a run; empty where there is none that can be read."""
    return _json(path / RESULTS_NAME, [])


def _numbers(value: Any) -> dict[str, float]:
    """Values of a mapping that a float can hold."""
    if not isinstance(value, dict):
        return {}
    numbers = {name: it for name, it in value.items() if isinstance(it, int | float) and not isinstance(it, bool)}
    return {name: it for name, it in numbers.items() if isinstance(it, float) or abs(it) <= sys.float_info.max}
