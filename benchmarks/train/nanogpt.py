"""A training of a GPT beside a script of nanoGPT's shape: the time until the validation loss is as low as the script's.

    python -m benchmarks.train.nanogpt

The script is plain torch: GPT-2's layout (Radford et al. 2019), attention by `scaled_dot_product_attention`, fused
AdamW, `clip_grad_norm_`, batches of random windows. Two trainings of burnlike are compared with it: the same model with
the same first weights, batches and rates, and the model of `configs/char_gpt.yaml` with that file's optimizer. All read
the text of that file, take as many steps, and are validated on the same windows after each `EVERY` steps. A time is
the median step, with the drawing of its batch, times the steps until the first validation whose loss is at most the
script's last one, or 0.2 % more: sums are in another order. Validations and the first step of each epoch are left out.
"""

import io
import math
import statistics
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional

from benchmarks._harness import Comparison, main
from benchmarks.models.twins import renamed
from burnlike.data.configs import TextCorpusConfig
from burnlike.interop import record_to_torch
from burnlike.models import DecoderLmConfig, LearnedPositions, PlainPart
from burnlike.optim import AdamWConfig
from burnlike.train import Callback, LanguageModel, Learner, PlainRenderer, TrainConfig, TrainingConfig

STEPS, EVERY, VALIDATION_BATCHES = 250, 50, 20
MOST_REPEATS = 2
ROUNDING = 1.002
BAR = 1.5
SHIPPED = TrainConfig.load(Path(__file__).parents[2] / "configs" / "char_gpt.yaml")
SIZES: Any = SHIPPED.model
RATES: Any = SHIPPED.lr_scheduler
ADAMW: Any = SHIPPED.optimizer
LENGTH, BATCH = SIZES.max_sequence_length, SHIPPED.training.batch_size
GPT = DecoderLmConfig(
    vocab_size=SIZES.vocab_size,
    max_sequence_length=LENGTH,
    d_model=SIZES.d_model,
    n_layers=SIZES.n_layers,
    n_heads=SIZES.n_heads,
    d_ff=4 * SIZES.d_model,
    attention_bias=True,
    attention_output_bias=True,
    positions=LearnedPositions(),
    feed_forward=PlainPart(),
    norm="LayerNorm",
)
NAMES = {
    r"attention\.output": "c_proj",
    r"feed_forward\.linear_inner": "mlp.0",
    r"feed_forward\.linear_outer": "mlp.2",
    "norm_attention": "ln_1",
    "norm_feed_forward": "ln_2",
    r"^norm\.": "ln_f.",
    r"^embedding\.": "wte.",
    r"^position\.": "wpe.",
}
"""Patterns in the paths of ours, and nanoGPT's names; queries, keys and values are one layer there."""


@dataclass
class Curve:
    """The times at which steps of a training ended, and the validation losses."""

    ends: list[float] = field(default_factory=list)
    losses: list[float] = field(default_factory=list)

    def seconds_of_steps(self) -> list[float]:
        pairs = enumerate(pairwise(self.ends), 1)
        return [after - before for number, (before, after) in pairs if number % EVERY]

    def steps_to(self, loss: float) -> float:
        """Until the first validation with at most this loss; infinite if none has."""
        reached = (number for number, it in enumerate(self.losses, 1) if it <= loss * ROUNDING)
        return EVERY * next(reached, math.inf)


