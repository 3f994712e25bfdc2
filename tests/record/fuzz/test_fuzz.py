"""Damaged and hostile files are refused with a RecordError: no crash, no hang, no memory without a reason."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

from ...processes import HANGS_S
from .mutations import MUTATIONS, hostile, mutated

CASES = 20_000


@pytest.mark.weekly
def test_20000_damaged_and_hostile_files_are_read_or_refused(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "tests.record.fuzz.fuzz", "--cases", str(CASES), "--keep", str(tmp_path)]
    result = subprocess.run(command, capture_output=True, text=True, timeout=HANGS_S)
    assert result.returncode == 0, (result.stdout + result.stderr)[-3000:]
    counts = {
        what: int(count) for count, what in re.findall(r"(\d+) (refused|whole and loaded|whole)(?:,|\n)", result.stdout)
    }
    assert sum(counts.values()) == CASES
    assert counts["refused"] > CASES // 2
    assert counts["whole"] > CASES // 40  # damage within values is no damage of the file
    assert not list(tmp_path.iterdir())


@pytest.mark.slow
def test_mutations_are_the_same_each_time_and_change_something() -> None:
    import random

    data, others = bytes(range(200)), [bytes(50)]
    for number in range(200):
        once, again = (mutated(random.Random(number), data, others) for _ in range(2))
        assert once == again
    changed = {mutated(random.Random(number), data, others) for number in range(200)}
    assert len(changed) > 150
    assert len(MUTATIONS) == 10
    assert sum(1 for _ in hostile()) > 300


def test_a_reader_that_breaks_is_noticed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    code = (
        "import sys, burnlike.record.burn.messagepack as m\n"
        "m._Reader.value = lambda self, depth: {}['broken']\n"
        "from tests.record.fuzz import fuzz\n"
        f"sys.argv = ['fuzz', '--cases', '3000', '--keep', {str(tmp_path)!r}]\n"
        "sys.exit(fuzz.main())\n"
    )
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=HANGS_S)
    assert result.returncode != 0
    assert "KeyError: 'broken'" in result.stdout
    assert list(tmp_path.iterdir())
