"""Compiled graphs with each op as it is, beside the same with its plain-torch reference, forward and backward.

The op stands between a sum and a product, as in models, which the compiler can fuse with the reference only. The lines
at the end name the ops whose reference is faster there. In float32 attention is torch's in both forms.
"""

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, nullcontext
from importlib import import_module

import torch
from torch import Tensor

from benchmarks._harness import Comparison, compare, main
from benchmarks.ops._functions import FunctionCase, both_passes
from burnlike.ops._example import examples
from burnlike.ops._function import references

OPS = tuple(examples())
DTYPES = (torch.float32, torch.bfloat16, torch.float16)
# What the reference has to gain to be named: below that, runs differ by more.
MARGIN = 1.05


def _among_others(function: Callable[..., Tensor | Sequence[Tensor]]) -> Callable[..., list[Tensor]]:
    def graph(x: Tensor, *others: Tensor) -> list[Tensor]:
        results = function(x + 0.5 * x.detach(), *others)
        return [it * 2 for it in ([results] if isinstance(results, Tensor) else results)]

    return graph


def _compiled(
    case: FunctionCase, form: Callable[[], AbstractContextManager[None]], inputs: list[Tensor]
) -> Callable[[], object]:
    """A call of the graph in one form, which each call sets: torch.compile would compile anew without it."""
    with form():
        passes = both_passes(torch.compile(_among_others(case.ours), fullgraph=True), inputs)

    def call() -> object:
        with form():
            return passes()

    return call


def _measure(case: FunctionCase, dtype: torch.dtype, repeats: int) -> Comparison:
    torch.manual_seed(0)
    torch.compiler.reset()
    inputs = case.inputs(dtype)
    name = f"{case.name} {str(dtype).removeprefix('torch.')}"
    native, reference = (_compiled(case, form, inputs) for form in (nullcontext, references))
    return compare(name, native, reference, theirs_name="reference", repeats=repeats)


def run(repeats: int, names: Sequence[str] = ()) -> list[Comparison]:
    """Measure all ops, or some by name, and name those whose reference is faster."""
    results = []
    slower: dict[torch.dtype, list[str]] = {dtype: [] for dtype in DTYPES}
    for op in names or OPS:
        cases = import_module(f"benchmarks.ops.{op}").CASES
        for dtype in DTYPES:
            found = [_measure(case, dtype, repeats) for case in cases]
            results += found
            if sum(it.ours_ms for it in found) > MARGIN * sum(it.theirs_ms for it in found):
                slower[dtype].append(op)
    for dtype, ops in slower.items():
        print(f"{dtype}: {', '.join(ops) or 'none'}")
    return results


if __name__ == "__main__":
    main(__doc__ or "", run, names=OPS)
