"""Exports to GGUF: values within the rounding of their type, in the places where llama.cpp looks for them; refusals."""

import json
import sys
from pathlib import Path
from typing import Any

import gguf
import numpy as np
import pytest
import torch
import transformers
from tokenizers import Tokenizer, models, normalizers, pre_tokenizers

from burnlike.cli.main import main
from burnlike.errors import ConfigError
from burnlike.models import DecoderLmConfig, PretrainedConfig
from burnlike.record import open_record, save
from burnlike.train.export.exporting import export
from burnlike.train.export.gguf_file import _of_content, q4_k
from burnlike.train.export.source import source_of_config

from ...data.chat.samples import MARKED, conversations, tokenizer_in, write_lines
from ...models.by_path.directories import llama, saved

JOB = """
data: {type: Chat, path: chat.jsonl, tokenizer: llama, max_length: 64}
model: {type: LoRA, of: {type: Pretrained, path: llama}, rank: 4, targets: all-linear}
task: {type: LanguageModel}
optimizer: {type: AdamW}
lr_scheduler: {type: CosineAnnealing, initial_lr: 2e-2}
training: {epochs: 1, batch_size: 4}
"""
SIZES: dict[str, Any] = {"hidden_size": 256, "num_hidden_layers": 1, "num_attention_heads": 4, "intermediate_size": 96}
LM = "{type: DecoderLm, vocab_size: 40, max_sequence_length: 16, d_model: 32, n_layers: 1, n_heads: 2, d_ff: 32}"


def values_of(path: Path) -> dict[str, torch.Tensor]:
    tensors = gguf.GGUFReader(path).tensors
    return {it.name: torch.from_numpy(gguf.dequantize(it.data, it.tensor_type).copy()) for it in tensors}


