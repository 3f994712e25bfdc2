"""The balance of a mixture's experts in the losses of answers: Dpo beside TRL, others beside the model's own."""

import contextlib
import copy
import io
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from torch import Tensor

from burnlike.interop import save_adapter
from burnlike.models import DecoderLmConfig, LoRAConfig, PretrainedConfig
from burnlike.train import Dpo, Grpo, GrpoConfig, Kto, Orpo, SimPo
from burnlike.train.tasks.answer_rows import AnswerRows
from burnlike.train.tasks.grpo import Samples

from ...data.chat.samples import tokenizer
from .test_grpo import ANSWERS, GROUP, PROMPTS, numbers
from .test_kto import batch_of, rows

transformers = pytest.importorskip("transformers", exc_type=ImportError)

VOCAB, WEIGHT = 30, 0.7


def exact(model: Any) -> Any:
    """A model in float64, in training."""
    model.set_experts_implementation("eager")  # the others have no float64
    return model.double().train()


def mixtral(*, adds: bool = True) -> Any:
    torch.manual_seed(1)
    sizes = {"hidden_size": 16, "intermediate_size": 24, "num_hidden_layers": 2, "num_attention_heads": 2}
    experts = {"num_key_value_heads": 1, "num_local_experts": 4, "router_aux_loss_coef": WEIGHT}
    config = transformers.MixtralConfig(vocab_size=VOCAB, output_router_logits=adds, **sizes, **experts)
    return exact(transformers.MixtralForCausalLM(config))


def decoder(*, adds: bool = True) -> Any:
    torch.manual_seed(1)
    experts = {"type": "Experts", "n_experts": 4, "n_selected": 2, "balance": WEIGHT if adds else 0.0}
    sizes = {"d_model": 16, "n_heads": 2, "n_layers": 2, "d_ff": 24, "max_sequence_length": 32}
    return DecoderLmConfig.from_dict({"vocab_size": VOCAB, **sizes, "feed_forward": experts}).init().double()


def answers() -> dict[str, Tensor]:
    return batch_of(rows()[:4])


def pairs() -> dict[str, Tensor]:
    batch = {name: it.view(2, 2, -1) for name, it in answers().items() if name != "desirable"}
    return batch | {"margin": torch.zeros(2)}


def samples() -> Samples:
    drawn = torch.Generator().manual_seed(3)
    prompts, written = (
        [torch.randint(2, VOCAB, (size,), generator=drawn) for size in sizes] for sizes in (PROMPTS, ANSWERS)
    )
    return Samples(AnswerRows.of(prompts, written), numbers(7, len(ANSWERS)), None, None, {})


def grpo_output(model: Any, _: Any) -> Any:
    config = {"rewards": [{"type": "Length", "most": 4, "soft": 3}], "answers": GROUP, "max_tokens": 6}
    return Grpo(GrpoConfig.from_dict(config))._output(model, samples())


TASKS: dict[str, tuple[Any, Any]] = {
    "Orpo": (Orpo().train_step, pairs),
    "SimPo": (SimPo().train_step, pairs),
    "Kto": (Kto().train_step, answers),
    "Grpo": (grpo_output, lambda: samples().rows.repeated()),
}
"""By the name of a task its step, and the batch whose tokens a model sees in it."""


