"""A step of AdamW on a GPU, as a user takes it, against torch.optim.AdamW(fused=True) and against a copy on the device.

    python -m benchmarks.ops.adamw_step_device

What the sides do is said in `benchmarks.optim._sides`. They step the tensors of a language model, with and without
clipping, and 1 B values in large tensors, or as many as fit, with moments of float32, bfloat16 and 8 bits. The share of
the bandwidth is that of the bytes a step has to read and write (28 a value with float32 moments) to those a copy moves
in the same time. Without a GPU nothing is measured.
"""

import torch

from benchmarks._harness import Comparison, compare, main
from benchmarks.optim._sides import Shapes, language_model, ours, value_count
from burnlike.ops import BLOCK
from burnlike.optim.rules.config_base import StateDtype

from .adamw_step import LR, config_of, with_torch

# A tensor as large models have it, and how many are 1 B values.
LARGE, BILLION = (16_384, 4096), 15
# Bytes a value that two sides need: parameters, gradients, two moments and what their making takes.
BYTES_OF_SIDES = 44
# Bytes of one value of a moment.
BYTES: dict[StateDtype, float] = {"float32": 4, "bfloat16": 2, "blockwise8": 1 + 4 / BLOCK}


def large_model(free_bytes: int) -> Shapes:
    """As many large tensors as four fifths of the memory have place for, 1 B values at most."""
    needed = value_count([LARGE]) * BYTES_OF_SIDES
    return [LARGE] * max(1, min(BILLION, free_bytes * 4 // 5 // needed))


def with_copy(state: StateDtype, shapes: Shapes, bar: float | None, repeats: int, device: str = "cuda") -> Comparison:
    """A step with moments of a type against a copy of as many bytes."""
    side = ours(config_of(state=state), shapes, LR, device)
    # Parameters and two moments are read and written, gradients read.
    bytes_a_value = 3 * 4 + 4 * BYTES[state]
    # A copy of half the bytes moves as many, as it reads and writes.
    source = torch.zeros(int(value_count(shapes) * bytes_a_value / 2), dtype=torch.uint8, device=device)
    target = torch.empty_like(source)
    return compare(
        f"AdamW step on a {'GPU' if device == 'cuda' else 'CPU'}, {value_count(shapes) / 1e9:.2f} B values, {state}",
        side.step,
        lambda: target.copy_(source),
        before_ours=side.ready,
        theirs_name="copy of as many bytes",
        bar=bar,
        repeats=repeats,
        note=f"{bytes_a_value:.2f} bytes a value",
    )


def run(repeats: int) -> list[Comparison]:
    """Measure both bars where there is a GPU."""
    if not torch.cuda.is_available():
        print("no CUDA device: not measured")
        return []
    model, fewer = language_model(), max(5, repeats // 3)
    large = large_model(torch.cuda.mem_get_info()[0])
    name = f"AdamW step on a GPU, {value_count(large) / 1e9:.2f} B values"
    return [
        with_torch("AdamW step on a GPU, language model", model, 1.0, repeats, device="cuda"),
        with_torch("Clip and AdamW on a GPU, language model", model, None, repeats, clips=True, device="cuda"),
        with_torch(name, large, 1.0, fewer, device="cuda"),
        with_copy("float32", large, 0.85, fewer),
        with_copy("bfloat16", large, None, fewer),
        with_copy("blockwise8", large, None, fewer),
    ]


if __name__ == "__main__":
    main(__doc__ or "", run)
