"""Direct preference optimization with LoRA beside TRL's DPOTrainer with peft: a step's time, and its memory.

    python -m benchmarks.train.preferences

Both train the same adapters of all linear layers, of rank 8, on the same pairs in the same order with AdamW and a
clipped norm of gradients. The reference is the model with its adapters off. TRL runs the model of transformers as it is
(eager), the Learner the same with `fuse: true`. A time is that of all steps but the first ones, divided by their
number; the memory is the peak of a process of its own over what it held before the first step. The losses of both are
printed, and it is an error if they differ.
"""

import io
import json
import subprocess
import sys
import tempfile
import time
import warnings
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn
from torch.utils.data import DataLoader, Dataset

from benchmarks._harness import Comparison, compare, main
from benchmarks._memory import restart_peak, rise_to_peak
from benchmarks.train.adapters import DECAY, MOST_REPEATS, NORM, RATE, SIZES, STEPS, Seen, expect_same
from burnlike.interop import load_adapter, save_adapter
from burnlike.models import LoRAConfig, PretrainedConfig
from burnlike.optim import AdamWConfig, ClipByGlobalNorm
from burnlike.train import DpoConfig, Learner, PlainRenderer, TrainingConfig

PAIRS, PROMPT, ANSWER = 4, 128, 128
VOCABULARY, MANY_WORDS = 8192, 32000
BAR, MEMORY_BAR = 1.3, 2.0


def _tokens(words: int) -> Tensor:
    """Pairs `[n, 2, length]` of one prompt and two answers each."""
    drawn = torch.Generator().manual_seed(1)
    tokens = torch.randint(0, words, (STEPS * PAIRS, 2, PROMPT + ANSWER), generator=drawn)
    tokens[:, 1, :PROMPT] = tokens[:, 0, :PROMPT]
    return tokens


class _Pairs(Dataset[dict[str, Tensor]]):
    def __init__(self, words: int) -> None:
        self.tokens = _tokens(words)

    def __len__(self) -> int:
        return len(self.tokens)

    def __getitem__(self, index: int) -> dict[str, Tensor]:
        tokens = self.tokens[index]
        labels = tokens.clone()
        labels[:, :PROMPT] = -100
        return {"input_ids": tokens, "labels": labels, "attention_mask": torch.ones_like(tokens)}


class _Sides:
    """Both sides, and what they begin with: a directory of a Llama with random weights, and adapters."""

    def __init__(self, folder: Path, words: int) -> None:
        self.base, self.adapter, self.words = folder / "llama", folder / "adapter", words
        self.losses: dict[str, list[float]] = {}

    def write(self) -> "_Sides":
        import transformers

        torch.manual_seed(0)
        config = transformers.LlamaConfig(**{**SIZES, "vocab_size": self.words})
        transformers.LlamaForCausalLM(config).save_pretrained(self.base)
        save_adapter(self._model(), self.adapter)
        return self

    def _model(self) -> nn.Module:
        base = PretrainedConfig(path=str(self.base), fuse=True)
        return LoRAConfig(of=base, rank=8, alpha=16, targets="all-linear").init("cpu")

    def ours(self) -> "_Seen":
        model, seen = self._model(), _Seen()
        load_adapter(model, self.adapter)
        optimizer = AdamWConfig(epsilon=1e-8, weight_decay=DECAY, grad_clipping=ClipByGlobalNorm(threshold=NORM)).init()
        learner = Learner(model, optimizer, RATE, task=DpoConfig().init())
        seen.start()
        learner.fit(
            DataLoader(_Pairs(self.words), batch_size=PAIRS),
            training=TrainingConfig(log_every_steps=1),
            renderer=PlainRenderer(io.StringIO()),
            callbacks=[seen],
        )
        self.losses["ours"] = seen.losses
        return seen

    def theirs(self) -> "_Seen":
        import datasets
        import transformers
        from peft import PeftModel
        from trl.trainer.dpo_config import DPOConfig
        from trl.trainer.dpo_trainer import DPOTrainer

        class OfTokens(DPOTrainer):
            def _prepare_dataset(self, dataset: Any, *_: Any, **__: Any) -> Any:  # pyright: ignore[reportIncompatibleMethodOverride]
                return dataset

        seen = _Seen()

        class Ends(transformers.TrainerCallback):
            def on_step_end(self, *_: Any, **__: Any) -> None:
                seen.ends.append(time.perf_counter())

        model = transformers.LlamaForCausalLM.from_pretrained(self.base)
        adapted = PeftModel.from_pretrained(model, self.adapter, is_trainable=True)
        chosen = [it for it in adapted.parameters() if it.requires_grad]
        optimizer = torch.optim.AdamW(chosen, lr=RATE, weight_decay=DECAY, fused=True)
        tokens = _tokens(self.words)
        rows = datasets.Dataset.from_dict(
            {
                "prompt": ["" for _ in tokens],
                "prompt_ids": tokens[:, 0, :PROMPT].tolist(),
                "chosen_ids": tokens[:, 0, PROMPT:].tolist(),
                "rejected_ids": tokens[:, 1, PROMPT:].tolist(),
            }
        )
        with tempfile.TemporaryDirectory() as folder:
            trainer = OfTokens(
                adapted,
                args=DPOConfig(
                    **options_of_trl(folder),
                    per_device_train_batch_size=PAIRS,
                    max_length=None,
                    train_sampling_strategy="sequential",
                ),
                train_dataset=rows,
                processing_class=tokenizer_of_one(),
                callbacks=[Ends()],
                optimizers=(optimizer, torch.optim.lr_scheduler.LambdaLR(optimizer, lambda _: 1.0)),
            )
            trainer.log = lambda logs, *_, **__: seen.losses.append(logs["loss"]) if "loss" in logs else None
            seen.start()
            trainer.train()
        self.losses["theirs"] = seen.losses
        return seen


