"""All benchmarks of a GPU, one after the other; results go to the folder of benchmarks/results that names the GPU.

    python -m benchmarks.device

What a call costs the host comes first, then the kernels alone. Without a GPU nothing is measured, and nothing written.
"""

import torch

from benchmarks import record_device
from benchmarks._harness import main
from benchmarks._results import FOLDER, Comparison
from benchmarks.ops import (
    adamw_step_device,
    calls,
    convert_device,
    functions_device,
    gradient_squares_device,
    sizes_device,
)

BENCHMARKS = (
    calls,
    sizes_device,
    functions_device,
    gradient_squares_device,
    convert_device,
    adamw_step_device,
    record_device,
)


def run(repeats: int) -> list[Comparison]:
    """Run them all, each with the memory to itself."""
    if not torch.cuda.is_available():
        print("no CUDA device: not measured")
        return []
    results: list[Comparison] = []
    for benchmark in BENCHMARKS:
        print(f"\n{(benchmark.__doc__ or '').strip()}\n")
        results += benchmark.run(repeats)
        torch.cuda.empty_cache()
    return results


if __name__ == "__main__":
    main("All benchmarks of a GPU", run, results=FOLDER if torch.cuda.is_available() else None)
