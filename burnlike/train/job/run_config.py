"""The config of a run, whose files are found again where the run is used from another folder, or was moved."""

import hashlib
import json
import os
import sys
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

from ..._regular_file import digest_of
from ...config.base import write_text
from ...config.document import parse, read_text
from ...config.file_paths import file_fields
from ...config.hiding import FromEnvironment
from ...config.node import child
from ...config.overrides import Option
from ...config.registry import import_modules, kinds_in
from ...errors import CheckpointError, ConfigError
from ..runs.environment import folders_of_run
from ..runs.run_dir import CONFIG_NAME, LOCK_NAME, config_of
from .configs import TrainConfig

MAY_CHANGE = (
    "checkpoint",
    "data.pattern",
    "device",
    "distributed",
    "loggers",
    "metrics",
    "output",
    "task.prompt",
    "task.sample_length",
    "task.temperature",
    "threads",
    "training.background_checkpoints",
    "training.checkpoint_every_epochs",
    "training.checkpoint_every_minutes",
    "training.checkpoint_every_steps",
    "training.epochs",
    "training.keep_checkpoints",
    "training.log_every_steps",
    "training.num_workers",
    "training.on_bad_item",
    "training.validation_steps",
)
"""Fields that a resumed run may have other values of, beside those that name files: files may have moved, and their
content is compared when they are read."""

_BATCHES = ("training.batch_size", "training.accumulation_steps", "training.global_batch_size")
"""Fields that make an optimizer step's number of items, with the number of processes."""


def load_config(file: str | os.PathLike[str], overrides: "Sequence[Option | str]" = ()) -> TrainConfig:
    """The config of a file, which may lie in a run."""
    path = Path(file)
    if path.name == CONFIG_NAME and (path.parent / LOCK_NAME).exists():
        return run_config(path.parent, overrides)
    try:
        return TrainConfig.load(file, [*overrides])
    except ConfigError as error:
        if any(problem.path == "type" and not problem.source.startswith("--") for problem in error.problems):
            raise ConfigError(
                f"{file} has `type:` at its root: it is the config of a model or another part, not of a training. Put a"
                f" model into a training by `model: {{from: {path.name}}}`, beside data, task, optimizer,"
                " lr_scheduler and training; `burnlike init .` writes examples of such files"
            ) from error
        raise


def run_config(run: Path, overrides: "Sequence[Option | str]" = ()) -> TrainConfig:
    """The config of a run, whose relative paths count from the folder that the run was started in.

    A path that an override names is of the folder that the program runs in.
    """
    file = config_of(run)
    _import_own(run, file)
    try:
        fields = [*file_fields(TrainConfig.load(file))]
    except ConfigError:  # as it may be without the overrides
        fields = []
    options = [
        Option(f"{field}={json.dumps(place, ensure_ascii=False)}", f"{file}: {field}")
        for field, text in fields
        if not isinstance(text, FromEnvironment) and (place := place_of_run(text, run)) != text
    ]
    return TrainConfig.load(file, [*options, *overrides])


_MODULES = "x-modules"
"""The key of a run's `config.yaml` with the modules of the user's own classes and their digests, for no field."""


def keep_config(config: TrainConfig, path: Path) -> None:
    """Write the config of a run; a ConfigIOError if that is not possible."""
    modules: dict[str, str] = {}
    for name in sorted({kind.__module__ for kind in kinds_in(config)}):
        is_own = name.partition(".")[0] not in ("burnlike", "__main__")
        if is_own and (digest := _digest_of_module(name)) is not None:
            modules[name] = digest
    # A key that begins with `x-` is for no field, so the file stays a config that can be given to `train`.
    write_text(path, (f"{_MODULES}: {json.dumps(modules)}\n" if modules else "") + config.to_yaml())


def _import_own(run: Path, file: Path) -> None:
    """Import the modules with the user's own classes that a run was trained with.

    A run may be a stranger's, and no file may choose what code runs. So only files of the current folder are imported
    that are, byte for byte, those that `--import` named when the run began, and none where the program runs in the
    run's folder.
    """
    digests: Any = None
    with suppress(ConfigError):  # which is told where the config is read
        modules = child(parse(read_text(file), str(file))[0], _MODULES)
        digests = None if modules is None else modules.plain()
    for name, digest in digests.items() if isinstance(digests, dict) else ():
        if name in sys.modules or Path.cwd().is_relative_to(os.path.abspath(run)):
            continue
        if digest is None or _digest_of_module(name) != digest:
            raise ConfigError(
                f"{run}: the run has classes of the module {name}, which is not in this folder as it was when the run"
                f" began; if it is yours, repeat --import {name}, which runs its code"
            )
        import_modules([name])