def metadata_of(path: Path) -> dict[str, Any]:
    return {name: it.contents() for name, it in gguf.GGUFReader(path).fields.items()}


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A directory with a run of a Llama with adapters, trained on conversations."""
    place = tmp_path_factory.mktemp("runs")
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(place)
        llama(Path("llama"), vocab_size=304, num_key_value_heads=2, **SIZES)
        tokenizer_in(Path("llama"), MARKED)
        write_lines(Path("chat.jsonl"), [{"messages": it} for it in conversations(12)])
        Path("chat.yaml").write_text(JOB)
        assert main(["train", "chat.yaml"]) == 0
        assert main(["merge", "chat", "--out", "merged"]) == 0
    return place


@pytest.fixture(autouse=True)
def here(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(folder)


@pytest.mark.parametrize(
    ("options", "kinds", "allowed"),
    [
        (["--dtype", "float32"], {"F32"}, 0.0),
        (["--dtype", "float16"], {"F32", "F16"}, 2**-11),
        (["--dtype", "bfloat16"], {"F32", "BF16"}, 2**-8),
        (["--quantize", "q8_0"], {"F32", "Q8_0"}, 0.5 / 127 + 2**-11),
        (["--quantize", "q4_k"], {"F32", "Q8_0", "Q4_K"}, 0.125),
    ],
)
def test_a_fine_tuned_model_as_a_file_for_llama_cpp(
    options: list[str], kinds: set[str], allowed: float, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["export", "chat", "--to", "gguf", *options]) == 0
    shown = capsys.readouterr().out
    assert "tokens    300, byte-pair tokens (gpt-2), with the chat template" in shown
    path = Path("runs/chat/exports/model.gguf")
    assert {it.tensor_type.name for it in gguf.GGUFReader(path).tensors} == kinds
    written, merged = values_of(path), open_record("merged").tensors
    # Rotated pairs are halves of a head in transformers and neighbours in llama.cpp.
    pairs = torch.tensor([half * 32 + at for at in range(32) for half in (0, 1)])
    layer = "model.layers.0"
    queries = merged[f"{layer}.self_attn.q_proj.weight"].reshape(4, 64, 256)[:, pairs].reshape(256, 256)
    keys = merged[f"{layer}.self_attn.k_proj.weight"].reshape(2, 64, 256)[:, pairs].reshape(128, 256)
    expected = {
        "token_embd.weight": merged["model.embed_tokens.weight"],
        "output.weight": merged["lm_head.weight"],
        "output_norm.weight": merged["model.norm.weight"],
        "blk.0.attn_norm.weight": merged[f"{layer}.input_layernorm.weight"],
        "blk.0.ffn_norm.weight": merged[f"{layer}.post_attention_layernorm.weight"],
        "blk.0.attn_q.weight": queries,
        "blk.0.attn_k.weight": keys,
        "blk.0.attn_v.weight": merged[f"{layer}.self_attn.v_proj.weight"],
        "blk.0.attn_output.weight": merged[f"{layer}.self_attn.o_proj.weight"],
        "blk.0.ffn_gate.weight": merged[f"{layer}.mlp.gate_proj.weight"],
        "blk.0.ffn_up.weight": merged[f"{layer}.mlp.up_proj.weight"],
        "blk.0.ffn_down.weight": merged[f"{layer}.mlp.down_proj.weight"],
    }
    assert written.keys() == expected.keys()
    for name, values in expected.items():
        if values.dim() == 1:
            assert torch.equal(written[name], values), name
        assert (written[name] - values).abs().max() <= allowed * values.abs().max(), name


def test_the_sizes_and_the_tokenizer_are_in_the_file() -> None:
    assert main(["export", "chat", "--to", "gguf"]) == 0  # which replaces an earlier one
    metadata = metadata_of(Path("runs/chat/exports/model.gguf"))
    config = json.loads(Path("merged/config.json").read_text())
    expected = {
        "general.architecture": "llama",
        "llama.context_length": config["max_position_embeddings"],
        "llama.embedding_length": 256,
        "llama.block_count": 1,
        "llama.feed_forward_length": 96,
        "llama.attention.head_count": 4,
        "llama.attention.head_count_kv": 2,
        "llama.rope.dimension_count": 64,
        "llama.rope.freq_base": 10000.0,
        "tokenizer.ggml.model": "gpt2",
        "tokenizer.ggml.pre": "gpt-2",
        "tokenizer.ggml.bos_token_id": 0,
        "tokenizer.ggml.eos_token_id": 1,
        "tokenizer.ggml.eot_token_id": 3,
        "burnlike.step": "3",
    }
    assert {name: metadata[name] for name in expected} == expected
    assert metadata["llama.attention.layer_norm_rms_epsilon"] == pytest.approx(config["rms_norm_eps"])
    template = metadata["tokenizer.chat_template"]
    assert "<|im_start|>" in template
    assert "generation %}" not in template  # marks that only trainings read
    tokens, types = metadata["tokenizer.ggml.tokens"], metadata["tokenizer.ggml.token_type"]
    assert (len(tokens), tokens[3], tokens[303]) == (304, "<|im_end|>", "[PAD303]")
    assert [*types[:5], types[303]] == [3, 3, 3, 3, 1, 5]


def test_a_model_of_ours_whose_pairs_are_neighbours_keeps_them(tmp_path: Path) -> None:
    torch.manual_seed(0)
    config = DecoderLmConfig(vocab_size=40, max_sequence_length=16, d_model=32, n_layers=2, n_heads=2, d_ff=32)
    source = source_of_config(config, None)
    lines = export(source, "gguf", tmp_path / "model.gguf")
    assert "without a tokenizer" in lines[1]
    written, ours = values_of(tmp_path / "model.gguf"), source.model.state_dict()
    assert torch.equal(written["blk.1.attn_q.weight"], ours["blocks.1.attention.query.weight"].T)
    assert torch.equal(written["blk.0.ffn_down.weight"], ours["blocks.0.linear.weight"].T)
    assert "output.weight" not in written  # tied


def test_llama_3_frequencies_are_in_the_file(tmp_path: Path) -> None:
    scaling = {"rope_type": "llama3", "rope_theta": 500000.0, "factor": 8.0, "low_freq_factor": 1.0}
    scaling |= {"high_freq_factor": 4.0, "original_max_position_embeddings": 64}
    place = llama(tmp_path / "llama", max_position_embeddings=512, rope_parameters=scaling)
    config = PretrainedConfig(path=str(place))
    export(source_of_config(config, None), "gguf", tmp_path / "model.gguf")
    model: Any = transformers.AutoModelForCausalLM.from_pretrained(place)
    plain = 500000.0 ** -(torch.arange(0, 8, 2, dtype=torch.float64) / 8)
    factors = values_of(tmp_path / "model.gguf")["rope_freqs.weight"].double()
    torch.testing.assert_close(plain / factors, model.model.rotary_emb.inv_freq.double(), rtol=1e-6, atol=0)


@pytest.mark.parametrize(("name", "architecture"), [("Mistral", "llama"), ("Qwen2", "qwen2"), ("Qwen3", "qwen3")])
def test_others_like_llama(name: str, architecture: str, tmp_path: Path) -> None:
    options: dict[str, Any] = {"num_key_value_heads": 1, "head_dim": 8}
    options |= {"sliding_window": 8} if name == "Mistral" else {}
    place = saved(tmp_path / "model", getattr(transformers, f"{name}ForCausalLM"), **options)
    export(source_of_config(PretrainedConfig(path=str(place)), None), "gguf", tmp_path / "model.gguf")
    metadata, written = metadata_of(tmp_path / "model.gguf"), values_of(tmp_path / "model.gguf")
    assert metadata["general.architecture"] == architecture
    assert metadata[f"{architecture}.context_length"] == (8 if name == "Mistral" else 32)
    queries = open_record(place).tensors["model.layers.1.self_attn.q_proj.weight"]
    assert torch.equal(written["blk.1.attn_q.weight"], queries) == (name != "Mistral")
    assert ("blk.1.attn_q.bias" in written, "blk.1.attn_k_norm.weight" in written) == (name == "Qwen2", name == "Qwen3")


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--quantize", "int8"], "--to gguf takes q8_0 and q4_k"),
        (["--quantize", "q8_0", "--dtype", "float16"], "--quantize q8_0 says the type of the weights"),
        (["--with-normalize"], "--with-normalize is for onnx and pt2"),
        (["--out", "other.gguf"], "is there already and stays as it is"),
    ],
)
def test_wrong_options_write_nothing(options: list[str], message: str, capsys: pytest.CaptureFixture[str]) -> None:
    Path("other.gguf").write_text("of another program")
    before = {it: it.stat().st_mtime_ns for it in Path().rglob("*")}
    assert main(["export", "chat", "--to", "gguf", *options]) == 2
    assert message in capsys.readouterr().err
    assert {it: it.stat().st_mtime_ns for it in Path().rglob("*")} == before


@pytest.mark.parametrize(
    ("model", "options", "message"),
    [
        ("GPT2LMHeadModel", {}, "expected a language model of Llama, Mistral, Qwen2 or Qwen3, got GPT2LMHeadModel"),
        ("LlamaForSequenceClassification", {}, "got LlamaForSequenceClassification"),
        ("LlamaForCausalLM", {"hidden_act": "gelu"}, "with config.json's activation is none that llama.cpp"),
        (
            "LlamaForCausalLM",
            {"rope_parameters": {"rope_type": "yarn", "factor": 2.0, "rope_theta": 1e4}},
            "LlamaForCausalLM with YarnScaling is none",
        ),
    ],
)
def test_models_that_llama_cpp_has_not_are_named_and_nothing_is_written(
    model: str, options: dict[str, Any], message: str, tmp_path: Path
) -> None:
    place = saved(tmp_path / "model", getattr(transformers, model), pad_token_id=0, **options)
    with pytest.raises(ConfigError, match=message):
        export(source_of_config(PretrainedConfig(path=str(place)), None), "gguf", tmp_path / "model.gguf")
    assert [it.name for it in tmp_path.iterdir()] == ["model"]


def test_values_that_float16_has_not_are_an_error(tmp_path: Path) -> None:
    config = DecoderLmConfig(vocab_size=40, max_sequence_length=16, d_model=32, n_layers=1, n_heads=2, d_ff=32)
    source = source_of_config(config, None)
    with torch.no_grad():
        source.model.get_parameter("blocks.0.linear.weight")[3, 5] = 1e5
    with pytest.raises(ConfigError, match=r"ffn_down\.weight has values up to 1e\+05, which f16 can't hold"):
        export(source, "gguf", tmp_path / "model.gguf", dtype="float16")
    assert [*tmp_path.iterdir()] == []
    export(source, "gguf", tmp_path / "model.gguf", dtype="bfloat16")


def test_without_the_package_it_is_named(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    (tmp_path / "lm.yaml").write_text(LM)
    save(DecoderLmConfig.load(tmp_path / "lm.yaml").init(), tmp_path / "lm.safetensors")
    monkeypatch.setitem(sys.modules, "gguf", None)
    config = DecoderLmConfig.load(tmp_path / "lm.yaml")
    with pytest.raises(ConfigError, match=r"--to gguf needs the package gguf: pip install 'burnlike\[gguf\]'"):
        export(source_of_config(config, tmp_path / "lm.safetensors"), "gguf", tmp_path / "model.gguf")
    assert not (tmp_path / "model.gguf").exists()


@pytest.mark.parametrize("shift", [0.0, 0.5, -3.0])
def test_blocks_of_4_bits_are_nearly_as_near_as_they_can_be(shift: float) -> None:
    generator = torch.Generator().manual_seed(0)
    weight = torch.randn(64, 512, generator=generator) * torch.rand(64, 1, generator=generator) + shift
    weight[0] = 0.0
    weight[1] = 2.0
    written = torch.from_numpy(gguf.dequantize(q4_k(weight), gguf.GGMLQuantizationType.Q4_K))
    assert torch.equal(written[0], weight[0])
    # The best of 16 levels from the least value (at most 0) to the largest, were scales not rounded to 6 bits.
    parts = weight.reshape(64, 16, 32)
    least = parts.amin(2, keepdim=True).clamp(max=0)
    step = (parts.amax(2, keepdim=True) - least) / 15
    levels = ((parts - least) / step.clamp(min=1e-30)).round() * step + least
    plain = (levels - parts).square().mean()
    assert (written - weight).square().mean() <= 1.05 * plain


def content(model: Any, pre: Any, normalizer: Any = None) -> dict[str, Any]:
    tokenizer = Tokenizer(model)
    tokenizer.pre_tokenizer = pre
    if normalizer is not None:
        tokenizer.normalizer = normalizer
    return json.loads(tokenizer.to_str())


LETTERS = {it: at for at, it in enumerate(sorted(pre_tokenizers.ByteLevel.alphabet()))}
BYTES = {f"<0x{it:02X}>": it for it in range(256)}


@pytest.mark.parametrize(
    ("tokenizer", "message"),
    [
        (lambda: content(models.WordLevel({"a": 0}), pre_tokenizers.Whitespace()), "tokens by WordLevel"),
        (lambda: content(models.BPE(LETTERS, []), pre_tokenizers.Whitespace()), "the pattern .*Whitespace"),
        (lambda: content(models.BPE({"a": 0}, []), pre_tokenizers.ByteLevel(False)), "no token for 255 of the 256"),
        (
            lambda: content(models.BPE(LETTERS, []), pre_tokenizers.ByteLevel(False), normalizers.Lowercase()),
            "the normalizer Lowercase",
        ),
        (
            lambda: content(
                models.BPE({**BYTES, "a": 256, "b": 257, "ab": 258}, [], byte_fallback=True),
                pre_tokenizers.Metaspace("\N{LOWER ONE EIGHTH BLOCK}", "always", split=False),
            ),
            "no merge of a and b to its token ab",
        ),
        (
            lambda: content(models.BPE(BYTES, [], byte_fallback=True), pre_tokenizers.Metaspace(split=True)),
            "spaces by",
        ),
    ],
)
def test_tokenizers_that_llama_cpp_has_not_are_named(tokenizer: Any, message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        _of_content(tokenizer())


def test_scores_are_in_the_order_of_merges() -> None:
    space = "\N{LOWER ONE EIGHTH BLOCK}"
    vocabulary = {**BYTES, "a": 256, "b": 257, space: 258, "ab": 259, f"{space}ab": 260, f"{space}a": 261}
    merges = [("a", "b"), (space, "ab"), (f"{space}a", "b"), (space, "a")]
    model = models.BPE(vocabulary, merges, byte_fallback=True)
    made = _of_content(content(model, pre_tokenizers.Metaspace(space, "always", split=False)))
    assert made.scores is not None
    assert made.has_space_prefix
    assert np.argsort([-made.scores[it] for it in (259, 260, 261)]).tolist() == [0, 1, 2]
    assert {it.name for number, it in made.types.items() if number < 256} == {"BYTE"}
