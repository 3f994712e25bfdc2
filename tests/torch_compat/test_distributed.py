"""Where ranks meet."""

import time
from pathlib import Path
from types import SimpleNamespace

import pytest
import torch

from burnlike._torch_compat import distributed


def test_meeting_place(group: None, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    assert distributed.meeting_place() is None  # one rank
    monkeypatch.setattr(torch.distributed, "get_world_size", lambda: 2)
    assert distributed.meeting_place() is None  # a store of this process alone
    torch.distributed.destroy_process_group()
    store = torch.distributed.TCPStore("localhost", 0, 1, is_master=True)
    torch.distributed.init_process_group("gloo", store=store, rank=0, world_size=1)
    assert distributed.meeting_place() == f"localhost {store.port}"
    torch.distributed.destroy_process_group()
    torch.distributed.init_process_group("gloo", init_method=f"file://{tmp_path}/meet", rank=0, world_size=1)
    assert distributed.meeting_place() == f"{tmp_path}/meet"


def test_forget_earlier_meshes(group: None, monkeypatch: pytest.MonkeyPatch) -> None:
    from torch.distributed.device_mesh import init_device_mesh
    from torch.distributed.tensor import DTensor, Replicate, debug

    found = []
    for is_forgotten in (False, False, True):
        if is_forgotten:
            distributed.forget_earlier_meshes()
        mesh = init_device_mesh("cpu", (1,))
        found.append((DTensor.from_local(torch.ones(2), mesh, [Replicate()]) + 1).device_mesh is mesh)
    assert found[1:] == [False, True]  # torch needs it as long as the second is not its own
    monkeypatch.delattr(debug, "_clear_sharding_prop_cache")
    distributed.forget_earlier_meshes()


def test_arrivals(group: None, monkeypatch: pytest.MonkeyPatch) -> None:
    before = time.time_ns()
    for _ in range(2):
        torch.distributed.all_reduce(torch.zeros(1))
    first, second = distributed.arrivals(before).values()
    assert before < first < second < time.time_ns()
    assert distributed.arrivals(first).keys() == {[*distributed.arrivals(before)][1]}
    monkeypatch.delattr(torch._C._distributed_c10d, "_dump_fr_trace")
    monkeypatch.delattr(torch._C._distributed_c10d, "_dump_nccl_trace", raising=False)
    assert distributed.arrivals(before) == {}


def test_cpu_mesh(group: None) -> None:
    mesh = torch.distributed.init_device_mesh("cpu", (1,), mesh_dim_names=("shard",))
    assert distributed.cpu_mesh(mesh) is mesh
    other = SimpleNamespace(device_type="cuda", mesh=mesh.mesh, mesh_dim_names=("shard",))
    found = distributed.cpu_mesh(other)
    assert (found.device_type, found.mesh_dim_names, [*found.get_coordinate()]) == ("cpu", ("shard",), [0])
