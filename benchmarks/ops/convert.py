"""Conversion with the check for values that became infinite, against torch's copy_ and the same check, 16.8 M values.

Once as one tensor, once as 4096 tensors, which are one call of ours. "copy_" alone is shown, too: what the check costs.
"""

import torch
from torch import Tensor

from benchmarks._harness import Comparison, compare, main
from burnlike.ops import convert_, native_status

VALUES, TENSORS = 1 << 24, 4096
PAIRS = (
    (torch.float32, torch.bfloat16),
    (torch.float32, torch.float16),
    (torch.bfloat16, torch.float32),
    (torch.float64, torch.float32),
)


def copy_and_check(targets: list[Tensor], sources: list[Tensor]) -> list[bool]:
    """What a program does without the op; torch has no faster way to look for values that are not finite."""
    for target, source in zip(targets, sources, strict=True):
        target.copy_(source)
    return [bool(torch.stack(target.aminmax()).isfinite().all()) for target in targets]


def _measure(source_type: torch.dtype, target_type: torch.dtype, count: int, repeats: int) -> list[Comparison]:
    torch.manual_seed(0)
    sources = list(torch.randn(VALUES).to(source_type).split(VALUES // count))
    ours_targets = list(torch.empty(VALUES, dtype=target_type).split(VALUES // count))
    theirs_targets = [torch.empty_like(target) for target in ours_targets]
    lost = torch.zeros(count, dtype=torch.int32)

    def ours() -> bool:
        convert_(ours_targets, sources, lost)
        return bool(lost.any())

    def copy() -> None:
        for target, source in zip(theirs_targets, sources, strict=True):
            target.copy_(source)

    ours()
    assert all(copy_and_check(theirs_targets, sources))
    same = all(map(torch.equal, ours_targets, theirs_targets))
    note = "equal values" if same else "VALUES DIFFER"
    names = [str(dtype).removeprefix("torch.") for dtype in (source_type, target_type)]
    label = f"convert {' to '.join(names)}, {count} tensor{'s' if count > 1 else ''}"
    return [
        compare(
            label,
            ours,
            lambda: copy_and_check(theirs_targets, sources),
            theirs_name="copy_ + check",
            repeats=repeats,
            note=note,
        ),
        compare(label, ours, copy, theirs_name="copy_ alone", repeats=repeats),
    ]


def run(repeats: int) -> list[Comparison]:
    """Measure the pairs of types that records are converted between."""
    print(f"CPU kernels: {native_status().isa}")
    repeats = max(repeats // 5, 3)  # 17 million values each
    results = [it for pair in PAIRS for it in _measure(*pair, 1, repeats)]
    return results + _measure(torch.float32, torch.bfloat16, TENSORS, repeats)


if __name__ == "__main__":
    main(__doc__ or "", run)
