"""Fine-tuning with LoRA beside transformers' Trainer with peft: a Llama of 10 M parameters, tokens a second.

    python -m benchmarks.train.adapters

Both train the same adapters of all linear layers, of rank 8, on the same batches of 2,048 tokens in the same order with
AdamW and a clipped norm of gradients, on a model with the same random weights. Trainer runs the model of transformers
as it is (eager), the Learner the same with `fuse: true`. A time is that of all steps but the first ones, divided by
their number. The losses of both are printed, and it is an error if they differ.
"""

import io
import tempfile
import time
import warnings
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn
from torch.utils.data import DataLoader, Dataset

from benchmarks._harness import Comparison, compare, main
from burnlike.interop import load_adapter, save_adapter
from burnlike.models import LoRAConfig, PretrainedConfig
from burnlike.optim import AdamWConfig, ClipByGlobalNorm
from burnlike.train import Callback, LanguageModelConfig, Learner, PlainRenderer, TrainingConfig

STEPS, WARM_UP = 8, 2
BATCH, LENGTH, VOCABULARY = 4, 512, 8192
RATE, DECAY, NORM = 1e-3, 0.01, 1.0
MOST_REPEATS = 3
BAR = 1.2
SIZES: dict[str, Any] = {
    "vocab_size": VOCABULARY,
    "hidden_size": 256,
    "intermediate_size": 688,
    "num_hidden_layers": 7,
    "num_attention_heads": 8,
    "num_key_value_heads": 8,
    "max_position_embeddings": LENGTH,
}


class Texts(Dataset[dict[str, Tensor]]):
    """Rows of tokens, in the names of transformers; half of them have no loss, as prompts have none."""

    def __init__(self) -> None:
        drawn = torch.Generator().manual_seed(1)
        self.tokens = torch.randint(0, VOCABULARY, (STEPS * BATCH, LENGTH), generator=drawn)

    def __len__(self) -> int:
        return len(self.tokens)

    def __getitem__(self, index: int) -> dict[str, Tensor]:
        labels = self.tokens[index].clone()
        labels[: LENGTH // 2] = -100
        return {"input_ids": self.tokens[index], "labels": labels}


class _Sides:
    """Both sides, and what they begin with: a directory of a Llama with random weights, and adapters."""

    def __init__(self, folder: Path) -> None:
        import transformers

        self.base, self.adapter = folder / "llama", folder / "adapter"
        torch.manual_seed(0)
        transformers.LlamaForCausalLM(transformers.LlamaConfig(**SIZES)).save_pretrained(self.base)
        save_adapter(self._model(), self.adapter)
        self.losses: dict[str, list[float]] = {}

    def _model(self) -> nn.Module:
        base = PretrainedConfig(path=str(self.base), fuse=True)
        return LoRAConfig(of=base, rank=8, alpha=16, targets="all-linear").init("cpu")

    def ours(self) -> float:
        model, seen = self._model(), Seen()
        load_adapter(model, self.adapter)
        optimizer = AdamWConfig(epsilon=1e-8, weight_decay=DECAY, grad_clipping=ClipByGlobalNorm(threshold=NORM)).init()
        learner = Learner(model, optimizer, RATE, task=LanguageModelConfig().init())
        loader = DataLoader(Texts(), batch_size=BATCH)
        learner.fit(
            loader, training=TrainingConfig(log_every_steps=1), renderer=PlainRenderer(io.StringIO()), callbacks=[seen]
        )
        self.losses["ours"] = seen.losses
        return seen.per_step()

    def theirs(self) -> float:
        import transformers
        from peft import PeftModel

        model = transformers.LlamaForCausalLM.from_pretrained(self.base)
        adapted = PeftModel.from_pretrained(model, self.adapter, is_trainable=True)
        chosen = [it for it in adapted.parameters() if it.requires_grad]
        optimizer = torch.optim.AdamW(chosen, lr=RATE, weight_decay=DECAY, fused=True)
        seen = Seen()

        class Ends(transformers.TrainerCallback):
            def on_step_end(self, *_: Any, **__: Any) -> None:
                seen.ends.append(time.perf_counter())

        with tempfile.TemporaryDirectory() as folder:
            trainer = transformers.Trainer(
                adapted,
                transformers.TrainingArguments(
                    output_dir=folder,
                    num_train_epochs=1,
                    per_device_train_batch_size=BATCH,
                    save_strategy="no",
                    logging_steps=1,
                    report_to=[],
                    use_cpu=True,
                    disable_tqdm=True,
                    log_level="error",
                    max_grad_norm=NORM,
                    train_sampling_strategy="sequential",
                ),
                train_dataset=Texts(),
                callbacks=[Ends()],
                optimizers=(optimizer, torch.optim.lr_scheduler.LambdaLR(optimizer, lambda _: 1.0)),
            )
            trainer.log = lambda logs, *_, **__: seen.losses.append(logs["loss"]) if "loss" in logs else None
            trainer.train()
        self.losses["theirs"] = seen.losses
        return seen.per_step()


class Seen(Callback):
    """The ends of a training's steps, and its losses."""

    def __init__(self) -> None:
        self.ends: list[float] = []
        self.losses: list[float] = []

    def on_step_end(self, learner: Learner[Any]) -> None:
        self.ends.append(time.perf_counter())

    def on_metrics(self, learner: Learner[Any], line: Any) -> None:
        self.losses.append(line["loss"])

    def per_step(self) -> float:
        return (self.ends[-1] - self.ends[WARM_UP - 1]) / (len(self.ends) - WARM_UP)


def expect_same(ours: Sequence[float], theirs: Sequence[float]) -> None:
    """Print the losses of both sides; raise AssertionError if they differ by more than rounding."""
    print("losses          " + ", ".join(f"{it:.4f}" for it in ours))
    print("theirs          " + ", ".join(f"{it:.4f}" for it in theirs))
    worst = max(abs(one - other) for one, other in zip(ours, theirs, strict=True))
    if worst > 1e-3:
        raise AssertionError(f"the losses differ by {worst:.2g}: the two sides don't train the same")


def run(repeats: int) -> list[Comparison]:
    """The Learner beside Trainer with peft."""
    with tempfile.TemporaryDirectory() as folder, warnings.catch_warnings():
        warnings.simplefilter("ignore")
        sides = _Sides(Path(folder))
        found = compare(
            "a step of SFT with LoRA",
            sides.ours,
            sides.theirs,
            theirs_name="transformers' Trainer with peft",
            bar=BAR,
            repeats=min(repeats, MOST_REPEATS),
            measure=lambda side: side(),
        )
    tokens = BATCH * LENGTH
    print(f"tokens a second: {tokens / found.ours_ms * 1e3:,.0f}, theirs {tokens / found.theirs_ms * 1e3:,.0f}")
    expect_same(sides.losses["ours"], sides.losses["theirs"])
    return [found]


if __name__ == "__main__":
    main("LoRA beside transformers' Trainer with peft", run)
