"""First values of adapters of linear layers, in the words of peft's `init_lora_weights`."""

import torch
from torch import Tensor

from ...errors import ArgumentError

KEEP_WEIGHTS = ("default", "gaussian", "orthogonal", "eva")
"""Starts after which the weights are as they were; `eva` gives its values later, by data."""


def first_factors(start: str, weight: Tensor, rank: int, scale: float) -> tuple[Tensor, Tensor]:
    """The matrices that an adapter begins with: `[rank, d_input]` and `[d_output, rank]`.

    Args:
        start: `gaussian`; `orthogonal`, two matrices whose product is 0; `pissa`, the largest singular vectors of the
            weight (Meng et al. 2024, section 3), or `pissa_niter_N`, about these by N steps of a randomized
            decomposition; `olora`, the first columns of its QR decomposition (Büyükakyüz 2024, algorithm 1).
        weight: `[d_output, d_input]`.
        scale: what the product of the matrices is multiplied by.

    Raises:
        ArgumentError: the rank is not one that this start has.
    """
    outputs, inputs = weight.shape
    weight = weight.detach().to(torch.promote_types(weight.dtype, torch.float32))
    if start == "gaussian":
        return weight.new_empty(rank, inputs).normal_(0, 1 / rank), weight.new_zeros(outputs, rank)
    if start == "orthogonal":
        if rank % 2:
            raise ArgumentError(f"start: expected an even rank for orthogonal, got {rank}")
        rows = torch.linalg.qr(torch.randn(rank, rank, dtype=weight.dtype, device=weight.device)).Q
        down = torch.randn(inputs, rank // 2, dtype=weight.dtype, device=weight.device) @ rows[0::2] / 10
        up = torch.randn(rank // 2, outputs, dtype=weight.dtype, device=weight.device).mT @ rows[1::2] / 10
        return down.mT, up
    if rank > min(weight.shape):
        raise ArgumentError(
            f"start: {start} has at most rank {min(weight.shape)} of a weight {[*weight.shape]}, got {rank}"
        )
    if start == "olora":
        q, r = torch.linalg.qr(weight)
        return r[:rank], q[:, :rank]
    if start == "pissa":
        left, values, right = torch.linalg.svd(weight, full_matrices=False)
    else:
        left, values, columns = torch.svd_lowrank(weight, rank, niter=int(start.removeprefix("pissa_niter_")))
        right = columns.mT
    roots = (values[:rank] / scale).sqrt()
    return roots[:, None] * right[:rank], left[:, :rank] * roots
