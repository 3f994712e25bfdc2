"""One of several processes that save and load records of sharded modules. Run by test_distributed.py."""

import json
import os
import platform
import resource
import sys
from pathlib import Path

import torch
import torch.distributed as dist
from torch import nn
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import fully_shard
from torch.distributed.tensor import Shard, distribute_tensor

from burnlike.errors import CheckpointError, RecordError, RecordIOError
from burnlike.module import agree_ids, params
from burnlike.optim import AdamWConfig, GradientsParams
from burnlike.record import BFloat16Precision, DistributedRecorder, Record, load, open_record, save
from burnlike.record.distributed import recorder, together as shared_directory
from burnlike.train import TrainingState

from .own_modules import Extra, OwnEntries, Transposed, filled, is_same


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


def sharded_with_entries(seed: int) -> nn.Sequential:
    """Modules with state beside their parameters, spread over all processes."""
    torch.manual_seed(seed)
    module = nn.Sequential(nn.Linear(2, 2), OwnEntries(), Extra(), Transposed())
    fully_shard(module[1])
    fully_shard(module)
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
    return message in error_of(call)


def error_of(call: object) -> str:
    """The text of the error that `call()` raises; empty if it raises none."""
    try:
        call()  # pyright: ignore[reportCallIssue]
    except (RecordError, CheckpointError) as error:
        return str(error)
    return ""


def save_on_full_disk(module: nn.Module, path: Path, full: bool) -> None:
    """Save where no file may have more than 100 bytes."""
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (100 if full else before[0], before[1]))
    try:
        DistributedRecorder().save(Record.from_module(module), path)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)


def not_shared(record: Record, folder: Path) -> dict[str, object]:
    """What a save says where rank 1 sees another directory, and where its file vanishes; all ranks say the same."""
    rank, waits_s, write_parts = dist.get_rank(), shared_directory._WAITS_S, recorder._write_parts
    (folder / f"node {rank}").mkdir()

    def vanish(directory: Path, tensors: dict[str, torch.Tensor], group: object) -> dict[str, str]:
        sizes = write_parts(directory, tensors, group)
        for name in sizes if rank == 1 else ():
            (directory / name).unlink()
        return sizes

    shared_directory._WAITS_S = (0.0, 0.01)
    try:
        elsewhere = f"rank 1 looked at {platform.node()}:{folder / 'node 1' / '.partial-no-'}"
        texts = (f"{folder / 'node 0' / '.partial-no-'}", elsewhere, "; all nodes need one file system")
        path = folder / f"node {rank}" / "no"
        told = error_of(lambda: DistributedRecorder().save(record, path))
        apart = all(text in told for text in texts)
        recorder._write_parts = vanish
        lost = refused("rank 0 misses shard-00002", lambda: DistributedRecorder().save(record, folder / "no"))
    finally:
        shared_directory._WAITS_S, recorder._write_parts = waits_s, write_parts
    apart = apart and not list((folder / f"node {rank}").iterdir())
    DistributedRecorder(elsewhere=[1]).save(record, path)
    return {"apart": apart, "lost": lost, "gathered": path.exists() == (rank == 0) and not list(path.parent.glob(".*"))}


def saved_and_loaded(tensor: torch.Tensor, path: Path) -> bool:
    """Whether it comes back, whole and as a part of each process."""
    mesh = init_device_mesh("cpu", (dist.get_world_size(),))
    parts = distribute_tensor(tensor.T.contiguous(), mesh, [Shard(0)]).t()
    DistributedRecorder().save(Record({"whole": tensor, "parts": parts}), path)
    tensors = DistributedRecorder().load(path).tensors
    return torch.equal(tensors["whole"], tensor) and torch.equal(tensors["parts"], tensor)


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

    named = Record({f"of rank {rank}": torch.ones(2)})
    found["other names"] = refused("missing on rank 1", lambda: DistributedRecorder().save(named, folder / "no"))
    several = "rank 0 gives the name 'run 0', rank 1 'run 1'; let all save under the name that rank 0 sends them"
    found["several names"] = refused(several, lambda: DistributedRecorder().save(record, folder / f"run {rank}"))
    state = TrainingState(model=model)
    found["several states"] = refused(several, lambda: state.save(folder / f"run {rank}"))
    found["full disk on one"] = refused("rank 1: OSError", lambda: save_on_full_disk(model, folder / "no", rank == 1))
    found |= not_shared(record, folder)
    wrong = "'0.weight' is a DTensor, of which each process has a part; let all processes save it to a directory"
    found["file"] = refused(wrong, lambda: save(model, folder / "file.safetensors"))
    found["transposed"] = saved_and_loaded(torch.arange(15.0).view(3, 5).T, folder / "transposed")

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

    from_folder = sharded(seed=6)
    load(from_folder, folder / "full")
    found["by load"] = whole(from_folder)

    optimizer = AdamWConfig().init()
    for _ in range(2):
        step(model, optimizer)
    DistributedRecorder().save(optimizer.to_record(), folder / "optimizer")
    DistributedRecorder().save(Record.from_module(model), folder / "stepped")
    resumed, again = sharded(seed=5), AdamWConfig().init()
    DistributedRecorder().load(folder / "stepped").load_into(resumed)
    again.load_record(DistributedRecorder().load(folder / "optimizer"))
    at_once = AdamWConfig().init().load_record(DistributedRecorder().load(folder / "optimizer"), resumed)
    DistributedRecorder().save(at_once.to_record(), folder / "optimizer again")
    step(model, optimizer)
    step(resumed, again)
    found["trained on"], found["resumed"] = whole(model), whole(resumed)
    own, fresh = filled(sharded_with_entries(seed=7)), sharded_with_entries(seed=8)
    agree_ids(own)
    DistributedRecorder().save(Record.from_module(own), folder / "entries")
    DistributedRecorder().load(folder / "entries").load_into(fresh)
    found["own"], found["own loaded"] = whole(own), whole(fresh)
    found["entries loaded"] = is_same(fresh[2].get_extra_state(), own[2].get_extra_state()) and fresh[1].count == 7
    own[2].seen = {"rank": rank}
    found["other entries"] = refused(
        "2._extra_state", lambda: DistributedRecorder().save(Record.of(own), folder / "no")
    )
    found["killed"] = save_beside_a_killed_one(model, folder / "killed", folder, found)
    (folder / f"found{rank}.json").write_text(json.dumps(found))
    os._exit(0)  # the other process is gone


def save_beside_a_killed_one(module: nn.Module, path: Path, folder: Path, found: dict[str, object]) -> str:
    """The error of a save during which rank 1 ends."""

    def die(*_: object) -> None:
        (folder / "found1.json").write_text(json.dumps(found))
        os._exit(0)

    if dist.get_rank() == 1:
        recorder._write_parts = die
    try:
        DistributedRecorder().save(Record.from_module(module), path)
    except RecordIOError as error:
        return str(error)
    return "saved"


def step(model: nn.Module, optimizer: object) -> None:
    """One step on data that every process has."""
    model(torch.linspace(-1, 1, 20).view(4, 5)).square().sum().backward()
    optimizer.step(0.1, model, GradientsParams.from_module(model))  # pyright: ignore[reportAttributeAccessIssue]
    model.zero_grad()


if __name__ == "__main__":
    os.environ.setdefault("OMP_NUM_THREADS", "1")
    main(Path(sys.argv[1]))
