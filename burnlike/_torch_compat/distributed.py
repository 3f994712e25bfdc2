"""The process group's store, meshes without groups, and torch's record of exchanges."""

import sys
from typing import Any


def meeting_place() -> str | None:
    """Host and port, or the file, of the store of the process group; None where there is none or just one rank.

    Nothing is exchanged. Without it, ranks that were started by hand draw different ids, which `agree_ids` repairs.
    """
    # Without an import, which would load it: then there is no process group either.
    distributed = sys.modules.get("torch.distributed")
    if distributed is None or not distributed.is_available() or not distributed.is_initialized():
        return None
    if distributed.get_world_size() == 1:
        return None
    store: Any = distributed.distributed_c10d._get_default_store()
    while hasattr(store, "underlying_store"):
        store = store.underlying_store
    place = [str(getattr(store, name)) for name in ("host", "port", "path") if hasattr(store, name)]
    return " ".join(place) or None


def cpu_mesh(mesh: Any) -> Any:
    """The processes of a mesh as one of the CPU, by which nothing can be sent.

    torch makes process groups for each mesh, which all processes must do together. Without this argument of torch,
    copies of a divided tensor would stay on its device, and take memory there.
    """
    if mesh.device_type == "cpu":
        return mesh
    from torch.distributed.device_mesh import DeviceMesh

    return DeviceMesh("cpu", mesh.mesh, mesh_dim_names=mesh.mesh_dim_names, _init_backend=False)


def forget_earlier_meshes() -> None:
    """Forget what torch remembers of operations on DTensors of earlier meshes.

    A mesh is equal to one of an earlier job of this process with the same ranks, and torch gives results of operations
    the mesh that it met first, whose process groups are gone. Without this function of torch, a second job in one
    process whose tensors are divided fails ("Could not resolve the process group").
    """
    if "torch.distributed.tensor" in sys.modules:
        from torch.distributed.tensor import debug

        getattr(debug, "_clear_sharding_prop_cache", lambda: None)()


def arrivals(after_ns: int) -> dict[str, int]:
    """When this process began the exchanges since a moment, in nanoseconds of the clock, by group and number.

    They are those of torch's flight recorder, which notes every exchange of gloo and NCCL anyway. Without it there are
    none: what processes wait for one another is not known then. Sends to one process are left out.
    """
    import pickle

    from torch._C import _distributed_c10d as c10d

    dump = getattr(c10d, "_dump_fr_trace", None) or getattr(c10d, "_dump_nccl_trace", None)
    if dump is None:
        return {}
    trace = pickle.loads(dump(includeCollectives=True, includeStackTraces=False, onlyActive=False))
    late = [it for it in trace.get("entries", ()) if it["time_created_ns"] > after_ns and not it["is_p2p"]]
    return {f"{it['process_group'][0]} {it['collective_seq_id']}": it["time_created_ns"] for it in late}
