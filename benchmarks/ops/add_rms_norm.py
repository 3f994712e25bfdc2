"""A sum and its RMS normalization, forward and backward, against torch.nn.functional.rms_norm of x + residual."""

import torch
import torch.nn.functional as F
from torch import Tensor

from benchmarks._harness import Comparison, main
from benchmarks.ops._functions import FunctionCase, measure
from burnlike.ops import add_rms_norm

EPSILON = 1e-5


def _theirs(x: Tensor, residual: Tensor, gamma: Tensor) -> tuple[Tensor, Tensor]:
    total = x + residual
    return F.rms_norm(total, gamma.shape, gamma, EPSILON), total


def _case(rows: int, width: int) -> FunctionCase:
    return FunctionCase(
        name=f"add_rms_norm {rows} x {width}",
        ours=lambda x, residual, gamma: add_rms_norm(x, residual, gamma, EPSILON),
        theirs=_theirs,
        theirs_name="F.rms_norm(x + residual)",
        inputs=lambda dtype: [
            torch.randn(*size).to(dtype).requires_grad_() for size in ((rows, width), (rows, width), (width,))
        ],
        values_moved=8 * rows * width,  # x, residual, both results; the sum, both gradients and that of x
        bar=3.0,
    )


CASES = [_case(2048, 384), _case(4096, 1024)]


def run(repeats: int) -> list[Comparison]:
    """Measure float32 and bfloat16."""
    return measure(CASES, repeats)


if __name__ == "__main__":
    main(__doc__ or "", run)
