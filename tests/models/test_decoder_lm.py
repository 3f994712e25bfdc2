"""The language model: causality, tied head, positions, attention against its formula."""

import math
from typing import Any

import pytest
import torch
from torch import Tensor
from torch.nn import functional

from burnlike import models, nn
from burnlike.errors import ConfigError, ShapeError
from burnlike.nn.attention.rotary_encoding import RotaryEncoding
from burnlike.train import next_token_loss

from ..nn.cases.causal_attention import causal_attention

CONFIG = models.DecoderLmConfig(vocab_size=11, max_sequence_length=8, d_model=12, n_layers=2, n_heads=2, d_ff=20)


def rms_norm(layer: Any, x: Tensor) -> Tensor:
    """Zhang & Sennrich 2019, eq. 4."""
    return x / (x.square().mean(-1, keepdim=True) + layer.epsilon).sqrt() * layer.gamma


def decoder_lm(model: Any, tokens: Tensor) -> Tensor:
    """Blocks of norm, attention and SwiGLU with residuals, and logits by the embedding's weight."""
    x = model.embedding.weight[tokens]
    for block in model.blocks:
        x = x + causal_attention(block.attention, rms_norm(block.norm_attention, x), theta=model.config.theta)
        y = rms_norm(block.norm_feed_forward, x)
        inner = y @ block.gate.linear_inner.weight
        x = x + inner * inner.sigmoid() * (y @ block.gate.linear_outer.weight) @ block.linear.weight
    return rms_norm(model.norm, x) @ model.embedding.weight.mT


def test_it_is_its_formula() -> None:
    model = CONFIG.init().double()
    tokens = torch.randint(11, (2, 8))
    torch.testing.assert_close(model(tokens), decoder_lm(model, tokens), rtol=1e-12, atol=1e-12)


def test_shape_and_count_of_parameters() -> None:
    model = CONFIG.init()
    assert model(torch.zeros(3, 5, dtype=torch.int64)).shape == (3, 5, 11)
    block = 4 * 12 * 12 + 3 * 12 * 20 + 2 * 12
    assert model.num_params() == 11 * 12 + 2 * block + 12


def test_a_position_sees_only_its_past() -> None:
    model = CONFIG.init()
    tokens = torch.randint(11, (1, 8))
    changed = tokens.clone()
    changed[0, 5] = (tokens[0, 5] + 1) % 11
    difference = (model(tokens) - model(changed)).abs().amax(-1)[0]
    assert torch.all(difference[:5] == 0)
    assert torch.all(difference[5:] > 0)


def test_the_head_is_the_embedding() -> None:
    model = CONFIG.init()
    model(torch.zeros(1, 2, dtype=torch.int64)).sum().backward()
    assert [param.path for param in model.params() if "head" in param.path] == []
    grad = model.embedding.weight.grad
    assert grad is not None
    assert torch.all(grad.abs().sum(-1) > 0), "rows of tokens that were not read get a gradient through the head"


def test_dropout_acts_in_training_only() -> None:
    model = CONFIG.replace(dropout=0.5).init()
    tokens = torch.randint(11, (1, 8))
    assert not torch.equal(model(tokens), model(tokens))
    model.eval()
    assert torch.equal(model(tokens), model(tokens))


def test_learned_positions_are_dropped_with_the_tokens() -> None:
    model = CONFIG.replace(positions=models.LearnedPositions(), dropout=0.9).init().double()
    expected = model.embedding.weight[3] + model.position.weight[0]
    seen: list[Tensor] = []
    model.blocks[0].norm_attention.register_forward_pre_hook(lambda _, args: seen.append(args[0]))
    model(torch.full((200, 1), 3))
    kept = seen[-1][:, 0] != 0
    assert 0.05 < kept.double().mean() < 0.15
    torch.testing.assert_close(seen[-1][:, 0][kept], (expected / 0.1).expand(200, -1)[kept])


@pytest.mark.parametrize("shape", [(1, 9), (4,), (1, 2, 3)])
def test_a_wrong_shape_is_named(shape: tuple[int, ...]) -> None:
    with pytest.raises(ShapeError, match=r"expected tokens \[batch, sequence <= 8\], got"):
        CONFIG.init()(torch.zeros(shape, dtype=torch.int64))


def test_heads_must_be_of_even_size() -> None:
    with pytest.raises(ConfigError, match="n_heads"):
        CONFIG.replace(n_heads=4)


def test_attention_is_its_formula() -> None:
    attention = nn.CausalAttentionConfig(d_model=6, n_heads=2).init().double()
    x = torch.randn(2, 5, 6, dtype=torch.float64)
    context = []
    for head in range(2):
        part = slice(3 * head, 3 * head + 3)
        query, key, value = ((x @ p.weight)[..., part] for p in (attention.query, attention.key, attention.value))
        scores = query @ key.mT / math.sqrt(3)
        hidden = torch.ones(5, 5, dtype=torch.bool).triu(1)
        context.append(scores.masked_fill(hidden, -torch.inf).softmax(-1) @ value)
    expected = torch.cat(context, -1) @ attention.output.weight
    torch.testing.assert_close(attention(x), expected)


