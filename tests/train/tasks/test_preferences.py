"""Tasks of preferences: their losses from the log-probability of each token in float64, refusals, and jobs in YAML."""

import json
from math import exp, log, log1p
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from burnlike.cli.main import main
from burnlike.data import PreferencesConfig
from burnlike.errors import ConfigError, DataError, ModuleTreeError, ShapeError
from burnlike.interop import fuse
from burnlike.interop.fused import heads
from burnlike.interop.fused.lazy_logits import Recipe, lazy_logits
from burnlike.module import LoraConfig, ParamGroup, apply_lora, params
from burnlike.module.adapters.layers import adapters_off
from burnlike.train import (
    Dpo,
    DpoConfig,
    Orpo,
    OrpoConfig,
    Reward,
    RewardConfig,
    SimPo,
    SimPoConfig,
    TrainConfig,
    load_run,
    rewards_of,
)

from ...data.chat.samples import llama_in, turns, write_lines

transformers = pytest.importorskip("transformers", exc_type=ImportError)

VOCAB, LENGTH = 30, 9
BEGINS, ENDS = [3, 3, 5, 4], [9, 7, 8, 6]  # of the answers of two pairs, the chosen one first


def llama(kind: Any = None, **options: Any) -> Any:
    torch.manual_seed(1)
    sizes = {"hidden_size": 16, "intermediate_size": 24, "num_hidden_layers": 2, "num_attention_heads": 2}
    config = transformers.LlamaConfig(vocab_size=VOCAB, max_position_embeddings=32, **sizes, **options)
    return (kind or transformers.LlamaForCausalLM)(config).double()


def adapted() -> Any:
    """A model with adapters that change what it computes."""
    model = apply_lora(llama(), LoraConfig(rank=2, alpha=4.0))
    with torch.no_grad():
        for param in params(model):
            if "lora" in param.path:
                param.tensor.normal_(0, 0.3)
    return model


def pairs() -> dict[str, Tensor]:
    tokens = torch.randint(2, VOCAB, (4, LENGTH), generator=torch.Generator().manual_seed(5))
    places = torch.arange(LENGTH)
    inside = torch.stack([(places >= begin) & (places < end) for begin, end in zip(BEGINS, ENDS, strict=True)])
    rows = {
        "input_ids": tokens.where(places < torch.tensor(ENDS)[:, None], 0),
        "labels": tokens.where(inside, -100),
        "attention_mask": (places < torch.tensor(ENDS)[:, None]).long(),
    }
    return {name: it.view(2, 2, LENGTH) for name, it in rows.items()} | {"margin": torch.tensor([0.0, 0.7])}


@torch.no_grad()
def sums(model: nn.Module) -> tuple[list[float], list[int]]:
    """The log-probability of each answer, row by row without padding, and the number of its tokens."""
    found = []
    for row, begin, end in zip(pairs()["input_ids"].flatten(0, 1), BEGINS, ENDS, strict=True):
        logs = model(input_ids=row[None, :end]).logits[0].log_softmax(-1)
        found.append(sum(logs[place - 1, row[place]].item() for place in range(begin, end)))
    return found, [end - begin for begin, end in zip(BEGINS, ENDS, strict=True)]


def logsigmoid(x: float) -> float:
    return -log1p(exp(-x))


def nll(logs: list[float], counts: list[int]) -> float:
    return -(logs[0] + logs[2]) / (counts[0] + counts[2])


DPO: list[tuple[dict[str, Any], Any]] = [
    ({}, lambda d, _: -logsigmoid(0.1 * d)),
    ({"beta": 0.7}, lambda d, _: -logsigmoid(0.7 * d)),
    ({"loss": "hinge", "beta": 0.5}, lambda d, _: max(0.0, 1 - 0.5 * d)),
    ({"loss": "ipo", "beta": 0.2}, lambda _, m: (m - 1 / 0.4) ** 2),
    ({"label_smoothing": 0.2}, lambda d, _: -0.8 * logsigmoid(0.1 * d) - 0.2 * logsigmoid(-0.1 * d)),
    ({"length_normalized": True, "beta": 2.0}, lambda _, m: -logsigmoid(2.0 * m)),
    ({"sft_weight": 0.3}, lambda d, _: -logsigmoid(0.1 * d)),
]