def options_of_trl(folder: str) -> dict[str, Any]:
    """Options of TRL's trainers for one epoch in float32 on the CPU, of which each step is logged and none saved."""
    return {
        "output_dir": folder,
        "num_train_epochs": 1,
        "save_strategy": "no",
        "logging_steps": 1,
        "report_to": [],
        "use_cpu": True,
        "bf16": False,
        "gradient_checkpointing": False,
        "disable_tqdm": True,
        "log_level": "error",
        "max_grad_norm": NORM,
    }


def tokenizer_of_one() -> Any:
    """A tokenizer of the token that ends texts."""
    import tokenizers
    import transformers

    words = tokenizers.Tokenizer(tokenizers.models.WordLevel({"<eos>": 0}, unk_token="<eos>"))
    return transformers.PreTrainedTokenizerFast(tokenizer_object=words, eos_token="<eos>", pad_token="<eos>")


class _Seen(Seen):
    """With the memory that the process holds before the first step, in bytes."""

    held = 0

    def start(self) -> None:
        self.held = restart_peak()


def _megabytes(folder: Path, side: str) -> float:
    """The peak of a training in a process of its own."""
    command = [sys.executable, "-W", "ignore", "-m", "benchmarks.train.preferences", "--memory", side, str(folder)]
    return json.loads(subprocess.run(command, check=True, capture_output=True, text=True).stdout.splitlines()[-1])


def run(repeats: int) -> list[Comparison]:
    """The Learner beside DPOTrainer."""
    with tempfile.TemporaryDirectory() as place, warnings.catch_warnings():
        warnings.simplefilter("ignore")
        small, large = Path(place) / "small", Path(place) / "large"
        sides = _Sides(small, VOCABULARY).write()
        step = compare(
            "a step of DPO with LoRA",
            lambda: sides.ours().per_step(),
            lambda: sides.theirs().per_step(),
            theirs_name="TRL's DPOTrainer with peft",
            bar=BAR,
            repeats=min(repeats, MOST_REPEATS),
            measure=lambda side: side(),
        )
        expect_same(sides.losses["ours"], sides.losses["theirs"])
        _Sides(large, MANY_WORDS).write()
        memory = compare(
            "a step of DPO, 32,000 words, MB for ms",
            lambda: _megabytes(large, "ours") / 1e3,
            lambda: _megabytes(large, "theirs") / 1e3,
            theirs_name="TRL's DPOTrainer with peft",
            bar=MEMORY_BAR,
            repeats=1,
            measure=lambda side: side(),
        )
    return [step, memory]


if __name__ == "__main__":
    if "--memory" in sys.argv:
        side, folder = sys.argv[-2:]
        measured: _Seen = getattr(_Sides(Path(folder), MANY_WORDS), side)()
        print(json.dumps(rise_to_peak(measured.held) / 1e6))
    else:
        main("DPO with LoRA beside TRL's DPOTrainer", run)
