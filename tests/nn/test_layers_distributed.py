"""Each case of the table on two processes, under DDP and FSDP2: as one process computes it with both halves."""

import json
from pathlib import Path

import pytest

from ..processes import assert_succeed, launched
from .cases import CASES


@pytest.mark.weekly
def test_two_processes_compute_what_one_does(tmp_path: Path) -> None:
    logs = [tmp_path / f"{rank}.log" for rank in range(2)]
    assert_succeed(launched(["-m", "tests.nn.layers_worker", str(tmp_path)], logs), logs)
    for rank in range(2):
        found = json.loads((tmp_path / f"found{rank}.json").read_text())
        assert len(found) == sum(name not in case.not_in for case in CASES for name in ("ddp", "fsdp"))
        wrong = {name: text for name, text in found.items() if text}
        assert not wrong, f"rank {rank}: {[*wrong]}\n" + "\n".join(wrong.values())
