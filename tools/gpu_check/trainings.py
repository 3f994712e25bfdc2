"""Part `trainings`: `char_gpt`, killed and resumed; a Llama of 100 M values, fused beside itself; peak memory.

Without transformers the model is burnlike's own decoder of that size, alone.
"""

import json
import sys
import tempfile
from collections.abc import Callable
from importlib.util import find_spec
from pathlib import Path

import torch
from torch import Tensor, nn

from benchmarks._harness import compare, time_of
from benchmarks.models.step import Mode, Side, llamas, step_of
from burnlike.models import DecoderLmConfig, RotaryPositions
from burnlike.nn import CrossEntropyLossConfig

from . import processes
from .environment import ROOT
from .results import CUT, Part

STEPS = 100
NEW = 64
REPEATS = 10
WITHOUT_FUSE = "itself without fuse"
BENCHMARK = "models.step"

LARGE = DecoderLmConfig(
    vocab_size=32_000,
    max_sequence_length=1024,
    d_model=768,
    n_layers=8,
    n_heads=12,
    d_ff=2048,
    positions=RotaryPositions(interleaved=False),
    tied=False,
)
"""106 M values."""
TINY = LARGE.replace(vocab_size=64, max_sequence_length=64, d_model=32, n_layers=1, n_heads=2, d_ff=48)


def run(part: Part) -> None:
    """Run the trainings: the resumed ones in processes of their own."""
    for precision in ("float32", "bfloat16"):
        part.step(f"char_gpt in {precision}", lambda precision=precision: _resumed(part, precision))
    for autocast in (True, False):
        name = "bfloat16" if autocast else "float32"
        if find_spec("transformers") is None:
            part.step(f"decoder, {name}", lambda name=name, autocast=autocast: _decoder_alone(part, name, autocast))
        else:
            part.step(f"Llama, {name}", lambda name=name, autocast=autocast: _llama_steps(part, name, autocast))
    if find_spec("transformers") is None:
        part.result.skipped.append("Llama with fuse: transformers is not installed")
        part.step("decoder, generation", lambda: _generation_alone(part))
    else:
        part.step("Llama, generation", lambda: _llama_generation(part))


def _resumed(part: Part, precision: str) -> None:
    """`burnlike verify-resume`, and the losses that its run has written."""
    config, steps = ("char_gpt_tiny", 4) if part.is_rehearsal else ("char_gpt", STEPS)
    log = part.folder / f"resume-{precision}.log"
    with tempfile.TemporaryDirectory(prefix="gpu-check-") as place:
        options = ["--steps", str(steps), "--keep", f"{place}/runs"]
        options += ["--set", f"training.precision={precision}", "--set", f"device={part.device}"]
        options += ["--import", "tools.gpu_check.deterministic"]
        command = [sys.executable, "-m", "burnlike", "verify-resume", config, *options]
        # cuBLAS gives the same bits only with workspaces of its own.
        variables = {"CUBLAS_WORKSPACE_CONFIG": ":4096:8"}
        ended = processes.run(command, log, part.seconds_left(), variables, str(ROOT))
        if ended.status is None:
            part.result.status, part.result.reason = CUT, f"{config} in {precision} was not done"
            return
        if ended.status != 0:
            part.result.fail(f"{config} in {precision}: {processes.last_lines(log, 6)}")
        metrics = Path(place, "runs", "whole", "metrics.jsonl")
        lines = [json.loads(it) for it in metrics.read_text().splitlines()] if metrics.exists() else []
    losses = [it["loss"] for it in lines if it["split"] == "train"]
    if not losses:
        part.result.fail(f"{config} in {precision}: no loss was written")
        return
    first, last = losses[0], losses[-1]
    part.result.notes.append(
        f"{config} in {precision}: loss {first:.4f} to {last:.4f} in {len(losses)} steps, killed and resumed, "
        f"{ended.seconds:.0f} s for both runs with starts"
    )
    if not last < first:
        part.result.fail(f"{config} in {precision}: the loss went from {first:.4f} to {last:.4f}")


def _batch(part: Part) -> Tensor:
    config, rows = (TINY, 2) if part.is_rehearsal else (LARGE, 8)
    torch.manual_seed(1)
    length = config.max_sequence_length
    return torch.randint(0, config.vocab_size, (2, rows, length), device=part.device)


