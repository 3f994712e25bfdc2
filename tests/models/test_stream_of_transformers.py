"""`stream` of models of transformers gives the tokens of their own `generate`."""

from typing import Any

import pytest
import torch

from burnlike.models import stream

SMALL = {
    "vocab_size": 64,
    "hidden_size": 32,
    "intermediate_size": 48,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "initializer_range": 0.5,
}
MODELS = {
    "Llama": ("LlamaForCausalLM", "LlamaConfig", {**SMALL, "num_key_value_heads": 2}),
    "Mistral": ("MistralForCausalLM", "MistralConfig", {**SMALL, "num_key_value_heads": 2, "sliding_window": 4}),
    "GPT-2": (
        "GPT2LMHeadModel",
        "GPT2Config",
        {"vocab_size": 64, "n_embd": 32, "n_layer": 2, "n_head": 4, "initializer_range": 0.5, "eos_token_id": None},
    ),
    "Mamba": (
        "MambaForCausalLM",
        "MambaConfig",
        {"vocab_size": 64, "hidden_size": 32, "num_hidden_layers": 2, "initializer_range": 0.5},
    ),
    "T5": (
        "T5ForConditionalGeneration",
        "T5Config",
        {
            "vocab_size": 64,
            "d_model": 32,
            "d_kv": 8,
            "d_ff": 48,
            "num_layers": 2,
            "num_heads": 4,
            "initializer_factor": 4.0,
        },
    ),
    "BART": (
        "BartForConditionalGeneration",
        "BartConfig",
        {
            "vocab_size": 64,
            "d_model": 32,
            "encoder_layers": 1,
            "decoder_layers": 1,
            "init_std": 0.5,
            "encoder_attention_heads": 4,
            "decoder_attention_heads": 4,
            "encoder_ffn_dim": 48,
            "decoder_ffn_dim": 48,
            "forced_eos_token_id": None,
        },
    ),
}


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("name", MODELS)
def test_the_likeliest_tokens_are_those_of_generate(name: str) -> None:
    import transformers

    kind, config, fields = MODELS[name]
    if name == "T5":
        fields = {**fields, "decoder_start_token_id": 0}
    torch.manual_seed(0)
    model: Any = getattr(transformers, kind)(getattr(transformers, config)(**fields)).eval()
    prompt = torch.randint(3, 60, (1, 5))
    whole = model.generate(prompt, max_new_tokens=12, do_sample=False, pad_token_id=0)[0]
    expected = whole[1 if model.config.is_encoder_decoder else 5 :].tolist()
    end = model.generation_config.eos_token_id
    stops = (end,) if isinstance(end, int) else ()
    assert [*stream(model, prompt[0], 12, stop_tokens=stops)] == expected
    assert len({*expected}) > 1 or model.config.is_encoder_decoder


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")
def test_a_full_context_goes_on_with_the_last_tokens() -> None:
    import transformers

    torch.manual_seed(0)
    model = transformers.LlamaForCausalLM(transformers.LlamaConfig(**SMALL, max_position_embeddings=8)).eval()
    tokens = torch.tensor([[3, 1, 4]])
    with torch.no_grad():
        for _ in range(10):
            tokens = torch.cat((tokens, model(tokens[:, -8:]).logits[:, -1].argmax(-1, keepdim=True)), 1)
    assert [*stream(model, tokens[0, :3], 10)] == tokens[0, 3:].tolist()
