"""New tokens: rows of tables that are resized and trained, in runs, in peft's files, and in what is made of them."""

import json
import shutil
from pathlib import Path
from typing import Any

import gguf
import pytest
import torch
import transformers

from burnlike.cli.main import main
from burnlike.config import ModuleConfig
from burnlike.interop import load_adapter, save_adapter
from burnlike.models import DecoderLmConfig
from burnlike.record import open_record, save
from burnlike.train import load_run

from ..data.chat.samples import tokenizer, tokenizer_in, turns, write_lines
from ..marks import weekly
from ..models.by_path.directories import llama

YAML = """
data: {type: Chat, path: chat.jsonl, tokenizer: base, max_length: 64}
model:
  type: LoRA
  of: {type: Pretrained, path: base}
  rank: 16
  new_tokens: ["<|tool|>", "<|end tool|>"]
task: {type: LanguageModel, sample_length: 0}
optimizer: {type: AdamW}
lr_scheduler: {type: ConstantLr, lr: 0.01}
training: {epochs: 25, batch_size: 4, checkpoint_every_steps: 15, keep_checkpoints: 99}
device: cpu
threads: 1
"""
CALL = "<|tool|>sum<|end tool|>"
N_TOKENS = len(tokenizer())
RECORDS = ("model", "optimizer")


FAMILIES: dict[str, tuple[Any, dict[str, Any]]] = {
    "llama": (transformers.LlamaForCausalLM, {}),
    # Its tokenizer adds a token itself.
    "qwen2": (transformers.Qwen2ForCausalLM, {"vocab_size": N_TOKENS + 1, "num_key_value_heads": 2}),
    "gpt2": (transformers.GPT2LMHeadModel, {"n_inner": 48}),
}


def prepare(place: Path, monkeypatch: pytest.MonkeyPatch, family: str, *, tied: bool) -> None:
    """Go to a folder with a model of a family, its tokenizer, data and a job."""
    monkeypatch.chdir(place)
    model_class, more = FAMILIES[family]
    sizes = {"hidden_size": 32, "num_hidden_layers": 1, "max_position_embeddings": 64, "vocab_size": N_TOKENS}
    llama(Path("base"), model_class, tie_word_embeddings=tied, **{**sizes, **more})
    tokenizer_in(Path("base"))
    write_lines(Path("chat.jsonl"), [{"messages": turns("what is the sum", CALL)} for _ in range(16)])
    Path("tools.yaml").write_text(YAML)


@pytest.fixture(params=["tied", "untied"])
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest) -> Path:
    prepare(tmp_path, monkeypatch, "llama", tied=request.param == "tied")
    return tmp_path


def generated(model: Any, tokens: torch.Tensor) -> list[int]:
    with torch.no_grad():
        return model.generate(tokens, max_new_tokens=6, do_sample=False)[0, tokens.shape[1] :].tolist()


