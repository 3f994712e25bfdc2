"""Compiled graphs with each op as it is, beside the same with its plain-torch reference, forward and backward.

The op stands between a sum and a product, as in models, which the compiler can fuse with the reference only. The lines
at the end are the table of `burnlike/ops/_compiled.py`: the ops whose reference is faster there.
"""

from collections.abc import Callable, Sequence

import torch
from torch import Tensor

from benchmarks._harness import Comparison, compare, main
from benchmarks.ops import rms_norm
from benchmarks.ops._functions import DTYPES, FunctionCase, both_passes
from burnlike.ops import force_compiled_form
from burnlike.ops._compiled import Form

MODULES = {"rms_norm": rms_norm}
# What the reference has to gain before it is taken: below that, runs differ by more.
MARGIN = 1.05


def _among_others(function: Callable[..., Tensor | Sequence[Tensor]]) -> Callable[..., list[Tensor]]:
    def graph(x: Tensor, *others: Tensor) -> list[Tensor]:
        results = function(x + 0.5 * x.detach(), *others)
        return [it * 2 for it in ([results] if isinstance(results, Tensor) else results)]

    return graph


def _compiled(case: FunctionCase, form: Form, inputs: list[Tensor]) -> Callable[[], object]:
    torch.compiler.reset()
    with force_compiled_form(form):
        call = both_passes(torch.compile(_among_others(case.ours), fullgraph=True), inputs)
        call()
    return call


def _measure(op: str, case: FunctionCase, dtype: torch.dtype, repeats: int) -> Comparison:
    torch.manual_seed(0)
    inputs = case.inputs(dtype)
    name = f"{case.name} {str(dtype).removeprefix('torch.')}"
    native, reference = (_compiled(case, form, inputs) for form in ("native", "reference"))
    return compare(name, native, reference, theirs_name="reference", repeats=repeats)


def run(repeats: int, names: Sequence[str] = ()) -> list[Comparison]:
    """Measure all ops, or some by name, and print the table."""
    results = []
    slower: dict[torch.dtype, list[str]] = {dtype: [] for dtype in DTYPES}
    for op, module in MODULES.items():
        if names and op not in names:
            continue
        for dtype in DTYPES:
            found = [_measure(op, case, dtype, repeats) for case in module.CASES]
            results += found
            if sum(it.ours_ms for it in found) > MARGIN * sum(it.theirs_ms for it in found):
                slower[dtype].append(op)
    for dtype, ops in slower.items():
        print(f"{dtype}: {', '.join(ops) or 'none'}")
    return results


if __name__ == "__main__":
    main(__doc__ or "", run, names=[*MODULES])
