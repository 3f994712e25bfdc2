"""Weights of decoders: those of transformers give the same logits and the same tokens."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
import transformers
from transformers import (
    GPT2LMHeadModel,
    LlamaForCausalLM,
    MistralForCausalLM,
    MixtralForCausalLM,
    Qwen2ForCausalLM,
    Qwen3ForCausalLM,
)

from burnlike import nn
from burnlike.errors import ConfigError
from burnlike.models import load_pretrained, pretrained_config
from tests.models.exact import in_float64, with_tables_in_float64

from .transformers_models import TOLERANCE, expect_saved_back, saved

SIZES: dict[str, Any] = {
    "vocab_size": 17,
    "hidden_size": 16,
    "intermediate_size": 24,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "max_position_embeddings": 32,
    "rms_norm_eps": 1e-5,
    "bos_token_id": None,
    "eos_token_id": None,
    "pad_token_id": 0,
}
LLAMA_3 = {
    "rope_type": "llama3",
    "rope_theta": 500000.0,
    "factor": 8.0,
    "low_freq_factor": 1.0,
    "high_freq_factor": 4.0,
    "original_max_position_embeddings": 16,
}
YARN = {"rope_type": "yarn", "rope_theta": 1000.0, "factor": 2.0, "original_max_position_embeddings": 16}
GPT2: dict[str, Any] = {
    "vocab_size": 17,
    "n_embd": 16,
    "n_layer": 2,
    "n_head": 4,
    "n_positions": 32,
    "bos_token_id": None,
    "eos_token_id": None,
    "pad_token_id": 0,
}


def llama(**options: Any) -> Any:
    config = transformers.LlamaConfig(**{**SIZES, **options})
    return LlamaForCausalLM(config)


def mistral(**options: Any) -> Any:
    return MistralForCausalLM(transformers.MistralConfig(**SIZES, **options))


def mixtral(**options: Any) -> Any:
    model = MixtralForCausalLM(transformers.MixtralConfig(**SIZES, num_local_experts=4, **options))
    model.set_experts_implementation("eager")  # the others have no float64
    return model


def qwen2(**options: Any) -> Any:
    return Qwen2ForCausalLM(transformers.Qwen2Config(**SIZES, **options))


def qwen3(**options: Any) -> Any:
    return Qwen3ForCausalLM(transformers.Qwen3Config(**SIZES, **options))


def gpt2(**options: Any) -> Any:
    return GPT2LMHeadModel(transformers.GPT2Config(**GPT2, **options))


MODELS = {
    "llama": ("llama", lambda: llama(rope_parameters={"rope_type": "default", "rope_theta": 1000.0})),
    "llama3": ("llama", lambda: llama(rope_parameters=LLAMA_3, head_dim=6, tie_word_embeddings=True)),
    "llama_yarn_biases": ("llama", lambda: llama(rope_parameters=YARN, attention_bias=True, mlp_bias=True)),
    "llama_gelu": ("llama", lambda: llama(hidden_act="gelu", num_key_value_heads=4)),
    "mistral": ("mistral", lambda: mistral(sliding_window=4)),
    "mixtral": ("mixtral", mixtral),
    "qwen2": ("qwen2", qwen2),
    "qwen2_window": ("qwen2", lambda: qwen2(use_sliding_window=True, sliding_window=4, max_window_layers=0)),
    "qwen3": ("qwen3", lambda: qwen3(head_dim=6, attention_bias=True)),
    "gpt2": ("gpt2", gpt2),
}


def both(make: Callable[[], Any], directory: Path, **options: Any) -> tuple[Any, Any]:
    """transformers' model and ours with its weights, which has the `options` besides.

    They are large, so that attention is not even, and tokens differ from place to place.
    """
    with in_float64():
        torch.manual_seed(0)
        theirs = make().double().eval()
    for tensor in theirs.parameters():
        tensor.data.add_(0.4 * torch.randn_like(tensor))
    config = pretrained_config(saved(theirs, directory)).replace(**options)
    ours = load_pretrained(directory, config=config).eval()
    with in_float64():
        return theirs, with_tables_in_float64(ours)


@pytest.mark.parametrize("name", MODELS)
def test_outputs_and_tokens_are_those_of_transformers(name: str, tmp_path: Path) -> None:
    table, make = MODELS[name]
    theirs, ours = both(make, tmp_path)
    with in_float64():
        tokens = torch.randint(17, (2, 12))
        mask = torch.ones_like(tokens)
        mask[0, :3] = 0
        with torch.no_grad():
            expected = theirs(tokens).logits
            found = ours(tokens)
            torch.testing.assert_close(found, expected, rtol=TOLERANCE, atol=TOLERANCE)
            positions = (mask.cumsum(-1) - 1).clamp(min=0)
            padded = theirs(tokens, attention_mask=mask, position_ids=positions).logits
            found = ours(tokens, mask == 0)
            torch.testing.assert_close(found[mask == 1], padded[mask == 1], rtol=TOLERANCE, atol=TOLERANCE)
        for given in (torch.ones_like(mask), mask):
            generated = theirs.generate(tokens, attention_mask=given, do_sample=False, max_new_tokens=8)
            assert torch.equal(ours.generate(tokens, 8, mask_pad=given == 0), generated)
            assert generated[:, 12:].unique().numel() > 2
    expect_saved_back(ours, tmp_path, table)


DYNAMIC = {"rope_type": "dynamic", "rope_theta": 1000.0, "factor": 4.0}


@pytest.mark.parametrize(
    ("prompt", "use_cache", "padded"), [(5, True, False), (12, True, True), (5, False, True), (12, False, False)]
)
def test_dynamic_frequencies_generate_as_in_transformers(
    prompt: int, use_cache: bool, padded: bool, tmp_path: Path
) -> None:
    """From before or behind the original length, 8, to far past it."""
    options = {"max_position_embeddings": 8, "rope_parameters": DYNAMIC}
    theirs, ours = both(lambda: llama(**options), tmp_path, max_sequence_length=32)
    tokens = torch.randint(1, 17, (2, prompt))
    mask = torch.ones_like(tokens)
    mask[0, : 2 * padded] = 0
    with in_float64():
        expected = theirs.generate(tokens, attention_mask=mask, do_sample=False, max_new_tokens=20, use_cache=use_cache)
        assert torch.equal(ours.generate(tokens, 20, mask_pad=mask == 0, use_cache=use_cache), expected)
    assert expected[:, prompt:].unique().numel() > 4


def test_dynamic_frequencies_give_the_logits_of_transformers_at_each_step(tmp_path: Path) -> None:
    options = {"max_position_embeddings": 8, "rope_parameters": DYNAMIC}
    theirs, ours = both(lambda: llama(**options), tmp_path, max_sequence_length=32)
    tokens, cache, their_cache = torch.randint(17, (2, 24)), ours.new_cache(2), None
    with in_float64(), torch.no_grad():
        for new in tokens.split([5, *[1] * 6, 4, *[1] * 9], 1):
            expected = theirs(new, past_key_values=their_cache, use_cache=True)
            their_cache = expected.past_key_values
            torch.testing.assert_close(ours(new, cache=cache), expected.logits, rtol=TOLERANCE, atol=TOLERANCE)
        whole = theirs(tokens).logits
        torch.testing.assert_close(ours(tokens), whole, rtol=TOLERANCE, atol=TOLERANCE)
        assert (whole[:, -1] - expected.logits[:, -1]).abs().max() > 1e-3  # cached keys keep their rotation


def test_gradients_are_those_of_transformers(tmp_path: Path) -> None:
    theirs, ours = both(lambda: mistral(sliding_window=4), tmp_path)
    with in_float64():
        tokens = torch.randint(1, 17, (2, 12))  # the vector of the padding gets no gradient in transformers
        ours(tokens).square().sum().backward()
        theirs(tokens).logits.square().sum().backward()
    key, their_key = ours.blocks[0].attention.key.weight.grad.mT, theirs.model.layers[0].self_attn.k_proj.weight.grad
    torch.testing.assert_close(key, their_key, rtol=1e-9, atol=1e-9)
    table, their_table = ours.embedding.weight.grad, theirs.model.embed_tokens.weight.grad
    torch.testing.assert_close(table, their_table, rtol=1e-9, atol=1e-9)


def test_float32_as_it_is_used(tmp_path: Path) -> None:
    theirs = llama(rope_parameters=LLAMA_3)
    ours: Any = load_pretrained(saved(theirs.eval(), tmp_path)).eval()
    assert ours.embedding.weight.dtype == torch.float32
    tokens = torch.randint(17, (2, 30))
    with torch.no_grad():
        torch.testing.assert_close(ours(tokens), theirs(tokens).logits, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize(
    ("rope", "scaling"),
    [
        ({"rope_scaling": {"type": "linear", "factor": 2.0}}, nn.LinearScaling(factor=2.0)),
        (
            {"rope_scaling": {"rope_type": "dynamic", "factor": 2.0}},
            nn.DynamicScaling(factor=2.0, original_length=32),
        ),
        ({"rope_scaling": None}, None),
    ],
    ids=["linear", "dynamic", "none"],
)
def test_a_config_of_transformers_4_is_read(rope: dict[str, Any], scaling: Any, tmp_path: Path) -> None:
    values = {"model_type": "llama", "rope_theta": 500.0, **SIZES, **rope}
    (tmp_path / "config.json").write_text(json.dumps(values))
    config: Any = pretrained_config(tmp_path)
    assert config.theta == 500.0
    assert config.positions.scaling == scaling


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"rope_scaling": {"rope_type": "longrope", "factor": 2.0}}, "rope_type: expected one of default, linear"),
        ({"pretraining_tp": 2}, "pretraining_tp: expected 1, got 2"),
        (
            {"model_type": "qwen2", "use_sliding_window": True, "max_window_layers": 1},
            r"layer_types: expected .* in all of 2 layers, got \['full_attention', 'sliding_attention'\]",
        ),
        ({"hidden_act": "xielu"}, "there is no activation 'xielu'"),
    ],
)
def test_what_ours_lacks_is_refused_by_name(values: dict[str, Any], message: str, tmp_path: Path) -> None:
    (tmp_path / "config.json").write_text(json.dumps({"model_type": "llama", **SIZES, **values}))
    with pytest.raises(ConfigError, match=message):
        pretrained_config(tmp_path)


def test_dropouts_of_gpt2_are_one(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"attn_pdrop: expected 0\.2, got 0\.1"):
        pretrained_config(saved(gpt2(resid_pdrop=0.2), tmp_path))
    config: Any = pretrained_config(saved(gpt2(resid_pdrop=0.2, embd_pdrop=0.2, attn_pdrop=0.2), tmp_path))
    assert config.dropout == 0.2
