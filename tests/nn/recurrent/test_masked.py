"""Recurrent layers over padded texts, beside torch's own over packed sequences."""

from typing import Any

import pytest
import torch
from torch.nn.utils.rnn import pack_padded_sequence, pad_packed_sequence

from burnlike import nn
from burnlike.config import ModuleConfig
from burnlike.errors import ConfigError
from burnlike.interop import to_torch

LENGTHS = torch.tensor([5, 2, 3])
MASK = (torch.arange(5) < LENGTHS[:, None]).long()


@pytest.mark.parametrize("name", ["Rnn", "BiRnn", "Lstm", "BiLstm", "Gru", "BiGru"])
def test_padding_is_not_read(name: str) -> None:
    torch.manual_seed(0)
    layer: Any = getattr(nn, f"{name}Config")(d_input=3, d_hidden=4, bias=True).init().double()
    x = torch.randn(3, 5, 3, dtype=torch.float64)
    theirs: Any = to_torch(layer)
    packed = pack_padded_sequence(x, LENGTHS, batch_first=True, enforce_sorted=False)
    expected, last = theirs(packed)
    expected, _ = pad_packed_sequence(expected, batch_first=True)
    output = layer(x, attention_mask=MASK)
    torch.testing.assert_close(output if name == "Gru" else output[0], expected)
    if name in ("Lstm", "BiLstm"):
        for own, their in zip((output[1].hidden, output[1].cell), last, strict=True):
            torch.testing.assert_close(own, their.reshape_as(own))
    elif name != "Gru":
        state = output[1] if isinstance(output[1], torch.Tensor) else output[1].hidden
        torch.testing.assert_close(state, last.reshape_as(state))


def test_texts_that_are_padded_on_the_left_are_the_same() -> None:
    layer: Any = nn.BiLstmConfig(d_input=3, d_hidden=4, bias=True).init()
    x = torch.randn(1, 2, 3)
    shifted = torch.cat([torch.randn(1, 3, 3), x], 1)
    torch.testing.assert_close(layer(shifted, attention_mask=torch.tensor([[0, 0, 0, 1, 1]]))[0][:, 3:], layer(x)[0])


TAGGER = """
type: Graph
inputs: [input_ids, attention_mask]
nodes:
  embed: {type: Embedding, n_embedding: 9, d_model: 3, from: input_ids}
  lstm: {type: BiLstm, d_input: 3, d_hidden: 4, bias: true}
  head: {type: Linear, d_input: 8, d_output: 2, from: lstm.0}
"""


def test_a_graph_gives_its_mask_to_the_layers_that_take_one() -> None:
    graph: Any = ModuleConfig.from_yaml(TAGGER).init()
    tokens = torch.tensor([[5, 6, 0, 0], [1, 2, 3, 4]])
    output = graph(tokens, torch.tensor([[1, 1, 0, 0], [1, 1, 1, 1]]))
    torch.testing.assert_close(output[:1, :2], graph(tokens[:1, :2], torch.ones(1, 2)))
    assert not torch.allclose(graph(tokens, torch.ones(2, 4))[:1, :2], output[:1, :2])


def test_a_mask_that_the_graph_names_goes_where_it_says() -> None:
    text = TAGGER.replace("lstm.0}", "lstm.0}\n  weighed: {type: Multiply, from: [head, attention_mask]}")
    config: Any = ModuleConfig.from_yaml(text)
    assert config.node_sources("lstm") == [("", "embed")]
    assert ModuleConfig.from_yaml(TAGGER).node_sources("lstm") == [("", "embed"), ("attention_mask", "attention_mask")]  # pyright: ignore[reportAttributeAccessIssue]


def test_a_mask_that_no_layer_takes_is_refused() -> None:
    text = TAGGER.replace("BiLstm, d_input: 3, d_hidden: 4, bias: true", "Linear, d_input: 3, d_output: 8")
    with pytest.raises(ConfigError, match=r"'attention_mask' is not used: .*; leave it out of `inputs`: a task gives"):
        ModuleConfig.from_yaml(text.replace("lstm.0", "lstm"))


def test_sizes_are_still_compared_beside_a_mask() -> None:
    with pytest.raises(ConfigError, match=r"lstm.d_input: expected 3"):
        ModuleConfig.from_yaml(TAGGER.replace("d_input: 3, d_hidden", "d_input: 5, d_hidden"))
