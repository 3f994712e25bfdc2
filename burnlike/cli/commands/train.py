"""`burnlike train CONFIG`: trains a model, or resumes a run that was stopped."""

import argparse
import math
from contextlib import ExitStack, closing
from pathlib import Path
from typing import TYPE_CHECKING

import burnlike.config.registry as registry
from burnlike._env import global_rank, number_of_ranks, quiet_distributed, quiet_profiler, shorten_spinning
from burnlike._memory import collections_paused, keep_freed_memory
from burnlike._outputs import Output
from burnlike.config.hiding import values_hidden
from burnlike.config.overrides import paths_of
from burnlike.config.shipped import config_file, shipped_jobs
from burnlike.errors import ArgumentError, BurnlikeError, CheckpointError, ConfigError
from burnlike.train.checkpoint.mirror import Mirror, parts_of_url
from burnlike.train.job.configs import TrainConfig
from burnlike.train.job.launching import follow_launcher, requeued_run, resumed_run
from burnlike.train.job.run_config import check_resumable, load_config, run_config
from burnlike.train.job.sweep import (
    FOLD,
    checked_configs,
    fold_lines,
    ranked,
    results_table,
    sweep_folder,
    sweep_runs,
    train_all,
)
from burnlike.train.learner.stopping import EarlySignals
from burnlike.train.runs.run_dir import CONFIG_NAME, RunDir, config_of

from ..options import (
    RUNS,
    add_force_option,
    add_repeated,
    add_shared,
    expect_config,
    overrides_of,
    paths_in,
    say,
    shell_word,
)

if TYPE_CHECKING:
    from burnlike.train import RunResult, Task

_NEWEST = ""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    text = f"a YAML file, or a shipped config: {', '.join(shipped_jobs())}; with --resume DIR, default: that run's"
    parser.add_argument("file", nargs="?", type=config_file, metavar="CONFIG", help=text)
    text = "go on with the run in DIR, or of a mirror such as s3://bucket/RUN; without it: with the last run of CONFIG"
    parser.add_argument("--resume", nargs="?", const=_NEWEST, metavar="DIR", help=text)
    parser.add_argument("--run-dir", metavar="DIR", help="where the run goes (default: runs/ and the name of CONFIG)")
    add_shared(parser, "--device", "--set")
    text = "train once with each of the values, such as seed=1,2,3; repeated: with each combination"
    add_repeated(parser, "--sweep", "sweeps", "KEY=VALUE,VALUE", text)
    text = "cross-validation of a table: train N times, each time another part is validated; prints mean and deviation"
    parser.add_argument("--folds", type=int, metavar="N", help=text)
    text = (
        "train nothing: lr: try rates from 1e-7 to 10 and suggest one; batch-size: measure the memory of batches, and"
        " suggest the largest that fits"
    )
    parser.add_argument("--find", choices=["lr", "batch-size"], help=text)
    parser.add_argument("--out", type=Path, metavar="FILE", help="with --find: what was measured, as JSON")
    add_force_option(parser)
    add_shared(parser, "--import")


def run(args: argparse.Namespace) -> int:
    """Train; 0 when done, 128 + N when stopped by the signal N after a checkpoint was written.

    A launcher would start processes again that end with another status than 0: `burnlike launch` asks for 0.
    """
    with EarlySignals():
        return _run(args, is_launched=follow_launcher())


