"""Each function of burnlike, on two processes, with a module under `fully_shard` in each state."""

import json
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from torch import nn

from burnlike._torch_compat.fsdp import MANAGED
from burnlike.errors import ModuleTreeError
from burnlike.module import params

from ..processes import assert_succeed, crashed_in_a_thread_of_torch, launched, wait_for


def wrong_cells(folder: Path, *arguments: str) -> dict[str, str]:
    """What two processes found to be wrong, by check, state and wrapping."""
    logs = [folder / f"{rank}.log" for rank in range(2)]
    for _ in range(2):
        workers = launched(["-m", "tests.fsdp.worker", str(folder), *arguments], logs, forked=False)
        wait_for(workers)
        if not crashed_in_a_thread_of_torch(workers, logs):
            break
    assert_succeed(workers, logs)
    found = [json.loads((folder / f"found{rank}.json").read_text()) for rank in range(2)]
    assert len(found[0]) >= 40
    return {f"{name}, rank {rank}": it for rank, each in enumerate(found) for name, it in each.items() if it}


@pytest.mark.slow
def test_a_sharded_module_holds_its_sharded_parameters(tmp_path: Path) -> None:
    assert wrong_cells(tmp_path) == {}


@pytest.mark.weekly
def test_it_does_so_in_each_state_and_wrapping(tmp_path: Path) -> None:
    assert wrong_cells(tmp_path, "all") == {}


def test_a_torch_that_keeps_them_otherwise_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    unknown: Any = SimpleNamespace()
    monkeypatch.setitem(sys.modules, "torch.distributed.fsdp._fully_shard._fsdp_state", unknown)
    plain, sharded = nn.Linear(2, 2), nn.Linear(2, 2)
    sharded.__dict__[MANAGED] = True
    assert params(plain)[0].tensor is plain.weight
    with pytest.raises(ModuleTreeError, match="keeps the parameters of fully_shard in a way that burnlike does not"):
        _ = params(sharded)[0].tensor
