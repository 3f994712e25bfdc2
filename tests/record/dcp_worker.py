"""One of two processes that save with torch's own checkpoints. Run by test_distributed.py.

python -m tests.record.dcp_worker FOLDER
"""

import sys
from pathlib import Path

import torch
import torch.distributed as dist
import torch.distributed.checkpoint as dcp
from safetensors.torch import save_file
from torch import Tensor, nn
from torch.distributed.checkpoint.hf_storage import HuggingFaceStorageWriter
from torch.distributed.checkpoint.state_dict import get_state_dict
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import fully_shard
from torch.distributed.tensor import Replicate, Shard, distribute_tensor
from torch.distributed.tensor.parallel import ColwiseParallel, RowwiseParallel, parallelize_module

ROWS = torch.arange(35, dtype=torch.float32).view(5, 7)
CUBE = torch.arange(3 * 5 * 4, dtype=torch.int64).view(3, 5, 4)


def trained() -> tuple[nn.Module, torch.optim.Optimizer]:
    """A model divided in two dimensions of a mesh, after a step."""
    torch.manual_seed(1)
    model = nn.Sequential(nn.Linear(6, 8), nn.Tanh(), nn.Linear(8, 6), nn.Linear(6, 3))
    mesh = init_device_mesh("cpu", (dist.get_world_size() // 2, 2), mesh_dim_names=("shard", "tensor"))
    parallelize_module(model, mesh["tensor"], {"0": ColwiseParallel(), "2": RowwiseParallel()})
    fully_shard(model[0], mesh=mesh["shard"])
    fully_shard(model, mesh=mesh["shard"])
    optimizer = torch.optim.AdamW(model.parameters(), lr=0.1)
    model(torch.ones(2, 6)).sum().backward()
    optimizer.step()
    return model, optimizer


def main(folder: Path) -> None:
    dist.init_process_group("gloo")
    model, optimizer = trained()
    weights, states = get_state_dict(model, optimizer)
    mesh = init_device_mesh("cpu", (dist.get_world_size(),))
    more = {
        "rows": distribute_tensor(ROWS, mesh, [Shard(0)]),
        "columns": distribute_tensor(ROWS, mesh, [Shard(1)]),
        "middle": distribute_tensor(CUBE, mesh, [Shard(1)]),
        "same": distribute_tensor(ROWS, mesh, [Replicate()]),
    }
    content = {"model": weights, "optimizer": states, "more": more, "steps": 3, "about": {"names": ["a", None, 2.5]}}
    dcp.save(content, checkpoint_id=folder / "saved")
    parts = {f"model.{name}": it for name, it in weights.items()} | {f"more.{name}": it for name, it in more.items()}
    dcp.save(parts, storage_writer=HuggingFaceStorageWriter(str(folder / "parts"), save_distributed=True))
    whole: dict[str, Tensor] = {f"more.{name}": it.full_tensor() for name, it in more.items()}
    whole |= {f"model.{name}": _whole(it) for name, it in weights.items()}
    for name, state in states["state"].items():
        whole |= {f"optimizer.state.{name}.{key}": _whole(it) for key, it in state.items()}
    if dist.get_rank() == 0:
        save_file({name: it.contiguous() for name, it in whole.items()}, folder / "whole.safetensors")
    dist.barrier()
    dist.destroy_process_group()


def _whole(tensor: Tensor) -> Tensor:
    return tensor.full_tensor() if hasattr(tensor, "full_tensor") else tensor  # pyright: ignore


if __name__ == "__main__":
    main(Path(sys.argv[1]))
