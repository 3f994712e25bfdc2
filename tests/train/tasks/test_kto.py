"""Kto beside TRL's KTOTrainer in float64, step by step; answers of pairs; jobs in YAML."""

import contextlib
import io
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from burnlike.errors import ConfigError, DataError
from burnlike.interop import save_adapter
from burnlike.models import LoRAConfig, PretrainedConfig
from burnlike.module.adapters.layers import Lora
from burnlike.train import Dpo, Kto, KtoConfig, Orpo
from burnlike.train.tasks.preferences import mismatched

from ...data.chat.samples import tokenizer

transformers = pytest.importorskip("transformers", exc_type=ImportError)

VOCAB, MOST = 30, 12
SIZES = [
    (3, 5, True),
    (4, 2, False),
    (6, 6, True),
    (2, 3, True),
    (5, 4, False),
    (3, 9, False),
    (2, 2, True),
    (4, 3, True),
]
"""Tokens of the prompt and of the answer, and whether it is desirable."""


def rows() -> list[dict[str, Any]]:
    drawn = torch.Generator().manual_seed(3)
    return [
        {
            "prompt_ids": torch.randint(2, VOCAB, (prompt,), generator=drawn).tolist(),
            "completion_ids": torch.randint(2, VOCAB, (answer,), generator=drawn).tolist(),
            "label": label,
        }
        for prompt, answer, label in SIZES
    ]


def batch_of(some: list[dict[str, Any]]) -> dict[str, Tensor]:
    """As the batcher of the data makes it, padded on the right."""
    tokens = [(it["prompt_ids"] + it["completion_ids"])[:MOST] for it in some]
    length = max(map(len, tokens))
    batch = {name: torch.zeros(len(some), length, dtype=torch.int64) for name in ("input_ids", "attention_mask")}
    batch["labels"] = torch.full((len(some), length), -100)
    for place, (row, of_row) in enumerate(zip(tokens, some, strict=True)):
        batch["input_ids"][place, : len(row)] = torch.tensor(row)
        batch["attention_mask"][place, : len(row)] = 1
        begin = len(of_row["prompt_ids"])
        batch["labels"][place, begin : len(row)] = torch.tensor(row[begin:])
    return batch | {"desirable": torch.tensor([float(it["label"]) for it in some])}


def llama_in(folder: Path) -> Path:
    torch.manual_seed(1)
    sizes = {"hidden_size": 16, "intermediate_size": 24, "num_hidden_layers": 1, "num_attention_heads": 2}
    config = transformers.LlamaConfig(vocab_size=VOCAB, max_position_embeddings=32, **sizes)
    transformers.LlamaForCausalLM(config).save_pretrained(folder)
    return folder


def adapted(base: Path) -> Any:
    config = LoRAConfig(of=PretrainedConfig(path=str(base)), rank=2, alpha=4.0, targets=("q_proj", "v_proj"))
    return config.init("cpu").double()


def add_head_in_float64(model: Any, **_: Any) -> None:
    """In place of TRL's head, which computes log-probabilities in float32."""
    stock = model.forward

    def forward(*, labels: Tensor, fused_lm_head: bool, **inputs: Any) -> Any:
        assert fused_lm_head
        logits, targets = stock(**inputs).logits[:, :-1], labels[:, 1:]
        logs = logits.log_softmax(-1).gather(2, targets.clamp(min=0)[..., None])[..., 0]
        zeros = torch.zeros_like(logs)
        return SimpleNamespace(log_probs=logs.masked_fill(targets == -100, 0), entropy=zeros, mean_logits=zeros)

    model.forward = forward


