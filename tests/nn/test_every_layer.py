"""Every layer has public names and a case in the table."""

import importlib

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


@pytest.mark.parametrize(
    ("module", "names"),
    [
        ("linear.linear", ("Linear", "Identity")),
        ("embedding.embedding", ("Embedding",)),
        ("dropout.dropout", ("Dropout", "DropPath", "GaussianNoise")),
        ("interpolate.interpolate", ("Interpolate1d", "Interpolate2d")),
        ("similarity.similarity", ("CosineSimilarity", "PairwiseDistance")),
    ],
)
def test_pickles_of_0_1_0_find_layers_that_were_in_folders(module: str, names: tuple[str, ...]) -> None:
    old = importlib.import_module(f"burnlike.nn.{module}")
    assert all(getattr(old, name) is getattr(nn, name) for name in names)


def test_cases_have_names_of_their_own() -> None:
    assert len({case.name for case in CASES}) == len(CASES)
