"""Two processes under FSDP2 or tensor parallelism give the numbers of one; torch's checkpoints go on alike."""

from pathlib import Path
from typing import Any

import pytest

from ..processes import assert_near, results_of
from . import sharded_worker, tensor_worker


@pytest.fixture(scope="module")
def sharded(tmp_path_factory: pytest.TempPathFactory) -> list[dict[str, Any]]:
    return results_of(sharded_worker.__name__, tmp_path_factory.mktemp("sharded"))


@pytest.fixture(scope="module")
def parallel(tmp_path_factory: pytest.TempPathFactory) -> list[dict[str, Any]]:
    return results_of(tensor_worker.__name__, tmp_path_factory.mktemp("parallel"))


@pytest.mark.slow
@pytest.mark.parametrize("check", sharded_worker.CHECKS)
def test_two_processes_give_the_weights_of_one(sharded: list[dict[str, Any]], check: str) -> None:
    assert_near(sharded, check)


@pytest.mark.slow
@pytest.mark.parametrize("name", tensor_worker.CHECKS)
def test_two_processes_compute_what_one_does(name: str, parallel: list[dict[str, Any]]) -> None:
    assert_near(parallel, name)


@pytest.mark.weekly
def test_lightning_shards_by_fsdp2(tmp_path: Path) -> None:
    assert_near(results_of("tests.interop.lightning_worker", tmp_path), "lightning", 1e-6)
