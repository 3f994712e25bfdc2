"""The encoder in the layout of BERT and its heads, against their formulas."""

from typing import Any

import pytest
import torch
from torch import Tensor
from torch.nn import functional

from burnlike.errors import ConfigError, ShapeError
from burnlike.models import BertClassifierConfig, BertEncoderConfig, BertMaskedLmConfig

from ..nn.cases.attention import attention
from ..nn.cases.transformer import norm

CONFIG = BertEncoderConfig(vocab_size=11, max_sequence_length=6, d_model=8, n_layers=2, n_heads=2, d_ff=12)
MASK = torch.tensor([[1, 1, 1, 1, 1], [1, 1, 1, 0, 0]])


def built(config: Any) -> Any:
    torch.manual_seed(0)
    model = config.init().double().eval()
    for parameter in model.parameters():
        parameter.data += 0.1 * torch.rand_like(parameter)
    return model


def encoded(encoder: Any, tokens: Tensor, hidden: Tensor, types: Tensor) -> Tensor:
    """Devlin et al. 2019, figure 2, then layers as in Vaswani et al. 2017, section 3.1, with GELU."""
    tables = encoder.embeddings
    x = tables.token.weight[tokens] + tables.token_type.weight[types] + tables.position.weight[: tokens.shape[1]]
    x = norm(tables.norm, x)
    for layer in encoder.layers:
        x = norm(layer.norm_attention, x + attention(layer.attention, x, mask_pad=hidden)[1])
        inner = functional.gelu(x @ layer.linear_inner.weight + layer.linear_inner.bias)
        x = norm(layer.norm_feed_forward, x + inner @ layer.linear_outer.weight + layer.linear_outer.bias)
    return x


def test_the_encoder_is_its_formula() -> None:
    model, tokens, types = built(CONFIG), torch.randint(11, (2, 5)), torch.randint(2, (2, 5))
    found = model(tokens, MASK, types)
    expected = encoded(model, tokens, MASK == 0, types)
    torch.testing.assert_close(found.hidden, expected, rtol=1e-12, atol=1e-12)
    pooled = (expected[:, 0] @ model.pooler.weight + model.pooler.bias).tanh()
    torch.testing.assert_close(found.pooled, pooled, rtol=1e-12, atol=1e-12)


def test_what_is_padded_changes_nothing_before_it() -> None:
    model, tokens = built(CONFIG), torch.randint(11, (1, 3))
    padded = torch.cat((tokens, torch.tensor([[5, 7]])), 1)
    found = model(padded, torch.tensor([[1, 1, 1, 0, 0]])).hidden[:, :3]
    torch.testing.assert_close(found, model(tokens).hidden, rtol=1e-12, atol=1e-12)
    assert torch.equal(found, model(padded, torch.tensor([[True, True, True, False, False]])).hidden[:, :3])


def test_types_left_out_are_zeros() -> None:
    model, tokens = built(CONFIG), torch.randint(11, (2, 5))
    assert torch.equal(model(tokens).hidden, model(tokens, None, torch.zeros_like(tokens)).hidden)
    assert not torch.allclose(model(tokens).hidden, model(tokens, None, torch.ones_like(tokens)).hidden)


def test_the_masked_lm_head_is_its_formula() -> None:
    model, tokens = built(BertMaskedLmConfig(encoder=CONFIG.replace(pooler=False))), torch.randint(11, (2, 5))
    hidden = model.encoder(tokens, MASK).hidden
    inner = norm(model.norm, functional.gelu(hidden @ model.linear.weight + model.linear.bias))
    expected = inner @ model.encoder.embeddings.token.weight.T + model.bias
    torch.testing.assert_close(model(tokens, MASK), expected, rtol=1e-12, atol=1e-12)


def test_the_classifier_reads_the_pooled_vector() -> None:
    model, tokens = built(BertClassifierConfig(encoder=CONFIG, n_classes=3)), torch.randint(11, (2, 5))
    expected = model.encoder(tokens, MASK).pooled @ model.head.weight + model.head.bias
    torch.testing.assert_close(model(tokens, MASK), expected, rtol=1e-12, atol=1e-12)


def test_dropout_acts_in_training_only() -> None:
    model, tokens = built(CONFIG), torch.randint(11, (2, 5))
    assert torch.equal(model(tokens).hidden, model(tokens).hidden)
    model.train()
    assert not torch.equal(model(tokens).hidden, model(tokens).hidden)


def test_wrong_shapes_are_named() -> None:
    model, tokens = CONFIG.init(), torch.zeros(2, 5, dtype=torch.int64)
    with pytest.raises(ShapeError, match=r"BertEncoder: tokens: expected \[batch, sequence <= 6\], got \[1, 7\]"):
        model(torch.zeros(1, 7, dtype=torch.int64))
    with pytest.raises(ShapeError, match=r"BertEncoder: attention_mask: expected \[2, 5\], got \[2, 4\]"):
        model(tokens, MASK[:, :4])
    with pytest.raises(ShapeError, match=r"BertEncoder: token_types: expected \[2, 5\], got \[1, 5\]"):
        model(tokens, None, tokens[:1])


def test_a_head_says_whether_it_needs_the_pooler() -> None:
    with pytest.raises(ConfigError, match="expected pooler: false"):
        BertMaskedLmConfig(encoder=CONFIG)
    with pytest.raises(ConfigError, match="expected pooler: true"):
        BertClassifierConfig(encoder=CONFIG.replace(pooler=False), n_classes=2)
    with pytest.raises(ConfigError, match=r"n_heads.*expected a divisor of d_model \(8\), got 3"):
        CONFIG.replace(n_heads=3)
