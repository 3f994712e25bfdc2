"""Each case of the table on two processes, under DDP and FSDP2: as one process computes it with both halves."""

import json
from pathlib import Path

import pytest

from ..processes import assert_succeed, launched
from .layers_worker import chosen


def check(folder: Path, *arguments: str) -> None:
    logs = [folder / f"{rank}.log" for rank in range(2)]
    workers = launched(["-m", "tests.nn.layers_worker", str(folder), *arguments], logs)
    assert_succeed(workers, logs)
    cases = chosen(bool(arguments))
    for rank in range(2):
        found = json.loads((folder / f"found{rank}.json").read_text())
        assert len(found) == sum(name not in case.not_in for case in cases for name in ("ddp", "fsdp"))
        wrong = {name: text for name, text in found.items() if text}
        assert not wrong, f"rank {rank}: {[*wrong]}\n" + "\n".join(wrong.values())


def test_two_processes_compute_what_one_does(tmp_path: Path) -> None:
    check(tmp_path)


@pytest.mark.slow
def test_they_do_so_with_every_option(tmp_path: Path) -> None:
    check(tmp_path, "all")
