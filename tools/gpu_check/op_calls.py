"""Calls of ops for the check: cases of the tests' table beside float64, and rows of the benchmarks once.

python -m tools.gpu_check.op_calls cases DEVICE [OP ...]  # what compute-sanitizer looks at
python -m tools.gpu_check.op_calls row DEVICE NAME        # what ncu looks at: "rms_norm forward 64 x 32 float32"
"""

import re
import sys
from collections.abc import Iterator

import torch
from torch import Tensor

from benchmarks.ops._functions import both_passes
from benchmarks.ops._sizes import SIZED
from tests.ops.cases import CASES
from tests.ops.op_case import TOLERANCE, OpCase, in_float64, leaves_of


def op_of(case: OpCase) -> str:
    """The op's name, without the library's."""
    return case.raw._schema.name.removeprefix("burnlike::")


def first_cases(device: str) -> list[OpCase]:
    """One case of each op that has kernels on a device."""
    cases: dict[str, OpCase] = {}
    for case in CASES:
        cases.setdefault(op_of(case), case)
    return [case for op, case in cases.items() if op != "attention" or device == "cpu"]


def described(tensor: Tensor) -> str:
    """A tensor's shape and dtype."""
    return f"{list(tensor.shape)} {str(tensor.dtype).removeprefix('torch.')}"


def differences(case: OpCase, device: str) -> Iterator[str]:
    """A line for each result and gradient of a case on a device that is not near the reference's in float64."""
    torch.manual_seed(0)
    inputs = case.inputs()
    on_device = [it.to(device) for it in inputs]
    if not case.differentiable:
        pairs = zip(case.native(*on_device), case.reference(*in_float64(inputs)), strict=True)
        yield from _far(case, inputs[0], "result", pairs, 1)
        return
    tensors, leaves = leaves_of(on_device)
    exact_tensors, exact_leaves = leaves_of(in_float64(inputs))
    outputs, exact = case.native(*tensors), case.reference(*exact_tensors)
    yield from _far(case, inputs[0], "result", zip(outputs, exact, strict=True), 1)
    seeds = [torch.randn(it.shape, dtype=it.dtype) for it in outputs]
    gradients = torch.autograd.grad(outputs, leaves, [it.to(device) for it in seeds])
    expected = torch.autograd.grad(exact, exact_leaves, [it.double() for it in seeds])
    yield from _far(case, inputs[0], "gradient", zip(gradients, expected, strict=True), max(1, inputs[0].shape[0]))


def _far(
    case: OpCase, first: Tensor, what: str, pairs: Iterator[tuple[Tensor, Tensor]], distance: float
) -> Iterator[str]:
    for index, (actual, exact) in enumerate(pairs):
        found, expected = actual.detach().cpu().double(), exact.detach().double()
        rtol, atol = TOLERANCE.get(actual.dtype, (0.0, 0.0))
        atol *= distance * case.distance
        if found.shape != expected.shape:
            yield f"{op_of(case)} {described(first)}: {what} {index} has shape {list(found.shape)} ({case})"
        elif not torch.allclose(found, expected, rtol, atol, equal_nan=True):
            most = (found - expected).abs().max().item()
            yield f"{op_of(case)} {described(first)}: {what} {index} differs by at most {most:.3g} ({case})"


def call_row(name: str, device: str) -> None:
    """Call what a row of `benchmarks.ops.sizes_device` measures: once to load it, once between ncu's marks."""
    pattern = r"(\w+) (forward|both passes) (\d+) x (\d+) (\w+)"
    match = re.fullmatch(pattern, name)
    assert match is not None, f"expected the name of a row of benchmarks.ops.sizes_device, got {name!r}"
    case = SIZED[match[1]]
    torch.manual_seed(0)
    inputs = case.inputs(int(match[3]), int(match[4]), getattr(torch, match[5]), device)

    def forward() -> None:
        with torch.no_grad():
            case.ours(*inputs)

    call = forward if match[2] == "forward" else both_passes(case.ours, inputs)
    call()
    if device == "cpu":
        call()
        return
    torch.cuda.synchronize()
    torch.cuda.profiler.start()
    call()
    torch.cuda.synchronize()
    torch.cuda.profiler.stop()


def main(kind: str, device: str, *arguments: str) -> int:
    if kind == "row":
        call_row(arguments[0], device)
        return 0
    cases = [case for case in first_cases(device) if not arguments or op_of(case) in arguments]
    lines = [line for case in cases for line in differences(case, device)]
    print("\n".join(lines) or f"{len(cases)} ops: near float64")
    return 1 if lines else 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
