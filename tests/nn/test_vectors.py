"""Burn's own numbers of layers and losses; and what runs them notices what is wrong."""

import copy
import json
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.vectors.__main__ import main
from tests.vectors.deviations import CHANGED_IN_0_22, DEVIATIONS
from tests.vectors.files import read
from tests.vectors.modules.records import outcomes, run
from tests.vectors.modules.worlds import worlds_on

ROOT = Path(__file__).parents[2]
FILES = {name: read(ROOT / "tests" / "vectors" / name) for name in ("nn_modules.json", "losses.json")}
RECORDS: dict[str, Any] = {record["id"]: record for records in FILES.values() for record in records}


def by_module() -> dict[str, list[Any]]:
    groups: dict[str, list[Any]] = defaultdict(list)
    for record in RECORDS.values():
        groups[record["module"]].append(record)
    return groups


GROUPS = by_module()


def check(group: str, device: str) -> None:
    faults = [
        f"{record['id']}{where}: {outcome.verdict}: {outcome.reason}"
        for record in GROUPS[group]
        for where, outcome in outcomes(record, device)
        if outcome.verdict != "passed"
    ]
    assert not faults, "\n".join(faults)


@pytest.mark.parametrize("group", GROUPS)
def test_burns_numbers(group: str) -> None:
    check(group, "cpu")


@pytest.mark.cuda
@pytest.mark.parametrize("group", GROUPS)
def test_burns_numbers_on_cuda(group: str) -> None:
    check(group, "cuda")


def test_the_files_are_whole() -> None:
    assert [len(records) for records in FILES.values()] == [273, 126]
    assert len(RECORDS) == 399


def test_deviations_are_documented() -> None:
    page = "\n".join(it.read_text() for it in (ROOT / "docs" / "deviations").glob("*.md"))
    others = ("tensor_ops.json", "quantized_ops.json", "autodiff.json")
    ids = {it["id"] for name in others for it in read(ROOT / "tests" / "vectors" / name)} | RECORDS.keys()
    assert [name for name, row in DEVIATIONS.items() if name not in ids or f"\n| {row} |" not in page] == []


def test_changes_and_deviations_are_of_records() -> None:
    assert CHANGED_IN_0_22.keys() <= RECORDS.keys()
    assert not CHANGED_IN_0_22.keys() & DEVIATIONS.keys()


def test_the_command_runs_a_file(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "made.json"
    path.write_text(json.dumps([RECORDS["Celu/display"], RECORDS["Celu/test_celu_forward"]]))
    assert main([str(path)]) == 0
    assert capsys.readouterr().out == "4 passed, 0 failed, 0 skipped\n"


EXPECTATIONS = ("expected", "reference_value", "derived_expected")
# What is not compared: Burn's wording, and sentences, which are a key of what checks them.
NOT_COMPARED = {"message"}
TEXTS = {"error", "property"}


def broken(value: Any, tolerance: float) -> Iterator[Any]:
    """The expectation with one thing in it changed: each text, the first number and the last one of each list."""
    if isinstance(value, dict):
        for key, below in value.items():
            if key not in NOT_COMPARED:
                for it in broken(below, tolerance):
                    yield {**value, key: it}
    elif isinstance(value, list):
        for index in sorted({0, len(value) - 1} if value else ()):
            for it in broken(value[index], tolerance):
                yield [*value[:index], it, *value[index + 1 :]]
    elif isinstance(value, bool):
        yield not value
    elif isinstance(value, str):
        yield f"{value}!"
    elif isinstance(value, int | float):
        yield value + type(value)(1 + 2 * tolerance * abs(value)) if isinstance(value, float) else value + 1


def changed(record: dict[str, Any]) -> Iterator[dict[str, Any]]:
    """The record with one thing in what it expects changed."""
    for key in EXPECTATIONS:
        for value in broken(record.get(key), record["rtol"]):
            yield {**copy.deepcopy(record), key: value}


@pytest.mark.slow
@pytest.mark.parametrize("group", GROUPS)
def test_a_changed_expectation_fails(group: str) -> None:
    (world,) = worlds_on("cpu")[:1]
    accepted = []
    for record in GROUPS[group]:
        if record["id"] in CHANGED_IN_0_22 or record["id"] in DEVIATIONS:
            continue
        variants = list(changed(record))
        assert variants, f"{record['id']} expects nothing"
        for variant in (variants[0], variants[-1]):
            if run(variant, world).verdict == "passed":
                accepted.append(f"{record['id']}: {variant}")
    assert not accepted, "\n".join(accepted)


CELU, LINEAR = RECORDS["Celu/test_celu_forward"], RECORDS["Linear/test_linear_forward_no_bias"]


@pytest.mark.parametrize(
    ("record", "changes", "message"),
    [
        (CELU, {"module": "Celo"}, "the type 'Celo' is unknown"),
        (CELU, {"surprise": 1}, "unknown key 'surprise'"),
        (CELU, {"call": "forwards"}, "unknown call 'forwards'"),
        (CELU, {"config": {"beta": 1.0}}, "CeluConfig has no field 'beta'"),
        (CELU, {"config": "Celu"}, "unknown config 'Celu'"),
        (CELU, {"mode": "training"}, "unknown mode 'training'"),
        (CELU, {"reduction": "Max"}, "unknown reduction 'Max'"),
        (CELU, {"inputs": [{"twos": [2]}]}, "unknown input {'twos': [2]}"),
        (CELU, {"inputs": [{"ones": [2], "step": 1}]}, "unknown input"),
        (CELU, {"inputs": [{"formula": "cos(i)", "shape": [2]}]}, "unknown formula 'cos(i)'"),
        (CELU, {"inputs": [[1.0, "infinite"]]}, "unknown number 'infinite'"),
        (CELU, {"dtypes": ["f8"]}, "unknown element type 'f8'"),
        (CELU, {"params": {"alpha": [0.5]}}, "the layer has the parameters []"),
        (CELU, {"setup": "sleep"}, "unknown setup 'sleep'"),
        (CELU, {"also_via": "magic"}, "unknown way 'magic'"),
        (CELU, {"rtol": "small"}, "tolerances rtol='small'"),
        (CELU, {"expected": {"property": "looks nice"}}, "unknown property 'looks nice' of 'forward'"),
        (CELU, {"expected": {"error": "returns"}}, "unknown expectation"),
        (CELU, {"expected": {"error": "panics"}}, "expected an error, got none"),
        (CELU, {"expected": {"outputs": {"state": [1.0]}}}, "the result has no 'state'"),
        (CELU, {"expected": None}, "unknown expectation None"),
        (LINEAR, {"params": {"weight": [[0.7, 0.7]]}}, "a parameter of shape [1, 2] for one of [2, 3]"),
        (LINEAR, {"params": {"weight": {"initializer": "Ten"}}}, "unknown initializer 'Ten'"),
        (LINEAR, {"params": {"weight": None}}, "the layer has the parameters ['weight']"),
    ],
)
def test_what_it_does_not_know_fails(record: dict[str, Any], changes: dict[str, Any], message: str) -> None:
    for world in worlds_on("cpu"):
        outcome = run({**copy.deepcopy(record), **changes}, world)
        assert outcome.verdict == "failed"
        assert message in outcome.reason


def test_a_missing_key_fails() -> None:
    outcome = run({key: value for key, value in CELU.items() if key != "rtol"}, worlds_on("cpu")[0])
    assert "the key 'rtol' is missing" in outcome.reason