def _digest_of_module(name: str) -> str | None:
    """The SHA-256 of the file of a module in the current folder and of the packages around it; None for no such file.

    Nothing is imported.
    """
    parts = str(name).split(".")
    if not all(map(str.isidentifier, parts)):
        return None
    packages = [Path(*parts[:count], "__init__.py") for count in range(1, len(parts) + 1)]
    module = Path(*parts).with_suffix(".py")
    if not (module.is_file() or packages[-1].is_file()):
        return None
    digest = hashlib.sha256()
    for path in (package for package in (*packages, module) if package.is_file()):
        digest.update(f"{path}:{digest_of(path)[1]};".encode())
    return digest.hexdigest()


def place_of_run(text: str, run: Path) -> str:
    """The file or directory that the config of a run names.

    It is looked for from the folder in which the run was started, as that lies to the run now and as it lay then. The
    text stays as it is if it means the same from the folder that the program runs in.
    """
    folders, path = folders_of_run(run), os.path.expanduser(text)
    if not folders or "${" in text:
        return text
    now, then = folders
    if os.path.isabs(path):
        if os.path.exists(path) or not Path(path).is_relative_to(then):
            return text
        moved = os.path.join(now, os.path.relpath(path, then))
        return moved if os.path.exists(moved) else text
    places = [os.path.normpath(os.path.join(folder, path)) for folder in (now, then, os.getcwd())]
    place = next(filter(os.path.exists, places), places[1])
    return text if place == os.path.abspath(path) else place


def check_resumable(
    before: TrainConfig, now: TrainConfig, run: str, set_paths: Sequence[str] | None = None
) -> list[str]:
    """The fields that the config to go on with may have and has otherwise, as text such as `training.epochs: 3 -> 5`.

    How many processes there were is not in a config. So where there may have been several, or are now, the data loader
    compares the items of a step, when it takes up the position of a checkpoint.

    Args:
        set_paths: the paths that were set for this resume; a field that differs must be one of them or below one.
            None where a program made `now`.
    """
    changes = _changes(_plain(before), _plain(now), "")
    files_before, files_now = dict(file_fields(before)), dict(file_fields(now))
    files = files_before.keys() & files_now.keys()
    # Batches may be of another size where a step still takes as many items, or may do so.
    items = [it.training.items_per_step for it in (before, now)]
    is_single = before.distributed.is_single and now.distributed.is_single
    may_divide_otherwise = items[0] == items[1] or not is_single
    allowed = (*MAY_CHANGE, *files, *(_BATCHES if may_divide_otherwise else ()))
    refused = [text for path, text in changes if not any(f"{path}.".startswith(f"{it}.") for it in allowed)]
    if refused:
        raise CheckpointError(
            f"the run {run} was started with another config: {'; '.join(refused)}. Put the old values back to "
            "resume it, or leave out --resume to start a new run"
        )
    same = {path for path in files if _is_one_file(files_before[path], files_now[path])}
    unsaid = [
        (path, text)
        for path, text in (() if set_paths is None else changes)
        if path not in same
        and not any(f"{path}.".startswith(f"{it}.") or it.startswith(f"{path}.") for it in set_paths or ())
    ]
    if unsaid:
        raise CheckpointError(
            f"the run {run} has other values than the config: {'; '.join(text for _, text in unsaid)}. Say which to"
            f" go on with by --set {unsaid[0][0]}=VALUE, or leave the config's file out to go on with the run's own"
        )
    return [text for _, text in changes]


def _is_one_file(one: str, other: str) -> bool:
    places = os.path.abspath(os.path.expanduser(one)), os.path.abspath(os.path.expanduser(other))
    with suppress(OSError, ValueError):  # one file may have two names, by links or by letters of either case
        return os.path.samefile(*places)
    return places[0] == places[1]


def _plain(config: TrainConfig) -> dict[str, Any]:
    """The config as plain data, with the directions that its metrics say."""
    return config.replace(training=config.directed()).to_dict()


def _changes(before: Any, now: Any, path: str) -> list[tuple[str, str]]:
    if isinstance(before, dict) and isinstance(now, dict):
        return [
            change
            for key in dict.fromkeys([*before, *now])
            for change in _changes(before.get(key), now.get(key), f"{path}.{key}" if path else key)
        ]
    return [] if before == now else [(path, f"{path}: {_show(before)} -> {_show(now)}")]


def _show(value: Any) -> str:
    if isinstance(value, FromEnvironment):
        return value.reference
    return "a mapping" if isinstance(value, dict) else "null" if value is None else str(value)