OPTIONS: list[dict[str, Any]] = [
    {"beta": 0.3},
    {"beta": 0.3, "loss": "apo_zero_unpaired"},
    {"beta": 0.5, "desirable_weight": 0.7, "undesirable_weight": 1.6},
]


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::FutureWarning")
@pytest.mark.parametrize("options", OPTIONS, ids=str)
def test_steps_are_those_of_trl(options: dict[str, Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    datasets = pytest.importorskip("datasets", exc_type=ImportError)
    peft = pytest.importorskip("peft", exc_type=ImportError)
    trainers = pytest.importorskip("trl.trainer.kto_trainer", exc_type=ImportError)
    configs = pytest.importorskip("trl.trainer.kto_config", exc_type=ImportError)

    monkeypatch.setattr(trainers, "add_fused_lm_head", add_head_in_float64)

    class OfTokens(trainers.KTOTrainer):
        def _prepare_dataset(self, dataset: Any, *_: Any, **__: Any) -> Any:
            return dataset

    model = adapted(llama_in(tmp_path / "base"))
    save_adapter(model, tmp_path / "adapter")
    plain = transformers.LlamaForCausalLM.from_pretrained(tmp_path / "base", dtype=torch.float64)
    theirs = peft.PeftModel.from_pretrained(plain, tmp_path / "adapter", is_trainable=True).double()
    kinds = {"loss_type" if name == "loss" else name: it for name, it in options.items()}
    arguments = {"output_dir": str(tmp_path / "out"), "max_length": MOST, "per_device_train_batch_size": 4}
    arguments |= {"use_cpu": True, "bf16": False, "gradient_checkpointing": False, "report_to": []}
    with contextlib.redirect_stdout(io.StringIO()):
        trainer = OfTokens(
            theirs,
            args=configs.KTOConfig(**arguments, **kinds),
            train_dataset=datasets.Dataset.from_list(rows()),
            processing_class=tokenizer(),
        )
    collator = trainers.DataCollatorForUnpairedPreference(pad_token_id=0, max_length=MOST)
    task = Kto(KtoConfig(**options))
    task.take_facts({"max_length": MOST})
    trained = [it for it in theirs.parameters() if it.requires_grad]
    trained_here = [it for it in model.parameters() if it.requires_grad]
    assert len(trained) == len(trained_here) == 4
    seen = []
    for step in range(6):
        some = [rows()[it % len(SIZES)] for it in range(step * 4, step * 4 + 4)]
        some = [it | {"label": True} for it in some] if step == 4 else some
        answers = [it["completion_ids"] for it in some]
        with_others = [
            it | {"KL_completion_ids": other} for it, other in zip(some, answers[-1:] + answers[:-1], strict=True)
        ]
        theirs_loss = trainer.compute_loss(theirs, collator(with_others if trainer.calculate_KL else some))
        output = task.train_step(model, batch_of(some))
        metrics = {name: it[-1] for name, it in trainer._metrics["train"].items()}
        sizes = output.part_sizes
        values = {name: it.item() for name, it in output.parts.items() if sizes.get(name, 1)}
        pairs = {
            "kl": "kl",
            "rewards_chosen": "rewards/chosen",
            "rewards_rejected": "rewards/rejected",
        }
        assert output.loss.item() == pytest.approx(theirs_loss.item(), rel=1e-10)
        assert ("rewards_rejected" in values) == (step != 4)
        for name, value in values.items():
            assert value == pytest.approx(metrics[pairs[name]], rel=1e-8, abs=1e-12), name
        seen.append(values["kl"])
        for loss, parameters in ((theirs_loss, trained), (output.loss, trained_here)):
            loss.backward()
            with torch.no_grad():
                for it in parameters:
                    it -= 5.0 * it.grad
                    it.grad = None
    if options.get("loss") != "apo_zero_unpaired":
        assert any(it > 0 for it in seen)
        assert any(it == 0 for it in seen)
    norms = [sorted(it.detach().norm().item() for it in some) for some in (trained, trained_here)]
    assert norms[0] == pytest.approx(norms[1], rel=1e-9)


def test_pairs_count_as_answers_of_which_each_is_behind_another_prompt(tmp_path: Path) -> None:
    model = adapted(llama_in(tmp_path / "base"))
    answers = batch_of(rows()[:4])
    pairs = {name: it.view(2, 2, -1) for name, it in answers.items() if name != "desirable"} | {
        "margin": torch.zeros(2)
    }
    order = [0, 2, 1, 3]
    desirable = torch.tensor([1.0, 1.0, 0.0, 0.0])
    expected = Kto().train_step(model, {name: it[order] for name, it in answers.items()} | {"desirable": desirable})
    output = Kto().train_step(model, pairs)
    assert output.size == 4
    torch.testing.assert_close(output.loss, expected.loss, rtol=0, atol=0)


@pytest.mark.parametrize("scale", [1.0, -1.0])
def test_an_answer_alone_is_compared_with_the_reference(scale: float, tmp_path: Path) -> None:
    """As in the last batch of an epoch: there is no other prompt, so that k is 0 and not the answer's own l."""
    model, batch = adapted(llama_in(tmp_path / "base")), batch_of(rows()[:1])
    with torch.no_grad():
        for module in model.modules():
            if isinstance(module, Lora):
                module.b.fill_(scale)
    losses = [Kto(KtoConfig(loss=it)).train_step(model, batch).loss.item() for it in ("kto", "apo_zero_unpaired")]
    assert losses[0] == losses[1] != 0.5


def test_prompts_get_the_answers_of_the_rows_before_them() -> None:
    some = rows()[:3]
    others = mismatched(batch_of(some), MOST)
    for place, row in enumerate(some):
        prompt, answer = row["prompt_ids"], some[place - 1]["completion_ids"]
        size = len(prompt) + len(answer)
        assert others["input_ids"][place, :size].tolist() == prompt + answer
        assert others["labels"][place].tolist() == [-100] * len(prompt) + answer + [-100] * (
            others["labels"].shape[1] - size
        )
        assert others["attention_mask"][place].sum() == size
    assert mismatched(batch_of(some), 5)["input_ids"].shape == (3, 5)


def test_answers_behind_other_prompts_are_cut_where_the_model_has_no_more_positions(tmp_path: Path) -> None:
    config = transformers.GPT2Config(vocab_size=VOCAB, n_embd=16, n_layer=1, n_head=2, n_positions=MOST)
    transformers.GPT2LMHeadModel(config).save_pretrained(tmp_path)
    model = LoRAConfig(of=PretrainedConfig(path=str(tmp_path)), rank=2, targets=("c_attn",)).init("cpu")
    batch = batch_of([rows()[5], rows()[2]])
    assert mismatched(batch)["input_ids"].shape[1] == 15
    task = Kto()
    task.take_facts({"max_length": 64})
    assert bool(task.train_step(model, batch).loss.isfinite())


def test_batches_of_other_tasks_are_refused(tmp_path: Path) -> None:
    with pytest.raises(DataError, match=r"Orpo: expected batches of pairs.*answers with a label are for Kto"):
        Orpo().train_step(nn.Identity(), batch_of(rows()[:2]))
    with pytest.raises(DataError, match="Kto: expected batches of answers with labels"):
        Kto().train_step(nn.Identity(), {"input_ids": torch.zeros(2, 3)})
    model = adapted(llama_in(tmp_path / "base"))
    Kto().try_out(model)
    with torch.no_grad():
        next(it for name, it in model.named_parameters() if name.endswith("b")).fill_(0.1)
    for task in (Kto(), Dpo()):
        with pytest.raises(ConfigError, match="the adapters begin with values"):
            task.try_out(model)
