"""Files that are sent from one process to another, block by block, where they have no common file system."""

from contextlib import ExitStack
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist

from ..bytes.workers import bytes_at

_BLOCK_BYTES = 8 << 20


def send_file(source: Path, target: Path, sender: int, receiver: int, group: Any = None) -> None:
    """Copy the file `source` of rank `sender` to `target` of rank `receiver`; for others it does nothing.

    An OSError of one of the two is raised there when the other has sent or got all blocks.
    """
    rank = dist.get_rank()
    if rank not in (sender, receiver):
        return
    problem: OSError | None = None
    size = torch.zeros(1, dtype=torch.int64)
    with ExitStack() as stack:
        file: Any = None
        try:
            if rank == sender:
                file = stack.enter_context(open(source, "rb"))
                size[0] = source.stat().st_size
            else:
                file = stack.enter_context(open(target, "wb"))
        except OSError as error:
            problem = error
        _pass(size, sender, receiver, group)
        for at in range(0, int(size), _BLOCK_BYTES):
            block = torch.zeros(min(_BLOCK_BYTES, int(size) - at), dtype=torch.uint8)
            if rank == receiver:
                _pass(block, sender, receiver, group)
            try:
                if problem is None:
                    bytes_of = bytes_at(block.data_ptr(), block.numel())
                    if (file.readinto if rank == sender else file.write)(bytes_of) != len(bytes_of):
                        problem = OSError(f"{source} was cut while it was sent")
            except OSError as error:
                problem = error
            if rank == sender:
                _pass(block, sender, receiver, group)
    if problem is not None:
        raise problem


def _pass(tensor: torch.Tensor, sender: int, receiver: int, group: Any) -> None:
    if dist.get_rank() == sender:
        dist.send(tensor, receiver, group=group)
    else:
        dist.recv(tensor, sender, group=group)