def test_rotary_scores_depend_on_distance_only() -> None:
    rotary = nn.RotaryEncodingConfig(max_sequence_length=16, d_model=8).init()
    query, key = torch.randn(8), torch.randn(8)
    score = rotary(query.expand(1, 16, 8)) @ rotary(key.expand(1, 16, 8)).mT
    for distance in range(4):
        diagonal = score[0].diagonal(-distance)
        torch.testing.assert_close(diagonal, diagonal[:1].expand_as(diagonal), rtol=1e-4, atol=1e-5)


def test_rotary_start_continues_a_sequence() -> None:
    rotary = nn.RotaryEncodingConfig(max_sequence_length=16, d_model=8).init()
    x = torch.randn(2, 10, 8)
    assert torch.equal(rotary(x)[:, 6:], rotary(x[:, 6:], start=6))
    with pytest.raises(ShapeError, match="start 10"):
        rotary(x, start=10)


def test_rotary_tables_are_rebuilt_after_meta() -> None:
    config = nn.RotaryEncodingConfig(max_sequence_length=4, d_model=4)
    built = config.init()
    empty = RotaryEncoding(config, "meta")
    assert empty.cosine.is_meta
    empty.reset_non_persistent_buffers(torch.device("cpu"))
    assert torch.equal(empty.cosine, built.cosine)
    assert torch.equal(empty.sine, built.sine)
    assert not built.state_dict()


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"n_heads_kv": 3}, "n_heads_kv: expected a divisor of n_heads"),
        ({"d_head": 3}, "d_head: expected an even number for rotary positions, got 3"),
        ({"positions": models.RotaryPositions(rotary_dim=8)}, "positions.rotary_dim: expected at most a head's size"),
        (
            {"positions": models.RotaryPositions(rotary_dim=2, scaling=nn.LinearScaling(factor=2.0))},
            "positions.scaling: expected 4 or more rotated values",
        ),
    ],
)
def test_what_can_not_work_is_refused(values: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        CONFIG.replace(**values)
    with pytest.raises(ConfigError, match="n_selected: expected at most n_experts"):
        models.ExpertsPart(n_experts=1)


def test_the_window_and_the_caps_are_those_of_their_formulas() -> None:
    config = CONFIG.replace(sliding_window=3, attention_soft_cap=1.5, logit_soft_cap=0.3)
    model, plain = config.init().double(), CONFIG.replace(sliding_window=3, attention_soft_cap=1.5).init().double()
    plain.load_state_dict(model.state_dict())
    tokens = torch.randint(11, (2, 8))
    torch.testing.assert_close(model(tokens), 0.3 * torch.tanh(plain(tokens) / 0.3))
    torch.testing.assert_close(plain(tokens), decoder_lm(plain, tokens), rtol=1e-12, atol=1e-12)


def test_experts_in_balance_are_part_of_the_training_loss_alone() -> None:
    part = models.ExpertsPart(n_experts=4, n_selected=1, balance=0.5)
    model = CONFIG.replace(feed_forward=part).init()
    batch = torch.randint(11, (2, 8))
    mean = functional.cross_entropy(model(batch[:, :-1]).flatten(0, 1), batch[:, 1:].flatten())
    balance = model.forward_balance(batch[:, :-1]).balance
    assert balance is not None
    torch.testing.assert_close(next_token_loss(model.train(), batch).loss, mean + balance)
    torch.testing.assert_close(next_token_loss(model.eval(), batch).loss, mean)
    for block in model.blocks:
        block.feed_forward.router.weight.data.zero_()  # all probabilities are 1/4, whoever is chosen
    balance = model.forward_balance(batch).balance
    torch.testing.assert_close(balance, torch.tensor(0.5))


def test_todays_yaml_and_names_go_on() -> None:
    text = "{vocab_size: 11, max_sequence_length: 8, d_model: 12, n_layers: 2, n_heads: 2, d_ff: 20}"
    assert nn.DecoderLmConfig.from_yaml(text) == CONFIG
    names = {name for name, _ in CONFIG.init().named_parameters() if name.startswith("blocks.1.")}
    attention = {f"blocks.1.attention.{it}.weight" for it in ("query", "key", "value", "output")}
    norms = {"blocks.1.norm_attention.gamma", "blocks.1.norm_feed_forward.gamma"}
    gate = {"blocks.1.gate.linear_inner.weight", "blocks.1.gate.linear_outer.weight", "blocks.1.linear.weight"}
    assert names == attention | norms | gate


@pytest.mark.parametrize("name", ["DecoderLm", "DecoderLmConfig"])
def test_nn_has_it_too(name: str) -> None:
    assert getattr(nn, name) is getattr(models, name)
