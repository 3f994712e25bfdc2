"""Ops that go by rows, for any number and width of rows: their inputs, the same in torch, and what they move."""

from collections.abc import Callable
from dataclasses import dataclass
from importlib import import_module

import torch
from torch import Tensor
from torch.nn import functional

from burnlike.ops import batch_moments, batch_norm, masked_softmax

from ._functions import Function


@dataclass(frozen=True)
class SizedOp:
    """An op at any size.

    Attributes:
        ours, theirs: the op, and the same in torch.
        inputs: makes its tensors on a device: of rows, width and dtype.
        forward, both: values that the forward pass, and both passes, read and write at least, for each of rows x width.
    """

    ours: Function
    theirs: Function
    inputs: Callable[[int, int, torch.dtype, str], list[Tensor]]
    forward: int
    both: int


def _tensors(*names: str) -> Callable[[int, int, torch.dtype, str], list[Tensor]]:
    """Tensors that get gradients: `rows` is [rows, width], `row` [width]."""

    def make(rows: int, width: int, dtype: torch.dtype, device: str) -> list[Tensor]:
        sizes = {"rows": (rows, width), "row": (width,)}
        return [torch.randn(*sizes[name], dtype=dtype, device=device).requires_grad_() for name in names]

    return make


def _logits(rows: int, width: int, dtype: torch.dtype, device: str) -> list[Tensor]:
    logits = torch.randn(rows, width, dtype=dtype, device=device).requires_grad_()
    return [logits, torch.randint(width, (rows,), device=device)]


def _heads(rows: int, width: int, dtype: torch.dtype, device: str) -> list[Tensor]:
    """Half of the width are queries, half keys, in heads of 128 as projections write them, and tables."""
    size = min(128, width // 2)
    query, key = (
        torch.randn(1, rows, width // 2 // size, size, dtype=dtype, device=device).transpose(1, 2).requires_grad_()
        for _ in range(2)
    )
    angle = torch.randn(rows, size // 2, device=device).repeat(1, 2)
    return [query, key, angle.cos().to(dtype), angle.sin().to(dtype)]


def _like(op: str, inputs: Callable[[int, int, torch.dtype, str], list[Tensor]], forward: int, both: int) -> SizedOp:
    case = import_module(f"benchmarks.ops.{op}").CASES[0]
    return SizedOp(case.ours, case.theirs, inputs, forward, both)


SIZED = {
    "rms_norm": _like("rms_norm", _tensors("rows", "row"), 2, 5),
    "layer_norm": _like("layer_norm", _tensors("rows", "row", "row"), 2, 5),
    "add_rms_norm": _like("add_rms_norm", _tensors("rows", "rows", "row"), 4, 8),
    "add_layer_norm": _like("add_layer_norm", _tensors("rows", "rows", "row", "row"), 4, 8),
    "batch_norm": SizedOp(
        lambda x, gamma, beta: batch_norm(x, gamma, beta, *batch_moments(x), activation="relu"),
        lambda x, gamma, beta: functional.relu(functional.batch_norm(x, None, None, gamma, beta, training=True)),
        _tensors("rows", "row", "row"),
        forward=3,
        both=8,
    ),
    "swiglu": _like("swiglu", _tensors("rows", "rows"), 3, 8),
    "geglu": _like("geglu", _tensors("rows", "rows"), 3, 8),
    "bias_gelu": _like("bias_gelu", _tensors("rows", "row"), 2, 5),
    "dropout_add": _like("dropout_add", _tensors("rows", "rows"), 3, 5),
    "rotary": _like("rotary", _heads, 2, 4),
    "softmax": SizedOp(
        lambda scores: masked_softmax(scores, None, 1.0, False),
        lambda scores: scores.softmax(-1),
        _tensors("rows"),
        forward=2,
        both=5,
    ),
    "cross_entropy": _like("cross_entropy", _logits, 1, 3),
}
"""By name; `softmax` is `masked_softmax` without a mask."""