class Block(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        width = GPT.d_model
        self.ln_1, self.ln_2 = nn.LayerNorm(width), nn.LayerNorm(width)
        self.c_attn, self.c_proj = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.mlp = nn.Sequential(nn.Linear(width, GPT.d_ff), nn.GELU(), nn.Linear(GPT.d_ff, width))

    def forward(self, x: Tensor) -> Tensor:
        query, key, value = (
            it.unflatten(-1, (GPT.n_heads, -1)).transpose(1, 2) for it in self.c_attn(self.ln_1(x)).chunk(3, -1)
        )
        mixed = functional.scaled_dot_product_attention(query, key, value, is_causal=True)
        x = x + self.c_proj(mixed.transpose(1, 2).flatten(2))
        return x + self.mlp(self.ln_2(x))


class Gpt(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.wte, self.wpe = nn.Embedding(GPT.vocab_size, GPT.d_model), nn.Embedding(LENGTH, GPT.d_model)
        self.blocks = nn.ModuleList(Block() for _ in range(GPT.n_layers))
        self.ln_f = nn.LayerNorm(GPT.d_model)

    def forward(self, windows: Tensor) -> Tensor:
        """The mean loss of `[batch, time + 1]` tokens."""
        tokens, targets = windows[:, :-1], windows[:, 1:]
        x = self.wte(tokens) + self.wpe(torch.arange(tokens.shape[1]))
        for block in self.blocks:
            x = block(x)
        logits = functional.linear(self.ln_f(x), self.wte.weight)
        return functional.cross_entropy(logits.flatten(0, 1), targets.flatten())


class Windows:
    """Batches of `[BATCH, LENGTH + 1]` tokens that begin anywhere; each pass goes on drawing, or begins anew."""

    def __init__(self, text: Tensor, count: int, *, repeats: bool = False) -> None:
        self._text, self._count, self._repeats = text, count, repeats
        self._drawn = torch.Generator().manual_seed(1)

    def __len__(self) -> int:
        return self._count

    def __iter__(self) -> Iterator[Tensor]:
        if self._repeats:
            self._drawn.manual_seed(1)
        for _ in range(self._count):
            starts = torch.randint(len(self._text) - LENGTH, (BATCH,), generator=self._drawn).tolist()
            yield torch.stack([self._text[start : start + LENGTH + 1] for start in starts]).long()


def loaders() -> tuple[Windows, Windows]:
    corpus = TextCorpusConfig(context_length=LENGTH).init()
    return (
        Windows(corpus.train_tokens, EVERY),
        Windows(corpus.valid_tokens, VALIDATION_BATCHES, repeats=True),
    )


def first_model() -> nn.Module:
    """burnlike's decoder in GPT-2's layout, with its first values."""
    torch.manual_seed(0)
    model = GPT.init()
    for name, parameter in model.named_parameters():
        if parameter.dim() > 1:
            is_last = name.endswith(("output.weight", "linear_outer.weight"))  # of a part that is added to its input
            nn.init.normal_(parameter, std=0.02 / math.sqrt(2 * GPT.n_layers) if is_last else 0.02)
    return model


def script() -> Curve:
    """The training loop of the script."""
    model, (train, valid) = Gpt(), loaders()
    model.load_state_dict(in_nanogpts_names(record_to_torch(first_model()).tensors))
    optimizer = torch.optim.AdamW(
        *(model.parameters(), RATES.initial_lr, (0.9, ADAMW.beta_2)),
        weight_decay=ADAMW.weight_decay,
        fused=True,
    )
    curve = Curve()
    for _ in range(STEPS // EVERY):
        model.train()
        for batch in train:
            for group in optimizer.param_groups:
                group["lr"] = rate_of(len(curve.ends))
            loss = model(batch)
            loss.backward()
            nn.utils.clip_grad_norm_(model.parameters(), ADAMW.grad_clipping.threshold)
            optimizer.step()
            optimizer.zero_grad(set_to_none=True)
            curve.ends.append(time.perf_counter())
        model.eval()
        with torch.no_grad():
            curve.losses.append(statistics.fmean(model(batch).item() for batch in valid))
    return curve


def in_nanogpts_names(tensors: Mapping[str, Tensor]) -> dict[str, Tensor]:
    state = {renamed(name, NAMES): tensor for name, tensor in tensors.items() if ".attention.o" in name}
    for name, tensor in tensors.items():
        before, is_projection, after = name.partition(".attention.query.")
        if is_projection:
            parts = [tensors[f"{before}.attention.{it}.{after}"] for it in ("query", "key", "value")]
            state[f"{before}.c_attn.{after}"] = torch.cat(parts)
        elif ".attention." not in name:
            state[renamed(name, NAMES)] = tensor
    return state


def rate_of(step: int) -> float:
    """A linear rise, then half a cosine."""
    if step < RATES.warmup_steps:
        return RATES.initial_lr * (step + 1) / RATES.warmup_steps
    progress = (step - RATES.warmup_steps) / (STEPS - RATES.warmup_steps)
    return RATES.min_lr + (RATES.initial_lr - RATES.min_lr) * (1 + math.cos(math.pi * progress)) / 2


class _Notes(Callback):
    def __init__(self) -> None:
        self.curve = Curve()

    def on_step_end(self, learner: Learner[Any]) -> None:
        self.curve.ends.append(time.perf_counter())

    def on_metrics(self, learner: Learner[Any], line: Mapping[str, Any]) -> None:
        if line["split"] == "valid":
            self.curve.losses.append(line["loss"])


def with_burnlike(model: nn.Module, optimizer: AdamWConfig) -> Curve:
    train, valid = loaders()
    learner = Learner(model, optimizer.init(), RATES.init(STEPS), task=LanguageModel())
    notes = _Notes()
    training = TrainingConfig(epochs=STEPS // EVERY, log_every_steps=SHIPPED.training.log_every_steps)
    learner.fit(train, valid, training, renderer=PlainRenderer(io.StringIO()), callbacks=[notes])
    return notes.curve


def same_model() -> Curve:
    """The script's training by the Learner; ours has the epsilon of torch here."""
    return with_burnlike(first_model(), ADAMW.replace(epsilon=1e-8))


def shipped_model() -> Curve:
    """The training of `configs/char_gpt.yaml`."""
    torch.manual_seed(0)
    return with_burnlike(SIZES.init(), ADAMW)


def run(repeats: int) -> list[Comparison]:
    """Both trainings of burnlike beside the script."""
    repeats = min(repeats, MOST_REPEATS)
    sides = (script, same_model, shipped_model)
    curves: dict[Any, list[Curve]] = {side: [] for side in sides}
    for repeat in range(repeats):
        for side in sides if repeat % 2 else reversed(sides):
            curves[side].append(side())
    target = curves[script][0].losses[-1]
    steps = {it: statistics.median(s for curve in curves[it] for s in curve.seconds_of_steps()) * 1e3 for it in sides}
    print("losses of the script " + ", ".join(f"{loss:.3f}" for loss in curves[script][0].losses))
    results = []
    for name, side, bar in (("the same GPT", same_model, None), ("char_gpt", shipped_model, BAR)):
        ours, theirs = (steps[it] * curves[it][0].steps_to(target) for it in (side, script))
        losses = ", ".join(f"{loss:.3f}" for loss in curves[side][0].losses)
        note = f"steps of {steps[side]:.1f} and {steps[script]:.1f} ms; losses {losses}"
        result = Comparison(
            *(f"to loss {target:.3f}: {name}", ours, theirs, "like nanoGPT", theirs / ours, bar),
            *(repeats, torch.get_num_threads(), note),
        )
        print(result, flush=True)
        results.append(result)
    return results


if __name__ == "__main__":
    main(__doc__ or "", run)
