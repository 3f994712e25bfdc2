"""Ops with a derivative on a GPU, both passes and the host's work: against torch, compiled too, Liger and Quack.

    python -m benchmarks.ops.functions_device

The cases are those of the CPU and some of the GPU's own, sixteen times as many rows. What is installed of the other two
libraries is compared with. Without a GPU nothing is measured.
"""

from dataclasses import replace
from importlib import import_module

import torch
from torch import Tensor

from benchmarks._harness import Comparison, compare, main
from benchmarks.ops._functions import COMPILED_BAR, DTYPES, Function, FunctionCase, both_passes
from benchmarks.ops._rivals import rivals
from burnlike.ops._example import examples

# Attention is torch's own on a GPU. The last one is made of other ops, and so has no example.
OPS = (*(op for op in examples() if op != "attention"), "linear_cross_entropy")
ROWS = 16
"""How many times the rows of a case; of tables and parameters there are as many as before."""
RIVAL_BAR = 1.0


def inputs_on(case: FunctionCase, dtype: torch.dtype, device: str, rows: int = ROWS) -> list[Tensor]:
    """A case's tensors on a device, those with the rows of the first one repeated."""
    torch.manual_seed(0)
    made = case.inputs(dtype)
    count = len(made[0])
    repeated = [torch.cat([it.detach()] * rows) if len(it) == count and count > 1 else it.detach() for it in made]
    return [it.to(device).requires_grad_(original.requires_grad) for it, original in zip(repeated, made, strict=True)]


def measure(case: FunctionCase, dtype: torch.dtype, repeats: int, device: str, rows: int = ROWS) -> list[Comparison]:
    """One case in one dtype against each of the others."""
    inputs = inputs_on(case, dtype, device, rows)
    ours = both_passes(case.ours, inputs)
    torch.compiler.reset()
    others: list[tuple[str, Function, float | None]] = [
        (case.theirs_name, case.theirs, case.bar),
        ("compiled", torch.compile(case.theirs, fullgraph=True), COMPILED_BAR),
    ]
    # The other libraries have no form of these.
    if "packed" not in case.name and "tanh" not in case.name:
        others += [(library, function, RIVAL_BAR) for library, function in rivals(case.name.split()[0].rstrip(","))]
    name = f"{case.name}, {rows} times the rows, {str(dtype).removeprefix('torch.')}"
    return [
        compare(name, ours, both_passes(function, inputs), theirs_name=theirs, bar=bar, repeats=repeats)
        for theirs, function, bar in others
    ]


def run(repeats: int) -> list[Comparison]:
    """Measure float32 and bfloat16 where there is a GPU."""
    if not torch.cuda.is_available():
        print("no CUDA device: not measured")
        return []
    modules = [import_module(f"benchmarks.ops.{op}") for op in OPS]
    given = [case for module in modules for case in [*module.CASES, *getattr(module, "DEVICE_CASES", [])]]
    cases = [replace(case, bar=None) for case in given]
    return [result for case in cases for dtype in DTYPES for result in measure(case, dtype, repeats, "cuda")]


if __name__ == "__main__":
    main(__doc__ or "", run)
