"""New tokens: rows of tables that are resized and trained, in runs, in peft's files, and in what is made of them."""

from pathlib import Path
from typing import Any

import pytest
import torch
import transformers

from burnlike.cli.main import main

from ..data.chat.samples import tokenizer, tokenizer_in, turns, write_lines
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
lr_scheduler: {type: ConstantLr, lr: 0.03}
training: {epochs: 25, batch_size: 4, checkpoint_every_steps: 15, keep_checkpoints: 99}
device: cpu
threads: 1
"""
CALL = "<|tool|>sum<|end tool|>"
N_TOKENS = len(tokenizer())


@pytest.fixture(params=["tied", "untied"])
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest) -> Path:
    monkeypatch.chdir(tmp_path)
    sizes = {"hidden_size": 32, "num_hidden_layers": 1, "max_position_embeddings": 64}
    llama(Path("base"), vocab_size=N_TOKENS, tie_word_embeddings=request.param == "tied", **sizes)
    tokenizer_in(Path("base"))
    write_lines(Path("chat.jsonl"), [{"messages": turns("what is the sum", CALL)} for _ in range(16)])
    Path("tools.yaml").write_text(YAML)
    return tmp_path


def generated(model: Any, tokens: torch.Tensor) -> list[int]:
    with torch.no_grad():
        return model.generate(tokens, max_new_tokens=6, do_sample=False)[0, tokens.shape[1] :].tolist()


def test_tokens_are_trained_written_and_read_by_transformers(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["train", "tools.yaml", "--run-dir", "run"]) == 0
    assert "2 rows of model.embed_tokens, lm_head" in capsys.readouterr().out
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
        assert len(read) == N_TOKENS + 2 == model.get_input_embeddings().num_embeddings == model.config.vocab_size
        prompt = read.apply_chat_template(turns("what is the sum"), add_generation_prompt=True, return_dict=False)
        assert read.decode(generated(model, torch.tensor([prompt]))).startswith(CALL)
