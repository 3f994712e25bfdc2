"""One of two ranks that draw ids, without a word to each other; then with a process group. Run by test_ranks.py."""

import copy
import faulthandler
import json
import os
import sys
from collections.abc import Callable
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import pytest
import torch
import torch.distributed as dist
from torch import nn
from torch.distributed.fsdp import MixedPrecisionPolicy, fully_shard
from torch.nn.parallel import DistributedDataParallel

from burnlike.errors import ModuleTreeError
from burnlike.module import Module, agree_ids, params
from burnlike.optim import AdamWConfig, ClipByGlobalNorm, GradientsParams
from burnlike.record import save

from ..survival import NETS, BurnlikeNet, Dense, PlainNet, Row, check, ids


class Wide(Module):
    """A model that is not the one trained."""

    def __init__(self) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.zeros(9, 9))


def without_communication(rank: int, folder: Path) -> dict[str, dict[str, str]]:
    """What each scenario gave on this rank."""
    found = {}
    for name, make in NETS.items():
        model = make()
        if rank == 0:
            save(model, folder / f"{os.getpid()}.safetensors")
        found[f"one rank saves, {name}"] = ids(model)

        if rank == 0:
            params(nn.Sequential(nn.Linear(9, 9), Wide()))
            params(nn.Sequential(nn.Linear(4, 4), nn.Linear(4, 4)))
            params(Wide())
        model = make()
        found[f"one rank has other models, {name}"] = ids(model)
        found[f"one rank has other models, {name} in a Sequential"] = ids(nn.Sequential(make(), nn.Linear(3, 3)))

        if rank == 0:
            params(copy.deepcopy(model))
        found[f"one rank has a copy, {name}"] = ids(model)

        first, second = make(), nn.Sequential(nn.Linear(2, 3), nn.BatchNorm1d(3))
        for each in (first, second) if rank == 0 else (second, first):
            params(each)
        found[f"two orders, {name}"] = ids(first) | {f"second.{path}": text for path, text in ids(second).items()}
    return found


def sharded(**options: Any) -> Callable[[nn.Module], nn.Module]:
    def change(model: nn.Module) -> nn.Module:
        fully_shard(model.layers[0], **options)
        fully_shard(model, **options)
        return model

    return change


ROWS = [
    Row("DDP", DistributedDataParallel),
    Row("fully_shard", sharded()),
    Row(
        "fully_shard, mixed precision",
        sharded(mp_policy=MixedPrecisionPolicy(param_dtype=torch.bfloat16, reduce_dtype=torch.float32)),
        steps="torch's batch_norm on CPU refuses bfloat16 weights beside float32 statistics",
    ),
]


def with_a_group(rank: int) -> dict[str, dict[str, str]]:
    """As `without_communication`, after the matrix's rows that need ranks."""
    for row in ROWS:
        for net in NETS:
            for assigned in ("before", "after"):
                check(row, net, assigned)
    trained_alike(rank)
    found = {}
    for name, make in NETS.items():
        model = make()
        if rank == 0:
            params(model)
        found[f"wrapped, one rank knows the ids, {name}"] = ids(DistributedDataParallel(model))
        model = make()
        if rank == 0:
            params(model)
        found[f"sharded, one rank knows the ids, {name}"] = ids(sharded()(model))
    return found | agreed(rank)


def trained_alike(rank: int) -> None:
    """Steps on sharded parameters, from the middle of a training on, are those of the whole model."""
    whole = nn.Sequential(nn.Linear(3, 5), nn.Linear(5, 1))
    for values in whole.parameters():
        dist.broadcast(values.data, 0)
    parts = copy.deepcopy(whole)
    config = AdamWConfig(weight_decay=0.1, grad_clipping=ClipByGlobalNorm(threshold=0.05))
    x = torch.arange(12.0).view(2, 2, 3) / 6 - 1
    for model, inputs in ((whole, x.flatten(0, 1)), (parts, x[rank])):
        optimizer = config.init()
        for index in range(4):
            if model is parts and index == 2:
                fully_shard(model)
            # The mean over ranks of a sharded model; before it is sharded, all ranks see all.
            model(inputs if model is whole or index >= 2 else x.flatten(0, 1)).square().mean().backward()
            optimizer.step(0.1, model, GradientsParams.from_module(model))
    for expected, found in zip(whole.parameters(), parts.parameters(), strict=True):
        torch.testing.assert_close(found.full_tensor(), expected.detach())


def agreed(rank: int) -> dict[str, dict[str, str]]:
    """What ranks can't know by themselves."""
    if rank == 0:
        Dense()  # of the class and shape of what follows
    model = BurnlikeNet()
    found = {"differs: one rank has more layers": ids(model)}
    assert agree_ids(model) is model
    found["agreed: one rank has more layers"] = ids(model)

    model = PlainNet()
    if rank == 0:
        params(model.layers)
    found["differs: one rank knows a part"] = ids(model)
    found["agreed: one rank knows a part"] = ids(agree_ids(DistributedDataParallel(model)))

    for holder, difference in ((0, "nothing where that has '0.bias'"), (1, "'0.bias' where that has nothing")):
        other = nn.Sequential(nn.Linear(2, 2, bias=rank == holder))
        before = ids(other)
        message = f"rank 1: expected the tree of rank 0, got {difference}"
        with pytest.raises(ModuleTreeError, match=message) if rank == 1 else nullcontext():
            agree_ids(other)
        assert ids(other) == before
    return found


def spawned(rank: int, folder: Path) -> None:
    """A process of `torch.multiprocessing.spawn`."""
    (folder / f"spawned{rank}.json").write_text(json.dumps(without_communication(rank, folder)))


def main(folder: Path) -> None:
    """A process as torchrun starts it."""
    rank = int(os.environ["RANK"])
    found = without_communication(rank, folder)
    dist.init_process_group("gloo")
    found |= with_a_group(rank)
    (folder / f"launched{rank}.json").write_text(json.dumps(found))
    dist.barrier()
    sys.stdout.flush()
    # torch 2.13 sometimes waits for ever while it takes DDP's reducer and gloo's threads down.
    os._exit(0)


if __name__ == "__main__":
    faulthandler.dump_traceback_later(60, exit=True)  # where it waits, should it wait for ever
    main(Path(sys.argv[1]))
