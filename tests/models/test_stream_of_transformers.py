"""`stream` of models of transformers gives the tokens of their own `generate`."""

from collections.abc import Callable
from copy import deepcopy
from typing import Any

import pytest
import torch

from burnlike.interop import fuse
from burnlike.models import stream
from burnlike.models.decoder_lm.transformers_twin import twin_of
from burnlike.module import LoraConfig, apply_lora
from burnlike.ops import native_status

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

NATIVE = ("Llama", "Mistral", "GPT-2", "T5") if native_status().cpu.loaded else ()
WITHOUT_TWIN = ("BART",) if NATIVE else ()
"""Those whose own modules native steps read, with two steps more that are compared with the model."""


def steps() -> int:
    return native_status().calls.get("decode_step", 0)


def llama(**fields: Any) -> Any:
    import transformers

    torch.manual_seed(0)
    fields = {"max_position_embeddings": 32, **MODELS["Llama"][2], **fields}
    return transformers.LlamaForCausalLM(transformers.LlamaConfig(**fields)).eval()


@pytest.mark.skipif(not NATIVE, reason="needs the native library")
@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("tied", [False, True])
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_native_steps_compute_with_the_weights_of_a_llama(dtype: torch.dtype, tied: bool) -> None:
    model = llama(tie_word_embeddings=tied).to(dtype)
    twin = twin_of(model, 32)
    own = {it.untyped_storage().data_ptr() for it in model.parameters()}
    assert {it.untyped_storage().data_ptr() for it in twin.parameters()} == own
    tokens = torch.randint(3, 60, (1, 9))
    with torch.no_grad():
        expected = deepcopy(model).double()(tokens).logits[:, -1]
        reader = twin.reader(tokens, 32)
        before = steps()
        reader.next_logits(tokens[:, :8])
        found = reader.next_logits(tokens[:, 8:])
    assert steps() == before + 2
    tolerance = 1e-5 if dtype == torch.float32 else 3e-2
    torch.testing.assert_close(found.double(), expected, rtol=0, atol=tolerance * float(expected.abs().max()))


def hooked(model: Any) -> None:
    model.model.layers[0].mlp.register_forward_hook(lambda *_: None)


def patched(model: Any) -> None:
    model.lm_head.forward = lambda x: x


def of_another_class(model: Any) -> None:
    model.model.norm.__class__ = type("Norm", (type(model.model.norm),), {"__module__": "program"})


def with_lora(model: Any) -> None:
    apply_lora(model, LoraConfig(rank=2, alpha=4.0))


def with_another_activation(model: Any) -> None:
    model.model.layers[1].mlp.act_fn = torch.nn.ReLU()


def with_other_angles(model: Any) -> None:
    model.model.rotary_emb.inv_freq.mul_(0.5)


def with_another_config(model: Any) -> None:
    model.config.rms_norm_eps = 0.5


def with_a_setting(path: str, name: str, value: Any) -> Callable[[Any], Any]:
    return lambda model: setattr(model.get_submodule(path), name, value)


def with_another_attention(model: Any) -> None:
    from transformers.modeling_utils import ALL_ATTENTION_FUNCTIONS

    ALL_ATTENTION_FUNCTIONS.register("mine", lambda module, query, *_, **__: (query.transpose(1, 2), None))
    model.config._attn_implementation = "mine"


CHANGES: list[Callable[[Any], Any]] = [
    *(hooked, patched, of_another_class, with_lora, lambda model: model.double()),
    *(with_another_activation, with_other_angles, with_another_config, with_another_attention),
    with_a_setting("model.layers.0.self_attn", "scaling", 1.0),
    with_a_setting("model.norm", "variance_epsilon", 0.5),
    with_a_setting("model.rotary_emb", "attention_scaling", 2.0),
    with_a_setting("model.embed_tokens", "max_norm", 0.1),
]


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("change", CHANGES)
def test_a_changed_model_computes_its_tokens_itself(change: Callable[[Any], Any]) -> None:
    model = llama()
    assert not NATIVE or twin_of(model, 32) is not None
    change(model)
    assert twin_of(model, 32) is None
    before = steps()
    assert len([*stream(model, torch.tensor([5, 6]), 3)]) == 3
    assert steps() == before


@pytest.mark.skipif(not NATIVE, reason="needs the native library")
def test_functions_that_a_program_put_into_transformers_are_called(monkeypatch: pytest.MonkeyPatch) -> None:
    from transformers.modeling_utils import ALL_ATTENTION_FUNCTIONS
    from transformers.models.llama import modeling_llama

    model = llama()
    with monkeypatch.context() as context:
        context.setattr(modeling_llama, "apply_rotary_pos_emb", lambda query, key, *_, **__: (query, key))
        assert twin_of(model, 32) is None
    with monkeypatch.context() as context:
        context.setitem(ALL_ATTENTION_FUNCTIONS, "sdpa", lambda module, query, *_, **__: (query, None))
        assert twin_of(model, 32) is None
    assert twin_of(model, 32) is not None


@pytest.mark.skipif(not NATIVE, reason="needs the native library")
@pytest.mark.filterwarnings("ignore")
def test_what_changes_no_token_keeps_the_native_steps() -> None:
    model = llama()
    model.config.pad_token_id = 3
    model.config.use_cache = False
    model.requires_grad_(False)
    model.resize_token_embeddings(70)
    fuse(model)
    assert twin_of(model.train(), 32) is not None


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
    before = steps()
    assert [*stream(model, prompt[0], 12, stop_tokens=stops)] == expected
    assert (steps() > before) == (name in (*NATIVE, *WITHOUT_TWIN))
    if steps() > before:
        fuse(model)
        assert [*stream(model, prompt[0], 12, stop_tokens=stops)] == expected
        assert steps() - before == 2 * (len(expected) + 2 * (name in WITHOUT_TWIN))
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
