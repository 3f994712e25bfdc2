"""Each mistake of the list is reported once, where it is, with advice."""

from pathlib import Path

import pytest
from torch import nn

from burnlike.config import ModuleConfig
from burnlike.config.registry import imported
from burnlike.config.words import OTHER_FUNCTIONS, OUR_TYPES
from burnlike.errors import ConfigError
from burnlike.train.job.configs import TrainConfig

from .mistakes import MISTAKES, RUN, Mistake


def test_the_list_is_long_and_its_config_right() -> None:
    assert len(MISTAKES) >= 100
    assert len({(mistake.text, mistake.overrides) for mistake in MISTAKES}) == len(MISTAKES)
    TrainConfig.from_yaml(RUN)


@pytest.mark.parametrize("mistake", MISTAKES, ids=lambda it: f"{it.place} {it.path} {it.advice}")
def test_a_mistake_is_one_message_with_its_place_and_advice(
    mistake: Mistake, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("NO_SUCH_NAME", raising=False)
    root = TrainConfig if "training" in mistake.text or "trainig" in mistake.text else ModuleConfig
    with pytest.raises(ConfigError) as caught:
        root.from_yaml(mistake.text, "file.yaml", mistake.overrides)
    assert len(caught.value.problems) == 1, str(caught.value)
    (problem,) = caught.value.problems
    if mistake.place == "--set":
        assert problem.source == f"--set {mistake.overrides[0]}"
        assert problem.line == 0
    else:
        assert problem.source == "file.yaml"
        assert f"{problem.line}:{problem.column}" == mistake.place
    assert problem.path == mistake.path
    assert mistake.advice in problem.message


def test_no_layer_of_torch_is_told_another_function() -> None:
    known = {tag.casefold() for tag in imported(ModuleConfig)}
    for name in vars(nn):
        if not isinstance(cls := getattr(nn, name), type) or not issubclass(cls, nn.Module):
            continue
        plain = name.casefold()
        is_told = (
            plain.removeprefix("lazy") in known or OUR_TYPES.get(plain.removeprefix("lazy"), "").casefold() in known
        )
        assert is_told != (plain in OTHER_FUNCTIONS), name
        if plain in OTHER_FUNCTIONS:
            with pytest.raises(ConfigError, match=f"unknown type '{name}'; a ModuleConfig is due"):
                ModuleConfig.from_yaml(f"type: {name}")
