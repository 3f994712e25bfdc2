"""What a call of an op costs the host, on 8 values: 1,000 calls a repeat, so that ms read as us per call.

    python -m benchmarks.ops.calls

Without a gradient (in `torch.no_grad`), with one recorded, and with the backward pass by `torch.autograd.grad`. On a
GPU, too, this is the host's time, without waiting for the device: shorter kernels leave it idle.
"""

import time
from collections.abc import Callable

import torch

from benchmarks._harness import compare, main
from benchmarks._results import Comparison
from benchmarks.ops._functions import Function, both_passes
from benchmarks.ops._rivals import rivals
from benchmarks.ops._sizes import SIZED

CALLS, ON_GPU = 1000, 200  # a GPU's queue holds about a thousand kernels
Call = Callable[[], object]


def _loop(call: Call, count: int) -> Call:
    def run() -> None:
        for _ in range(count):
            call()

    return run


def _host_time(scale: float) -> Callable[[Call], float]:
    def measure(call: Call) -> float:
        if torch.cuda.is_available():
            torch.cuda.synchronize()
        start = time.perf_counter()
        call()
        return (time.perf_counter() - start) * scale

    return measure


def _ways(function: Function, inputs: list[torch.Tensor]) -> dict[str, Call]:
    def plain() -> None:
        with torch.no_grad():
            function(*inputs)

    return {
        "no gradient": plain,
        "recorded": lambda: function(*inputs),
        "both passes": both_passes(function, inputs),
    }


def measure(op: str, repeats: int, device: str, count: int = CALLS) -> list[Comparison]:
    """One op, in three ways, against torch and what else is installed."""
    case = SIZED[op]
    inputs = case.inputs(1, 8, torch.float32, device)
    ours = _ways(case.ours, inputs)
    others = {"torch": case.theirs, **(dict(rivals(op)) if device == "cuda" else {})}
    results: list[Comparison] = []
    for name, function in others.items():
        try:
            theirs = _ways(function, inputs)
        except Exception as error:  # what another library refuses does not end the run
            print(f"call of {op}: {name} not measured: {type(error).__name__}: {error}")
            continue
        results += [
            compare(
                f"call of {op}, {way}",
                _loop(ours[way], count),
                _loop(call, count),
                theirs_name=name,
                repeats=repeats,
                measure=_host_time(CALLS / count),
            )
            for way, call in theirs.items()
        ]
    return results


def run(repeats: int) -> list[Comparison]:
    """Measure on the GPU where there is one, else on the CPU."""
    device, count = ("cuda", ON_GPU) if torch.cuda.is_available() else ("cpu", CALLS)
    return [result for op in SIZED for result in measure(op, max(5, repeats // 5), device, count)]


if __name__ == "__main__":
    main(__doc__ or "", run)
