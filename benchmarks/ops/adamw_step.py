"""A step of AdamW over a whole model, as a user takes it, against torch.optim.AdamW(fused=True).

What the sides do is said in `benchmarks.optim._sides`. The share of the memory's bandwidth is a comparison with a triad
kernel that moves as many bytes: 28 for each value of a step, and 4 more for the norm; the ratio is the share. The triad
is torch.add(a, b, alpha=s, out=a), 12 bytes a value: with a target that is not among the sources it would move 16, as
the memory of the target is read, too, before it is written, and count 12, which makes a machine look slower than it is.
Moments of fewer bits are compared with those of float32 by time, and by the memory that two steps in a process of their
own take.
"""

import ctypes
import json
import subprocess
import sys
from collections.abc import Iterable

import torch
from torch import nn

from benchmarks._harness import Comparison, compare, main
from benchmarks._memory import with_extra_bytes
from benchmarks.optim._sides import (
    Shapes,
    Side,
    as_in_torch,
    compare_sides,
    language_model,
    ours,
    print_distance,
    theirs,
    value_count,
)
from burnlike.ops import native_status
from burnlike.optim import AdamWConfig, ClipByGlobalNorm
from burnlike.optim.rules.config_base import StateDtype

LR, BETAS, EPSILON, WEIGHT_DECAY, NORM = 1e-3, (0.9, 0.999), 1e-5, 1e-2, 1.0


def config_of(clips: bool = False, state: StateDtype = "auto") -> AdamWConfig:
    return AdamWConfig(
        beta_1=BETAS[0],
        beta_2=BETAS[1],
        epsilon=EPSILON,
        weight_decay=WEIGHT_DECAY,
        grad_clipping=ClipByGlobalNorm(threshold=NORM) if clips else None,
        moment_1=state,
        moment_2=state,
    )


def torch_adamw(params: Iterable[nn.Parameter]) -> torch.optim.Optimizer:
    return torch.optim.AdamW(params, lr=LR, betas=BETAS, eps=EPSILON, weight_decay=WEIGHT_DECAY, fused=True)


def with_torch(
    name: str, shapes: Shapes, bar: float | None, repeats: int, clips: bool = False, device: str = "cpu"
) -> Comparison:
    """A step of both, with clipping by the global norm or without."""
    one = ours(config_of(clips), shapes, LR, device)
    other = theirs(torch_adamw, shapes, device, NORM if clips else None)
    result = compare_sides(name, one, other, theirs_name="torch fused", bar=bar, repeats=repeats)
    print_distance(one, other, result)
    return result


def _behind_torch(name: str, shapes: Shapes, bar: float, repeats: int) -> Comparison:
    one, other = as_in_torch(config_of(), shapes, LR), theirs(torch_adamw, shapes)
    result = compare_sides(name, one, other, theirs_name="torch fused", bar=bar, repeats=repeats)
    print_distance(one, other, result)
    return result


def _with_triad(name: str, shapes: Shapes, repeats: int, clips: bool) -> Comparison:
    side = ours(config_of(clips), shapes, LR)
    # Three calls over a part of as many values that the bytes are those of a step.
    bytes_a_value = 32 if clips else 28
    a, b = (torch.ones(value_count(shapes) * bytes_a_value // 36) for _ in range(2))

    def triad() -> None:
        for _ in range(3):
            torch.add(a, b, alpha=1e-3, out=a)

    moved = value_count(shapes) * bytes_a_value
    result = compare(*(name, side.step, triad), before_ours=side.ready, theirs_name="triad", bar=0.7, repeats=repeats)
    rates = [moved / milliseconds / 1e6 for milliseconds in (result.ours_ms, result.theirs_ms)]
    print(f"  ours moves {rates[0]:.1f} GB/s, the triad {rates[1]:.1f}")
    return result


def child(state: StateDtype | None, threads: int) -> None:
    """The memory that two steps of a fresh process take, as JSON; those of torch for None."""
    torch.set_num_threads(threads)
    _two_steps(_side([(64,)], state))  # what the first step of all loads is not counted
    side = _side(language_model(), state)
    ctypes.CDLL(None).malloc_trim(0)  # or the steps would take memory that making the model has freed
    print(json.dumps(with_extra_bytes(lambda: _two_steps(side))[1]))


def _side(shapes: Shapes, state: StateDtype | None) -> Side:
    return theirs(torch_adamw, shapes) if state is None else ours(config_of(state=state), shapes, LR)


def _two_steps(side: Side) -> None:
    for _ in range(2):
        side.ready()
        side.step()


def _megabytes_taken(state: StateDtype | None) -> float:
    code = f"from benchmarks.ops.adamw_step import child; child({state!r}, {torch.get_num_threads()})"
    text = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True).stdout
    return json.loads(text) / 1e6


def _states(shapes: Shapes, repeats: int) -> list[Comparison]:
    wide = _megabytes_taken("float32")
    print(f"  memory of two steps: {wide:.0f} MB with float32 moments, {_megabytes_taken(None):.0f} MB with torch's")
    return [_with_float32(state, shapes, repeats, wide) for state in ("bfloat16", "blockwise8")]


def _with_float32(state: StateDtype, shapes: Shapes, repeats: int, wide_megabytes: float) -> Comparison:
    return compare_sides(
        f"AdamW step, {state} moments",
        ours(config_of(state=state), shapes, LR),
        ours(config_of(state="float32"), shapes, LR),
        theirs_name="float32 moments",
        repeats=repeats,
        note=f"memory of two steps: {_megabytes_taken(state):.0f} MB in place of {wide_megabytes:.0f}",
    )


def run(repeats: int) -> list[Comparison]:
    """Measure a large model and one of many small tensors."""
    print(f"CPU kernels: {native_status().isa}")
    large = language_model()
    name, fewer = f"{len(large)} tensors, {value_count(large) / 1e6:.1f} M values", max(5, repeats // 3)
    return [
        with_torch(f"AdamW step, {name}", large, 1.0, fewer),
        with_torch(f"Clip and AdamW, {name}", large, 1.5, fewer, clips=True),
        _with_triad("AdamW step, bandwidth", large, fewer, clips=False),
        _with_triad("Clip and AdamW, bandwidth", large, fewer, clips=True),
        *_states(large, fewer),
        with_torch("AdamW step, 300 tensors of 64 values", [(64,)] * 300, 3.0, repeats * 10),
        _behind_torch("TorchOptimizer, 300 tensors of 64 values", [(64,)] * 300, 3.0, repeats * 10),
    ]


if __name__ == "__main__":
    main(__doc__ or "", run)
