"""A BERT of transformers fine-tuned by its Trainer, stock or with burnlike's optimizer and records: `--burnlike`.

No weights are downloaded: a small BERT with random weights is saved as a pretrained model is, and loaded for another
task. It learns which of two words comes more often. Needs the packages transformers and accelerate.
"""

import argparse
import json
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn
from torch.utils.data import Dataset
from transformers import (
    BertConfig,
    BertForSequenceClassification,
    BertModel,
    Trainer,
    TrainerCallback,
    TrainingArguments,
)

import burnlike as bl

LENGTH, VOCABULARY, FIRST, SECOND = 16, 64, 7, 8


class Sentences(Dataset):
    """Rows of words; the label is whether FIRST comes more often than SECOND."""

    def __init__(self, count: int, seed: int) -> None:
        generator = torch.Generator().manual_seed(seed)
        self.words = torch.randint(10, VOCABULARY, (count, LENGTH), generator=generator)
        self.labels = torch.randint(2, (count,), generator=generator)
        often, seldom = (
            torch.randint(3, 6, (count,), generator=generator),
            torch.randint(0, 3, (count,), generator=generator),
        )
        for words, label, many, few in zip(self.words, self.labels, often.tolist(), seldom.tolist(), strict=True):
            order = torch.randperm(LENGTH, generator=generator)
            words[order[:many]] = FIRST if label else SECOND
            words[order[many : many + few]] = SECOND if label else FIRST

    def __len__(self) -> int:
        return len(self.words)

    def __getitem__(self, index: int) -> dict[str, Tensor]:
        return {"input_ids": self.words[index], "labels": self.labels[index]}


class Losses(TrainerCallback):
    """Writes each loss that is logged to a file, a line of JSON."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def on_log(self, args: Any, state: Any, control: Any, logs: dict[str, float] | None = None, **more: Any) -> None:
        """Of training steps only."""
        if logs and "loss" in logs:
            kept = self.path.read_text().splitlines()[: state.global_step - 1] if self.path.exists() else []
            kept.append(json.dumps({"loss": logs["loss"], "grad_norm": float(logs["grad_norm"])}))
            self.path.write_text("\n".join(kept) + "\n")


def pretrained(folder: Path) -> Path:
    """A small BERT as `save_pretrained` leaves it."""
    torch.manual_seed(0)
    sizes = {"hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 4, "intermediate_size": 64}
    config = BertConfig(vocab_size=VOCABULARY, max_position_embeddings=LENGTH, **sizes)
    BertModel(config).save_pretrained(folder)
    return folder


def make_optimizer(model: nn.Module, with_burnlike: bool) -> torch.optim.Optimizer:
    """AdamW with the Trainer's defaults."""
    if with_burnlike:
        return bl.interop.TorchOptimizer(model, bl.optim.AdamWConfig(epsilon=1e-8, weight_decay=0.0), lr=2e-3)
    return torch.optim.AdamW(model.parameters(), lr=2e-3, weight_decay=0.0)


def main(argv: list[str] | None = None) -> None:
    """Fine-tune, and save the model."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--steps", type=int, default=200)
    parser.add_argument("--stop", type=int, help="end behind this step, as if the machine had gone")
    parser.add_argument("--save-every", type=int, default=50)
    parser.add_argument("--out", type=Path, default=Path("fine_tuned"))
    parser.add_argument("--resume", action="store_true", help="go on from the last checkpoint")
    parser.add_argument("--burnlike", action="store_true")
    args = parser.parse_args(argv)

    model = BertForSequenceClassification.from_pretrained(pretrained(args.out / "pretrained"))
    optimizer = make_optimizer(model, args.burnlike)
    scheduler = torch.optim.lr_scheduler.LinearLR(optimizer, 1.0, 0.1, total_iters=args.steps)
    settings = TrainingArguments(
        output_dir=str(args.out / "checkpoints"),
        max_steps=args.steps,
        per_device_train_batch_size=16,
        logging_steps=1,
        save_steps=args.save_every,
        report_to=[],
        use_cpu=True,
        disable_tqdm=True,
        dataloader_pin_memory=False,
    )
    callbacks: list[TrainerCallback] = [Losses(args.out / "losses.jsonl")]
    if args.stop is not None:
        callbacks.append(Stop(args.stop))
    trainer = Trainer(
        model, settings, train_dataset=Sentences(800, 1), optimizers=(optimizer, scheduler), callbacks=callbacks
    )
    trainer.train(resume_from_checkpoint=args.resume)
    if args.burnlike:
        bl.record.save(model, args.out / "model", precision=bl.BFloat16Precision)
    else:
        model.save_pretrained(args.out / "model")


class Stop(TrainerCallback):
    """Ends a training early."""

    def __init__(self, step: int) -> None:
        self.step = step

    def on_step_end(self, args: Any, state: Any, control: Any, **more: Any) -> None:
        """Behind the step."""
        control.should_training_stop = state.global_step >= self.step


if __name__ == "__main__":
    main()
