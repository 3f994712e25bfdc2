"""What every layer has: public names, a config in the folder of its family, and a case in the table."""

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
def test_it_is_public_and_beside_its_config(name: str) -> None:
    assert {name, f"{name}Config"} <= {*nn.__all__}
    family = CONFIGS[name].__module__.rpartition(".")[0]
    assert getattr(nn, name).__module__.startswith(f"{family}.")


@pytest.mark.parametrize("name", CONFIGS)
def test_it_has_a_case(name: str) -> None:
    assert any(type(case.config) is CONFIGS[name] for case in CASES)


def test_cases_have_names_of_their_own() -> None:
    assert len({case.name for case in CASES}) == len(CASES)
