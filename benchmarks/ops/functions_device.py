"""Ops with a derivative on a GPU, forward and backward: against eager torch, `torch.compile`, and Liger's kernels.

    python -m benchmarks.ops.functions_device

The cases are those of the CPU and some of the GPU's own, sixteen times as many rows. Liger is compared with if it is
installed (`pip install liger-kernel`). Without a GPU nothing is measured.
"""

from collections.abc import Callable, Sequence
from dataclasses import replace
from importlib import import_module
from importlib.util import find_spec
from typing import Any

import torch
from torch import Tensor

from benchmarks._harness import Comparison, compare, main
from benchmarks.ops._functions import COMPILED_BAR, DTYPES, FunctionCase, both_passes

OPS = (
    *("rms_norm", "layer_norm", "add_rms_norm", "add_layer_norm", "swiglu", "geglu", "bias_gelu"),
    *("rotary", "cross_entropy", "linear_cross_entropy", "dropout_add", "masked_softmax"),
)
ROWS = 16
"""How many times the rows of a case; of tables and parameters there are as many as before."""
LIGER_BAR = 1.0


def liger(name: str) -> Callable[..., Any] | None:
    """Liger's function of the same arguments as a case's, by the case's name; None without one."""
    if find_spec("liger_kernel") is None:
        return None
    functions: Any = import_module("liger_kernel.transformers.functional")
    op = name.split()[0].rstrip(",")
    if "packed" in name or "tanh" in name:
        return None
    return {
        "rms_norm": lambda x, gamma: functions.liger_rms_norm(x, gamma, 1e-5),
        "layer_norm": lambda x, gamma, beta: functions.liger_layer_norm(x, gamma, beta, 1e-5),
        "swiglu": functions.liger_swiglu,
        "cross_entropy": functions.liger_cross_entropy,
        "linear_cross_entropy": functions.liger_fused_linear_cross_entropy,
    }.get(op)


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
    others: list[tuple[str, Callable[..., Tensor | Sequence[Tensor]], float | None]] = [
        (case.theirs_name, case.theirs, case.bar),
        ("compiled", torch.compile(case.theirs, fullgraph=True), COMPILED_BAR),
    ]
    if (function := liger(case.name)) is not None:
        others.append(("Liger", function, LIGER_BAR))
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
