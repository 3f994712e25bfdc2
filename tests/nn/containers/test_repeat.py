"""One layer several times, with values of its own in each."""

import pytest
import torch

from burnlike import nn
from burnlike.config import ModuleConfig
from burnlike.errors import ConfigError

TEXT = """
type: Repeat
times: 3
layer:
  type: Residual
  layers: [{type: Linear, d_input: 4, d_output: 4}, {type: Dropout, prob: 0.5}]
each:
  layers[1].prob: [0.0, 0.25, 0.5]
"""


def test_each_layer_has_its_values() -> None:
    config = ModuleConfig.from_yaml(TEXT)
    layers = config.init()
    assert [layer.layers.get_submodule("1").prob for layer in layers.children()] == [0.0, 0.25, 0.5]
    assert ModuleConfig.from_yaml(config.to_yaml()) == config
    assert config.part("1") == ("layer", config.layer_at(1))
    assert config.part("3") is None


def test_layers_in_a_row_are_found_by_number() -> None:
    repeated = ModuleConfig.from_yaml(TEXT).init()
    row = repeated[0].layers
    assert [type(row), type(row[0]), type(row[-1])] == [nn.Sequential, nn.Linear, nn.Dropout]
    assert (len(repeated), len(row)) == (3, 2)
    assert [*repeated] == [repeated[0], repeated[1], repeated[2]] == [*repeated.children()]
    assert [*reversed(row)] == [row[1], row[0]]
    with pytest.raises(IndexError, match=r"Repeat\[3\]: there are 3 layers, 0 to 2"):
        repeated[3]
    with pytest.raises(TypeError, match=r"Sequential\[...\]: expected the number of a layer, got '0'"):
        row["0"]


def test_a_whole_part_may_be_replaced() -> None:
    config = nn.RepeatConfig(
        times=2,
        layer=nn.SequentialConfig(
            layers={"linear": nn.LinearConfig(d_input=2, d_output=2), "activation": nn.ReluConfig()}
        ),
        each={"layers.activation": ({"type": "Relu"}, {"type": "Tanh"})},
    )
    x = torch.randn(3, 2)
    layers = config.init()
    first, second = (layer.get_submodule("linear") for layer in layers.children())
    torch.testing.assert_close(layers(x), second(first(x).relu()).tanh())


@pytest.mark.parametrize(
    ("each", "message"),
    [
        ("prob: [0.1]", r"f:5:9: each.prob: expected 2 values, one for each layer, got 1"),
        ("prob: [0.1, 2]", r"f:5:15: each.prob.1: expected .* < 1, got 2"),
        ("prbo: [0.1, 0.2]", r"f:5:\d+: each.prbo.0: the layer has nothing at 'prbo'"),
        ("'layers[0].prob': [0.1, 0.2]", r"f:5:\d+: each.*: the layer has nothing at 'layers\[0\].prob'"),
        ("'a..b': [0.1, 0.2]", r"each.*: a path is keys joined by dots"),
    ],
)
def test_what_is_wrong_is_said_at_its_place(each: str, message: str) -> None:
    text = f"type: Repeat\ntimes: 2\nlayer: {{type: Dropout, prob: 0.5}}\neach:\n  {each}\n"
    with pytest.raises(ConfigError, match=message):
        ModuleConfig.from_yaml(text, "f")
