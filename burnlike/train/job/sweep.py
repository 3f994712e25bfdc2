"""Sweeps: one run for each combination of values, one after the other, as `--sweep KEY=VALUE,VALUE` asks for them."""

import itertools
import math
import re
import statistics
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from ..._atomic import make_directories
from ..._terminal import one_line, table
from ...config.file_paths import missing_files
from ...config.hiding import values_hidden
from ...config.node import find
from ...config.overrides import Option, paths_of, reading
from ...config.tree import read_tree
from ...config.words import show_text
from ...errors import BurnlikeError, CheckpointError, ConfigError, Problem, RunDirError
from ..learner.stopping import Interrupter
from ..runs.logs import write_json
from ..runs.run_dir import CONFIG_NAME, LOCK_NAME, RunDir, newest_directory, next_directory
from ..view.formats import LearnerSummary, format_value
from ..view.renderers import Renderer
from .configs import TrainConfig
from .run_config import check_resumable

if TYPE_CHECKING:
    from .job import RunResult

_CLOSING = {"[": "]", "{": "}"}
_LONGEST_VALUE, _LONGEST_NAME = 40, 200
"""Characters; most file systems take names of 255 bytes."""
_MOST_RUNS = 10_000


class SweepRun(NamedTuple):
    """One combination of a sweep: the name of its directory, and its values as `--set` takes them."""

    name: str
    overrides: tuple[str, ...]


def sweep_runs(options: Sequence[str]) -> list[SweepRun]:
    """The runs of a sweep, the last option's values changing fastest.

    Args:
        options: `KEY=VALUE,VALUE` each; a comma within brackets or quotes is a part of its value.

    Example:
        >>> [run.name for run in sweep_runs(["optimizer.momentum=0,0.9", "seed=1,2"])]
        ['momentum=0,seed=1', 'momentum=0,seed=2', 'momentum=0.9,seed=1', 'momentum=0.9,seed=2']
    """
    axes: dict[str, list[str]] = {}
    for option in options:
        key, sign, text = (part.strip() for part in option.partition("="))
        values = [value.strip() for value in split_values(text)]
        if not (sign and key and all(values)):
            raise _wrong(option, "expected KEY=VALUE,VALUE, such as training.batch_size=8,16")
        if twice := next((value for value in values if values.count(value) > 1), None):
            raise _wrong(option, f"the value {show_text(twice)} stands twice")
        if key in axes:
            raise _wrong(option, f"{show_text(key)} is swept by another --sweep already; write all its values in one")
        axes[key] = values
    if (count := math.prod(map(len, axes.values()))) > _MOST_RUNS:
        raise _wrong(options[-1], f"makes {count:,} runs with the others; expected at most {_MOST_RUNS:,}")
    # The last part of each key, or the whole key where two have the same.
    last = {key: re.sub(r"[^\w.-]+", "_", key.rpartition(".")[2]) for key in axes}
    names = {
        key: name if [*last.values()].count(name) == 1 else re.sub(r"[^\w.-]+", "_", key) for key, name in last.items()
    }
    runs: dict[str, SweepRun] = {}
    for values in itertools.product(*axes.values()):
        pairs = [*zip(axes, values, strict=True)]
        shown = [(names[key], re.sub(r"[^\w.+-]+", "_", value).strip("_")[:_LONGEST_VALUE]) for key, value in pairs]
        name = ",".join(map("=".join, shown))[:_LONGEST_NAME]
        while name in runs:  # values that differ only in what a name can't show
            name += "'"
        runs[name] = SweepRun(name, tuple(Option(text, f"--sweep {text}") for text in map("=".join, pairs)))
    return [*runs.values()]


def split_values(text: str) -> list[str]:
    """The parts of a text between commas that stand outside of brackets and quotes.

    Example:
        >>> split_values("1e-3,[32, 64],{type: Sgd, momentum: 0.9},'a,b'")
        ['1e-3', '[32, 64]', '{type: Sgd, momentum: 0.9}', "'a,b'"]
    """
    parts, waited_for = [""], ""
    for character in text:
        if waited_for[-1:] in ("'", '"'):
            waited_for = waited_for[:-1] if character == waited_for[-1] else waited_for
        elif character == "," and not waited_for:
            parts.append("")
            continue
        elif character in _CLOSING:
            waited_for += _CLOSING[character]
        elif character in "'\"" and (waited_for or not parts[-1].strip()):
            waited_for += character
        elif waited_for.endswith(character):
            waited_for = waited_for[:-1]
        parts[-1] += character
    return parts


