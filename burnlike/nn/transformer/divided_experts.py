"""Experts that several processes share: rows travel to the process that has their expert, and their outputs back."""

from collections.abc import Iterable
from typing import Any, ClassVar

import torch
import torch.distributed as dist
from torch import Tensor, nn

from ..._torch_compat.collectives import exchanged


def outputs_of(experts: Iterable[nn.Module], rows: Tensor, counts: Tensor) -> Tensor:
    """The outputs of experts for rows `[n, d_model]`, sorted by expert; counts are int64 `[experts]`."""
    parts = rows.split(counts.tolist())
    return torch.cat([expert(part) for expert, part in zip(experts, parts, strict=True)])


class DividedExperts:
    """The processes that share the experts of a layer; each has as many, in the order of their numbers.

    A parameter of an expert gets gradients of the rows of all these processes, where another parameter gets those of
    one. So that a mean over the processes that have it is the same mean, they are divided by the number of processes.
    """

    NAME: ClassVar = "_divided_experts"
    """What a layer keeps it as: no field, which records and copies would have."""

    def __init__(self, group: dist.ProcessGroup) -> None:
        self.rank, self.size = dist.get_rank(group), dist.get_world_size(group)
        self._group = group

    def outputs(self, experts: Iterable[nn.Module], rows: Tensor, counts: Tensor) -> Tensor:
        """As `outputs_of`, for rows and counts of all experts, of which this process has `experts`."""
        sent = counts.view(self.size, -1)
        received = torch.empty_like(sent)
        dist.all_to_all_single(received, sent.contiguous(), group=self._group)
        n_sent, n_received = sent.sum(1).tolist(), received.sum(1).tolist()
        rows = exchanged(_ScaledGradient.apply(rows, self.size), n_received, n_sent, self._group)
        # They come by process; the rows of an expert are to lie together.
        numbers = torch.arange(received.shape[1], device=rows.device).repeat(self.size)
        order = numbers.repeat_interleave(received.flatten()).argsort(stable=True)
        outputs = outputs_of(experts, rows.index_select(0, order), received.sum(0))
        by_process = outputs.index_select(0, order.argsort())
        return _ScaledGradient.apply(exchanged(by_process, n_sent, n_received, self._group), 1 / self.size)

    def __deepcopy__(self, memo: dict[int, Any]) -> None:
        """Copies of a model have no group; what they lack, they are loaded with."""

    def __reduce__(self) -> tuple[type[None], tuple[()]]:
        return type(None), ()


class _ScaledGradient(torch.autograd.Function):
    """A tensor as it is, whose gradient is multiplied."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, factor: float) -> Tensor:
        ctx.factor = factor
        return x.view_as(x)

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor, None]:
        return grads[0] * ctx.factor, None
