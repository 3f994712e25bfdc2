"""LanguageModel beside torch and transformers in float64: smoothed labels, and noise on the vectors of tokens."""

import io
import shutil
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
import torch
import transformers
from torch import Tensor, nn
from torch.nn import functional
from transformers.integrations.neftune import activate_neftune
from transformers.trainer_pt_utils import LabelSmoother

from burnlike.errors import ConfigError
from burnlike.interop import fuse
from burnlike.models import DecoderLmConfig, LoRAConfig
from burnlike.record import open_record
from burnlike.train import Job, LanguageModelConfig, PlainRenderer, RunDir, TrainConfig

SIZES: dict[str, Any] = {
    "vocab_size": 24, "hidden_size": 16, "num_hidden_layers": 1, "num_attention_heads": 2, "intermediate_size": 16,
}  # fmt: skip
LABELS = torch.tensor([[-100, 3, 4, 5, 23], [-100, -100, 9, 1, 0]])
BATCH = {"input_ids": LABELS.clamp(min=1), "labels": LABELS}


def llama() -> Any:
    torch.manual_seed(0)
    return transformers.LlamaForCausalLM(transformers.LlamaConfig(**SIZES)).double()


@pytest.mark.parametrize("is_fused", [False, True])
def test_smoothed_labels_give_the_loss_of_torch_and_transformers(is_fused: bool) -> None:
    model, plain = llama(), llama()
    _ = is_fused and fuse(model)
    task = LanguageModelConfig(label_smoothing=0.2).init()
    loss, output = task.train_step(model.train(), BATCH).loss, plain(BATCH["input_ids"])
    rows, targets = output.logits[:, :-1].flatten(0, 1), LABELS[:, 1:].flatten()
    expected = functional.cross_entropy(rows, targets, label_smoothing=0.2)
    torch.testing.assert_close(loss, expected, rtol=1e-12, atol=0)
    # transformers sums the smoothed part in float32.
    theirs = LabelSmoother(0.2)({"logits": output.logits}, LABELS, shift_labels=True)
    torch.testing.assert_close(loss, theirs.double(), rtol=1e-6, atol=0)
    loss.backward()
    expected.backward()
    for mine, other in zip(model.parameters(), plain.parameters(), strict=True):
        torch.testing.assert_close(mine.grad, other.grad, rtol=1e-9, atol=1e-14)
    measured = task.valid_step(model.eval(), BATCH).loss
    torch.testing.assert_close(measured, functional.cross_entropy(rows, targets), rtol=1e-12, atol=0)


@pytest.mark.parametrize("is_fused", [False, True])
def test_noise_on_tokens_is_that_of_transformers(is_fused: bool) -> None:
    model, plain = llama().train(), llama().train()
    _ = is_fused and fuse(model)
    task = LanguageModelConfig(neftune=5.0).init()
    activate_neftune(plain, 5.0)
    targets = LABELS[:, 1:].flatten()

    def loss_of_theirs() -> Tensor:  # their own loss is in float32
        return functional.cross_entropy(plain(BATCH["input_ids"]).logits[:, :-1].flatten(0, 1), targets)

    losses = []
    for loss_of in (lambda: task.train_step(model, BATCH).loss, loss_of_theirs):
        torch.manual_seed(4)
        losses += [loss_of() for _ in range(2)]
    # transformers takes the root of the noise's bound in float32.
    torch.testing.assert_close(losses[:2], losses[2:], rtol=1e-8, atol=0)
    assert losses[0] != losses[1]
    plain.eval()
    measured = task.valid_step(model.eval(), BATCH).loss
    torch.testing.assert_close(measured, loss_of_theirs(), rtol=1e-12, atol=0)
    assert not any(it._forward_hooks for it in model.modules())


def test_noise_on_tokens_of_a_model_with_adapters() -> None:
    of = DecoderLmConfig(vocab_size=24, max_sequence_length=8, d_model=16, n_layers=1, n_heads=2, d_ff=16)
    model = LoRAConfig(of=of, rank=2, targets=("embedding",)).init("cpu")
    plain, noisy = (LanguageModelConfig(neftune=alpha).init() for alpha in (0.0, 10.0))
    tokens = LABELS.clamp(min=0)
    assert plain.train_step(model, tokens).loss != noisy.train_step(model, tokens).loss
    assert plain.train_step(model, tokens).loss == noisy.valid_step(model, tokens).loss


def test_noise_needs_a_table_of_tokens() -> None:
    with pytest.raises(ConfigError, match=r"task\.neftune: Embedding has no table of tokens"):
        LanguageModelConfig(neftune=1.0).init().train_step(nn.Embedding(24, 24), LABELS.clamp(min=0))


YAML = """
data: {type: Tokens, path: DIR/tokens.bin, context_length: 8}
model: {type: DecoderLm, vocab_size: 24, max_sequence_length: 8, d_model: 8, n_layers: 1, n_heads: 2, d_ff: 8}
task: {type: LanguageModel, sample_length: 0, neftune: 5.0, label_smoothing: 0.1}
optimizer: {type: AdamW}
lr_scheduler: {type: ConstantLr, lr: 0.03}
training:
  {epochs: 2, steps_per_epoch: 3, batch_size: 4, validation_steps: 1, checkpoint_every_steps: 2, keep_checkpoints: 9}
device: cpu
threads: 1
"""


def test_a_resumed_training_draws_the_same_noise(tmp_path: Path) -> None:
    torch.randint(0, 24, (900,), dtype=torch.int32).to(torch.uint16).numpy().tofile(tmp_path / "tokens.bin")
    config = TrainConfig.from_yaml(YAML.replace("DIR", str(tmp_path)), "f.yaml")
    with closing(RunDir.create(tmp_path / "run")) as run:
        Job(config).run(run, PlainRenderer(io.StringIO()))
    shutil.copytree(tmp_path / "run", tmp_path / "again")
    for step in (4, 6):
        shutil.rmtree(tmp_path / "again" / "checkpoints" / f"step-{step:08}")
    (tmp_path / "again" / "model.safetensors").unlink()
    with closing(RunDir.open(tmp_path / "again")) as run:
        Job(config).run(run, PlainRenderer(io.StringIO()))
    ends = [open_record(tmp_path / name / "model.safetensors").tensors for name in ("run", "again")]
    assert {*ends[0]} == {*ends[1]}
    assert all(torch.equal(it, ends[1][name]) for name, it in ends[0].items())


def test_noise_is_refused_where_processes_share_a_batch() -> None:
    with pytest.raises(ConfigError, match=r"task\.neftune: expected 0 where processes share layers or sequences"):
        TrainConfig.from_yaml(YAML + "distributed: {strategy: fsdp2, tensor: 2}\n", "f.yaml")
