"""Batches that several processes share: means over all of their items, for layers whose output depends on them."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor, nn


class JointBatch:
    """State of layers that get this process's part of a batch, of which the other processes of the job have theirs.

    Attributes:
        is_on: between the beginning of a forward and the end of its backward pass.
        counts: whether the items of this process count; those that only stand in for none do not.
        group: torch's group of the processes that have parts; None: all.
    """

    def __init__(self) -> None:
        self.is_on = False
        self.counts = True
        self.group: Any = None

    def __reduce__(self) -> tuple[type["JointBatch"], tuple[()]]:
        return JointBatch, ()  # a copy of a layer gets whole batches; torch's groups can't be copied

    @contextmanager
    def part(self, counts: bool) -> Iterator[None]:
        """Take what layers get within the `with` block for a part; all processes must call the same layers there."""
        self.is_on, self.counts = True, counts
        try:
            yield
        finally:
            self.is_on = False


class JointLayer:
    """A layer whose output for an item depends on the other items of the batch."""

    _joint: JointBatch | None = None

    def _means(self, *tensors: Tensor, dims: tuple[int, ...] = (0,)) -> list[Tensor]:
        """The mean of each tensor over the dimensions, which are those of the items; over those of all processes."""
        return self._means_and_count(*tensors, dims=dims)[0] if self._is_joint else [it.mean(dims) for it in tensors]

    def _means_and_count(self, *tensors: Tensor, dims: tuple[int, ...]) -> tuple[list[Tensor], Tensor]:
        """The means over all processes, 0 where there are no items, and of how many items they are."""
        sums = [tensor.sum(dims) for tensor in tensors]
        count = sums[0].new_tensor([tensors[0].numel() // sums[0].numel()])
        local = torch.cat([*(it.flatten() for it in sums), count])
        # What does not count stays in the graph, so that this process takes part in the sum of gradients.
        local = local.where(local.new_tensor(self._joint is None or self._joint.counts, dtype=torch.bool), 0)
        total: Tensor = _JointSum.apply(local, self._joint and self._joint.group)  # pyright: ignore[reportAssignmentType]
        means = (total[:-1] / total[-1].clamp(min=1)).split([tensor.numel() for tensor in sums])
        return [mean.view(part.shape) for mean, part in zip(means, sums, strict=True)], total[-1].detach()

    @property
    def _is_joint(self) -> bool:
        return self._joint is not None and self._joint.is_on


def join(model: nn.Module, joint: JointBatch) -> None:
    """Let the layers of a model that depend on a whole batch ask `joint` whether they get a part of one."""
    for module in model.modules():
        if isinstance(module, JointLayer):
            module.__dict__["_joint"] = joint  # no field of the layer, which its records and copies would have


class _JointSum(torch.autograd.Function):
    """The sum over a group of processes, and of its gradients, since the loss of each depends on the values of all."""

    @staticmethod
    def forward(ctx: Any, values: Tensor, group: Any) -> Tensor:
        total = values.detach().clone()
        dist.all_reduce(total, group=group)
        ctx.group = group
        return total

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor, None]:
        return _JointSum.apply(grads[0], ctx.group), None  # pyright: ignore[reportReturnType]
