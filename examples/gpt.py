"""A small GPT trained on characters by a script of the shape that nanoGPT made usual; `--burnlike` changes five lines.

Weights with two or more dimensions decay, the rate is set by hand for each step, gradients of several micro-batches are
added up and clipped, and a checkpoint is one file that is replaced. With burnlike the optimizer's state follows its
parameters by name and id, and the checkpoint holds the random generators too.
"""

import argparse
import inspect
import json
import math
import os
from pathlib import Path

import torch
from torch import Tensor, nn
from torch.nn import functional

import burnlike as bl
from burnlike.train import TrainingState

CONTEXT, WIDTH, HEADS, LAYERS, BATCH, MICRO_BATCHES = 32, 48, 4, 2, 8, 2
LR, WARMUP, DECAY_STEPS, BETAS, WEIGHT_DECAY, CLIP = 3e-3, 5, 200, (0.9, 0.95), 0.1, 1.0


class Block(nn.Module):
    """Attention and a feed-forward part, each after a norm and added to its input."""

    def __init__(self) -> None:
        super().__init__()
        self.ln_1, self.ln_2 = nn.LayerNorm(WIDTH, bias=False), nn.LayerNorm(WIDTH, bias=False)
        self.c_attn = nn.Linear(WIDTH, 3 * WIDTH, bias=False)
        self.c_proj = nn.Linear(WIDTH, WIDTH, bias=False)
        self.mlp = nn.Sequential(nn.Linear(WIDTH, 4 * WIDTH), nn.GELU(), nn.Linear(4 * WIDTH, WIDTH), nn.Dropout(0.1))

    def forward(self, x: Tensor) -> Tensor:
        """`[batch, time, width]` of both."""
        batch, time, _ = x.shape
        heads = self.c_attn(self.ln_1(x)).view(batch, time, 3, HEADS, WIDTH // HEADS).permute(2, 0, 3, 1, 4)
        mixed = functional.scaled_dot_product_attention(*heads, is_causal=True)
        x = x + self.c_proj(mixed.transpose(1, 2).reshape(batch, time, WIDTH))
        return x + self.mlp(self.ln_2(x))


class Gpt(nn.Module):
    """A decoder whose output layer is its embedding."""

    def __init__(self, vocab_size: int) -> None:
        super().__init__()
        self.wte, self.wpe = nn.Embedding(vocab_size, WIDTH), nn.Embedding(CONTEXT, WIDTH)
        self.h = nn.ModuleList(Block() for _ in range(LAYERS))
        self.ln_f = nn.LayerNorm(WIDTH, bias=False)
        self.lm_head = nn.Linear(WIDTH, vocab_size, bias=False)
        self.wte.weight = self.lm_head.weight
        for parameter in self.parameters():
            if parameter.dim() >= 2:
                nn.init.normal_(parameter, std=0.02)

    def forward(self, tokens: Tensor, targets: Tensor) -> Tensor:
        """The mean loss of `[batch, time]` tokens whose successors are `targets`."""
        x = self.wte(tokens) + self.wpe(torch.arange(tokens.shape[1]))
        for block in self.h:
            x = block(x)
        return functional.cross_entropy(self.lm_head(self.ln_f(x)).flatten(0, 1), targets.flatten())


def make_optimizer(model: nn.Module, with_burnlike: bool) -> torch.optim.Optimizer:
    """AdamW that lets matrices decay and nothing else."""
    decays = [parameter for parameter in model.parameters() if parameter.dim() >= 2]
    others = [parameter for parameter in model.parameters() if parameter.dim() < 2]
    groups = [{"params": decays, "weight_decay": WEIGHT_DECAY}, {"params": others, "weight_decay": 0.0}]
    if with_burnlike:
        config = bl.optim.AdamWConfig(beta_1=BETAS[0], beta_2=BETAS[1], epsilon=1e-8)
        return bl.interop.TorchOptimizer(model, config, lr=LR, params=groups)
    return torch.optim.AdamW(groups, lr=LR, betas=BETAS)


def rate_of(step: int) -> float:
    """A linear rise, then a cosine down to a tenth."""
    if step < WARMUP:
        return LR * (step + 1) / WARMUP
    done = min(1.0, (step - WARMUP) / (DECAY_STEPS - WARMUP))
    return LR * (0.1 + 0.45 * (1 + math.cos(math.pi * done)))


def replace(path: Path, state: object) -> None:
    """What `torch.save` writes, at once in the place of what was there."""
    torch.save(state, path.with_suffix(".new"))
    os.replace(path.with_suffix(".new"), path)


def main(argv: list[str] | None = None) -> None:
    """Train, a line of JSON for each step in `OUT/losses.jsonl`."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--steps", type=int, default=200)
    parser.add_argument("--save-every", type=int, default=20)
    parser.add_argument("--out", type=Path, default=Path("gpt"))
    parser.add_argument("--resume", action="store_true")
    parser.add_argument("--burnlike", action="store_true")
    args = parser.parse_args(argv)
    args.out.mkdir(parents=True, exist_ok=True)

    torch.manual_seed(1337)
    text = inspect.getsource(argparse)
    letters = sorted(set(text))
    data = torch.tensor([letters.index(letter) for letter in text])
    model = Gpt(len(letters))
    optimizer = make_optimizer(model, args.burnlike)
    scaler = torch.amp.GradScaler("cpu", enabled=False)  # as for float16
    counters = {"step": 0}
    checkpoint, log = (
        args.out / ("checkpoint.safetensors" if args.burnlike else "checkpoint.pt"),
        args.out / "losses.jsonl",
    )
    state = TrainingState(model=model, optimizer=optimizer, counters=counters)
    if args.resume and checkpoint.exists():
        if args.burnlike:
            state.load(checkpoint)
        else:
            saved = torch.load(checkpoint, weights_only=True)
            model.load_state_dict(saved["model"])
            optimizer.load_state_dict(saved["optimizer"])
            torch.set_rng_state(saved["random"])
            counters["step"] = saved["step"]
    lines = log.read_text().splitlines(keepends=True)[: counters["step"]] if args.resume and log.exists() else []
    log.write_text("".join(lines))

    while counters["step"] < args.steps:
        for group in optimizer.param_groups:
            group["lr"] = rate_of(counters["step"])
        total = 0.0
        for _ in range(MICRO_BATCHES):
            starts = torch.randint(len(data) - CONTEXT - 1, (BATCH,))
            tokens = torch.stack([data[start : start + CONTEXT + 1] for start in starts])
            with torch.autocast("cpu", torch.bfloat16, enabled=False):
                loss = model(tokens[:, :-1], tokens[:, 1:]) / MICRO_BATCHES
            scaler.scale(loss).backward()
            total += loss.item()
        scaler.unscale_(optimizer)
        nn.utils.clip_grad_norm_(model.parameters(), CLIP)
        scaler.step(optimizer)
        scaler.update()
        optimizer.zero_grad(set_to_none=True)
        counters["step"] += 1
        with log.open("a") as file:
            file.write(json.dumps({"step": counters["step"], "loss": total}) + "\n")
        if counters["step"] % args.save_every == 0 or counters["step"] == args.steps:
            if args.burnlike:
                state.save(checkpoint)
            else:
                random = torch.get_rng_state()
                parts = {"model": model.state_dict(), "optimizer": optimizer.state_dict()}
                replace(checkpoint, {**parts, "step": counters["step"], "random": random})
    print(f"loss {total:.4f} after {counters['step']} steps")


if __name__ == "__main__":
    main()
