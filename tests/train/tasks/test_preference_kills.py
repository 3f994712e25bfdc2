"""Runs of preferences and rewards that are killed and resumed end in the same bits."""

import os
import time
from pathlib import Path

import pytest

from ...data.chat.samples import llama_in, write_lines
from ...fork_server import ForkServer
from ..kills import survive_kills

transformers = pytest.importorskip("transformers", exc_type=ImportError)

JOB = """\
seed: 3
device: cpu
threads: 1
data: {{type: {data}, path: {folder}/pairs.jsonl, tokenizer: {folder}/base, max_length: 64}}
model: {model}
task: {task}
optimizer: {{type: AdamW, weight_decay: 0.1}}
lr_scheduler: {{type: CosineAnnealing, initial_lr: 1e-2, warmup_steps: 5}}
training: {{epochs: 6, batch_size: 4, checkpoint_every_steps: 3, log_every_steps: 4}}
"""
TASKS = {
    "dpo": ("{type: Dpo}", "{{type: LoRA, of: {base}, rank: 2, alpha: 4, dropout: 0.1}}"),
    "kept": ("{type: Dpo, reference: kept}", "{base}"),
    "kto": ("{type: Kto}", "{{type: LoRA, of: {base}, rank: 2, alpha: 4, dropout: 0.1}}"),
    "grpo": (
        "{type: Grpo, answers: 2, max_tokens: 4, updates: 2, beta: 0.1, rewards: [{type: Length, most: 4, soft: 3}]}",
        "{{type: LoRA, of: {base}, rank: 2, alpha: 4, dropout: 0.1}}",
    ),
    "reward": ("{type: Reward}", "{{type: Pretrained, path: {folder}/base, n_classes: 1}}"),
}


@pytest.mark.weekly  # minutes each
@pytest.mark.parametrize("name", TASKS)
def test_killed_at_random_moments_and_resumed_ends_in_the_same_bits(
    name: str, fork_server: ForkServer, tmp_path: Path
) -> None:
    fork_server.run(["check"], Path(os.devnull))  # answers when it has imported everything
    llama_in(tmp_path / "base", hidden_size=32, intermediate_size=48)
    rows = [
        {"prompt": f"what is {it % 7}", "chosen": f"it is {it} " * (1 + it % 3), "rejected": f"fine {it % 3}"}
        for it in range(70)
    ]
    write_lines(tmp_path / "pairs.jsonl", rows)
    task, model = TASKS[name]
    base = f"{{type: Pretrained, path: {tmp_path}/base}}"
    path = tmp_path / f"{name}.yaml"
    data = "Prompts" if name == "grpo" else "Preferences"
    path.write_text(JOB.format(folder=tmp_path, data=data, task=task, model=model.format(folder=tmp_path, base=base)))
    started = time.perf_counter()
    output = tmp_path / "output"
    assert fork_server.run(["train", str(path), "--run-dir", str(tmp_path / "whole")], output) == 0, output.read_text()
    seconds = time.perf_counter() - started
    survive_kills(fork_server, ["train", str(path)], tmp_path / "whole", seconds, tmp_path, 20)
