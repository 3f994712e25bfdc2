"""`burnlike init DIR`: copies the shipped configs, to start from."""

import argparse
from pathlib import Path

from burnlike._atomic_file import replace_file
from burnlike.config.shipped import shipped_configs
from burnlike.errors import ConfigIOError

from .models import is_module
from .tables import say


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The options of the command."""
    parser.description = "Copy the configs that come with burnlike into a directory, to start from."
    parser.add_argument("directory", metavar="DIR", help="where to; made where it is missing, `.` is the current one")


def run(args: argparse.Namespace) -> int:
    """Copy them.

    Returns:
        0.

    Raises:
        ConfigIOError: one of the files is there already; nothing was written.
        OSError: the directory can't be made or written to.
    """
    copies = {path: Path(args.directory, path.name) for path in shipped_configs().values()}
    for target in copies.values():
        if target.exists() or target.is_symlink():
            raise ConfigIOError(f"{target}: is there already, and nothing is overwritten; name another directory")
    Path(args.directory).mkdir(parents=True, exist_ok=True)
    for source, target in copies.items():
        replace_file(target, source.read_bytes())
        say(str(target))
    last = [target for target in copies.values() if not is_module(str(target))][-1]
    say(f"edit one, then: burnlike check {last} && burnlike train {last}")
    return 0