def _run(args: argparse.Namespace, *, is_launched: bool) -> int:
    shorten_spinning()
    quiet_distributed()
    keep_freed_memory()
    if args.folds is not None:
        _take_folds(args)
    file, resumed = paths_of_run(args)
    registry.import_modules(args.imports)
    overrides = overrides_of(args)
    if args.find is not None:
        return _find(args, file, overrides)
    if args.out is not None:
        raise ArgumentError("--out is for --find; a run goes to --run-dir DIR")
    if args.sweeps:
        return _sweep(args, file, resumed, overrides)
    if resumed is None and (begun := requeued_run(args.run_dir, RUNS, file.stem)):
        resumed = str(begun)
    config = load_config(file, overrides)
    if config.distributed.is_single and (ranks := number_of_ranks()) > 1:
        raise ArgumentError(
            f"this is one of {ranks} processes of a launcher (torchrun, srun, mpirun), and the config is for one: each"
            " would train the whole job by itself. Say how they train together by --set distributed.strategy=ddp (or"
            " fsdp2), or start it without the launcher (torchrun --nproc-per-node 1, srun -n 1)"
        )
    config.distributed.check_launched()
    # torch is loaded only now, so that a wrong file is told at once
    with collections_paused():
        from burnlike.train import Interrupted, Interrupter, Job, choose_renderer

        renderer = choose_renderer()
    with ExitStack() as stack:
        stack.enter_context(values_hidden(config))
        directory = None
        if resumed is not None and global_rank() == 0:
            directory = stack.enter_context(closing(resumed_run(resumed, RUNS, file.stem, config.checkpoint.mirror)))
            if directory.config.exists():
                before = run_config(directory.path)
                check_resumable(before, config, str(directory.path), paths_of(overrides))
        with collections_paused():
            job = Job(config)
        stack.callback(job.parallel.close)
        if job.parallel.is_main and directory is None:
            # The run that this job had begun before its launcher started it again, or a new one.
            if begun := job.parallel.remembered():
                run_dir = RunDir.open(begun)
            else:
                run_dir = RunDir.create(args.run_dir) if args.run_dir else RunDir.create_next(RUNS, file.stem)
            directory = stack.enter_context(closing(run_dir))
            job.parallel.remember(str(directory.path))
        # Rank 0 alone has opened it: where it failed to, the broadcast of the others breaks off, and they say why.
        with job.parallel.explain_lost_peer():
            path = job.parallel.broadcast(None if directory is None else directory.path)
        directory = directory or stack.enter_context(closing(RunDir.follow(path)))
        # Only from here on is there anything to finish: before, a signal ends the program at once.
        with Interrupter() as interrupter:
            try:
                if job.parallel.is_main:
                    for line in job.describe(directory):
                        renderer.note(line)
                result = job.run(directory, renderer, interrupter)
            except Interrupted as stop:
                if is_launched:
                    return 0
                if directory.config.exists() and job.parallel.is_main:
                    words = _repeated(("--import", args.imports))
                    renderer.note(f"stopped by {stop}; go on with: {_resuming(directory.path, *words)}")
                return 128 + stop.signal
    if job.parallel.is_main:
        for line in _summary(config, job.task, directory, result):
            renderer.note(line)
    return 0


def _find(args: argparse.Namespace, file: Path, overrides: list[str]) -> int:
    """Measure what a training should begin with; no run is written."""
    for option, value in (("--resume", args.resume), ("--run-dir", args.run_dir), ("--sweep", args.sweeps or None)):
        if value is not None:
            raise ArgumentError(f"--find measures a config and writes no run; leave {option} out")
    quiet_profiler()
    config = TrainConfig.load(file, overrides)
    read = [file, *paths_in(config.to_dict())]
    out = None if args.out is None else Output(args.out, "train", inputs=read, force=args.force)
    if out is not None:
        out.check_file()
    from burnlike.train.job import finding

    with values_hidden(config):
        if args.find == "lr":
            result = finding.find_rate(config)
            lines = finding.rate_lines(config, result)
        else:
            result = finding.find_batch_size(config)
            lines = finding.batch_lines(result)
    for line in lines:
        say(line)
    if out is not None:
        out.check_file()
        finding.keep(result, out.path)
    return 0


def _sweep(args: argparse.Namespace, file: Path, resumed: str | None, overrides: list[str]) -> int:
    """Train each combination; 0 when all are done, 2 when some failed, 130 or 143 when stopped by a signal."""
    runs = sweep_runs(args.sweeps)
    configs = checked_configs(file, overrides, runs)
    if number_of_ranks() > 1 or not all(config.distributed.is_single for config in configs):
        raise ArgumentError(
            "--sweep trains one run after the other in this process, without a launcher and with distributed.strategy"
            " none. Start each run of several processes by itself: torchrun --nproc-per-node 2 -m burnlike train CONFIG"
            " --set KEY=VALUE --run-dir DIR"
        )
    from burnlike.train import Interrupted, choose_renderer

    renderer = choose_renderer()
    folder = sweep_folder(RUNS, file.stem, args.run_dir, resumed)
    results = []
    try:
        for result in train_all(runs, configs, folder, overrides, renderer):
            results.append(result)
    except Interrupted as stop:
        words = _repeated(("--import", args.imports), ("--set", args.overrides), ("--sweep", args.sweeps))
        words += [] if args.device is None else ["--device", args.device]
        renderer.note(f"stopped by {stop}; go on with: {_resuming(folder, args.file, *words)}")
        return 128 + stop.signal
    for line in ["", f"sweep  {folder}", *results_table(ranked(folder, configs, results)), *fold_lines(results)]:
        renderer.note(line)
    return 2 if any(isinstance(result, BurnlikeError) for _, result in results) else 0


