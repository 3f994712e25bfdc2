"""A chain of seven element-wise operations on 1 M and 16 M float32 values: typed, in torch, compiled.

The C allocator's settings belong to a process, so two take turns: one as Python starts, one after
`burnlike.keep_freed_memory()`. Each times its own calls.
"""

import multiprocessing
import time
from collections.abc import Callable
from typing import Any

import torch

from benchmarks._harness import Comparison, compare, main

SIZES = {"1 M": 1 << 20, "16 M": 1 << 24}


def chain(x: Any) -> Any:
    """Seven operations that are methods of typed and of torch's tensors."""
    return x.mul(2.0).add(1.0).tanh().mul(x).sub(0.5).abs().sqrt()


def worker(pipe: Any, keep: bool, threads: int) -> None:
    """Answer each request `(what, size)` with the seconds that the chain took."""
    import burnlike

    torch.set_num_threads(threads)
    if keep and not burnlike.keep_freed_memory():
        raise SystemExit("the C library is not glibc")
    inputs = {name: torch.rand(elements) for name, elements in SIZES.items()}
    typed = {name: burnlike.Tensor(x, burnlike.Cpu()) for name, x in inputs.items()}
    compiled = torch.compile(chain, fullgraph=True)
    while (request := pipe.recv()) is not None:
        what, size = request
        x = (typed if what.startswith("typed") else inputs)[size]
        function = compiled if what.endswith("compiled") else chain
        start = time.perf_counter()
        function(x)
        pipe.send(time.perf_counter() - start)


class Worker:
    """A process that times chains."""

    def __init__(self, keep: bool) -> None:
        context = multiprocessing.get_context("spawn")
        self.pipe, theirs = context.Pipe()
        self.process = context.Process(target=worker, args=(theirs, keep, torch.get_num_threads()), daemon=True)
        self.process.start()

    def seconds_of(self, what: str, size: str) -> Callable[[], float]:
        """A call that asks the process for the time of one chain."""

        def ask() -> float:
            self.pipe.send((what, size))
            return self.pipe.recv()

        return ask

    def stop(self) -> None:
        """End the process."""
        self.pipe.send(None)
        self.process.join()


def run(repeats: int) -> list[Comparison]:
    """Measure each way against torch's eager mode, and the compiled ways against one another."""
    fresh, keeping = Worker(keep=False), Worker(keep=True)
    options: dict[str, Any] = {"repeats": repeats, "measure": lambda call: call()}
    results = []
    try:
        for size in SIZES:
            eager = fresh.seconds_of("plain", size)
            compiled = fresh.seconds_of("plain compiled", size)
            for name, ours, theirs, theirs_name in [
                ("typed", fresh.seconds_of("typed", size), eager, "eager"),
                ("typed, memory kept", keeping.seconds_of("typed", size), eager, "eager"),
                ("torch, memory kept", keeping.seconds_of("plain", size), eager, "eager"),
                ("typed compiled", fresh.seconds_of("typed compiled", size), eager, "eager"),
                ("typed compiled", fresh.seconds_of("typed compiled", size), compiled, "torch.compile"),
                ("typed, memory kept", keeping.seconds_of("typed", size), compiled, "torch.compile"),
            ]:
                results.append(compare(f"chain of 7, {size}: {name}", ours, theirs, theirs_name=theirs_name, **options))
    finally:
        fresh.stop()
        keeping.stop()
    return results


if __name__ == "__main__":
    main(__doc__ or "", run)
