"""Guides that are run as they stand: their configs, and their commands one after the other."""

import io
import re
import shlex
from collections.abc import Iterable
from pathlib import Path

import pytest

from burnlike.cli.main import main

DOCS = Path(__file__).parents[2] / "docs/guide"


def yaml_of(guide: str, name: str) -> str:
    """The config that a guide calls by a name in its first line, without that line."""
    (text,) = re.findall(rf"^```yaml\n# {re.escape(name)}\n(.*?)^```", guide, re.DOTALL | re.MULTILINE)
    return text


def commands_of(guide: str) -> list[str]:
    """The lines of all commands of a guide."""
    return "".join(re.findall(r"^```bash\n(.*?)^```", guide, re.DOTALL | re.MULTILINE)).splitlines()


def run_commands(
    lines: Iterable[str], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> dict[str, str]:
    """The output of each command, none of which fails; what stands before a bar is `echo` of a text."""
    said: dict[str, str] = {}
    for line in lines:
        before, _, command = line.rpartition("| ")
        monkeypatch.setattr("sys.stdin", io.StringIO(before.removeprefix("echo ").strip().strip('"') + "\n"))
        words = shlex.split(command, comments=True)
        if not words:
            continue  # of comments alone
        assert words[0] == "burnlike"
        capsys.readouterr()
        assert main(words[1:]) == 0, line
        said[line] = capsys.readouterr().out
    return said