@pytest.mark.parametrize(("options", "formula"), DPO, ids=[str(options) for options, _ in DPO])
def test_dpo_is_its_formula(options: dict[str, Any], formula: Any) -> None:
    model = adapted()
    logs, counts = sums(model)
    with adapters_off(model):
        base, _ = sums(model)
    assert max(abs(one - other) for one, other in zip(logs, base, strict=True)) > 0.1
    over = [one - other for one, other in zip(logs, base, strict=True)]
    means = [it / count for it, count in zip(over, counts, strict=True)]
    losses = [formula(over[place] - over[place + 1], means[place] - means[place + 1]) for place in (0, 2)]
    expected = sum(losses) / 2 + options.get("sft_weight", 0.0) * nll(logs, counts)
    output = Dpo(DpoConfig(**options)).train_step(model, pairs())
    assert output.loss.item() == pytest.approx(expected, rel=1e-10)
    beta = options.get("beta", 0.1)
    rewards = [beta * it for it in over]
    parts = {name: it.item() for name, it in output.parts.items()}
    assert parts["rewards_chosen"] == pytest.approx((rewards[0] + rewards[2]) / 2, rel=1e-9)
    assert parts["rewards_rejected"] == pytest.approx((rewards[1] + rewards[3]) / 2, rel=1e-9)
    assert parts["accuracies"] == sum(rewards[place] > rewards[place + 1] for place in (0, 2)) / 2
    output.loss.backward()
    assert {name for name, it in model.named_parameters() if it.grad is not None} == {
        name for name, it in model.named_parameters() if it.requires_grad
    }


def test_the_reference_is_the_model_that_the_adapters_were_added_to() -> None:
    model, batch = adapted(), pairs()["input_ids"].flatten(0, 1)
    scales = [it.scale for it in model.modules() if hasattr(it, "scale")]
    with adapters_off(model):
        torch.testing.assert_close(model(batch).logits, llama()(batch).logits, rtol=0, atol=0)
    assert [it.scale for it in model.modules() if hasattr(it, "scale")] == scales
    with pytest.raises(RuntimeError, match="inside"), adapters_off(model):
        raise RuntimeError("inside")
    assert [it.scale for it in model.modules() if hasattr(it, "scale")] == scales
    with pytest.raises(ModuleTreeError, match="got none"):
        adapters_off(llama().requires_grad_(False))
    with pytest.raises(ConfigError, match=r"got 'model.embed_tokens.weight'; take `model: {type: LoRA"):
        Dpo().try_out(llama())


def adapted_layers() -> Any:
    """A model whose head and embedding have no adapters."""
    inner = ParamGroup.from_regex(r"layers\.")
    return apply_lora(llama().float(), LoraConfig(rank=2, alpha=4.0, param_group=inner))


