"""A backward pass that adds its gradients to `.grad` and returns them. Passes of several threads take turns."""

import sys
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

import torch
from torch import Tensor

from .._torch_compat.tensors import is_view, run_backward, times_written
from .gradients import Gradients, LeafGradient
from .graph import Graph


def accumulate(root: Tensor, graph: Graph) -> Gradients:
    """Run torch's backward pass from `root`, seeded with ones of its shape; its graph is consumed."""
    gradients = Gradients()
    targets = graph.targets()
    with _exclusive(targets):
        entries = gradients.begin(targets)
        in_group = _in_group()
        for entry in entries:
            if in_group and entry.before is not None and not _is_dtensor(entry.leaf):
                # After passes under `no_sync()` DDP reduces what is in `.grad` together with the new gradient.
                entry.joined = entry.before
                entry.leaf.grad = entry.before.clone()
        try:
            run_backward(root, torch.ones_like(root))
        except BaseException:
            gradients.end((entry, None) for entry in entries)
            raise
        finally:
            graph.consume()
        gradients.end((entry, _left(entry, in_group)) for entry in entries)
    return gradients


def _left(entry: LeafGradient, in_group: bool) -> Tensor | None:
    """What the pass left in `.grad`, None where it did not reach the leaf."""
    grad = entry.leaf.grad
    if grad is None or not in_group:
        return grad
    if is_view(grad):
        return grad.clone()  # of DDP with `gradient_as_bucket_view`: the next pass overwrites what it is a view of
    return None if entry.joined is not None and times_written(grad) == 0 else grad


def _in_group() -> bool:
    distributed = torch.distributed
    return distributed.is_available() and distributed.is_initialized() and distributed.get_world_size() > 1


def _is_dtensor(tensor: Tensor) -> bool:
    module = sys.modules.get("torch.distributed.tensor")
    return module is not None and isinstance(tensor, module.DTensor)


# The leaves whose `.grad` a pass is using now. Guarded by the condition, which is notified when some are free again.
_IN_USE: set[int] = set()
_FREED = threading.Condition()


@contextmanager
def _exclusive(leaves: Sequence[Tensor]) -> Iterator[None]:
    """Wait until no other pass uses the `.grad` of one of these leaves, then keep others away from them."""
    wanted = {id(leaf) for leaf in leaves}
    with _FREED:
        while not _IN_USE.isdisjoint(wanted):
            _FREED.wait()
        _IN_USE.update(wanted)
    try:
        yield
    finally:
        with _FREED:
            _IN_USE.difference_update(wanted)
            _FREED.notify_all()
