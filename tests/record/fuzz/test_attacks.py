"""Damaged and hostile files are refused with a RecordError, in time and memory in proportion to them."""

import json
import re
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any, cast

import pytest
import torch

from burnlike.cli.main import main
from burnlike.errors import ArgumentError, RecordFormatError
from burnlike.record import ReadLimits, Record, SafetensorsRecorder

from ...processes import HANGS_S
from .attacks import ATTACKS, entry, in_a_fork, safetensors
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


@pytest.mark.slow  # a process of its own, whose imports take seconds
def test_a_reader_that_breaks_is_noticed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    code = (
        "import sys, burnlike.record.burn.envelope as m\n"
        "m._Reader.value = lambda self, depth: {}['broken']\n"
        "from tests.record.fuzz import fuzz\n"
        f"sys.argv = ['fuzz', '--cases', '3000', '--keep', {str(tmp_path)!r}]\n"
        "sys.exit(fuzz.main())\n"
    )
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=HANGS_S)
    assert result.returncode != 0
    assert "KeyError: 'broken'" in result.stdout
    assert list(tmp_path.iterdir())


SCALE = 0.1
"""Of the sizes, and of what a file of any size may take: the rule holds at each."""
BUSY = 4.0
"""A core that is shared takes so many times as long, at most; the time is that of the process, not of the clock."""
PAGES = 8 << 20
"""What the allocator takes at once, and the code that is loaded first in the child."""


@pytest.fixture(scope="module")
def found(tmp_path_factory: pytest.TempPathFactory) -> dict[str, dict[str, Any]]:
    command = [sys.executable, "-m", "tests.record.fuzz.attacks", str(tmp_path_factory.mktemp("attacks")), str(SCALE)]
    result = subprocess.run(command, capture_output=True, text=True, timeout=HANGS_S)
    assert result.returncode == 0, result.stderr[-3000:]
    return {case["name"]: case for case in map(json.loads, result.stdout.splitlines())}


@pytest.mark.slow
@pytest.mark.parametrize("name", ATTACKS)
def test_an_attack_takes_no_more_than_the_rule(name: str, found: dict[str, dict[str, Any]]) -> None:
    case, limits = found[name], ReadLimits()
    assert case["seconds"] < BUSY * (limits.seconds * SCALE + case["bytes"] / limits.bytes_per_second), case
    assert case["extra_bytes"] < limits.memory_bytes * SCALE + limits.memory_per_byte * case["bytes"] + PAGES, case


HARMLESS = {"lists in an index", "members of an archive"}
"""What is passed over, or is what a record may hold."""


@pytest.mark.slow
@pytest.mark.parametrize("name", sorted(set(ATTACKS) - HARMLESS))
def test_an_attack_is_refused(name: str, found: dict[str, dict[str, Any]]) -> None:
    assert found[name]["outcome"].startswith("refused: "), found[name]


def test_higher_limits_open_what_is_refused() -> None:
    record = Record({"w": torch.zeros(1)}, {"x": [{}] * 500_000})
    data = SafetensorsRecorder().to_bytes(record)
    with ReadLimits(memory_bytes=1 << 20), pytest.raises(RecordFormatError, match=r"far more memory.*ReadLimits"):
        SafetensorsRecorder().from_bytes(data)
    with ReadLimits(memory_bytes=1 << 20).times(1000):
        assert SafetensorsRecorder().from_bytes(data).values == record.values


def test_limits_end_with_the_statement_and_are_those_of_the_thread() -> None:
    data = SafetensorsRecorder().to_bytes(Record({"w": torch.zeros(1)}, {"x": [{}] * 100_000}))
    opened = []
    with ReadLimits(memory_bytes=1):
        thread = threading.Thread(target=lambda: opened.append(SafetensorsRecorder().from_bytes(data)))
        thread.start()
        thread.join()
        with ReadLimits():
            opened.append(SafetensorsRecorder().from_bytes(data))
        with pytest.raises(RecordFormatError, match="far more"):
            SafetensorsRecorder().from_bytes(data)
    opened.append(SafetensorsRecorder().from_bytes(data))
    assert len(opened) == 3


@pytest.mark.parametrize("option", ["seconds", "bytes_per_second", "memory_bytes", "memory_per_byte"])
def test_limits_are_positive(option: str) -> None:
    with pytest.raises(ArgumentError, match=f"expected a positive {option}, got 0"):
        ReadLimits(**{option: 0})


@pytest.mark.slow
def test_the_command_line_raises_the_limits(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "x.safetensors"
    path.write_bytes(SafetensorsRecorder().to_bytes(Record({"w": torch.zeros(1)}, {"x": [{}] * 1_000_000})))
    assert main(["inspect", str(path)]) == 2
    assert "--limits" in capsys.readouterr().err
    assert main(["inspect", str(path), "--limits", "100"]) == 0


def test_many_real_tensors_open_within_the_rule(tmp_path: Path) -> None:
    """A fifth of a million, in a fifth of what a file of any size may take."""
    many = 200_000
    header = ",".join(f'"layers.{it}.weight":{entry(it, "[1]", it + 1)}' for it in range(many))
    path = tmp_path / "x.safetensors"
    path.write_bytes(safetensors("{" + header + "}", bytes(many)))
    found, limits = in_a_fork(str(path), 0.2), ReadLimits()
    size = path.stat().st_size
    assert found["outcome"] == f"{many} tensors"
    assert cast(float, found["seconds"]) < BUSY * (limits.seconds * 0.2 + size / limits.bytes_per_second)
    assert cast(int, found["extra_bytes"]) < limits.memory_bytes * 0.2 + limits.memory_per_byte * size + PAGES
