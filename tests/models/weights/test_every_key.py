"""Each key of a `config.json` of each family: ours computes what transformers does, or refuses the key by name."""

from collections import Counter
from pathlib import Path

import pytest
import transformers

from burnlike.models import weight_tables
from burnlike.models.weights.options import KEYS

from .families import FAMILIES, cases


def check(name: str, tmp_path: Path, first: int = 0, step: int = 1) -> Counter[str]:
    """Run each `step`-th case of a family."""
    found = Counter[str]()
    failures: list[str] = []
    for index, case in enumerate([*cases(name)][first::step]):
        directory = tmp_path / (str(index) if case.is_made else "edited")
        directory.mkdir(exist_ok=True)
        try:
            found[case.run(directory)] += 1
        except Exception as error:
            failures.append(f"{case}: {type(error).__name__}: {error}")
    assert not failures, "\n".join(failures)
    return found


@pytest.mark.weekly
@pytest.mark.parametrize("name", FAMILIES)
def test_it_computes_the_same_or_is_refused_by_name(name: str, tmp_path: Path) -> None:
    found = check(name, tmp_path)
    assert found["same"] > 100
    assert found["refused"] > 100


@pytest.mark.parametrize("name", ["llama", "bert", "convnext"])
def test_a_sample_computes_the_same_or_is_refused_by_name(name: str, tmp_path: Path) -> None:
    found = check(name, tmp_path, first=7, step=37)
    assert found["same"]
    assert found["refused"]


def test_every_table_of_transformers_has_a_family() -> None:
    assert {it for table in weight_tables().values() for it in table.model_types} == FAMILIES.keys()
    for name, family in FAMILIES.items():
        known = weight_tables()[name].architectures
        assert {*family.models} | {"T5WithLMHeadModel"} >= {*known}


def test_options_of_generation_are_harmless() -> None:
    assert transformers.GenerationConfig._get_default_generation_params().keys() <= KEYS
