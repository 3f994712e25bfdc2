"""One of two processes: the gradients of its half of a batch under DDP, FSDP2 or none. Run by test_distributed.py."""

import faulthandler
import os
import sys
from typing import Any

import torch
import torch.distributed as dist
from torch import nn
from torch.distributed.fsdp import fully_shard
from torch.distributed.tensor import DTensor

from burnlike import Autodiff, Cpu, Gradients, Tensor

BACKEND = Autodiff(Cpu(float=torch.float64))


class Model(nn.Module):
    """Two layers and a weight that only `uses_extra` ranks use; takes and gives typed tensors."""

    def __init__(self) -> None:
        super().__init__()
        self.inner = nn.Linear(5, 6, dtype=torch.float64)
        self.outer = nn.Linear(6, 3, dtype=torch.float64)
        self.extra = nn.Parameter(torch.full((3,), 0.5, dtype=torch.float64))

    def forward(self, x: Tensor[Any, Any], uses_extra: bool = True) -> Tensor[Any, Any]:
        y = self.outer(torch.tanh(self.inner(x)))
        return y * self.extra.reshape(1, 3) if uses_extra else y


def loss_of(model: nn.Module, batch: torch.Tensor, uses_extra: bool = True) -> Tensor[Any, Any]:
    y = model(Tensor(batch, BACKEND), uses_extra)
    return (y * y).mean()


def joined(batch: torch.Tensor, weights: dict[str, torch.Tensor]) -> dict[str, torch.Tensor]:
    """The gradients of the whole batch by torch alone."""
    model = Model()
    model.load_state_dict(weights)
    hidden = torch.tanh(nn.functional.linear(batch, model.inner.weight, model.inner.bias))
    y = nn.functional.linear(hidden, model.outer.weight, model.outer.bias) * model.extra
    (y * y).mean().backward()
    return {name: param.grad for name, param in model.named_parameters() if param.grad is not None}


def check(model: nn.Module, grads: Gradients, expected: dict[str, torch.Tensor], reduce: bool) -> None:
    found = dict(model.named_parameters())
    assert {name.removeprefix("module.") for name in found} == set(expected)
    for name, param in found.items():
        grad = grads.get(param)
        assert grad is not None, name
        whole = grad.full_tensor() if isinstance(grad, DTensor) else grad.clone()
        if reduce:
            dist.all_reduce(whole)
            whole /= dist.get_world_size()
        error = (whole - expected[name.removeprefix("module.")]).abs().max().item()
        assert error <= 1e-12, (name, error)


def main(how: str, rank: int, store: str) -> None:
    dist.init_process_group("gloo", init_method=f"file://{store}", rank=rank, world_size=2)
    torch.manual_seed(3)
    model: Any = Model()
    weights = {name: value.clone() for name, value in model.state_dict().items()}
    batch = torch.randn(8, 5, dtype=torch.float64)
    mine = batch[rank * 4 : rank * 4 + 4]
    expected = joined(batch, weights)
    if how == "ddp":
        model = nn.parallel.DistributedDataParallel(model)
    elif how == "ddp_unused":
        model = nn.parallel.DistributedDataParallel(model, find_unused_parameters=True)
    elif how == "fsdp":
        fully_shard(model.inner)
        fully_shard(model.outer)
        fully_shard(model)
    marks = {}
    for name, param in model.named_parameters():
        marks[name] = param.grad = torch.zeros_like(param)
    sums: dict[str, torch.Tensor] = {}
    for _ in range(2):  # the second pass finds what the first has left behind
        if how == "ddp_unused":
            grads = loss_of(model, mine, uses_extra=rank == 0).backward()
            assert grads.get(model.module.extra) is not None
            assert len(grads) == 5
        else:
            grads = loss_of(model, mine).backward()
            check(model, grads, expected, reduce=how == "plain")
        for name, param in model.named_parameters():
            grad = grads.get(param)
            assert grad is not None, name
            sums[name] = sums[name] + grad if name in sums else grad
    for name, param in model.named_parameters():
        torch.testing.assert_close(param.grad, sums[name], rtol=1e-12, atol=1e-12)
        assert not marks[name].any(), f"{name}: what was in .grad is not written to"
    sys.stdout.flush()
    # torch 2.13 sometimes waits for ever while it takes DDP's reducer and gloo's threads down.
    os._exit(0)


if __name__ == "__main__":
    faulthandler.dump_traceback_later(60, exit=True)  # where it waits, should it wait for ever
    main(sys.argv[1], int(sys.argv[2]), sys.argv[3])
