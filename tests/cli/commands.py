"""Running a command in this process."""

import argparse
from types import ModuleType


def run(command: ModuleType, *arguments: object) -> int:
    """The exit status of a command of `burnlike.cli` with these arguments; errors are raised."""
    parser = argparse.ArgumentParser()
    command.add_arguments(parser)
    return command.run(parser.parse_args([str(argument) for argument in arguments]))
