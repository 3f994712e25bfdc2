"""One of two processes: training loops under DDP or FSDP2 with typed tensors, against the same ones with torch's.

Run by test_distributed.py.
"""

import faulthandler
import os
import sys
from contextlib import nullcontext
from typing import Any

import pytest
import torch
import torch.distributed as dist
import torch.nn.functional as F
from torch import nn
from torch.distributed.fsdp import fully_shard

from burnlike import Autodiff, Cpu, Tensor
from burnlike.errors import TensorValueError
from burnlike.optim import GradientsParams, SgdConfig

BACKEND = Autodiff(Cpu())
STEPS = 4
HOW, RANK, STORE = (sys.argv[1], int(sys.argv[2]), sys.argv[3]) if __name__ == "__main__" else ("", 0, "")


def wrapped() -> nn.Module:
    torch.manual_seed(3)
    model: Any = nn.Sequential(nn.Linear(5, 6), nn.Tanh(), nn.Linear(6, 3))
    if HOW == "fsdp":
        fully_shard(model[0])
        return fully_shard(model)
    return nn.parallel.DistributedDataParallel(model, gradient_as_bucket_view=HOW == "ddp_bucket_views")


def loss_of(model: nn.Module, step: int, typed: bool) -> Any:
    generator = torch.Generator().manual_seed(10 * step + RANK)
    x: Any = torch.randn(4, 5, generator=generator)
    y: Any = x[:, :3].square()
    if typed:
        x, y = Tensor(x, BACKEND), Tensor(y, BACKEND)
    return F.mse_loss(model(x), y)


def local_pass(model: Any, waits: bool) -> Any:
    """Where gradients are kept on each rank until a later pass reduces them."""
    if HOW == "fsdp":
        model.set_requires_gradient_sync(not waits)
        return nullcontext()
    return model.no_sync() if waits else nullcontext()


def trained(typed: bool, micro_batches: int, zero: bool, waits: bool) -> list[torch.Tensor]:
    """The weights after torch's loop."""
    model = wrapped()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9)
    for step in range(STEPS):
        if zero:
            optimizer.zero_grad()
        for part in range(micro_batches):
            with local_pass(model, waits and part < micro_batches - 1):
                (loss_of(model, step + 7 * part, typed) / micro_batches).backward()
        nn.utils.clip_grad_norm_(model.parameters(), 0.5)
        optimizer.step()
    return [parameter.detach() for parameter in model.parameters()]


def burns_loop() -> None:
    """Gradients that are taken out are this pass's, also when the next pass has begun to use DDP's memory again."""
    model, expected = wrapped(), wrapped()
    optimizer = SgdConfig().init()
    theirs = torch.optim.SGD(expected.parameters(), lr=0.05)
    kept = []
    for step in range(STEPS):
        grads = GradientsParams.from_grads(loss_of(model, step, True).backward(), model)
        kept.append([(value, value.clone()) for value in grads.values])
        assert all(parameter.grad is None for parameter in model.parameters())
        optimizer.step(0.05, model, grads)
        theirs.zero_grad()
        loss_of(expected, step, False).backward()
        theirs.step()
    for one, other in zip(model.parameters(), expected.parameters(), strict=True):
        torch.testing.assert_close(one, other)
    assert all(torch.equal(value, then) for values in kept for value, then in values)


def gradients_that_were_reduced_together() -> None:
    model = wrapped()
    with local_pass(model, True):
        loss_of(model, 0, True).backward()
    with local_pass(model, False):
        grads = loss_of(model, 1, True).backward()
    if HOW == "fsdp":  # it keeps what it has not reduced to itself
        assert len(grads) == 4
        return
    with pytest.raises(TensorValueError, match=r"GradientsParams\.from_module\(module\), or call zero_grad\(\)"):
        GradientsParams.from_grads(grads, model)
    assert len(GradientsParams.from_module(model)) == 4


def main() -> None:
    dist.init_process_group("gloo", init_method=f"file://{STORE}", rank=RANK, world_size=2)
    for micro_batches, zero, waits in [(1, True, False), (3, True, False), (3, True, True), (1, False, False)]:
        found = trained(True, micro_batches, zero, waits)
        expected = trained(False, micro_batches, zero, waits)
        same = all(torch.equal(one, other) for one, other in zip(found, expected, strict=True))
        assert same, (micro_batches, zero, waits)
    burns_loop()
    gradients_that_were_reduced_together()
    sys.stdout.flush()
    # torch 2.13 sometimes waits for ever while it takes DDP's reducer and gloo's threads down.
    os._exit(0)


if __name__ == "__main__":
    faulthandler.dump_traceback_later(500, exit=True)  # where it waits, should it wait for ever
    main()