def checked_configs(file: Path, overrides: list[str], runs: list[SweepRun]) -> list[TrainConfig]:
    configs: list[TrainConfig] = []
    problems: list[Problem] = []

    def checked(options: list[str]) -> TrainConfig:
        tree = read_tree(file, options)
        config = TrainConfig.from_tree(tree)
        if missing := [*missing_files(config)]:
            raise ConfigError.of(find(tree.root, path).place.problem(path, message) for path, message in missing)
        return config

    # All before the first is trained: a mistake in the last one would show after hours.
    for run in runs:
        try:
            configs.append(reading(checked, [*overrides, *run.overrides]))
        except ConfigError as error:
            problems += error.problems or [Problem(str(error), source=str(file))]
    if problems:
        raise ConfigError.of(dict.fromkeys(problems))
    return configs


def train_all(
    runs: list[SweepRun], configs: list[TrainConfig], folder: Path, set_paths: list[str], renderer: Renderer
) -> Iterator[tuple[SweepRun, "RunResult | BurnlikeError"]]:
    """Train one run after the other in directories of `folder`; those that are there go on where they stopped.

    Gives each run with its result, or with the error that ended it; Interrupted if a signal came: the run that it met
    has a checkpoint. `set_paths` are the paths of the options that all runs have in common.
    """
    for number, (run, config) in enumerate(zip(runs, configs, strict=True), 1):
        renderer.note(f"\nrun {number} of {len(runs)}: {run.name}")
        try:
            with values_hidden(config):
                result = _train(config, folder / run.name, paths_of([*set_paths, *run.overrides]), renderer)
        except BurnlikeError as error:
            renderer.note(f"{run.name} failed: {one_line(str(error))}")
            result = error
        yield run, result


def _train(config: TrainConfig, path: Path, set_paths: list[str], renderer: Renderer) -> "RunResult":
    from .job import Job  # loads torch

    before = path / CONFIG_NAME
    if before.exists():
        check_resumable(TrainConfig.load(before), config, str(path), set_paths)
    job = Job(config)
    with (
        closing(RunDir.open(path) if path.exists() else RunDir.create(path)) as directory,
        Interrupter() as interrupter,
    ):
        for line in job.describe(directory):
            renderer.note(line)
        return job.run(directory, renderer, interrupter)


def sweep_folder(runs_root: Path, name: str, directory: str | None, resumed: str | None) -> Path:
    """The directory of a sweep, with a directory for each run: `directory`, a new one, or `runs_root/NAME-sweep`,
    numbered as runs are. `resumed` is the sweep to go on with; empty: the last one of this name; None: a new one.
    """
    if resumed is not None:
        folder = Path(resumed) if resumed else newest_directory(runs_root, f"{name}-sweep")
        if not folder.is_dir():
            raise CheckpointError(f"there is no sweep at {folder}; leave out --resume to start one, or check the path")
        if (folder / LOCK_NAME).exists():
            raise CheckpointError(f"{folder} is a single run and no sweep; leave out --sweep to go on with it")
        return folder
    if directory is None:
        return next_directory(runs_root, f"{name}-sweep")
    folder = Path(directory)
    try:
        make_directories(folder)
        occupied = any(folder.iterdir())
    except OSError as error:
        raise RunDirError(f"the directory {folder} can't be made: {error.strerror}; choose another") from error
    if occupied:
        raise RunDirError(f"{folder} holds files; choose a new directory, or go on with a sweep by --resume {folder}")
    return folder


class SweepResult(NamedTuple):
    """Outcome of one run of a sweep.
    Attributes:
        error: what ended it; None if it is done.
        metric: that `keep_best` names, or the loss; `best` is its best value of a validation, of `epoch`, from 1.
        order: by which runs are ranked: the best first, those that failed last.
    """

    run: SweepRun
    error: str | None
    metric: str
    best: float | None = None
    epoch: int | None = None
    steps: int | None = None
    train_loss: float | None = None
    valid_loss: float | None = None
    order: tuple[bool, float] = (True, 0.0)


