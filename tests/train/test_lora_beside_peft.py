"""Fine-tuning with LoRA on chat data, step by step beside transformers, peft and a loop by hand, in float64."""

import math
from collections.abc import Mapping
from contextlib import closing
from itertools import pairwise
from pathlib import Path
from typing import Any

import peft
import pytest
import torch
import transformers
from torch import Tensor
from torch.nn import functional

from burnlike.interop import save_adapter
from burnlike.train import Callback, Job, Learner, RunDir, TrainConfig

from ..data.chat.samples import conversations, tokenizer_in, write_lines
from ..models.by_path.directories import llama

pytestmark = [  # of peft
    pytest.mark.filterwarnings("ignore:`is_gradient_checkpointing` is deprecated:FutureWarning"),
    pytest.mark.filterwarnings("ignore:Model has `tie_word_embeddings=True`:UserWarning"),
]
WARM_UP, RATE, DECAY, NORM = 2, 1e-2, 0.05, 0.5
YAML = f"""
data: {{type: Chat, path: DIR/chat.jsonl, tokenizer: DIR/llama, max_length: 96}}
model: {{type: LoRA, of: {{type: Pretrained, path: DIR/llama, dtype: float64}}, rank: 4, alpha: 8}}
task: {{type: LanguageModel, sample_length: 0}}
optimizer:
  type: AdamW
  epsilon: 1e-8
  weight_decay: {DECAY}
  grad_clipping: {{type: ClipByGlobalNorm, threshold: {NORM}}}
lr_scheduler: {{type: CosineAnnealing, initial_lr: {RATE}, warmup_steps: {WARM_UP}}}
training: {{epochs: 1, steps_per_epoch: 6, batch_size: 3, log_every_steps: 1, validation_steps: 1}}
device: cpu
threads: 1
"""


class Seen(Callback):
    """What a training is given, and what it makes of it."""

    def __init__(self) -> None:
        self.batches: list[Mapping[str, Tensor]] = []
        self.losses: list[float] = []
        self.adapters: list[dict[str, Tensor]] = []

    def on_batch_start(self, learner: Learner[Any], batch: Any) -> None:
        self.batches.append({name: it.clone() for name, it in batch.items()})

    def on_metrics(self, learner: Learner[Any], line: Mapping[str, Any]) -> None:
        if line["split"] == "train":
            self.losses.append(line["loss"])

    def on_step_end(self, learner: Learner[Any]) -> None:
        self.adapters.append({name: it.detach().clone() for name, it in _trained(learner.model)})


def _trained(model: Any) -> list[tuple[str, Tensor]]:
    """The matrices by peft's names."""
    found = []
    for name, tensor in model.named_parameters():
        if tensor.requires_grad:
            path = name.replace("parametrizations.weight.0.", "lora_").replace("lora_a", "lora_A.weight")
            is_factor = tensor.dim() == 2 and "parametrizations" in name
            found.append((path.replace("lora_b", "lora_B.weight"), tensor.mT if is_factor else tensor))
    return found


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("lora")
    llama(path / "llama", vocab_size=300, max_position_embeddings=96, num_key_value_heads=1)
    llama(path / "tied", vocab_size=300, max_position_embeddings=96, num_key_value_heads=1, tie_word_embeddings=True)
    tokenizer_in(path / "llama")
    write_lines(path / "chat.jsonl", [{"messages": it} for it in conversations(40)])
    return path


def _loss(model: Any, batch: Mapping[str, Tensor]) -> Tensor:
    """The mean over all labels that count; packed documents are given to the model one by one."""
    sums, count = [], 0
    for row in range(len(batch["input_ids"])):
        tokens, labels = batch["input_ids"][row], batch["labels"][row]
        positions = batch.get("position_ids", torch.arange(len(tokens)).expand(len(batch["input_ids"]), -1))[row]
        begins = [*(positions == 0).nonzero().flatten().tolist(), len(tokens)]
        for begin, end in pairwise(begins):
            part = labels[begin:end][1:]
            if bool((part != -100).any()):
                logits = model(input_ids=tokens[None, begin:end]).logits[0, :-1]
                sums.append(functional.cross_entropy(logits, part, ignore_index=-100, reduction="sum"))
                count += int((part != -100).sum())
    return torch.stack(sums).sum() / count


def _rate(step: int, steps: int) -> float:
    if step < WARM_UP:
        return RATE * (step + 1) / WARM_UP
    return RATE * 0.5 * (1 + math.cos(math.pi * (step - WARM_UP) / (steps - WARM_UP)))


@pytest.mark.parametrize(
    "overrides",
    [
        ["data.packing=false"],
        ["data.packing=true", "model.of.fuse=true"],
        ["model.of.path=DIR/tied", "model.modules_to_save=[embed_tokens, lm_head]"],
        pytest.param(["data.packing=true", "model.dora=true"], marks=pytest.mark.slow),
        pytest.param(
            ["data.packing=false", "model.rslora=true", "model.targets=[q_proj, down_proj]"], marks=pytest.mark.slow
        ),
    ],
)
def test_each_step_is_that_of_peft_and_a_loop_by_hand(overrides: list[str], folder: Path, tmp_path: Path) -> None:
    overrides = [it.replace("DIR", str(folder)) for it in overrides]
    job = Job(TrainConfig.from_yaml(YAML.replace("DIR", str(folder)), "f.yaml", overrides))
    save_adapter(job.model, tmp_path / "start")
    seen = Seen()
    with closing(RunDir.create(tmp_path / "run")) as run:
        job.run(run, callbacks=[seen])

    base = transformers.AutoModelForCausalLM.from_pretrained(job.config.model.of.path, dtype=torch.float64)  # pyright: ignore[reportAttributeAccessIssue]
    model: Any = peft.PeftModel.from_pretrained(base, str(tmp_path / "start"), is_trainable=True)
    own = {name.removeprefix("base_model.model.").replace(".default", ""): it for name, it in model.named_parameters()}
    chosen = [it for it in model.parameters() if it.requires_grad]
    optimizer = torch.optim.AdamW(chosen, lr=RATE, weight_decay=DECAY)
    assert len(seen.batches) == len(seen.losses) == 6
    for step, (batch, loss_of_ours, ours) in enumerate(zip(seen.batches, seen.losses, seen.adapters, strict=True)):
        loss = _loss(model, batch)
        assert loss_of_ours == pytest.approx(loss.item(), abs=1e-9)
        optimizer.zero_grad()
        loss.backward()
        norm = torch.stack([it.grad.norm() for it in chosen]).norm().item()
        for it in chosen:
            it.grad *= min(1.0, NORM / norm)
        optimizer.param_groups[0]["lr"] = _rate(step, 6)
        optimizer.step()
        assert len(ours) == len(chosen)
        for name, value in ours.items():
            torch.testing.assert_close(value, own[_theirs(name, own)], rtol=0, atol=1e-9)


def _theirs(name: str, own: Mapping[str, Tensor]) -> str:
    forms = (name, name.replace("lora_magnitude", "lora_magnitude_vector.weight"))
    return next((it for it in forms if it in own), name.replace(".weight", ".modules_to_save.weight"))
