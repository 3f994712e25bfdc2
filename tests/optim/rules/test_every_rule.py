"""What is listed of each rule outside of its own file: a rule that is missing in a list is named."""

import json
import re
from pathlib import Path

import pytest
import torch

import burnlike as bl
from burnlike.config import registry
from burnlike.optim import ModuleOptimizerConfig
from burnlike.optim.rules.config_base import CANNOT_ROUND
from burnlike.optim.rules.kernel_optimizer import KernelOptimizer
from burnlike.optim.states.torch_records import RULES
from burnlike.record.burn.state_layouts import STATES, leaves_of
from burnlike.record.pytree import layout_of_type

ROOT = Path(__file__).parents[3]
BURNS = set(json.loads((ROOT / "tests" / "burn" / "names.json").read_text())["burn-optim"].split())
"""The names that burn-optim exports."""
OTHERWISE_IN_TORCH = {"Adafactor", "Muon"}
"""Rules of torch.optim whose states are not translated."""

registry.load_built_in()
CONFIGS = {
    name: config
    for name, config in registry.imported(ModuleOptimizerConfig).items()
    if config.__module__.startswith("burnlike.") and "build" in vars(config)
}
each = pytest.mark.parametrize("name", CONFIGS)


@each
def test_it_is_public(name: str) -> None:
    assert {name, f"{name}Config", f"{name}State"} <= {*bl.optim.__all__}
    assert type(CONFIGS[name]().build()) is getattr(bl.optim, name)


@each
def test_burns_files_know_its_state(name: str) -> None:
    layout = layout_of_type(CONFIGS[name]().build().state_type) if name in BURNS else None
    assert STATES.get(name) == layout


@each
def test_the_state_of_torchs_rule_of_that_name_is_translated(name: str) -> None:
    there = name.casefold() in {it.casefold() for it in torch.optim.__all__}
    rules = [rule for rule in RULES if name.casefold() in rule.name.casefold().split(" or ")]
    assert len(rules) == (there and name not in OTHERWISE_IN_TORCH)
    for rule in rules:
        assert {it for it in rule.fields.values() if it} <= {path for path, _ in leaves_of(STATES[name])}


@each
def test_it_says_whether_it_has_a_kernel(name: str) -> None:
    has_kernel = isinstance(CONFIGS[name]().build(), KernelOptimizer)
    assert CONFIGS[name].has_kernel == has_kernel
    assert (name in re.findall(r"\w+", CANNOT_ROUND)) == has_kernel


@each
def test_the_guide_has_a_row_for_it(name: str) -> None:
    assert f"\n| `{name}` |" in (ROOT / "docs" / "optimizers.md").read_text()
