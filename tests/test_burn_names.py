"""Each public name of Burn's crates is the same here, has another name in a table, or something in its place."""

import importlib
import json
from pathlib import Path

import pytest

import burnlike
from burnlike._burn_names import INSTEAD, METHODS, RENAMED
from tools import burn_names

OF_BURN = {
    crate: names.split()
    for crate, names in json.loads((Path(__file__).parent / "burn" / "names.json").read_text()).items()
}
"""The public types, traits and aliases that the sources of Burn 0.22.1 export."""
PARTS = ("nn", "optim", "train", "data", "record", "module", "config", "interop")


def same_names() -> set[str]:
    return {*dir(burnlike), *(name for part in PARTS for name in dir(importlib.import_module(f"burnlike.{part}")))}


@pytest.mark.parametrize("crate", OF_BURN)
def test_each_of_burns_names_is_here_or_in_a_table(crate: str) -> None:
    renamed, instead = {*RENAMED[crate]}, {name for names, _ in INSTEAD[crate] for name in names.split()}
    listed, here = {*OF_BURN[crate]}, same_names()
    assert not (renamed | instead) - listed, "no names of Burn's"
    assert not renamed & instead
    assert not (renamed | instead) & here - {"Split"}, "it is the same here"  # a layer that splits
    assert not listed - here - renamed - instead, "not here, and in no table"


def test_each_name_of_the_table_is_there() -> None:
    for names in RENAMED.values():
        for path in names.values():
            part, _, name = path.rpartition(".")
            assert hasattr(importlib.import_module(f"burnlike.{part}"), name), path


def test_what_is_missing_says_what_it_is_called() -> None:
    for part, name, message in (
        ("optim", "CosineAnnealingLrSchedulerConfig", r"is burnlike\.optim\.CosineAnnealingConfig here"),
        ("optim", "ModuleOptimizer", r"is burnlike\.optim\.OptimizerAdaptor here"),
        ("nn", "LBFGSConfig", r"LBFGSConfig of burn-optim is burnlike\.optim\.LbfgsConfig here"),
        ("train", "AccuracyMetric", r"is burnlike\.train\.metrics\.Accuracy here"),
        ("train", "RLTraining", "is not here: take no reinforcement learning"),
        ("nn", "MhaInput", "is not here: take the arguments of `MultiHeadAttention"),
    ):
        with pytest.raises(AttributeError, match=message):
            getattr(importlib.import_module(f"burnlike.{part}"), name)
    for names in RENAMED.values():
        for name in {*names} - same_names():
            with pytest.raises(AttributeError, match="here"):
                getattr(burnlike, name)
    with pytest.raises(AttributeError, match=r"has no attribute 'Nothing'$"):
        burnlike.optim.Nothing  # noqa: B018  # pyright: ignore


def test_the_page_is_what_the_table_says() -> None:
    assert burn_names.PATH.read_text() == burn_names.page(), "run `make docs`"
    assert all(call.split("(")[0].rpartition(".")[2] for call in METHODS.values())
