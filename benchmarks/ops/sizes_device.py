"""Ops that go by rows, alone on a GPU: against a copy of as many bytes, torch, torch.compile, Liger and Quack.

    python -m benchmarks.ops.sizes_device [--compiled] [NAME ...]

Rows of 1024, 4096 and 8192 values (cross-entropy: 32,000 and 128,256 classes), in bfloat16 and float32, forward and
both passes. Calls are captured once and replayed, so the host's work does not count; `benchmarks.ops.calls` measures
that. The bytes are those that an op has to read and write at least. `torch.compile` is measured with `--compiled`
alone: it compiles 132 times, which takes more than ten minutes. Without a GPU nothing is measured.
"""

from collections.abc import Sequence

import torch

from benchmarks._device import SAMPLE_BYTES, Call, call_count, captured, compare_with_copy
from benchmarks._harness import compare, main
from benchmarks._results import Comparison
from benchmarks.ops._functions import Function, both_passes
from benchmarks.ops._rivals import rivals
from benchmarks.ops._sizes import SIZED

WIDTHS, ROWS = (1024, 4096, 8192), (4096, 16_384, 32_768)
CLASSES, ROWS_OF_CLASSES = (32_000, 128_256), (4096, 8192)
DTYPES = (torch.bfloat16, torch.float32)
# Shares of a copy's rate.
FORWARD_BAR, BOTH_BAR = 0.85, 0.8
# Compiling takes much longer than measuring: if asked for, and for one number of rows of each width.
COMPILED_ROWS = (16_384, 8192)


def _calls(function: Function, inputs: Sequence[list[torch.Tensor]], is_forward: bool) -> list[Call]:
    """One call for each list of inputs."""

    def forward(tensors: list[torch.Tensor]) -> Call:
        def call() -> object:
            with torch.no_grad():
                return function(*tensors)

        return call

    return [forward(it) if is_forward else both_passes(function, it) for it in inputs]


def measure(
    op: str,
    rows: int,
    width: int,
    dtype: torch.dtype,
    repeats: int,
    device: str,
    compiled: bool = False,
    sample_bytes: int = SAMPLE_BYTES,
) -> list[Comparison]:
    """One op at one size, both ways."""
    case = SIZED[op]
    others: list[tuple[str, Function]] = [("torch", case.theirs)]
    if compiled:
        torch.compiler.reset()
        others.append(("compiled", torch.compile(case.theirs, fullgraph=True, dynamic=False)))
    others += rivals(op) if device == "cuda" else []
    results: list[Comparison] = []
    for is_forward in (True, False):
        moved = (case.forward if is_forward else case.both) * rows * width * dtype.itemsize
        torch.manual_seed(0)
        inputs = [case.inputs(rows, width, dtype, device) for _ in range(call_count(moved, sample_bytes))]
        name = f"{op} {'forward' if is_forward else 'both passes'} {rows} x {width} {str(dtype).removeprefix('torch.')}"
        ours = _calls(case.ours, inputs, is_forward)
        bar = FORWARD_BAR if is_forward else BOTH_BAR
        results.append(compare_with_copy(name, ours, moved, bar, repeats, device))
        run = captured(ours, device)
        for theirs, function in others:
            try:
                other = captured(_calls(function, inputs, is_forward), device)
            except Exception as error:  # what another library refuses does not end the run
                print(f"{name}: {theirs} not measured: {type(error).__name__}: {error}")
                continue
            results.append(compare(name, run, other, theirs_name=theirs, repeats=repeats))
    return results


def run(repeats: int, names: Sequence[str] = (), compiled: bool = False) -> list[Comparison]:
    """Measure where there is a GPU: all ops, or those of the names."""
    if not torch.cuda.is_available():
        print("no CUDA device: not measured")
        return []
    return [
        result
        for op in names or SIZED
        for dtype in DTYPES
        for width in (CLASSES if op == "cross_entropy" else WIDTHS)
        for rows in (ROWS_OF_CLASSES if op == "cross_entropy" else ROWS)
        for result in measure(op, rows, width, dtype, max(5, repeats // 3), "cuda", compiled and rows in COMPILED_ROWS)
    ]


if __name__ == "__main__":
    main(__doc__ or "", run, names=list(SIZED), switches={"compiled": "measure torch.compile too, ten minutes more"})
