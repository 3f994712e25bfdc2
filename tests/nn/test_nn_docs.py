"""docs/nn.md is what the generator makes, and every layer says what torch has for it."""

import pytest

from tests.nn.cases import COUNTERPARTS
from tools.nn_api import PAGE, Row, configs, families, page
from tools.pages import main

ROWS: dict[str, Row] = {row.name: row for family in families() for row in family.rows}


def test_the_page_is_what_the_code_says(capsys: pytest.CaptureFixture[str]) -> None:
    assert PAGE.read_text() == page(), "run `make docs`"
    assert main("tools.nn_api", page, PAGE, ["--check"]) == 0


def test_every_layer_has_a_row() -> None:
    assert ROWS.keys() == configs().keys()


def test_every_layer_says_what_torch_has() -> None:
    assert [row.name for row in ROWS.values() if not row.torch] == []


def test_counterparts_are_named() -> None:
    wrong = [name for name, it in COUNTERPARTS.items() if f"nn.{it.torch.__name__}"[:-2] not in ROWS[name].torch]
    assert wrong == []


def test_configs_are_shown_with_their_defaults() -> None:
    assert ROWS["LayerNorm"].config == "`LayerNormConfig(d_model, epsilon=1e-05, bias=True)`"
    assert "initializer=KaimingUniform()" in ROWS["Linear"].config
    assert ROWS["CausalAttention"].layer == "`CausalAttention` (not in Burn)"
