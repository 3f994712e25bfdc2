"""A process group of any size in one process, whose exchanges do nothing: torch's backend "fake", for forecasts.

torch's own tests and torchtitan have it from no public module. Without it, a forecast of several processes raises an
ImportError.

A forecast of one of 8 processes runs the code that each of them would run, on tensors without values:

    with fake_processes(world_size=8, rank=3), fake_tensors.new_mode(), Recorder() as recorder:
        fully_shard(model, mesh=init_device_mesh("cuda", (8,)))   # parameters become parts, as rank 3 would have them
        loss(model(x)).backward()                                 # gathers and sums are called, and send nothing
    recorder.exchanges                                            # how many bytes each of them would have sent

Four things of torch don't go by the process group's operators, and are replaced within the block:

    broadcast_object_list, all_gather_object   read the bytes of pickles from tensors, which fake ones don't have
    DistributedDataParallel, in a pipeline     reads the memory of parameters in C++: `Replicated` has its buckets alone
    UntypedStorage.resize_                     frees what FSDP2 has gathered, unseen by any mode (`resizes_seen`)
"""

import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, nullcontext
from functools import partial
from itertools import count
from types import SimpleNamespace
from typing import Any
from unittest.mock import patch

import torch
from torch import Tensor, nn


@contextmanager
def fake_processes(world_size: int, rank: int, broadcasts: dict[int, Any] | None = None) -> Iterator[None]:
    """This process is number `rank` of `world_size` within the `with` block; it must not be in a process group.

    Plain values that other processes would send are those of this one. Where it has None, they are those of processes
    that were imitated before, in the same dict: `broadcasts` has for the number of each broadcast the value sent.
    """
    import torch.distributed as dist
    from torch.testing._internal.distributed.fake_pg import FakeStore

    # Only a program with pipelines has loaded it.
    stage = sys.modules.get("torch.distributed.pipelining.stage")

    def gathered(values: list[Any], value: Any, *_: Any, **__: Any) -> None:
        values[:] = [value] * len(values)

    sent, numbers = {} if broadcasts is None else broadcasts, count()

    def broadcast(values: list[Any], *_: Any, **__: Any) -> None:
        number = next(numbers)
        if values[0] is None:
            values[0] = sent.get(number, sent.get(number - 1))  # a later stage of a pipeline sends what this one does
            sent.setdefault(number, values[0])
        else:
            sent[number] = values[0]

    dist.init_process_group("fake", store=FakeStore(), rank=rank, world_size=world_size)
    try:
        with (
            patch.object(dist, "broadcast_object_list", broadcast),
            patch.object(dist, "all_gather_object", gathered),
            patch.object(stage, "DistributedDataParallel", Replicated) if stage else nullcontext(),
        ):
            yield
    finally:
        dist.destroy_process_group()


class Replicated(nn.Module):
    """The buckets of DistributedDataParallel, which itself looks at memory that fake tensors don't have."""

    def __init__(self, module: nn.Module, process_group: Any = None) -> None:
        super().__init__()
        self.module, self._group, self._is_synced, self._has_buckets = module, process_group, True, False
        self.reducer = SimpleNamespace(prepare_for_backward=lambda _: None)  # of which a pipeline asks it

    def _make_buckets(self) -> None:
        from torch import distributed

        dist: Any = distributed
        self._has_buckets = True
        # As DDP: the last parameters first, since their gradients are ready first; a small first bucket, then 25 MB.
        trained = [it for it in self.module.parameters() if it.requires_grad][::-1]
        groups, _ = dist._compute_bucket_assignment_by_size(
            trained, [dist._DEFAULT_FIRST_BUCKET_BYTES, 25 << 20], [False] * len(trained)
        )
        for places in groups:
            some = [trained[place] for place in places]
            bucket = torch.cat([tensor.detach().flatten() for tensor in some])
            arrived: list[int] = []
            for parameter in some:
                parameter.register_post_accumulate_grad_hook(partial(self._arrived, bucket, arrived, len(some)))

    def forward(self, *args: Any, **kwargs: Any) -> Any:
        if not self._has_buckets:
            self._make_buckets()
        return self.module(*args, **kwargs)

    @contextmanager
    def no_sync(self) -> Iterator[None]:
        self._is_synced = False
        try:
            yield
        finally:
            self._is_synced = True

    def _arrived(self, bucket: Tensor, arrived: list[int], wanted: int, parameter: Tensor) -> None:
        import torch.distributed as dist

        if self._is_synced:
            arrived.append(id(parameter))
            if len(arrived) == wanted:
                arrived.clear()
                dist.all_reduce(bucket, group=self._group)


def group_of(args: Sequence[Any]) -> Any:
    """The process group among the arguments of an operator that exchanges tensors; None where it has none."""
    from torch._C._distributed_c10d import ProcessGroup, _resolve_process_group

    resolve: Any = _resolve_process_group
    for value in reversed(args):
        if isinstance(value, torch.ScriptObject) and "ProcessGroup" in str(value._type()):
            return ProcessGroup.unbox(value)
        if isinstance(value, str):  # the last one; that of an operation, such as "sum", is before it
            return resolve(value)
    return None


@contextmanager
def resizes_seen(seen: Callable[[Any], None]) -> Iterator[None]:
    """Call `seen(storage)` after each change of a storage's size, by which FSDP2 frees memory: no operator says it."""
    resize = torch.UntypedStorage.resize_

    def resized(storage: Any, size: int) -> Any:
        result = resize(storage, size)
        seen(storage)
        return result

    with patch.object(torch.UntypedStorage, "resize_", resized):
        yield
