"""A fused model of each family of transformers is the same model: in training with dropout, in float32 and bfloat16."""

from typing import Any

import pytest

from .comparing import NOT_IN_BFLOAT16, compare
from .support import NOT_TINY, PAGE, ops_of, rows_of
from .tiny_transformers import NotTiny, families, tiny_model

FAST = ("gemma2", "glm4")
# In `make test-slow`; the others are in `make test-families`.
A_DOZEN = frozenset(
    """bert clip_vision_model deepseek_v3 gemma3_text gpt2 llama mixtral modernbert olmo2 pixtral seed_oss t5gemma
    vit""".split()  # noqa: SIM905
)


def _marks(family: str) -> Any:
    return () if family in FAST else pytest.mark.slow if family in A_DOZEN else pytest.mark.families


@pytest.mark.parametrize(
    "family",
    [pytest.param(it, marks=_marks(it)) for it in families()],
)
def test_a_fused_model_computes_what_the_stock_one_does(family: str) -> None:
    if family in NOT_TINY:
        with pytest.raises(NotTiny, match=NOT_TINY[family]):
            tiny_model(family)
    else:
        report, _ = compare(*tiny_model(family), bfloat16=family not in NOT_IN_BFLOAT16)
        assert ops_of(report) == rows_of(PAGE.read_text())[family], "run `make fuse-support`"


def test_the_page_has_every_family() -> None:
    assert sorted(rows_of(PAGE.read_text())) == families()
