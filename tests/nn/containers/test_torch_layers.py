"""Models of layers in YAML with torch's layers in place of ours, and with torch's weights."""

import pytest
import torch

from burnlike.config import ModuleConfig
from burnlike.errors import NoCounterpartError
from burnlike.interop import from_torch, record_from_torch, to_torch

GRAPH = """
type: Graph
nodes:
  embedding: {type: Embedding, n_embedding: 5, d_model: 3}
  stack:
    type: Repeat
    times: 2
    layer: {type: Residual, layers: [{type: Linear, d_input: 3, d_output: 3}, {type: Tanh}]}
  linear: {type: Linear, d_input: 3, d_output: 3}
  back: {use: linear, transposed: true}
  head: {use: embedding, transposed: true}
"""


def test_a_graph_goes_to_torchs_layers_and_back() -> None:
    ours = ModuleConfig.from_yaml(GRAPH).init().double()
    theirs = to_torch(ours)
    assert type(theirs.get_submodule("stack.1.layers.0")) is torch.nn.Linear
    tokens = torch.tensor([[1, 4, 0]])
    torch.testing.assert_close(theirs(tokens), ours(tokens), rtol=1e-12, atol=1e-12)
    assert torch.equal(from_torch(theirs)(tokens), ours(tokens))


def test_a_layer_that_torch_calls_otherwise_is_refused() -> None:
    text = "{type: Graph, nodes: {lstm: {type: Lstm, d_input: 2, d_hidden: 3, bias: true}}, outputs: lstm.0}"
    with pytest.raises(NoCounterpartError, match=r"lstm \(Lstm\): torch.nn.LSTM is called in another way"):
        to_torch(ModuleConfig.from_yaml(text).init())


def test_weights_of_a_sequential_of_torchs() -> None:
    theirs = torch.nn.Sequential(torch.nn.Conv2d(3, 4, 3), torch.nn.Flatten(), torch.nn.Linear(16, 2))
    ours = ModuleConfig.from_yaml(
        "{type: Sequential, layers: [{type: Conv2d, channels: [3, 4], kernel_size: 3}, {type: Flatten},"
        " {type: Linear, d_input: 16, d_output: 2}]}"
    ).init()
    ours.load_record(record_from_torch(ours, theirs.state_dict()))
    images = torch.randn(2, 3, 4, 4)
    torch.testing.assert_close(ours(images), theirs(images))
