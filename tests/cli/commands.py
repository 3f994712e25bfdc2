"""Running a command in this process."""

import argparse
from types import ModuleType

import pytest

from burnlike.cli.main import main


def run(command: ModuleType, *arguments: object) -> int:
    """The exit status of a command of `burnlike.cli` with these arguments; errors are raised."""
    parser = argparse.ArgumentParser()
    command.add_arguments(parser)
    return command.run(parser.parse_args([str(argument) for argument in arguments]))


def said(capsys: pytest.CaptureFixture[str], *arguments: str) -> str:
    """What a command line that goes well prints."""
    capsys.readouterr()
    assert main([*arguments]) == 0
    return capsys.readouterr().out
