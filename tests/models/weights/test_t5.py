"""Weights of T5: transformers' model of both generations."""

from pathlib import Path
from typing import Any

import pytest
import torch
import transformers
from torch import Tensor, nn
from transformers.models.t5.modeling_t5 import T5LayerNorm

from burnlike.errors import ConfigError
from burnlike.models import load_pretrained, weight_table
from burnlike.record import open_record

from .transformers_models import TOLERANCE, expect_saved_back, randomized, saved

SIZES: dict[str, Any] = {
    "vocab_size": 13,
    "d_model": 8,
    "d_kv": 3,
    "d_ff": 12,
    "num_layers": 2,
    "num_decoder_layers": 3,
    "num_heads": 2,
    "relative_attention_num_buckets": 8,
    "relative_attention_max_distance": 12,
    "decoder_start_token_id": 0,
}
PLAIN: dict[str, Any] = {"feed_forward_proj": "relu"}
GATED: dict[str, Any] = {"feed_forward_proj": "gated-gelu", "tie_word_embeddings": False}
# Longer than max_distance.
TOKENS = torch.randint(2, 13, (2, 17), generator=torch.Generator().manual_seed(1))
DECODER_TOKENS = torch.randint(2, 13, (2, 15), generator=torch.Generator().manual_seed(2))
MASK = torch.tensor([[1] * 11 + [0] * 6, [1] * 17])


@pytest.fixture(autouse=True)
def _norms_in_float64(monkeypatch: pytest.MonkeyPatch) -> None:
    """transformers computes the mean square in float32, whatever the dtype of the model."""

    def forward(self: Any, x: Tensor) -> Tensor:
        return self.weight * x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + self.variance_epsilon)

    monkeypatch.setattr(T5LayerNorm, "forward", forward)


def made(options: dict[str, Any], *, own_head: bool = True) -> Any:
    """transformers' model; a head of its own, which T5 1.1 may have, has other values than the embedding."""
    torch.manual_seed(0)
    theirs = transformers.T5ForConditionalGeneration(transformers.T5Config(**SIZES, **options))
    if own_head and not options.get("tie_word_embeddings", True):
        theirs.lm_head.weight = nn.Parameter(torch.randn(13, 8))
    return randomized(theirs)


@pytest.mark.parametrize("options", [PLAIN, GATED], ids=["plain", "gated"])
def test_transformers_model(options: dict[str, Any], tmp_path: Path) -> None:
    theirs = made(options)
    ours = load_pretrained(saved(theirs, tmp_path)).eval()
    for mask in (None, MASK):
        expected = theirs(input_ids=TOKENS, attention_mask=mask, decoder_input_ids=DECODER_TOKENS).logits
        torch.testing.assert_close(ours(TOKENS, DECODER_TOKENS, mask), expected, rtol=TOLERANCE, atol=TOLERANCE)
    expect_saved_back(ours, tmp_path, "t5")


@pytest.mark.parametrize(
    ("options", "own_head"),
    [({**GATED, **PLAIN}, True), (GATED, True), (GATED, False)],
    ids=["plain", "gated", "gated_tied"],
)
def test_the_same_tokens_are_generated(options: dict[str, Any], own_head: bool, tmp_path: Path) -> None:
    theirs = made(options, own_head=own_head)
    # Weights of this size and seed make it write something else than one token again and again.
    torch.manual_seed(53)
    for name, parameter in theirs.decoder.block.named_parameters():
        if "layer_norm" not in name:
            parameter.data = torch.randn_like(parameter) * (0.1 if "EncDecAttention.o" in name else 1.0)
    if not own_head:
        theirs.shared.weight.data.copy_(0.1 * torch.randn(13, 8, generator=torch.Generator().manual_seed(0)))
    ours: Any = load_pretrained(saved(theirs, tmp_path)).eval()
    # transformers makes a cache for as many layers as the encoder has.
    options = {"max_new_tokens": 12, "do_sample": False, "use_cache": False}
    for mask in (None, MASK):
        expected = theirs.generate(TOKENS, attention_mask=mask, eos_token_id=None, **options)
        assert expected.shape == (2, 13)
        assert len(expected.unique()) > 4
        assert torch.equal(ours.generate(TOKENS, 12, attention_mask=mask), expected)
        stop = int(expected[0, 4])
        expected = theirs.generate(TOKENS, attention_mask=mask, eos_token_id=stop, **options)
        assert torch.equal(ours.generate(TOKENS, 12, attention_mask=mask, stop_tokens=(stop,)), expected)


def test_a_head_that_is_the_embedding_without_a_scale(tmp_path: Path) -> None:
    """transformers 5 saves T5 1.1 without the head that it tied, whatever the config says."""
    theirs = made(GATED, own_head=False)
    assert "lm_head.weight" not in open_record(saved(theirs, tmp_path)).tensors
    ours: Any = load_pretrained(tmp_path).eval()
    expected = theirs(input_ids=TOKENS, attention_mask=MASK, decoder_input_ids=DECODER_TOKENS).logits
    torch.testing.assert_close(ours(TOKENS, DECODER_TOKENS, MASK), expected, rtol=TOLERANCE, atol=TOLERANCE)
    assert ours.head.weight.data_ptr() != ours.embedding.weight.data_ptr()


def test_gradients_are_theirs(tmp_path: Path) -> None:
    theirs = made(PLAIN)
    ours: Any = load_pretrained(saved(theirs, tmp_path)).eval()
    for logits in (ours(TOKENS, DECODER_TOKENS, MASK), theirs(TOKENS, MASK, DECODER_TOKENS).logits):
        (logits * torch.arange(logits.numel()).sin().reshape(logits.shape)).sum().backward()
    their_bias = theirs.decoder.block[0].layer[0].SelfAttention.relative_attention_bias
    their_query = theirs.encoder.block[1].layer[0].SelfAttention.q
    for found, expected in (
        (ours.embedding.weight.grad, theirs.shared.weight.grad),
        (ours.decoder.position_bias.weight.grad, their_bias.weight.grad),
        (ours.encoder.layers[1].attention.query.weight.grad.mT, their_query.weight.grad),
    ):
        torch.testing.assert_close(found, expected, rtol=TOLERANCE, atol=TOLERANCE)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"feed_forward_proj": "gated-quick"}, "there is no activation 'quick'"),
        ({"is_encoder_decoder": False}, "is_encoder_decoder: expected True, got False"),
    ],
)
def test_what_ours_lacks_is_refused_by_name(options: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        weight_table("t5").config({**SIZES, **options})
