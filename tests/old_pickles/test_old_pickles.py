"""Pickles of the version before the folders of `module/`, `optim/` and `tensor/` load, and are what they were."""

import json
import pickle
from importlib import import_module
from typing import Any

import pytest
import torch

from burnlike._moved import MOVED

from .make import FILES
from .samples import MODULES, OTHERS, describe

FACTS: dict[str, Any] = json.loads((FILES / "facts.json").read_text())
BY_WEIGHTS_ONLY = [name for name, facts in FACTS.items() if facts["weights_only"] is not None]


def test_there_are_facts_of_every_sample() -> None:
    assert FACTS.keys() == {**MODULES, **OTHERS}.keys()
    assert {file.stem for file in FILES.glob("*.pkl")} == FACTS.keys()
    assert {file.stem for file in FILES.glob("*.pt")} == {*BY_WEIGHTS_ONLY}


@pytest.mark.parametrize("name", FACTS)
def test_a_pickle_loads(name: str) -> None:
    loaded = pickle.loads((FILES / f"{name}.pkl").read_bytes())
    assert as_json(loaded) == FACTS[name]["is"]


@pytest.mark.parametrize("name", FACTS)
def test_a_pickle_that_was_loaded_is_pickled_again(name: str) -> None:
    loaded = pickle.loads(pickle.dumps(pickle.loads((FILES / f"{name}.pkl").read_bytes())))
    assert as_json(loaded) == FACTS[name]["is"]


@pytest.mark.parametrize("name", BY_WEIGHTS_ONLY)
def test_a_file_loads_by_weights_only(name: str) -> None:
    """What a program has to trust, it names as the file does."""
    trusted: list[Any] = []
    for full in FACTS[name]["weights_only"]:
        module, _, attribute = full.rpartition(".")
        trusted.append((getattr(import_module(module), attribute), full))
    with torch.serialization.safe_globals(trusted):
        loaded = torch.load(FILES / f"{name}.pt", weights_only=True)
    assert as_json(loaded) == FACTS[name]["is"]


@pytest.mark.parametrize("old", MOVED)
def test_a_module_that_moved_is_found_by_its_old_name(old: str) -> None:
    assert import_module(old) is import_module(MOVED[old])


def as_json(value: Any) -> Any:
    return json.loads(json.dumps(describe(value)))
