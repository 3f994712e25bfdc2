"""Products and convolutions in 16 bits on a CPU that multiplies float32 only, beside float32's and beside torch's.

A process of its own has a CPU of AVX2, by the environment variables of torch, oneDNN and MKL; bfloat16 and float16 are
multiplied alike there. The bar beside float32 is 1 / 1.3 of its speed.
"""

import os
import subprocess
import sys
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory

import torch
from torch.nn import functional

from benchmarks import _results
from benchmarks._harness import Comparison, compare, main
from burnlike.ops import half_products, linear
from burnlike.ops.half_products import convolution, matmul, recurrent

AVX2 = {"ATEN_CPU_CAPABILITY": "avx2", "ONEDNN_MAX_CPU_ISA": "AVX2", "MKL_ENABLE_INSTRUCTIONS": "AVX2"}
BAR = 1 / 1.3
IMAGE = ((1, 1), (1, 1), (1, 1), 1)


def _sides(name: str, dtype: torch.dtype, repeats: int) -> list[Comparison]:
    given = {
        "linear 1024 x 384 x 1024": ((1024, 384), (1024, 384)),
        "linear 1024 x 384 x 1024, weight [d_input, d_output]": ((1024, 384), (384, 1024)),
        "matmul 48 x (256 x 64 x 256)": ((48, 256, 64), (48, 64, 256)),
        "conv2d 8 x 64 x 32 x 32, 3 x 3": ((8, 64, 32, 32), (64, 64, 3, 3)),
        "lstm 64 x 16 x 256": ((64, 16, 256), (1024, 256)),
    }[name]
    x, y = (torch.randn(size).to(dtype).requires_grad_() for size in given)
    wide_x, wide_y = (it.detach().float().requires_grad_() for it in (x, y))
    is_transposed = "d_output" in name

    def step(ours: bool, x: torch.Tensor, y: torch.Tensor) -> None:
        if name.startswith("linear"):
            weight = y.mT if is_transposed else y
            result = linear(x, weight) if ours else functional.linear(x, weight)
        elif name.startswith("matmul"):
            result = matmul(x, y) if ours else x @ y
        elif name.startswith("lstm"):
            states = (x.new_zeros(1, 16, 256),) * 2
            kernel = partial(recurrent, torch.lstm) if ours else torch.lstm
            result = kernel(x, states, [y, y], False, 1, 0.0, True, False, False)[0]
        else:
            result = convolution(x, y, None, *IMAGE) if ours else functional.conv2d(x, y, None, *IMAGE)
        torch.autograd.grad(result, (x, y), torch.ones_like(result))

    title = f"{name} {str(dtype).removeprefix('torch.')}"
    few = max(1, repeats // 10)
    return [
        compare(
            *(title, lambda: step(True, x, y), lambda: step(False, wide_x, wide_y)),
            theirs_name="torch, float32",
            bar=BAR,
            repeats=repeats,
        ),
        compare(title, lambda: step(True, x, y), lambda: step(False, x, y), theirs_name="torch", repeats=few),
    ]


NAMES = (
    "linear 1024 x 384 x 1024",
    "linear 1024 x 384 x 1024, weight [d_input, d_output]",
    "matmul 48 x (256 x 64 x 256)",
    "conv2d 8 x 64 x 32 x 32, 3 x 3",
    "lstm 64 x 16 x 256",
)


def run(repeats: int) -> list[Comparison]:
    """Measure in this process, or in one with AVX2 alone."""
    if torch.bfloat16 in half_products.SLOW:
        dtypes = (torch.bfloat16, torch.float16)
        return [row for name in NAMES for dtype in dtypes for row in _sides(name, dtype, min(repeats, 20))]
    with TemporaryDirectory() as folder:
        command = [sys.executable, "-m", "benchmarks.ops.half_products", "--repeats", str(repeats), "--results", folder]
        subprocess.run(command, check=True, env={**os.environ, **AVX2})
        (measured,) = _results.read_all(Path(folder))
    return [row for rows in measured.rows.values() for row in rows]


if __name__ == "__main__":
    main(__doc__ or "", run)
