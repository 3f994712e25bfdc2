"""Configs that come with the package, by name."""

from pathlib import Path

import pytest

from burnlike.cli.options import root_class
from burnlike.config.shipped import config_file, shipped_configs, shipped_jobs
from burnlike.config.tree import read_tree
from burnlike.errors import ConfigIOError
from burnlike.train import TrainConfig


def test_names_lead_to_files_that_load() -> None:
    configs = shipped_configs()
    assert {"char_gpt", "char_gpt_tiny", "resnet18_layers", "transformer_layers"} <= set(configs)
    assert {"char_gpt", "char_gpt_tiny"} <= set(shipped_jobs())
    assert not {"resnet18_layers", "resnet50"} & set(shipped_jobs())
    for name, path in configs.items():
        assert config_file(name) == str(path)
        tree = read_tree(path)
        root_class(tree.root).from_tree(tree)


def test_a_file_of_that_name_goes_first(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("char_gpt").write_text("seed: 1")
    assert config_file("char_gpt") == "char_gpt"


@pytest.mark.parametrize("text", ["char_gpt.yaml", "./char_gpt", "configs/char_gpt", "unknown"])
def test_all_else_is_a_path(text: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    assert config_file(text) == text


def test_an_unknown_name_is_told_which_there_are(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(ConfigIOError, match=r"resnt50: no such file; did you mean 'resnet50'\?$"):
        TrainConfig.load("resnt50")
    with pytest.raises(ConfigIOError, match=r"unknown: no such file; shipped configs are bert_base, char_gpt, "):
        TrainConfig.load(config_file("unknown"))
