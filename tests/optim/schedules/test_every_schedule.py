"""What is listed of each schedule outside of its own file: one that is missing in a list is named."""

import re
from pathlib import Path

import pytest

import burnlike as bl
from burnlike.config import LrSchedulerConfig, registry
from burnlike.config.registry import tag_of

registry.load_built_in()
CONFIGS = {
    name: config
    for name, config in registry.imported(LrSchedulerConfig).items()
    if config.__module__.startswith("burnlike.") and tag_of(config) == name
}
GUIDE = Path(__file__).parents[3] / "docs" / "optimizers.md"


@pytest.mark.parametrize("name", CONFIGS)
def test_it_is_public(name: str) -> None:
    config = CONFIGS[name]
    assert {name, config.__name__} <= {*bl.optim.__all__}
    assert getattr(bl.optim, config.__name__) is config


@pytest.mark.parametrize("name", CONFIGS)
def test_the_guide_has_a_row_for_it(name: str) -> None:
    rows = re.findall(r"^\| (.*?) \|", GUIDE.read_text().partition("## Schedules")[2], re.MULTILINE)
    assert f"`{name}`" in " ".join(rows)
