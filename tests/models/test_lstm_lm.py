"""The recurrent language model: torch's nn.LSTM with the same weights, and the state that goes on."""

from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional

import burnlike as bl
from burnlike.errors import ArgumentError, ConfigError, ShapeError
from burnlike.interop import to_torch
from burnlike.models import LstmLm, LstmLmConfig

CONFIG = LstmLmConfig(vocab_size=7, d_model=3, d_hidden=4)
TIED = LstmLmConfig(vocab_size=7, d_model=4, d_hidden=4, n_layers=3, tied_head=True)


def built(config: LstmLmConfig) -> LstmLm:
    torch.manual_seed(0)
    return config.init().double()


def torch_lstm(model: LstmLm) -> nn.LSTM:
    """torch's layers with the weights of the model's."""
    config = model.config
    theirs = nn.LSTM(config.d_model, config.d_hidden, config.n_layers, batch_first=True).double()
    layers: Any = model.layers
    state = {
        name.replace("_l0", f"_l{index}"): tensor
        for index, layer in enumerate(layers)
        for name, tensor in to_torch(layer).state_dict().items()
    }
    theirs.load_state_dict(state)
    return theirs


@pytest.mark.parametrize("config", [CONFIG, TIED], ids=["separate", "tied"])
def test_it_computes_what_torchs_lstm_does(config: LstmLmConfig) -> None:
    model = built(config)
    tokens = torch.randint(7, (2, 5))
    cell, hidden = torch.randn(2, config.n_layers, 2, 4, dtype=torch.float64)
    found = model.forward_state(tokens, bl.nn.LstmState(cell, hidden))
    x, (their_hidden, their_cell) = torch_lstm(model)(
        functional.embedding(tokens, model.embedding.weight), (hidden, cell)
    )
    if config.tied_head:
        expected = x @ model.embedding.weight.T
    else:
        assert model.head is not None
        expected = x @ model.head.weight + model.head.bias
    torch.testing.assert_close(found.logits, expected, rtol=1e-12, atol=1e-12)
    torch.testing.assert_close(found.state.cell, their_cell, rtol=1e-12, atol=1e-12)
    torch.testing.assert_close(found.state.hidden, their_hidden, rtol=1e-12, atol=1e-12)


def test_windows_with_the_state_are_the_whole() -> None:
    model = built(CONFIG)
    tokens = torch.randint(7, (2, 6))
    whole = model(tokens)
    state, parts = None, []
    for window in tokens.split(2, 1):
        logits, state = model.forward_state(window, state)
        parts.append(logits)
    torch.testing.assert_close(torch.cat(parts, 1), whole, rtol=1e-12, atol=1e-12)
    assert not torch.allclose(parts[1], model(tokens[:, 2:4])), "the state matters"


def test_a_detached_state_cuts_the_gradient() -> None:
    model = built(CONFIG)

    def reached(change: Any) -> Tensor:
        model.zero_grad()
        _, state = model.forward_state(torch.tensor([[1, 2]]))
        model.forward_state(torch.tensor([[3, 4]]), state.map_state(change)).logits.sum().backward()
        grad = model.embedding.weight.grad
        assert grad is not None
        return grad.abs().sum(-1) > 0

    assert reached(lambda tensor: tensor).tolist() == [False, True, True, True, True, False, False]
    assert reached(torch.detach).tolist() == [False, False, False, True, True, False, False]


def test_dropout_acts_in_training_only() -> None:
    model = built(CONFIG.replace(dropout=0.5))
    tokens = torch.randint(7, (1, 8))
    assert not torch.equal(model(tokens), model(tokens))
    model.eval()
    assert torch.equal(model(tokens), model(tokens))


def test_wrong_inputs_are_named() -> None:
    model = CONFIG.init()
    with pytest.raises(ShapeError, match=r"LstmLm: tokens: expected \[batch, sequence\], got \[3\]"):
        model(torch.zeros(3, dtype=torch.int64))
    state = bl.nn.LstmState.initial((2, 3, 4))
    with pytest.raises(ShapeError, match=r"LstmLm: cell: expected \[2, 1, 4\], got \[2, 3, 4\]"):
        model.forward_state(torch.zeros(1, 2, dtype=torch.int64), state)


def test_a_tied_head_needs_equal_sizes() -> None:
    with pytest.raises(ConfigError, match=r"d_hidden.*expected d_model \(3\) with a tied head, got 4"):
        CONFIG.replace(tied_head=True)


def test_it_generates_what_whole_sequences_say() -> None:
    model = built(CONFIG)
    for parameter in model.parameters():
        parameter.data *= 4
    model.train()
    tokens = torch.randint(7, (2, 3))
    found = model.generate(tokens, 6)
    assert model.training
    expected = tokens
    for _ in range(6):
        expected = torch.cat((expected, model(expected)[:, -1:].argmax(-1)), 1)
    assert torch.equal(found, expected)
    drawn = [model.generate(tokens, 6, temperature=2.0, generator=torch.Generator().manual_seed(1)) for _ in range(2)]
    assert torch.equal(*drawn)
    assert not torch.equal(drawn[0], found)
    row = found[0].tolist()
    end = row.index(row[4], 3) + 1
    assert model.generate(tokens[:1], 6, stop_tokens=(row[4],))[0].tolist() == row[:end]
    with pytest.raises(ArgumentError, match=r"expected tokens \[batch, sequence >= 1\], got \[2, 0\]"):
        model.generate(tokens[:, :0], 1)