@pytest.mark.parametrize(
    ("family", "tied"),
    [("llama", True), ("gpt2", False), ("qwen2", True), *weekly(("llama", False), ("gpt2", True), ("qwen2", False))],
)
def test_tokens_are_trained_written_and_read_by_others(
    family: str, tied: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    prepare(tmp_path, monkeypatch, family, tied=tied)
    count = FAMILIES[family][1].get("vocab_size", N_TOKENS) + 2
    assert main(["train", "tools.yaml", "--run-dir", "run"]) == 0
    tables = "transformer.wte, lm_head" if family == "gpt2" else "model.embed_tokens, lm_head"
    assert f"2 rows of {tables}" in capsys.readouterr().out
    assert (
        main(["generate", "run", "--chat", "--prompt", "what is the sum", "--max-tokens", "6", "--temperature", "0"])
        == 0
    )
    out = capsys.readouterr().out
    assert CALL in out
    assert main(["merge", "run", "--out", "merged"]) == 0
    assert main(["export", "run", "--to", "hf", "--out", "exported"]) == 0
    for directory in ("merged", "exported"):
        model: Any = transformers.AutoModelForCausalLM.from_pretrained(directory)
        read = transformers.AutoTokenizer.from_pretrained(directory)
        assert len(read) == count == model.get_input_embeddings().num_embeddings == model.config.vocab_size
        assert (model.get_output_embeddings().weight is model.get_input_embeddings().weight) == tied
        prompt = read.apply_chat_template(turns("what is the sum"), add_generation_prompt=True, return_dict=False)
        assert read.decode(generated(model, torch.tensor([prompt]))).startswith(CALL)
    if family == "gpt2":  # which is not in Llama's layout
        return
    assert main(["export", "run", "--to", "gguf", "--dtype", "float32", "--out", "model.gguf"]) == 0
    file = gguf.GGUFReader("model.gguf")
    assert file.fields["tokenizer.ggml.tokens"].contents()[count - 2 :] == ["<|tool|>", "<|end tool|>"]
    tensors = {it.name: torch.from_numpy(it.data.copy()) for it in file.tensors}
    assert torch.equal(tensors["token_embd.weight"], model.get_input_embeddings().weight)
    assert ("output.weight" in tensors) != tied
    assert tied or torch.equal(tensors["output.weight"], model.lm_head.weight)


def longer(directory: Path, *texts: str) -> None:
    """Give the tokenizer in a directory more tokens, as a user does by transformers."""
    longer_tokenizer = transformers.AutoTokenizer.from_pretrained(directory)
    longer_tokenizer.add_tokens([*texts])
    longer_tokenizer.save_pretrained(directory)


def train(name: str, *overrides: str) -> Path:
    sets = [part for it in ("training.epochs=2", *overrides) for part in ("--set", it)]
    assert main(["train", "tools.yaml", "--run-dir", name, *sets]) == 0
    return Path(name)


def test_a_longer_tokenizer_names_the_line_that_is_to_be_written(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    longer(Path("base"), "<|tool|>", "<|end tool|>")
    assert main(["train", "tools.yaml", "--run-dir", "run", "--set", "model.new_tokens=[]"]) == 2
    assert f"knows {N_TOKENS} tokens, and the data has {N_TOKENS + 2}" in (error := capsys.readouterr().err)
    assert "write `new_tokens: from_tokenizer` under `model:`" in error
    assert main(["train", "tools.yaml", "--run-dir", "run", "--set", 'model.new_tokens=["<|end tool|>"]']) == 2
    assert f"the names of tokens {N_TOKENS}, or `new_tokens: from_tokenizer`" in capsys.readouterr().err
    one, two = train("one"), train("two", "model.new_tokens=from_tokenizer")
    files = [it / "adapter" / "adapter_model.safetensors" for it in (one, two)]
    assert files[0].read_bytes() == files[1].read_bytes()
    assert main(["train", "tools.yaml", "--run-dir", "no", "--set", "model.of.new_tokens=[3]"]) == 2
    assert "expected it beside `of`" in capsys.readouterr().err


def test_rows_are_trained_alone_and_a_resumed_run_ends_in_the_same_bits(folder: Path) -> None:
    whole = train("whole", "training.checkpoint_every_steps=3", "optimizer.weight_decay=0.1")
    is_tied = (folder / "base" / "config.json").read_text().count('"tie_word_embeddings": true') == 1
    for step in (3, 6):
        records = [open_record(whole / "checkpoints" / f"step-{step:08}" / f"{it}.safetensors") for it in RECORDS]
        rows = [name for name in records[0].tensors if "token_rows" in name]
        assert len(rows) == (1 if is_tied else 2)
        assert all(".lora." in name or name in rows for name in records[0].tensors)
        assert all(max(it.shape) <= 64 for record in records for it in record.tensors.values())
    for step in (3, 6):
        part = shutil.copytree(whole, f"resumed-{step}")
        shutil.rmtree(Path(part) / "adapter")
        for checkpoint in (Path(part) / "checkpoints").iterdir():
            if int(checkpoint.name.rpartition("-")[2]) > step:
                shutil.rmtree(checkpoint)
        assert main(["train", "--resume", str(part)]) == 0
        for file in ("adapter/adapter_model.safetensors", "adapter/adapter_config.json"):
            assert (Path(part) / file).read_bytes() == (whole / file).read_bytes()
    loaded: Any = load_run(whole).model
    table: Any = transformers.AutoModelForCausalLM.from_pretrained("base").get_input_embeddings().weight
    assert torch.equal(loaded.model.embed_tokens.weight[:N_TOKENS], table)


def test_a_model_that_is_trained_whole_gets_rows(folder: Path) -> None:
    run = train("run", "model={type: Pretrained, path: base, new_tokens: ['<|tool|>', '<|end tool|>']}")
    assert json.loads((run / "config.json").read_text())["vocab_size"] == N_TOKENS + 2
    loaded: Any = load_run(run).model
    assert loaded.get_output_embeddings().weight.shape[0] == N_TOKENS + 2
    assert main(["export", "run", "--to", "hf", "--out", "exported"]) == 0
    model: Any = transformers.AutoModelForCausalLM.from_pretrained("exported")
    tokens = torch.tensor([[1, N_TOKENS, N_TOKENS + 1]])
    torch.testing.assert_close(model(tokens).logits, loaded(tokens).logits)
    before: Any = transformers.AutoModelForCausalLM.from_pretrained("base").get_input_embeddings().weight
    assert not torch.equal(model.get_input_embeddings().weight[:N_TOKENS], before)


@pytest.mark.parametrize("is_whole", [False, True])
def test_a_directory_that_our_model_reads_gets_rows(folder: Path, is_whole: bool) -> None:
    of = "{type: Pretrained, path: base, library: burnlike"
    tokens_of_run = "['<|tool|>', '<|end tool|>']"
    run = train("run", f"model={of}, new_tokens: {tokens_of_run}}}" if is_whole else f"model.of={of}}}")
    loaded: Any = load_run(run).model
    assert loaded.embedding.weight.shape[0] == N_TOKENS + 2
    assert main(["export", "run", "--to", "hf", "--out", "exported"]) == 0
    model: Any = transformers.AutoModelForCausalLM.from_pretrained("exported")
    tokens = torch.tensor([[1, N_TOKENS, N_TOKENS + 1]])
    with torch.no_grad():
        torch.testing.assert_close(model(tokens).logits, loaded(tokens), rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize(
    "overrides",
    [
        ["model.of.fuse=true", "data.packing=true"],
        ["model.of.weights=random"],
        ["model.quantize=int8"],
        ["model.of.dtype=bfloat16"],
        ["model.dora=true", "training.ema={decay: 0.5}"],
        ["model.modules_to_save=[embed_tokens, lm_head]"],
    ],
    ids=str,
)
def test_rows_in_other_trainings_are_read_merged_and_exported(folder: Path, overrides: list[str]) -> None:
    run = train("run", *overrides)
    tokens = torch.tensor([[1, N_TOKENS, 5, N_TOKENS + 1]])
    with torch.no_grad():
        logits = load_run(run).model(tokens).logits.float()
        assert main(["merge", "run", "--out", "merged"]) == 0
        merged: Any = transformers.AutoModelForCausalLM.from_pretrained("merged")
        off = 0.1 if "bfloat16" in str(overrides) else 1e-4
        torch.testing.assert_close(merged(tokens).logits.float(), logits, rtol=off, atol=off)
    shutil.rmtree(run / "checkpoints")
    with torch.no_grad():
        rounded = 0.02 if "random" in str(overrides) else 0.0  # model.safetensors has 16 bits
        torch.testing.assert_close(load_run(run).model(tokens).logits.float(), logits, rtol=rounded, atol=rounded)


@pytest.mark.parametrize("target", ["pt2", *weekly("onnx")])
def test_other_exports_have_the_rows(folder: Path, target: str) -> None:
    if target == "onnx":
        pytest.importorskip("onnx")
    train("run")
    assert main(["export", "run", "--to", target, "--out", f"out.{target}"]) == 0


def test_special_tokens_of_the_user_are_written_where_they_are_named(folder: Path) -> None:
    longer_tokenizer = transformers.AutoTokenizer.from_pretrained("base")
    longer_tokenizer.add_tokens(["<|tool|>", "<|end tool|>"], special_tokens=True)
    longer_tokenizer.save_pretrained("base")
    loaded = load_run(train("run"))
    codec = loaded.config.data.codec(loaded.facts, loaded.directory)
    tokens = codec.encode(f"{CALL}</s>")
    assert codec.decode(tokens) == CALL
    assert tokens.tolist()[-1] == longer_tokenizer.eos_token_id


@pytest.fixture(params=["tied", "untied"])
def of_ours(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest) -> DecoderLmConfig:
    """The config of a model of burnlike, whose weights are in `base.safetensors`, and the data beside it."""
    monkeypatch.chdir(tmp_path)
    sizes: dict[str, Any] = {"d_model": 32, "n_layers": 1, "n_heads": 2, "d_ff": 48, "max_sequence_length": 64}
    config = DecoderLmConfig(vocab_size=N_TOKENS, tied=request.param == "tied", **sizes)
    torch.manual_seed(1)
    base = config.init("cpu")
    with torch.no_grad():
        for it in base.parameters():
            it.add_(0.2 * torch.randn_like(it))
    save(base, "base.safetensors")
    tokenizer_in(Path("base"))
    write_lines(Path("chat.jsonl"), [{"messages": turns("what is the sum", CALL)} for _ in range(16)])
    text = YAML.replace("{type: Pretrained, path: base}", json.dumps(config.to_dict()))
    Path("tools.yaml").write_text(f"init_from: base.safetensors\n{text}")
    return config


def test_a_model_of_ours_writes_new_tokens(of_ours: DecoderLmConfig, capsys: pytest.CaptureFixture[str]) -> None:
    run = train("run", "training.epochs=25")
    tables = "embedding" if of_ours.tied else "embedding, head"
    assert f"2 rows of {tables}: " in capsys.readouterr().out
    sampling = ["--prompt", "what is the sum", "--max-tokens", "6", "--temperature", "0"]
    assert main(["generate", "run", "--chat", *sampling]) == 0
    assert CALL in capsys.readouterr().out
    model: Any = load_run(run).model
    old = of_ours.init_from("base.safetensors").embedding.weight
    assert torch.equal(model.embedding.weight[:N_TOKENS], old)
    assert not torch.equal(model.embedding.weight[N_TOKENS], old.double().mean(0).float())
    save_adapter(model, "adapter")
    again: Any = of_ours.init_from("base.safetensors").eval()
    load_adapter(again, "adapter")
    assert main(["merge", "run", "--out", "merged"]) == 0
    config: Any = ModuleConfig.load("merged/model.yaml")
    assert (config.vocab_size, config.new_tokens) == (N_TOKENS + 2, ())
    merged = config.init_from("merged/model.safetensors").eval()
    tokens = torch.tensor([[1, N_TOKENS, 5, N_TOKENS + 1]])
    with torch.no_grad():
        torch.testing.assert_close(merged(tokens), model(tokens), rtol=1e-4, atol=1e-5)
        assert torch.equal(again(tokens), model(tokens))
        assert torch.equal(merged.generate(tokens, 6), model.generate(tokens, 6))


def test_a_model_of_ours_that_is_trained_whole_gets_rows_of_the_mean(of_ours: DecoderLmConfig) -> None:
    wanted = of_ours.replace(new_tokens=(N_TOKENS, N_TOKENS + 1))
    old, grown = of_ours.init_from("base.safetensors"), wanted.init_from("base.safetensors")
    assert grown.config == of_ours.replace(vocab_size=N_TOKENS + 2) == wanted.with_new_tokens
    pairs = [(old.embedding.weight, grown.embedding.weight)]
    pairs += [] if of_ours.tied else [(old.head.weight.mT, grown.head.weight.mT)]
    for before, after in pairs:
        assert torch.equal(after[:N_TOKENS], before)
        assert all(torch.equal(it, before.double().mean(0).float()) for it in after[N_TOKENS:])
    model = f"model={json.dumps({**of_ours.to_dict(), 'new_tokens': ['<|tool|>', '<|end tool|>']})}"
    whole = train("whole", model, "training.checkpoint_every_steps=3", "training.epochs=2")
    shutil.copytree(whole, "again")
    for checkpoint in (Path("again") / "checkpoints").iterdir():
        if int(checkpoint.name.rpartition("-")[2]) > 3:
            shutil.rmtree(checkpoint)
    assert main(["train", "--resume", "again"]) == 0
    assert (whole / "model.safetensors").read_bytes() == Path("again/model.safetensors").read_bytes()
    loaded: Any = load_run(whole).model
    assert loaded.embedding.weight.shape[0] == N_TOKENS + 2
    assert not torch.equal(loaded.embedding.weight[:N_TOKENS], old.embedding.weight)
