"""Numbers that validations and `evaluate` show of answers: each is that of a loop by hand over all samples."""

import json
from pathlib import Path
from statistics import mean
from typing import Any

import pytest
import torch
from torch import Tensor

from burnlike.cli.main import main
from burnlike.module.adapters.layers import adapters_off
from burnlike.train import load_run

from ...data.chat.samples import llama_in, write_lines

BATCH, BETA = 4, 0.1
JOB = """\
data: {type: Preferences, path: train.jsonl, validation_path: valid.jsonl, tokenizer: base, max_length: 64}
model: {type: LoRA, of: {type: Pretrained, path: base}, rank: 4, alpha: 8, targets: all-linear}
task: {type: Dpo}
optimizer: {type: AdamW}
lr_scheduler: {type: ConstantLr, lr: 1e-2}
training: {epochs: 1, batch_size: 4}
output: {precision: float32}
"""
PAIRS = [{"prompt": f"what is {it % 7}", "chosen": f"it is {it}", "rejected": f"fine {it % 3}"} for it in range(30)]
ANSWERS = [{"prompt": row["prompt"], "completion": row["chosen"], "label": it % 7 < 2} for it, row in enumerate(PAIRS)]
"""Batches of 4 have 2, 0, 2 and at the end 2 of 3 desirable answers."""


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    llama_in(Path("base"), hidden_size=32, intermediate_size=48)
    Path("job.yaml").write_text(JOB)
    return tmp_path


def shown_of(rows: list[dict[str, Any]], *options: str) -> tuple[Any, list[dict[str, float]]]:
    """A run, and the values of its last validation and of `evaluate`; 11 rows are measured, in batches of 4."""
    write_lines(Path("train.jsonl"), rows)
    write_lines(Path("valid.jsonl"), rows[:11])
    assert main(["train", "job.yaml", *(f"--set={it}" for it in options)]) == 0
    lines = [json.loads(it) for it in Path("runs/job/metrics.jsonl").read_text().splitlines()]
    assert main(["evaluate", "runs/job"]) == 0
    (file,) = Path("runs/job/evaluations").glob("*.json")
    run = load_run("runs/job")
    run.model.eval()
    validation = next(it for it in reversed(lines) if it["split"] == "valid")
    return run, [
        {name: value for name, value in it.items() if name.startswith("loss")}
        for it in (validation, json.loads(file.read_text())["values"])
    ]


@torch.no_grad()
def log_probability(model: Any, tokens: Tensor, labels: Tensor) -> float:
    logs = model(input_ids=tokens[None]).logits[0, :-1].double().log_softmax(-1)
    chosen = logs.gather(1, tokens[1:, None])[:, 0]
    return chosen[labels[1:] != -100].sum().item()


def reward_of(model: Any, answer: Any) -> float:
    """The reward of an answer by Dpo and Kto."""
    with_adapters = log_probability(model, answer["input_ids"], answer["labels"])
    with adapters_off(model):
        return BETA * (with_adapters - log_probability(model, answer["input_ids"], answer["labels"]))


def behind(prompt: Any, answer: Any) -> dict[str, Tensor]:
    """The answer of a row behind the prompt of another."""
    asked = prompt["input_ids"][: int((prompt["labels"] != -100).nonzero()[0])]
    counted = answer["labels"] != -100
    begin = int(counted.nonzero()[0])
    end = int(counted.nonzero()[-1]) + 1
    answered = answer["input_ids"][begin:end]
    labels = torch.cat((torch.full_like(asked, -100), answered))
    return {"input_ids": torch.cat((asked, answered)), "labels": labels}


@pytest.mark.parametrize("kind", ["Dpo", "Reward"])
def test_rewards_of_pairs(kind: str) -> None:
    options = ["model={type: Pretrained, path: base, n_classes: 1}"] if kind == "Reward" else []
    run, shown = shown_of(PAIRS, f"task={{type: {kind}}}", *options)
    items = run.read_data().valid

    def reward(answer: Any) -> float:
        if kind == "Dpo":
            return reward_of(run.model, answer)
        with torch.no_grad():
            return run.model(input_ids=answer["input_ids"][None]).logits.item()

    rewards = [(reward(items[it]["chosen"]), reward(items[it]["rejected"])) for it in range(11)]
    expected = {
        "loss": mean(torch.nn.functional.softplus(torch.tensor(b - a, dtype=torch.float64)).item() for a, b in rewards),
        "loss.rewards_chosen": mean(it for it, _ in rewards),
        "loss.rewards_rejected": mean(it for _, it in rewards),
        "loss.margins": mean(chosen - rejected for chosen, rejected in rewards),
        "loss.accuracies": mean(float(chosen > rejected) for chosen, rejected in rewards),
    }
    for values in shown:
        assert values == pytest.approx(expected, rel=1e-4, abs=1e-6)


def test_rewards_of_single_answers_count_by_their_kind() -> None:
    run, shown = shown_of(ANSWERS, "task={type: Kto}")
    items = [run.read_data().valid[it] for it in range(11)]
    rewards = [reward_of(run.model, it) for it in items]
    chosen, rejected = (
        mean(reward for reward, it in zip(rewards, items, strict=True) if bool(it["desirable"]) == is_chosen)
        for is_chosen in (True, False)
    )
    losses, divergences = [], []
    for begin in range(0, 11, BATCH):
        batch = items[begin : begin + BATCH]
        others = [reward_of(run.model, behind(it, batch[place - 1])) / BETA for place, it in enumerate(batch)]
        divergences += [max(mean(others), 0.0)] * len(batch)
        for reward, item in zip(rewards[begin : begin + BATCH], batch, strict=True):
            apart = reward - BETA * divergences[-1]
            losses.append(torch.sigmoid(torch.tensor(-apart if item["desirable"] else apart)).item())
    expected = {"loss": mean(losses), "loss.kl": mean(divergences), "loss.margins": chosen - rejected}
    expected |= {"loss.rewards_chosen": chosen, "loss.rewards_rejected": rejected}
    for values in shown:
        assert values == pytest.approx(expected, rel=1e-4, abs=1e-6)