def _llama_sides(part: Part) -> tuple[Side, Side]:
    sides = llamas(TINY if part.is_rehearsal else LARGE)
    return tuple((model.to(part.device), loss) for model, loss in sides)  # pyright: ignore[reportReturnType]


def _llama_steps(part: Part, name: str, autocast: bool) -> None:
    mode, batch = Mode(compiled=False, autocast=autocast, bar=1.0), _batch(part)
    ours, theirs = (step_of(side, mode, batch) for side in _llama_sides(part))
    peaks = _peak(part, ours), _peak(part, theirs)
    losses = ours().item(), theirs().item()
    _check_losses(part, f"Llama, {name}", *losses, 2e-2 if autocast else 1e-3)
    note = f"losses {losses[0]:.4f} and {losses[1]:.4f}; "
    note += f"peak over the models {peaks[0] / 1e9:.2f} and {peaks[1] / 1e9:.2f} GB"
    row = compare(
        f"llama {_size(part)} eager {name} on {part.device}",
        ours,
        theirs,
        theirs_name=WITHOUT_FUSE,
        repeats=1 if part.is_rehearsal else REPEATS,
        note=note,
    )
    part.add_rows(BENCHMARK, [row])


def _decoder(part: Part) -> Side:
    torch.manual_seed(0)
    loss = CrossEntropyLossConfig().init()
    model = (TINY if part.is_rehearsal else LARGE).init(part.device)
    return model, lambda net, tokens, targets: loss(net(tokens).flatten(0, 1), targets.flatten())


def _decoder_alone(part: Part, name: str, autocast: bool) -> None:
    step = step_of(_decoder(part), Mode(compiled=False, autocast=autocast, bar=1.0), _batch(part))
    first = step().item()
    peak = _peak(part, step)
    seconds = min(time_of(step) for _ in range(1 if part.is_rehearsal else REPEATS))
    part.result.notes.append(
        f"decoder {_size(part)}, {name}: {seconds * 1e3:.2f} ms a step, first loss {first:.4f}, "
        f"peak over the model {peak / 1e9:.2f} GB"
    )


def _check_losses(part: Part, name: str, ours: float, theirs: float, most: float) -> None:
    if not abs(ours - theirs) <= most * abs(theirs):
        part.result.fail(f"{name}: loss {ours:.5f}, without fuse {theirs:.5f}")


def _size(part: Part) -> str:
    return "tiny" if part.is_rehearsal else "106 M"


def _peak(part: Part, step: Callable[[], Tensor]) -> int:
    """The most bytes that a step takes on the GPU over what is there before, as after one step; 0 on a CPU."""
    step()
    if part.is_rehearsal:
        return 0
    before = torch.cuda.memory_allocated()
    torch.cuda.reset_peak_memory_stats()
    step()
    return torch.cuda.max_memory_allocated() - before


def _llama_generation(part: Part) -> None:
    """Greedy tokens of transformers' own `generate`, fused and not, and how many of them are the same."""
    config, new = (TINY, 4) if part.is_rehearsal else (LARGE, NEW)
    ours, theirs = (model.eval() for model, _ in _llama_sides(part))
    prompt = torch.randint(3, config.vocab_size, (1, 16), device=part.device)
    options = {"max_new_tokens": new, "min_new_tokens": new, "do_sample": False, "pad_token_id": 0, "use_cache": True}

    def generate(model: nn.Module) -> Callable[[], Tensor]:
        mask = torch.ones_like(prompt)
        return lambda: model.generate(prompt, attention_mask=mask, **options)  # pyright: ignore

    with torch.no_grad():
        same = (generate(ours)() == generate(theirs)()).double().mean().item()
        row = compare(
            f"generate {new} tokens, llama {_size(part)}, float32 on {part.device}",
            generate(ours),
            generate(theirs),
            theirs_name=WITHOUT_FUSE,
            repeats=1 if part.is_rehearsal else 3,
            note=f"{same:.0%} of the tokens are the same",
        )
    part.add_rows("models.generate", [row])


def _generation_alone(part: Part) -> None:
    model, new = _decoder(part)[0].eval(), 4 if part.is_rehearsal else NEW
    prompt = torch.randint(0, 64, (1, 16), device=part.device)
    with torch.no_grad():
        model.generate(prompt, new)  # pyright: ignore[reportCallIssue]
        seconds = time_of(lambda: model.generate(prompt, new))  # pyright: ignore[reportCallIssue]
    part.result.notes.append(f"decoder {_size(part)}, float32: {new / seconds:.0f} tokens/s in one row")
