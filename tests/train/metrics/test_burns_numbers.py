"""What Burn 0.22.1 answered: values, names and units of metrics, when trainings stop, and which checkpoints stay."""

import json
from typing import Any

import pytest

from tests.burn.train_cases import METRICS, VECTORS, difference

ENTRIES: list[dict[str, Any]] = json.loads(VECTORS.read_text())


def subject(entry: dict[str, Any]) -> str:
    return entry["case"].get("metric", entry["case"]["task"])


@pytest.mark.parametrize("name", [*METRICS, "stopping", "checkpoints"])
def test_answers_are_burns(name: str) -> None:
    entries = [it for it in ENTRIES if subject(it) == name]
    assert len(entries) >= 2
    assert [it for entry in entries if (it := difference(entry["case"], entry["burn"]))] == []