def paths_of_run(args: argparse.Namespace) -> tuple[Path, str | None]:
    """The config's file, and the run to resume: a directory, `_NEWEST`, or None to start one."""
    if "://" in (args.resume or ""):
        _take_mirror(args)
    file, resumed, place = args.file, args.resume, args.run_dir
    if place is not None:
        Output(place, "train", "--run-dir").check_place()  # RunDir tells what is there
    if file is None and resumed and Path(resumed).is_file():
        file, resumed = resumed, _NEWEST  # `--resume FILE`: argparse took the file for the directory
    if resumed is not None and place is not None:
        if resumed not in (_NEWEST, place):
            raise CheckpointError(f"--resume {resumed} and --run-dir {place} name two runs; leave one out")
        resumed = place
    if file is None:
        if args.sweeps:
            raise ConfigError("a sweep needs its config, also to go on with it: give CONFIG before --sweep")
        if not resumed:
            raise ConfigError(f"expected the YAML file of a config or a shipped one: {', '.join(shipped_jobs())}")
        file = config_of(Path(resumed))
    return expect_config(file), resumed


def _take_folds(args: argparse.Namespace) -> None:
    """Take `--folds N` as a sweep over the parts of the data that are validated."""
    if args.folds < 2:
        raise ArgumentError(f"--folds: expected at least 2 parts, got {args.folds}")
    if args.find is not None:
        raise ArgumentError("--find measures a config and writes no run; leave --folds out")
    args.overrides = [*args.overrides, f"data.folds={args.folds}"]
    args.sweeps = [*args.sweeps, f"{FOLD}={','.join(map(str, range(args.folds)))}"]


def _take_mirror(args: argparse.Namespace) -> None:
    """Take `--resume s3://bucket/path/RUN` as the run of this name, whose mirror that is."""
    url, root = args.resume, RUNS if args.run_dir is None else Path(args.run_dir).parent
    place, path = parts_of_url(url, root)
    if args.run_dir is not None and Path(args.run_dir).name != path.name:
        raise ArgumentError(f"--run-dir {args.run_dir}: a run has the name of its mirror: expected {path}")
    if args.file is None and not (path / CONFIG_NAME).exists():
        if number_of_ranks() > 1:
            raise ArgumentError(f"--resume {url}: name the config too, where a launcher has started several processes")
        mirror = Mirror(place, path)
        mirror.expect_one()
        with closing(RunDir.open(path, may_lack=True)):
            mirror.fetch_beside()
    args.resume, args.run_dir = str(path), None
    args.overrides = [*args.overrides, f"checkpoint.mirror={place}"]


def _resuming(path: Path, *words: str) -> str:
    place = f"./{path}" if str(path).startswith("-") else str(path)
    return " ".join(map(shell_word, ["burnlike", "train", *words, "--resume", place]))


def _repeated(*options: tuple[str, list[str]]) -> list[str]:
    return [word for option, values in options for value in values for word in (option, value)]


def _summary(config: TrainConfig, task: "Task", directory: RunDir, result: "RunResult") -> list[str]:
    from burnlike.train import LearnerSummary

    learning = result.learning
    lines = ["", f"run              {directory.path}"]
    which = f"{result.weights} weights, step {result.step}"
    adapters = directory.adapter / "adapter_model.safetensors"
    for label, file, what in (("adapters", adapters, ""), ("model", directory.model, f" {config.output.precision},")):
        if file.exists():
            where = file.parent if file is adapters else file
            lines.append(f"{label:<17}{where} ({which},{what} {file.stat().st_size / 1e6:.2f} MB)")
    if learning.checkpoint is not None:
        lines.append(f"last checkpoint  {learning.checkpoint.path} (step {learning.checkpoint.step}, full precision)")
    if learning.train_loss is not None:
        lines.append(f"training loss    {learning.train_loss:.4f}")
    for split, values in result.values.items():
        name = {"valid": "validation"}.get(split, split)
        shown = {metric: "-" if math.isnan(value) else f"{value:.4f}" for metric, value in values.items()}
        lines += [f"{f'{name} {metric}':<16} {value}" for metric, value in shown.items()]
    lines += ["", *str(LearnerSummary.of_run(directory.path)).splitlines()]
    return [*lines, "", *task.describe(result.values, result.task_notes)]
