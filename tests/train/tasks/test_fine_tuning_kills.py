"""Runs of each kind of fine-tuning that are killed and resumed end in the same bits."""

import os
import time
from pathlib import Path

import pytest

from ...data.chat.samples import llama_in, turns, write_lines
from ...fork_server import ForkServer
from ..kills import survive_kills

transformers = pytest.importorskip("transformers", exc_type=ImportError)

JOB = """
seed: 3
device: cpu
threads: 1
data: {type: DATA, path: FOLDER/DATA.jsonl, tokenizer: FOLDER/base, max_length: 64}
model: MODEL
task: TASK
optimizer: {type: AdamW, weight_decay: 0.1}
lr_scheduler: {type: CosineAnnealing, initial_lr: 1e-2, warmup_steps: 5}
training: {epochs: 6, batch_size: 4, checkpoint_every_steps: 3, log_every_steps: 4}
"""
BASE = "{type: Pretrained, path: FOLDER/base}"
LORA = f"{{type: LoRA, of: {BASE}, rank: 2, alpha: 4, dropout: 0.1}}"
LANGUAGE = "{type: LanguageModel, sample_length: 0}"
TOKENS = 'new_tokens: ["<|tool|>", "<|end tool|>"]}'
KINDS = {
    "dpo": ("Preferences", "{type: Dpo}", LORA),
    "kept": ("Preferences", "{type: Dpo, reference: kept}", BASE),
    "kto": ("Preferences", "{type: Kto}", LORA),
    "grpo": (
        "Prompts",
        "{type: Grpo, answers: 2, max_tokens: 4, updates: 2, beta: 0.1, rewards: [{type: Length, most: 4, soft: 3}]}",
        LORA,
    ),
    "reward": ("Preferences", "{type: Reward}", "{type: Pretrained, path: FOLDER/base, n_classes: 1}"),
    "new tokens": ("Chat", LANGUAGE, f"{LORA[:-1]}, {TOKENS}"),
    "new tokens, whole": ("Chat", LANGUAGE, f"{BASE[:-1]}, {TOKENS}"),
    "neftune": ("Chat", "{type: LanguageModel, sample_length: 0, neftune: 5}", LORA),
    **{
        start: ("Chat", LANGUAGE, f"{LORA[:-1]}, start: {start}}}")
        for start in ("gaussian", "orthogonal", "pissa", "pissa_niter_4", "olora", "eva")
    },
}
"""By the name of a kind its data, its task and its model."""


@pytest.mark.weekly  # minutes each
@pytest.mark.parametrize("name", KINDS)
def test_killed_at_random_moments_and_resumed_ends_in_the_same_bits(
    name: str, fork_server: ForkServer, tmp_path: Path
) -> None:
    fork_server.run(["check"], Path(os.devnull))  # answers when it has imported everything
    llama_in(tmp_path / "base", hidden_size=32, intermediate_size=48)
    pairs = [
        {"prompt": f"what is {it % 7}", "chosen": f"it is {it} " * (1 + it % 3), "rejected": f"fine {it % 3}"}
        for it in range(70)
    ]
    chats = [{"messages": turns(it["prompt"], f"<|tool|>{it['chosen']}<|end tool|>")} for it in pairs]
    for data, rows in {"Preferences": pairs, "Prompts": pairs, "Chat": chats}.items():
        write_lines(tmp_path / f"{data}.jsonl", rows)
    data, task, model = KINDS[name]
    path = tmp_path / "job.yaml"
    text = JOB.replace("MODEL", model).replace("TASK", task).replace("DATA", data)
    path.write_text(text.replace("FOLDER", str(tmp_path)))
    started = time.perf_counter()
    output = tmp_path / "output"
    assert fork_server.run(["train", str(path), "--run-dir", str(tmp_path / "whole")], output) == 0, output.read_text()
    seconds = time.perf_counter() - started
    survive_kills(fork_server, ["train", str(path)], tmp_path / "whole", seconds, tmp_path, 20)