def ranked(
    folder: Path, configs: Sequence[TrainConfig], results: "Sequence[tuple[SweepRun, RunResult | BurnlikeError]]"
) -> list[SweepResult]:
    """The results of a sweep in `folder`, the best first; they are also written there, to `sweep.json`."""
    pairs = zip(results, configs, strict=False)  # fewer results, if it was stopped
    results_by_rank = sorted((_result(folder, *result, config) for result, config in pairs), key=lambda it: it.order)
    rows = [{**it._asdict(), "run": it.run.name, "set": [*map(str, it.run.overrides)]} for it in results_by_rank]
    runs = [{name: row[name] for name in row if name != "order"} for row in rows]
    folds = {"folds": [spread._asdict() for spread in fold_spreads(results)]}
    write_json(folder / "sweep.json", {"runs": runs, **(folds if folds["folds"] else {})})
    return results_by_rank


def _result(folder: Path, run: SweepRun, result: "RunResult | BurnlikeError", config: TrainConfig) -> SweepResult:
    chosen = config.best_metric
    if isinstance(result, BurnlikeError):
        return SweepResult(run, one_line(str(result)), chosen.metric)
    summary = LearnerSummary.of_run(folder / run.name).find("valid", chosen.metric)
    is_low = chosen.direction == "lowest"
    best = None if summary is None else summary.lowest if is_low else summary.highest
    order = (True, -1.0) if best is None else (False, best.value if is_low else -best.value)
    losses = (result.learning.train_loss, result.valid_loss)
    epoch, value = (None, None) if best is None else best
    return SweepResult(run, None, chosen.metric, value, epoch, result.learning.steps, *losses, order)


FOLD = "data.fold"
"""The key that a cross-validation sweeps over."""


class FoldSpread(NamedTuple):
    """The loss and the metrics of the validations of a config over the folds of its data.

    Attributes:
        set: values of other keys that the runs have in common.
        folds: how many there are.
        values: of each metric `mean`, `deviation` (of a sample, by folds - 1), `lowest` and `highest`.
    """

    set: tuple[str, ...]
    folds: int
    values: dict[str, dict[str, float]]


def fold_spreads(results: "Sequence[tuple[SweepRun, RunResult | BurnlikeError]]") -> list[FoldSpread]:
    """The spreads of a sweep over folds, without those that failed; none of other sweeps."""
    folds: dict[tuple[str, ...], list[Mapping[str, float]]] = {}
    for run, result in results:
        others = tuple(str(override) for override in run.overrides if not override.startswith(f"{FOLD}="))
        if len(others) < len(run.overrides) and not isinstance(result, BurnlikeError):
            folds.setdefault(others, []).append(result.values["valid"])
    spreads = []
    for others, values in folds.items():
        of_metrics = {name: [value[name] for value in values if name in value] for name in values[0]}
        spreads.append(FoldSpread(others, len(values), {name: _spread(metric) for name, metric in of_metrics.items()}))
    return spreads


def _spread(values: Sequence[float]) -> dict[str, float]:
    if not all(map(math.isfinite, values)):  # such as R2 of one row, of which `stdev` fails and `min` may pass over it
        return dict.fromkeys(("mean", "deviation", "lowest", "highest"), math.nan)
    return {
        "mean": statistics.fmean(values),
        "deviation": statistics.stdev(values) if len(values) > 1 else math.nan,
        "lowest": min(values),
        "highest": max(values),
    }


def fold_lines(results: "Sequence[tuple[SweepRun, RunResult | BurnlikeError]]") -> list[str]:
    """Tables of the spreads over folds, one below the other."""
    lines: list[str] = []
    for spread in fold_spreads(results):
        columns = ("mean", "deviation", "lowest", "highest")
        rows: list[Sequence[str]] = [(f"validation of {spread.folds} folds", *columns)]
        rows += [(name, *(format_value(value[column]) for column in columns)) for name, value in spread.values.items()]
        lines += ["", *([", ".join(spread.set)] if spread.set else []), *table(rows)]
    return lines


def results_table(results: Sequence[SweepResult]) -> list[str]:
    """The runs as lines, in their order."""

    def text(value: float | None) -> str:
        return str(value) if isinstance(value, int) else format_value(value)

    names = {it.metric for it in results}
    metric = names.pop() if len(names) == 1 else "metric"
    rows: list[Sequence[str]] = [("run", f"best {metric}", "epoch", "steps", "training loss", "validation loss")]
    for result in results:
        values = (result.best, result.epoch, result.steps, result.train_loss, result.valid_loss)
        shown = [*map(text, values)]
        rows.append((result.run.name, "failed" if result.error else shown[0], *shown[1:]))
    return table(rows)


def _wrong(option: str, message: str) -> ConfigError:
    return ConfigError.of([Problem(message, source=f"--sweep {show_text(option)}")])
