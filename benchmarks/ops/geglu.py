"""GEGLU, forward and backward, against gelu and a product."""

import torch.nn.functional as F

from benchmarks._harness import Comparison, main
from benchmarks.ops._functions import FunctionCase, measure
from benchmarks.ops.swiglu import inputs_of
from burnlike.ops import geglu
from burnlike.ops._arguments import Approximate


def _case(rows: int, width: int, approximate: Approximate) -> FunctionCase:
    return FunctionCase(
        name=f"geglu, {approximate} {rows} x {width}",
        ours=lambda gate, up: geglu(gate, up, approximate),
        theirs=lambda gate, up: F.gelu(gate, approximate=approximate) * up,
        theirs_name="F.gelu(gate) * up",
        inputs=inputs_of(rows, width),
        values_moved=8 * rows * width,  # gate, up and the result; gate, up and three gradients
    )


CASES = [_case(2048, 1024, "none"), _case(2048, 1024, "tanh")]


def run(repeats: int) -> list[Comparison]:
    """Measure float32 and bfloat16."""
    return measure(CASES, repeats)


if __name__ == "__main__":
    main(__doc__ or "", run)
