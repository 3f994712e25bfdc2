"""Keys at the root of a file that are no fields: `x-` for anchors, `inputs:` of a model."""

from pathlib import Path

import pytest

from burnlike.cli.main import main
from burnlike.config import ModuleConfig
from burnlike.errors import ConfigError
from burnlike.nn import GraphConfig, LinearConfig, ReluConfig, SequentialConfig
from burnlike.train import TrainConfig

ANCHORS = """
x-linear: &linear {type: Linear, d_input: 4, d_output: 4}
x-sizes: {wide: 8}
type: Sequential
layers:
  - *linear
  - {<<: *linear, d_output: "${x-sizes.wide}"}
"""


def test_keys_for_anchors() -> None:
    config = ModuleConfig.from_yaml(ANCHORS)
    assert isinstance(config, SequentialConfig)
    assert config.layers == (LinearConfig(d_input=4, d_output=4), LinearConfig(d_input=4, d_output=8))
    with pytest.raises(ConfigError, match=r"model\.x-a: unknown key 'x-a'"):
        TrainConfig.from_yaml("x-b: 1\nmodel: {type: Relu, x-a: 1}")


@pytest.mark.parametrize(
    ("inputs", "shown"),
    [
        ("[8, 4]", "[8, 4]"),
        ("'float32:8,4'", "[8, 4]"),
        ("[[8, 4]]", "[8, 4]"),
        ("['8,4']", "[8, 4]"),
        ("{x: [8, 4]}", "[8, 4]"),
        ("\n  x: bfloat16:8,4", "bfloat16[8, 4]"),
    ],
)
def test_inputs_of_a_model(inputs: str, shown: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for model in ("type: Relu", "type: Sequential\nlayers: [{type: Relu}]"):
        (tmp_path / "m.yaml").write_text(f"inputs: {inputs}\n{model}\n")
        status = main(["check", str(tmp_path / "m.yaml"), "--shapes"])
        assert status == 0
        assert shown in capsys.readouterr().out
        assert ModuleConfig.load(tmp_path / "m.yaml") == ModuleConfig.from_yaml(model)
        assert main(["show", str(tmp_path / "m.yaml"), "--svg", str(tmp_path / "m.svg")]) == 0


def test_inputs_of_a_graph_have_names(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    text = "type: Graph\ninputs: {a: [2, 3], b: [2, 1]}\nnodes: {sum: {type: Add, from: [a, b]}}\n"
    (tmp_path / "m.yaml").write_text(text)
    assert main(["check", str(tmp_path / "m.yaml"), "--shapes"]) == 0
    assert "[2, 3], [2, 1]" in capsys.readouterr().out
    config = ModuleConfig.load(tmp_path / "m.yaml")
    assert isinstance(config, GraphConfig)
    assert config.inputs == ("a", "b")


def test_the_shipped_resnet_needs_no_option(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["check", "resnet18_layers", "--shapes"]) == 0
    assert "11,173,962 parameters" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("inputs", "message"),
    [
        ("3", r"f:1:9: inputs: expected sizes, \[8, 3, 32, 32\]"),
        ("[[a]]", r"f:1:10: inputs\.0: expected sizes"),
        ("{x: foo:3}", r"f:1:13: inputs\.x: 'foo:3': unknown element type"),
        ("[-1]", r"f:1:9: inputs: expected sizes"),
    ],
)
def test_wrong_inputs_are_told(inputs: str, message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        ModuleConfig.from_yaml(f"inputs: {inputs}\ntype: Relu", "f")
    assert ModuleConfig.from_yaml("type: Relu") == ReluConfig()
