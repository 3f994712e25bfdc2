"""The config of a run, whose files are found again where the run is used from another folder, or was moved."""

import json
import os
from collections.abc import Sequence
from pathlib import Path

from ...config.file_paths import file_fields
from ...config.hiding import FromEnvironment
from ...config.overrides import Option
from ...errors import ConfigError
from ..runs.environment import folders_of_run
from ..runs.run_dir import CONFIG_NAME, LOCK_NAME, config_of
from .configs import TrainConfig


def load_config(file: str | os.PathLike[str], overrides: "Sequence[Option | str]" = ()) -> TrainConfig:
    """The config of a file, which may be that of a run."""
    path = Path(file)
    is_of_run = path.name == CONFIG_NAME and (path.parent / LOCK_NAME).exists()
    return run_config(path.parent, overrides) if is_of_run else TrainConfig.load(file, [*overrides])


def run_config(run: Path, overrides: "Sequence[Option | str]" = ()) -> TrainConfig:
    """The config of a run, in which relative paths are those of the folder that the run was started in.

    A path that an override names is of the folder that the program runs in.
    """
    file = config_of(run)
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
