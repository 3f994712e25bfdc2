"""Options of strategies: the same weights, and only the collectives that are needed."""

import json
from typing import Any

import pytest

from ...processes import assert_succeed, launched
from .options import CASES

PARTS = 3
"""Groups of parameters that are gathered together: two blocks, and the rest."""


@pytest.fixture(scope="module")
def found(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    folder = tmp_path_factory.mktemp("options")
    logs = [folder / f"log-{rank}" for rank in range(4)]
    out = folder / "found.json"
    assert_succeed(launched(["-m", "tests.train.distributed.options", str(out)], logs), logs)
    return json.loads(out.read_text())


@pytest.mark.slow
@pytest.mark.parametrize("case", CASES)
def test_options_change_no_weights_but_by_rounding(case: str, found: dict[str, Any]) -> None:
    precision = CASES[case].get("precision")
    difference = found[case]["difference"]
    assert difference < (0.1 if precision else 1e-12)
    assert (difference > 1e-6) == (precision is not None)


@pytest.mark.slow
@pytest.mark.parametrize("case", CASES)
def test_gradients_are_exchanged_after_the_last_batch_of_a_step_alone(case: str, found: dict[str, Any]) -> None:
    before, whole = found[case]["before the last batch"], found[case]["in all"]
    assert {"allreduce", "reduce_scatter_base"}.isdisjoint(before)
    is_divided = CASES[case].get("shard") != 1
    assert whole.get("reduce_scatter_base", 0) == (PARTS if is_divided else 0)
    assert whole.get("allreduce", 0) == (PARTS if "replicate" in CASES[case] else 0)


@pytest.mark.slow
def test_parameters_are_gathered_as_often_as_the_options_say(found: dict[str, Any]) -> None:
    """Of two batches: in both passes of each block and once of the rest; where they are kept, once."""
    gathered = {name: it["in all"].get("allgather_base", 0) for name, it in found.items()}
    assert gathered["fsdp2"] == gathered["hsdp"] == gathered["bfloat16"] == 2 * (2 * PARTS - 1)
    assert gathered["kept between batches"] == 2 * PARTS - 1 + PARTS - 1
    assert gathered["kept"] == gathered["kept copies"] == PARTS
    assert gathered["copies"] == 0
