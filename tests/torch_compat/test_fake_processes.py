"""Process groups of any size in one process."""

import pytest
import torch
import torch.distributed as dist
from torch import nn

from burnlike._torch_compat import fake_processes, fake_tensors
from burnlike._torch_compat.dispatch import TorchDispatchMode


def test_fake_processes() -> None:
    with fake_processes.fake_processes(1024, 5):
        assert (dist.get_rank(), dist.get_world_size()) == (5, 1024)
        dist.all_reduce(torch.ones(2))
        box = [3]
        dist.broadcast_object_list(box)
        found = [None] * 1024
        dist.all_gather_object(found, "a")
        assert (box, {*found}) == ([3], {"a"})
    assert not dist.is_initialized()


def test_a_value_of_another_process_is_what_an_earlier_one_has_said() -> None:
    said: dict[int, int] = {}
    for rank, own in ((0, 7), (1, None)):
        with fake_processes.fake_processes(2, rank, said):
            box = [own]
            dist.broadcast_object_list(box)
        assert box == [7]


def test_Replicated() -> None:
    """It exchanges what DistributedDataParallel does: buckets of 25 MB, the first of 1 MB."""
    found = []

    class Reduced(TorchDispatchMode):
        def __torch_dispatch__(self, func, types, args=(), kwargs=None):
            if "allreduce" in func.__name__:
                found.append(args[0][0].nbytes)
            return func(*args, **(kwargs or {}))

    with fake_processes.fake_processes(2, 0), fake_tensors.new_mode():
        model = fake_processes.Replicated(nn.Sequential(nn.Linear(1000, 1000), nn.Linear(1000, 1000)))
        with Reduced():
            with model.no_sync():
                model(torch.zeros(1, 1000)).sum().backward()
            assert not found
            model(torch.zeros(1, 1000)).sum().backward()
    assert sum(found) == 4 * 2 * 1001 * 1000
    assert len(found) == 2


def test_group_of() -> None:
    found = []

    class Groups(TorchDispatchMode):
        def __torch_dispatch__(self, func, types, args=(), kwargs=None):
            if "c10d" in func.namespace:
                found.append(fake_processes.group_of(args).size())
            return func(*args, **(kwargs or {}))

    with fake_processes.fake_processes(6, 0):
        half = dist.new_group([0, 1, 2])
        with Groups():
            dist.all_reduce(torch.ones(2), group=half)
            torch.ops._c10d_functional.all_reduce(torch.ones(2), "sum", dist.group.WORLD.group_name)
    assert found == [3, 6]
    assert fake_processes.group_of([1, None]) is None


def test_resizes_seen() -> None:
    storage = torch.zeros(4).untyped_storage()
    sizes: list[int] = []
    with fake_processes.resizes_seen(lambda it: sizes.append(it.nbytes())):
        storage.resize_(0)
    storage.resize_(8)
    assert sizes == [0]


@pytest.fixture(autouse=True)
def no_group() -> None:
    assert not dist.is_initialized()
