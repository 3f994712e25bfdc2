"""Every layer has public names and a case in the table."""

import pytest

from burnlike import nn
from burnlike.config import ModuleConfig, registry

from .cases import CASES

registry.load_built_in()
CONFIGS = {
    config.__name__.removesuffix("Config"): config  # the `type:` of all but Constant, which is an initializer's too
    for config in registry.imported(ModuleConfig).values()
    if config.__module__.startswith("burnlike.nn.")
}


@pytest.mark.parametrize("name", CONFIGS)
def test_it_is_public(name: str) -> None:
    assert {name, f"{name}Config"} <= {*nn.__all__}


@pytest.mark.parametrize("name", CONFIGS)
def test_it_has_a_case(name: str) -> None:
    assert any(type(case.config) is CONFIGS[name] for case in CASES)


def test_cases_have_names_of_their_own() -> None:
    assert len({case.name for case in CASES}) == len(CASES)