@pytest.mark.parametrize("fused", [False, True])
@pytest.mark.parametrize(
    ("task", "make"), [(Dpo(), adapted_layers), (Orpo(), lambda: llama().float())], ids=["Dpo", "Orpo"]
)
def test_the_losses_need_no_logits(task: Any, make: Any, fused: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    stock, lean = make(), make()
    if fused:
        fuse(lean)
    expected = task.train_step(stock, pairs()).loss
    monkeypatch.setattr(heads, "_FEWEST_LOGITS", 1)
    heads_called: list[Any] = []
    monkeypatch.setattr(heads, "lazy_logits", lambda *parts: heads_called.append(parts) or lazy_logits(*parts))
    monkeypatch.setattr(Recipe, "read", lambda _: pytest.fail("the logits are computed"))
    loss = task.train_step(lean, pairs()).loss
    assert len(heads_called) == (2 if isinstance(task, Dpo) else 1)
    torch.testing.assert_close(loss, expected, rtol=1e-5, atol=1e-6)
    for one in (expected, loss):
        one.backward()
    trained = [name for name, it in stock.named_parameters() if it.requires_grad]
    assert ("lm_head.weight" in trained) == isinstance(task, Orpo)
    for name in trained:
        one, other = (model.get_parameter(name).grad for model in (lean, stock))
        torch.testing.assert_close(one, other, rtol=1e-3, atol=1e-5 * other.abs().max().item())


def test_orpo_is_its_formula() -> None:
    model = llama()
    logs, counts = sums(model)
    means = [it / count for it, count in zip(logs, counts, strict=True)]
    odds = [it - log(1 - exp(it)) for it in means]
    ratios = [logsigmoid(odds[place] - odds[place + 1]) for place in (0, 2)]
    output = Orpo(OrpoConfig(weight=0.4)).train_step(model, pairs())
    assert output.loss.item() == pytest.approx(nll(logs, counts) - 0.4 * sum(ratios) / 2, rel=1e-10)
    assert output.size == 2


def test_simpo_is_its_formula() -> None:
    model = llama()
    logs, counts = sums(model)
    means = [it / count for it, count in zip(logs, counts, strict=True)]
    losses = [-logsigmoid(2.5 * (means[place] - means[place + 1]) - 0.8) for place in (0, 2)]
    output = SimPo(SimPoConfig(beta=2.5, gamma=0.8, sft_weight=0.2)).train_step(model, pairs())
    assert output.loss.item() == pytest.approx(sum(losses) / 2 + 0.2 * nll(logs, counts), rel=1e-10)


def test_rewards_are_of_whole_conversations() -> None:
    model = llama(transformers.LlamaForSequenceClassification, num_labels=1, pad_token_id=0)
    with torch.no_grad():
        rewards = [
            model(input_ids=row[None, :end]).logits.item()
            for row, end in zip(pairs()["input_ids"].flatten(0, 1), ENDS, strict=True)
        ]
    losses = [-logsigmoid(rewards[0] - rewards[1]), -logsigmoid(rewards[2] - rewards[3] - 0.7)]
    centers = [(rewards[place] + rewards[place + 1]) ** 2 for place in (0, 2)]
    output = Reward(RewardConfig(centered=0.1)).train_step(model, pairs())
    assert output.loss.item() == pytest.approx(sum(losses) / 2 + 0.1 * sum(centers) / 2, rel=1e-7)
    with pytest.raises(ShapeError, match=r"one number for a conversation, got logits of \[4, 2\]"):
        Reward().train_step(llama(transformers.LlamaForSequenceClassification, num_labels=2, pad_token_id=0), pairs())


def test_batches_of_other_data_are_refused() -> None:
    rows = {name: it.flatten(0, 1) for name, it in pairs().items() if name != "margin"}
    with pytest.raises(DataError, match="Orpo: expected batches of pairs, of data `type: Preferences`, got a mapping"):
        Orpo().train_step(llama(), rows)


JOB = """\
data: {type: Preferences, path: pairs.jsonl, tokenizer: base, max_length: 64}
model: {type: LoRA, of: {type: Pretrained, path: base}, rank: 4, alpha: 8, targets: all-linear}
task: {type: Dpo}
optimizer: {type: AdamW}
lr_scheduler: {type: ConstantLr, lr: 1e-2}
training: {epochs: 4, batch_size: 8}
output: {precision: float32}
"""


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    llama_in(Path("base"), hidden_size=32, intermediate_size=48)
    rows = [
        {"prompt": f"what is {it % 7}", "chosen": f"it is {it % 7}", "rejected": f"fine {it % 3}"} for it in range(60)
    ]
    write_lines(Path("pairs.jsonl"), rows)
    Path("job.yaml").write_text(JOB)
    return tmp_path


def validations() -> list[dict[str, float]]:
    lines = [json.loads(it) for it in Path("runs/job/metrics.jsonl").read_text().splitlines()]
    return [it for it in lines if it.get("split") == "valid"]


KEPT = "{type: Dpo, reference: kept}"
TASKS = [
    ("{type: Dpo}", {}),
    (KEPT, {"model": "{type: Pretrained, path: base}"}),
    (KEPT, {"data.packing": "true", "data.max_length": "48"}),
    ("{type: Kto, beta: 0.5}", {"training.epochs": "8"}),
    ("{type: Orpo}", {"model": "{type: Pretrained, path: base}"}),
    ("{type: SimPo}", {"model": "{type: Pretrained, path: base}"}),
    ("{type: Reward}", {"model": "{type: Pretrained, path: base, n_classes: 1}"}),
]


@pytest.mark.usefixtures("folder")
@pytest.mark.parametrize(("task", "changes"), TASKS, ids=str)
def test_a_job_learns_what_is_preferred(task: str, changes: dict[str, str], capsys: pytest.CaptureFixture[str]) -> None:
    options = [f"--set=task={task}", *(f"--set={name}={value}" for name, value in changes.items())]
    assert main(["check", "job.yaml", *options]) == 0
    assert main(["train", "job.yaml", *options]) == 0
    values = validations()[-1]
    assert values.get("loss.accuracies", 1.0) == 1.0
    assert values["loss.margins"] > 0.3
    assert main(["evaluate", "runs/job"]) == 0
    (file,) = Path("runs/job/evaluations").glob("*.json")
    measured = json.loads(file.read_text())["values"]["loss"]
    assert any(measured == pytest.approx(it["loss"], rel=1e-4) for it in validations())
    if task == KEPT:
        assert main(["evaluate", "runs/job", "--data", "pairs.jsonl"]) == 2
        assert "the reference is kept for the items of the training's data alone" in capsys.readouterr().err
    capsys.readouterr()


@pytest.mark.usefixtures("folder")
def test_rewards_of_several_outputs_are_refused_before_a_step(capsys: pytest.CaptureFixture[str]) -> None:
    options = ["--set=task={type: Reward}", "--set=model={type: LoRA, of: {type: Pretrained, path: base}}"]
    assert main(["check", "job.yaml", *options]) == 2
    assert "Reward: expected a model with one output, as of n_classes: 1, got one with 2" in capsys.readouterr().out


def predicted(*arguments: str) -> list[dict[str, Any]]:
    Path("out.jsonl").unlink(missing_ok=True)
    assert main(["predict", "runs/job", *arguments, "--out", "out.jsonl"]) == 0
    return [json.loads(it) for it in Path("out.jsonl").read_text().splitlines()]


@pytest.mark.usefixtures("folder")
def test_rewards_are_predicted_and_those_that_evaluate_measures(capsys: pytest.CaptureFixture[str]) -> None:
    rows = [
        json.loads(it) | {"margin": 0.25 * (place % 2)}
        for place, it in enumerate(Path("pairs.jsonl").read_text().splitlines())
    ]
    write_lines(Path("pairs.jsonl"), rows)
    write_lines(Path("valid.jsonl"), rows[:9])
    options = ["task={type: Reward, centered: 0.1}", "model={type: Pretrained, path: base, n_classes: 1}"]
    options += ["data.validation_path=valid.jsonl", "training.epochs=1"]
    assert main(["train", "job.yaml", *(f"--set={it}" for it in options)]) == 0
    pairs = predicted("valid.jsonl", "--batch-size", "2")
    differences = [pair["chosen"] - pair["rejected"] - row["margin"] for pair, row in zip(pairs, rows, strict=False)]
    centers = [(pair["chosen"] + pair["rejected"]) ** 2 for pair in pairs]
    assert main(["evaluate", "runs/job"]) == 0
    (file,) = Path("runs/job/evaluations").iterdir()
    values = json.loads(file.read_text())["values"]
    expected = (0.1 * sum(centers) - sum(logsigmoid(it) for it in differences)) / 9
    assert values["loss"] == pytest.approx(expected, rel=1e-5)
    right = sum(pair["chosen"] > pair["rejected"] for pair in pairs) / 9
    assert values["loss.accuracies"] == pytest.approx(right, rel=1e-6)

    conversations = [turns(row["prompt"], row["chosen"]) for row in rows[:9]]
    write_lines(Path("chats.jsonl"), [{"messages": it} for it in conversations])
    write_lines(Path("trl.jsonl"), [{"prompt": row["prompt"], "completion": row["chosen"]} for row in rows[:9]])
    scores = rewards_of(load_run("runs/job"), conversations, batch_size=4).tolist()
    for rewards in (
        [it["reward"] for it in predicted("chats.jsonl")],
        [it["reward"] for it in predicted("trl.jsonl")],
        scores,
    ):
        assert rewards == pytest.approx([it["chosen"] for it in pairs], rel=1e-4, abs=1e-6)
    with pytest.raises(DataError, match=r"conversations\[1\]: expected an answer of the assistant at its end"):
        rewards_of(load_run("runs/job"), [conversations[0], turns("hello")])
    with pytest.raises(DataError, match=r"\[0\]: expected an answer that begins within \d+ tokens \(data.max_length\)"):
        rewards_of(load_run("runs/job"), [turns("what " * 200, "fine")])
    Path("lines.txt").write_text("hello\n")
    assert main(["predict", "runs/job", "lines.txt"]) == 2
    assert "lines.txt:1: expected a JSON object with a conversation" in capsys.readouterr().err
    assert main(["train", "job.yaml", "--set=task={type: Orpo}", "--run-dir", "runs/other"]) == 0
    with pytest.raises(ConfigError, match="expected a run of the task Reward, got Orpo"):
        rewards_of(load_run("runs/other"), conversations)


@pytest.mark.usefixtures("folder")
@pytest.mark.parametrize("lost", [False, True])
@pytest.mark.parametrize(("task", "model"), [("{type: Dpo}", None), (KEPT, "{type: Pretrained, path: base}")], ids=str)
def test_a_resumed_training_ends_in_the_same_bits(
    task: str, model: str | None, lost: bool, capsys: pytest.CaptureFixture[str]
) -> None:
    options = [f"--set=task={task}", *([f"--set=model={model}"] if model else [])]
    assert main(["train", "job.yaml", *options, "--run-dir", "runs/whole"]) == 0
    assert main(["train", "job.yaml", *options, "--run-dir", "runs/parts", "--set", "training.epochs=2"]) == 0
    kept = Path("runs/parts/reference.safetensors")
    assert kept.exists() == (model is not None)
    if lost:
        kept.unlink(missing_ok=True)
    assert main(["train", "job.yaml", "--resume", "runs/parts", *options, "--set", "training.epochs=4"]) == 0
    whole, parts = (dict(load_run(f"runs/{it}").model.named_parameters()) for it in ("whole", "parts"))
    assert all(torch.equal(parts[name], it) for name, it in whole.items())
    capsys.readouterr()


@pytest.mark.usefixtures("folder")
@pytest.mark.parametrize("loss", ["sigmoid", "ipo"])
def test_a_kept_reference_trains_to_the_same_bits(loss: str, capsys: pytest.CaptureFixture[str]) -> None:
    """Pairs are of one length and batches of one size, so that a row is computed alike in each batch."""
    rows = [{"prompt": "what is it", "chosen": f"it is {it}", "rejected": f"fine {it} it"} for it in range(10, 58)]
    write_lines(Path("pairs.jsonl"), rows)
    for name in ("computed", "kept"):
        options = [f"task={{type: Dpo, loss: {loss}, reference: {name}}}", "data.validation_path=pairs.jsonl"]
        assert main(["train", "job.yaml", *(f"--set={it}" for it in options), "--run-dir", f"runs/{name}"]) == 0
    computed, kept = (dict(load_run(f"runs/{it}").model.named_parameters()) for it in ("computed", "kept"))
    assert all(torch.equal(kept[name], it) for name, it in computed.items())
    capsys.readouterr()


@pytest.mark.usefixtures("folder")
@pytest.mark.parametrize("make", [Dpo, Orpo, SimPo])
def test_packed_pairs_have_the_losses_of_padded_ones(make: Any) -> None:
    rows = [json.loads(it) for it in Path("pairs.jsonl").read_text().splitlines()]
    rows = [row | {"chosen": row["chosen"] + " fine" * (place % 4)} for place, row in enumerate(rows)]
    write_lines(Path("pairs.jsonl"), rows)
    torch.manual_seed(2)
    inner = ParamGroup.from_regex(r"layers\.")
    model = transformers.LlamaForCausalLM.from_pretrained("base").double()
    model = apply_lora(model, LoraConfig(rank=2, alpha=4.0, param_group=inner)) if make is Dpo else model
    with torch.no_grad():
        for it in model.parameters():
            it += torch.randn_like(it) * 0.05
    config = PreferencesConfig(path="pairs.jsonl", tokenizer="base", max_length=80)
    padded, packed = config.init(), config.replace(packing=True).init()
    assert len(packed.train) < len(padded.train) / 2
    task, cpu = make(), torch.device("cpu")
    task.take_data(packed)
    task.try_out(model) if make is not Dpo else None
    batch = packed.batcher.batch([packed.train[0], packed.train[1]], cpu)
    pairs = [it for pack in packed.train.packs[:2] for it in pack]
    assert len(batch["margin"]) == len(pairs)
    expected = task.train_step(model, padded.batcher.batch([padded.train[it] for it in pairs], cpu))
    output = task.train_step(model, batch)
    assert output.size == expected.size == len(pairs)
    torch.testing.assert_close(output.loss, expected.loss, rtol=1e-12, atol=1e-12)
    for name, it in expected.parts.items():
        torch.testing.assert_close(output.parts[name], it, rtol=1e-10, atol=1e-12)
    names = [name for name, it in model.named_parameters() if it.requires_grad]
    grads = [torch.autograd.grad(it.loss, [model.get_parameter(name) for name in names]) for it in (output, expected)]
    for one, other in zip(*grads, strict=True):
        torch.testing.assert_close(one, other, rtol=1e-8, atol=1e-10)


REFUSED = [
    (["task={type: Kto}", "training.batch_size=1"], "expected at least 2 for Kto"),
    (["task={type: Kto, reference: kept}"], "expected computed for the loss kto"),
    (["task={type: Kto}", "data.packing=true"], "expected false for Kto, which needs each conversation in a row"),
    (["model={type: Pretrained, path: base}"], "expected `type: LoRA` around it for Dpo"),
    (["task={type: Dpo, loss: hinge, label_smoothing: 0.1}"], "is of the loss sigmoid, and this is hinge"),
    (["task={type: LanguageModel}"], r"expected `input_ids` of [n, length] integer tokens, got torch.int64[8, 2,"),
]


@pytest.mark.usefixtures("folder")
@pytest.mark.parametrize(("changes", "message"), REFUSED, ids=str)
def test_jobs_that_can_not_be_are_refused(changes: list[str], message: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["check", "job.yaml", *(f"--set={it}" for it in changes)]) == 2
    assert message in capsys.readouterr().out


def test_a_pipeline_is_refused() -> None:
    config = {
        "data": {"type": "Preferences", "path": "a.jsonl", "tokenizer": "base"},
        "model": {"type": "LoRA", "of": {"type": "Pretrained", "path": "base"}},
        "task": {"type": "Orpo"},
        "optimizer": {"type": "AdamW"},
        "lr_scheduler": {"type": "ConstantLr", "lr": 1e-3},
        "training": {"epochs": 1, "batch_size": 2},
        "distributed": {"strategy": "fsdp2", "pipeline": 2, "microbatches": 2},
    }
    with pytest.raises(ConfigError, match="expected 1 for a task of preferences"):
        TrainConfig.from_dict(config)