@pytest.mark.parametrize("make", [mixtral, decoder])
@pytest.mark.parametrize("task", TASKS)
def test_losses_of_answers_have_the_balance_of_experts_in_training(
    task: str, make: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Kto, "reference_sums", lambda _, model, rows, kept=None: torch.zeros(len(rows["input_ids"])))
    step, make_batch = TASKS[task]
    batch = make_batch()
    model, plain = make(), make(adds=False)
    inputs = {name: batch[name].flatten(0, -2) for name in ("input_ids", "attention_mask")}
    if make is mixtral:
        expected = WEIGHT * model(**inputs).aux_loss
    else:
        expected = model(inputs["input_ids"], inputs["attention_mask"] == 0, with_balance=True).balance
    added = step(model, batch).loss - step(plain, batch).loss
    assert added.item() == pytest.approx(expected.item(), rel=1e-9)
    added.backward()
    expected.backward()
    assert step(model.eval(), batch).loss.item() == pytest.approx(step(plain.eval(), batch).loss.item(), rel=1e-12)


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::FutureWarning")
def test_the_loss_of_dpo_is_that_of_trl(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    datasets = pytest.importorskip("datasets", exc_type=ImportError)
    peft = pytest.importorskip("peft", exc_type=ImportError)
    trainers = pytest.importorskip("trl.trainer.dpo_trainer", exc_type=ImportError)
    configs = pytest.importorskip("trl.trainer.dpo_config", exc_type=ImportError)

    def add_head(model: Any, **_: Any) -> None:
        """In place of TRL's head, which computes log-probabilities in float32."""
        stock = model.forward

        def forward(*, labels: Tensor, fused_lm_head: bool, **inputs: Any) -> Any:
            assert fused_lm_head
            output = stock(**inputs)
            logits, targets = output.logits[:, :-1], labels[:, 1:]
            logs = logits.log_softmax(-1).gather(2, targets.clamp(min=0)[..., None])[..., 0]
            zeros = torch.zeros_like(logs)
            shown = {"entropy": zeros, "mean_logits": zeros, "is_top1": zeros > 0}
            return SimpleNamespace(
                log_probs=logs.masked_fill(targets == -100, 0), aux_loss=getattr(output, "aux_loss", None), **shown
            )

        model.forward = forward

    monkeypatch.setattr(trainers, "add_fused_lm_head", add_head)

    class OfTokens(trainers.DPOTrainer):
        def _prepare_dataset(self, dataset: Any, *_: Any, **__: Any) -> Any:
            return dataset

    mixtral().save_pretrained(tmp_path / "base")
    base = PretrainedConfig(path=str(tmp_path / "base"))
    model = LoRAConfig(of=base, rank=2, alpha=4.0, targets=("q_proj", "v_proj")).init("cpu")
    exact(model)
    with torch.no_grad():
        for name, it in model.named_parameters():
            if "lora" in name:
                it.normal_(0, 0.3)
    save_adapter(model, tmp_path / "adapter")
    stock = exact(transformers.MixtralForCausalLM.from_pretrained(tmp_path / "base"))
    theirs = peft.PeftModel.from_pretrained(stock, tmp_path / "adapter", is_trainable=True).double()
    arguments = {"output_dir": str(tmp_path / "out"), "max_length": 12, "per_device_train_batch_size": 2, "beta": 0.3}
    arguments |= {"use_cpu": True, "bf16": False, "gradient_checkpointing": False, "report_to": []}
    some = rows()[:4]
    of_pairs = [
        {
            "prompt_ids": chosen["prompt_ids"],
            "chosen_ids": chosen["completion_ids"],
            "rejected_ids": rejected["completion_ids"],
        }
        for chosen, rejected in (some[:2], some[2:])
    ]
    with contextlib.redirect_stdout(io.StringIO()):
        trainer = OfTokens(
            theirs,
            args=configs.DPOConfig(**arguments),
            train_dataset=datasets.Dataset.from_list(of_pairs),
            processing_class=tokenizer(),
        )
    collator = trainers.DataCollatorForPreference(pad_token_id=0, max_length=12)
    expected = trainer.compute_loss(theirs.train(), collator(of_pairs))
    assert trainer._metrics["train"]["aux_loss"][-1] > 0.1
    with_prompts = copy.deepcopy(some)
    for chosen, rejected in (with_prompts[:2], with_prompts[2:]):
        rejected["prompt_ids"] = chosen["prompt_ids"]
    batch = batch_of(with_prompts)
    batch = {name: it.view(2, 2, -1) for name, it in batch.items() if name != "desirable"}
    task = Dpo()
    task.config = task.config.replace(beta=0.3)
    loss = task.train_step(model, batch | {"margin": torch.zeros(2)}).loss
    assert loss.item() == pytest.approx(expected.item(), rel=1e-10)
    for one in (loss, expected):
        one.backward()
    norms = [
        sorted(it.grad.norm().item() for it in some.parameters() if it.grad is not None) for some in (model, theirs)
    ]
    assert norms[0] == pytest.approx(norms[1], rel=1e-8)
