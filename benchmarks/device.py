"""All benchmarks of a GPU, one after the other; the results go to benchmarks/results/<name of the GPU>.json.

    python -m benchmarks.device

Without a GPU nothing is measured, and nothing written.
"""

import re
from pathlib import Path

import torch

from benchmarks import record_device
from benchmarks._harness import Comparison, main
from benchmarks.ops import adamw_step_device, convert_device, functions_device, gradient_squares_device, rms_norm_device

BENCHMARKS = (
    rms_norm_device,
    functions_device,
    gradient_squares_device,
    convert_device,
    adamw_step_device,
    record_device,
)
RESULTS = Path(__file__).parent / "results"


def run(repeats: int) -> list[Comparison]:
    """Run them all, each with the memory to itself."""
    results: list[Comparison] = []
    for benchmark in BENCHMARKS:
        print(f"\n{(benchmark.__doc__ or '').strip()}\n")
        results += benchmark.run(repeats)
        if torch.cuda.is_available():
            torch.cuda.empty_cache()
    return results


def results_file() -> Path | None:
    """Where the results of this machine's GPU go; None without one."""
    if not torch.cuda.is_available():
        return None
    name = re.sub(r"\W+", "-", torch.cuda.get_device_name()).strip("-").lower()
    return RESULTS / f"{name}.json"


if __name__ == "__main__":
    main("All benchmarks of a GPU", run, json_file=results_file())
