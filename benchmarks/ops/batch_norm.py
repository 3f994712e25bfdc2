"""Batch normalization of images in channels_last with ReLU and a residual, beside torch's three functions."""

from collections.abc import Callable

import torch
import torch.nn.functional as F
from torch import Tensor

from benchmarks._harness import Comparison, main
from benchmarks.ops._functions import FunctionCase, measure
from burnlike.ops import batch_moments, batch_norm
from burnlike.ops.batch_norm import BatchActivation

ACTIVATIONS: dict[BatchActivation, Callable[[Tensor], Tensor]] = {
    "relu": F.relu,
    "silu": F.silu,
    "hardswish": F.hardswish,
}


def _inputs(count: int, channels: int, size: int, residual: bool) -> Callable[[torch.dtype], list[Tensor]]:
    def make(dtype: torch.dtype) -> list[Tensor]:
        images = [torch.randn(count, channels, size, size).to(dtype) for _ in range(2 if residual else 1)]
        columns = [torch.rand(channels, dtype=dtype).requires_grad_() for _ in range(2)]
        x, *rest = [it.contiguous(memory_format=torch.channels_last).requires_grad_() for it in images]
        return [x, *columns, *rest]

    return make


def _case(count: int, channels: int, size: int, activation: BatchActivation, residual: bool = False) -> FunctionCase:
    def ours(x: Tensor, gamma: Tensor, beta: Tensor, added: Tensor | None = None) -> Tensor:
        rows = x.permute(0, 2, 3, 1)
        added = None if added is None else added.permute(0, 2, 3, 1)
        y = batch_norm(rows, gamma, beta, *batch_moments(rows), added, activation=activation)
        return y.permute(0, 3, 1, 2)

    def theirs(x: Tensor, gamma: Tensor, beta: Tensor, added: Tensor | None = None) -> Tensor:
        y = F.batch_norm(x, None, None, gamma, beta, training=True)
        return ACTIVATIONS[activation](y if added is None else y + added)

    return FunctionCase(
        name=f"batch_norm, {activation}{', residual' if residual else ''} {count} x {channels} x {size} x {size}",
        ours=ours,
        theirs=theirs,
        theirs_name="torch's functions",
        inputs=_inputs(count, channels, size, residual),
        values_moved=(10 if residual else 8) * count * channels * size * size,
    )


CASES = [
    _case(32, 64, 32, "relu"),
    _case(32, 64, 32, "relu", residual=True),
    _case(16, 96, 16, "silu"),
    _case(16, 96, 16, "hardswish"),
]
DEVICE_CASES: list[FunctionCase] = []


def run(repeats: int) -> list[Comparison]:
    """Measure float32 and bfloat16."""
    return measure(CASES, repeats)


if __name__ == "__main__":
    main(__doc__ or "", run)
