"""An op with a derivative, forward and backward, against eager torch, `torch.compile` and a streaming kernel."""

import statistics
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from benchmarks._harness import Comparison, compare, time_of
from burnlike.ops import native_status

Function = Callable[..., Tensor | Sequence[Tensor]]
DTYPES = (torch.float32, torch.bfloat16)
# Of `torch.compile`'s time: what nobody notices.
COMPILED_BAR = 0.95


@dataclass(frozen=True)
class FunctionCase:
    """A function of tensors to be measured.

    Attributes:
        name: of the op and its shape.
        ours, theirs: the op, and the same in torch.
        theirs_name: what `theirs` is, in a few words.
        inputs: makes the tensors of a dtype; gradients are taken for those that require them.
        values_moved: values that both passes have to read and write at least, for the share of a streaming kernel.
        bar: of the ratio to eager torch; None without one.
    """

    name: str
    ours: Function
    theirs: Function
    theirs_name: str
    inputs: Callable[[torch.dtype], list[Tensor]]
    values_moved: int
    bar: float | None = None


def both_passes(function: Function, inputs: list[Tensor]) -> Callable[[], object]:
    """A call of the function and of its derivative for gradients that are made before."""
    leaves = [tensor for tensor in inputs if tensor.requires_grad]

    def outputs() -> list[Tensor]:
        results = function(*inputs)
        return [results] if isinstance(results, Tensor) else list(results)

    seeds = [torch.randn_like(output) for output in outputs()]
    return lambda: torch.autograd.grad(outputs(), leaves, seeds)


def seconds_to_stream(count: int, dtype: torch.dtype) -> float:
    """The time in which a copy moves `count` values to and from memory."""
    source = torch.ones(max(count // 2, 1), dtype=dtype)
    target = torch.empty_like(source)
    return statistics.median(time_of(lambda: target.copy_(source)) for _ in range(15))


def measure(cases: Sequence[FunctionCase], repeats: int, dtypes: Sequence[torch.dtype] = DTYPES) -> list[Comparison]:
    """Each case in each dtype: against eager torch, then against the same compiled."""
    print(f"CPU kernels: {native_status().isa}; forward and backward")
    return [result for case in cases for dtype in dtypes for result in _measure(case, dtype, repeats)]


def _measure(case: FunctionCase, dtype: torch.dtype, repeats: int) -> list[Comparison]:
    torch.manual_seed(0)
    inputs = case.inputs(dtype)
    ours = both_passes(case.ours, inputs)
    torch.compiler.reset()
    compiled = both_passes(torch.compile(case.theirs, fullgraph=True), inputs)
    name = f"{case.name} {str(dtype).removeprefix('torch.')}"
    eager = compare(
        name, ours, both_passes(case.theirs, inputs), theirs_name=case.theirs_name, bar=case.bar, repeats=repeats
    )
    share = seconds_to_stream(case.values_moved, dtype) * 1e3 / eager.ours_ms
    note = f"{share:.0%} of a copy's rate"
    return [
        eager,
        compare(name, ours, compiled, theirs_name="compiled", bar=COMPILED_BAR, repeats=repeats, note=note),
    ]
