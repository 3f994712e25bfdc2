"""A chat with a model that was fine-tuned with adapters: the answer is that of transformers with the merged weights."""

import json
from pathlib import Path

import pytest
import torch
from transformers import AutoModelForCausalLM, AutoTokenizer

from burnlike.cli.main import main

from ..data.chat.samples import conversations, tokenizer_in, turns, write_lines
from ..models.by_path.directories import llama

JOB = """
data: {type: Chat, path: chat.jsonl, tokenizer: llama, max_length: 256, packing: true}
model: {type: LoRA, of: {type: Pretrained, path: llama, fuse: true}, rank: 16, alpha: 32, targets: all-linear}
task: {type: LanguageModel}
optimizer: {type: AdamW}
lr_scheduler: {type: CosineAnnealing, initial_lr: 2e-2, warmup_steps: 10}
training: {epochs: 3, batch_size: 4}
"""


@pytest.mark.slow
def test_the_answer_is_that_of_transformers(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    llama(Path("llama"), vocab_size=300, max_position_embeddings=512)
    tokenizer_in(Path("llama"))
    sums = [turns(f"what is {one} and {other}", f"it is {one + other}") for one in range(6) for other in range(6)]
    write_lines(Path("chat.jsonl"), [{"messages": it} for it in [*sums * 3, *conversations(12)]])
    Path("chat.yaml").write_text(JOB)
    assert main(["train", "chat.yaml"]) == 0
    assert not Path("runs/chat/model.safetensors").exists()
    assert main(["merge", "chat", "--out", "merged"]) == 0
    capsys.readouterr()
    question = "what is 3 and 4"
    assert main(["generate", "chat", "--chat", "--prompt", question, "--max-tokens", "20"]) == 0
    written = capsys.readouterr().out

    rows = [{"messages": [{"role": "user", "content": question}]}, {"prompt": question}]
    rows += [{"instruction": question, "output": "7"}, {"messages": turns(question, "7")}]  # rows of `predict`, too
    write_lines(Path("prompts.jsonl"), rows)
    several = ("generate", "chat", "--chat", "--prompts", "prompts.jsonl", "--max-tokens", "20")
    assert main([*several]) == 0
    answers = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert [it["text"] for it in answers] == [written.removesuffix("\n")] * 4

    model, tokenizer = AutoModelForCausalLM.from_pretrained("merged"), AutoTokenizer.from_pretrained("merged")

    def expected(text: str) -> tuple[int, str]:
        messages = [{"role": "user", "content": text}]
        options = {"add_generation_prompt": True, "return_tensors": "pt", "return_dict": True}
        prompt = tokenizer.apply_chat_template(messages, **options)
        with torch.no_grad():
            answer = model.generate(**prompt, do_sample=False, max_new_tokens=20)
        count = prompt["input_ids"].shape[1]
        return count, tokenizer.decode(answer[0, count:], skip_special_tokens=True)

    assert {*tokenizer.convert_tokens_to_ids(["</s>", "<|im_end|>"])} <= {*model.generation_config.eos_token_id}
    assert written == f"{expected(question)[1]}\n"
    assert len(written) > 1
    length, answer = expected(repeated := f"{question} " * 40)
    assert 256 < length < 512 - 20, "longer than a conversation in training"
    assert main(["generate", "chat", "--chat", "--prompt", repeated, "--max-tokens", "20"]) == 0
    assert capsys.readouterr().out == f"{answer}\n"
