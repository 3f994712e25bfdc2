"""Conversion with the check for values that became infinite, alone on a GPU, against a copy and torch's copy_.

    python -m benchmarks.ops.convert_device

67 M values as one tensor and as 1024; torch's copy_ does not check. Without a GPU nothing is measured.
"""

import torch

from benchmarks._device import SAMPLE_BYTES, Call, call_count, compare_with_copy, compare_with_torch
from benchmarks._harness import Comparison, main
from burnlike.ops import convert_

from .convert import PAIRS

VALUES = 1 << 26
# Of a copy's rate.
BAR = 0.85


def measure(
    source_type: torch.dtype,
    target_type: torch.dtype,
    tensors: int,
    repeats: int,
    device: str,
    values: int = VALUES,
    sample_bytes: int = SAMPLE_BYTES,
) -> list[Comparison]:
    """One pair of types."""
    torch.manual_seed(0)
    moved = values * (source_type.itemsize + target_type.itemsize)
    lost = torch.zeros(tensors, dtype=torch.int32, device=device)
    ours: list[Call] = []
    theirs: list[Call] = []
    for _ in range(call_count(moved, sample_bytes)):
        sources = torch.randn(values, dtype=source_type, device=device).split(values // tensors)
        targets = torch.empty(values, dtype=target_type, device=device).split(values // tensors)
        ours.append(lambda targets=targets, sources=sources: convert_(targets, sources, lost))
        pairs = zip(targets, sources, strict=True)
        theirs += [lambda target=target, source=source: target.copy_(source) for target, source in pairs]
    names = " to ".join(str(dtype).removeprefix("torch.") for dtype in (source_type, target_type))
    label = f"convert {names}, {tensors} tensor{'s' if tensors > 1 else ''}"
    return [
        compare_with_copy(label, ours, moved, BAR, repeats, device),
        compare_with_torch(label, ours, theirs, repeats, device),
    ]


def run(repeats: int) -> list[Comparison]:
    """Measure the pairs of types that records are converted between, where there is a GPU."""
    if not torch.cuda.is_available():
        print("no CUDA device: not measured")
        return []
    pairs = [*PAIRS, (torch.bfloat16, torch.float16)]
    results = [result for pair in pairs for result in measure(*pair, 1, repeats, "cuda")]
    return results + measure(torch.float32, torch.bfloat16, 1024, repeats, "cuda")


if __name__ == "__main__":
    main(__doc__ or "", run)
