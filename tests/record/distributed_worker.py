"""One of several processes that save and load records of sharded modules. Run by test_distributed.py."""

import json
import os
import sys
from pathlib import Path

import torch
import torch.distributed as dist
from torch import nn
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import fully_shard

from burnlike.errors import RecordError
from burnlike.module import agree_ids, params
from burnlike.optim import AdamWConfig, GradientsParams
from burnlike.record import BFloat16Precision, DistributedRecorder, Record, open_record


def net(seed: int) -> nn.Sequential:
    """Sizes that two processes can't share evenly, a buffer, and a tied weight."""
    torch.manual_seed(seed)
    module = nn.Sequential(nn.Linear(5, 7), nn.BatchNorm1d(7), nn.Linear(7, 7, bias=False), nn.Linear(7, 7))
    module[3].weight = module[2].weight
    return module


def sharded(seed: int) -> nn.Sequential:
    """The net, spread over all processes."""
    module = net(seed)
    mesh = init_device_mesh("cpu", (dist.get_world_size(),))
    fully_shard(module[0], mesh=mesh)
    fully_shard(module, mesh=mesh)
    return module


def whole(module: nn.Module) -> dict[str, list[float]]:
    """All values, from all processes."""
    found = {}
    for param in params(module):
        tensor = param.tensor.detach()
        found[param.path] = (tensor.full_tensor() if hasattr(tensor, "full_tensor") else tensor).double().tolist()
    return found


def refused(message: str, call: object) -> bool:
    """Whether `call()` raises a RecordError with `message`."""
    try:
        call()  # pyright: ignore[reportCallIssue]
    except RecordError as error:
        return message in str(error)
    return False


def main(folder: Path) -> None:
    """Save, load, and write down what was found."""
    dist.init_process_group("gloo")
    rank = dist.get_rank()
    model = sharded(seed=1)
    agree_ids(model)
    record = Record.from_module(model)
    found: dict[str, object] = {"ids": {param.path: str(param.id) for param in params(model)}}
    DistributedRecorder().save(record, folder / "full")
    DistributedRecorder(BFloat16Precision).save(record, folder / "bf16")
    found["exists is refused"] = refused("exists", lambda: DistributedRecorder().save(record, folder / "full"))
    wide = Record({"a": torch.full((2,), 1e39 if rank == 1 else 1.0, dtype=torch.float64)})
    found["overflow on one"] = refused(
        "too large", lambda: DistributedRecorder(BFloat16Precision).save(wide, folder / "no")
    )

    other = sharded(seed=2)
    report = DistributedRecorder().load(folder / "full").load_into(other)
    found["applied"] = list(report.applied)
    found["loaded"] = whole(other)
    found["loaded ids"] = {param.path: str(param.id) for param in params(other)}
    from_one = sharded(seed=3)
    DistributedRecorder().load(folder / "one").load_into(from_one)
    found["from one process"] = whole(from_one)
    from_file = sharded(seed=4)
    open_record(folder / "one.safetensors").load_into(from_file)
    found["from one file"] = whole(from_file)

    optimizer = AdamWConfig().init()
    for _ in range(2):
        step(model, optimizer)
    DistributedRecorder().save(optimizer.to_record(), folder / "optimizer")
    DistributedRecorder().save(Record.from_module(model), folder / "stepped")
    resumed, again = sharded(seed=5), AdamWConfig().init()
    DistributedRecorder().load(folder / "stepped").load_into(resumed)
    again.load_record(DistributedRecorder().load(folder / "optimizer"))
    step(model, optimizer)
    step(resumed, again)
    found["trained on"], found["resumed"] = whole(model), whole(resumed)
    (folder / f"found{rank}.json").write_text(json.dumps(found))
    dist.barrier()
    dist.destroy_process_group()


def step(model: nn.Module, optimizer: object) -> None:
    """One step on data that every process has."""
    model(torch.linspace(-1, 1, 20).view(4, 5)).square().sum().backward()
    optimizer.step(0.1, model, GradientsParams.from_module(model))  # pyright: ignore[reportAttributeAccessIssue]
    model.zero_grad()


if __name__ == "__main__":
    os.environ.setdefault("OMP_NUM_THREADS", "1")
    main(Path(sys.argv[1]))
