"""Burn's own numbers: every vector of the three files on every backend, by operation."""

from collections import defaultdict
from pathlib import Path
from typing import Any

import pytest

from tests.vectors.backends import backends_for, plain_backend
from tests.vectors.cases import is_program, run
from tests.vectors.files import read

ROOT = Path(__file__).parents[2]
FILES = ("tensor_ops.json", "quantized_ops.json", "autodiff.json")
RECORDS = [record for name in FILES for record in read(ROOT / "tests" / "vectors" / name)]


def grouped() -> dict[str, list[Any]]:
    groups: dict[str, list[Any]] = defaultdict(list)
    for record in RECORDS:
        groups["gradient of " + record["id"].split("/")[1] if is_program(record) else record["op"]].append(record)
    return groups


GROUPS = grouped()


def check(group: str, device: str) -> None:
    plain = plain_backend(device)
    assert plain is not None
    faults: list[str] = []
    for record in GROUPS[group]:
        for backend in backends_for(is_program(record), plain):
            outcome = run(record, backend)
            if outcome.verdict != "passed":
                faults.append(f"{record['id']} on {backend.name}: {outcome.verdict}: {outcome.reason}")
    assert not faults, "\n".join(faults)


@pytest.mark.parametrize("group", GROUPS)
def test_burns_numbers(group: str) -> None:
    check(group, "cpu")


@pytest.mark.cuda
@pytest.mark.parametrize("group", GROUPS)
def test_burns_numbers_on_cuda(group: str) -> None:
    check(group, "cuda")


def test_the_files_are_whole() -> None:
    assert [len(read(ROOT / "tests" / "vectors" / name)) for name in FILES] == [1256, 184, 173]
