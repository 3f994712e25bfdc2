"""A backward pass from a tensor: its graph, and gradients that are added to `.grad` and returned."""

import sys
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor

from .._torch_compat.fsdp import copies_and_sharded
from .._torch_compat.tensors import is_view, run_backward, times_written
from ..errors import TensorValueError
from .gradients import Gradients, LeafGradient

_CONSUMED = "burnlike.consumed"


class Graph:
    """The steps between a tensor and its leaves.

    Attributes:
        steps: the autograd nodes, leaves' excepted.
        leaves: the tensors that gradients arrive at, each once.
    """

    def __init__(self, root: Tensor) -> None:
        """Walk from `root`, which requires grad, to its leaves.

        Raises:
            TensorValueError: a step was consumed by an earlier backward pass.
        """
        self.steps: list[Any] = []
        self.leaves: list[Tensor] = []
        if root.grad_fn is None:
            self.leaves.append(root)
            return
        seen: set[Any] = {root.grad_fn}
        pending: list[Any] = [root.grad_fn]
        while pending:
            node = pending.pop()
            # Only the nodes that accumulate into a leaf have one.
            leaf = getattr(node, "variable", None)
            if leaf is not None:
                self.leaves.append(leaf)
                continue
            if _CONSUMED in node.metadata:
                raise TensorValueError(
                    "Backward",
                    f"the graph was consumed at {node.name()} by an earlier backward(); compute the shared part again,"
                    " or pass create_graph=True to the first backward()",
                )
            self.steps.append(node)
            for following, _ in node.next_functions:
                if following is not None and following not in seen:
                    seen.add(following)
                    pending.append(following)

    def consume(self) -> None:
        """Note that a backward pass has freed what the steps had saved."""
        for node in self.steps:
            node.metadata[_CONSUMED] = True

    def targets(self) -> list[Tensor]:
        """The tensors in whose `.grad` torch's backward leaves the gradients.

        They are the leaves, but for two wrappers: FSDP2 computes with unsharded copies and leaves the reduced gradient
        in the sharded parameter; DDP leaves one also in parameters that only other ranks used.
        """
        targets = {id(leaf): leaf for leaf in self.leaves}
        for copy, sharded in copies_and_sharded():
            if targets.pop(id(copy), None) is not None:
                targets[id(sharded)] = sharded
        for node in self.steps:
            ddp = getattr(node, "ddp_weakref", None)
            if ddp is not None and (module := ddp()) is not None:
                targets |= {id(param): param for param in module.parameters() if param.requires_grad}
        return list(targets.values())


def accumulate(root: Tensor, graph: Graph) -> Gradients:
    """Run torch's backward pass from `root`, seeded with ones of its shape; its graph is consumed."""
    gradients = Gradients()
    targets = graph.targets()
    with _exclusive(targets):
        entries = gradients.begin(targets)
        distributed = torch.distributed
        in_group = distributed.is_available() and distributed.is_initialized() and distributed.get_world_size() > 1
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
    """The gradient that the pass left in `.grad`, None where it did not reach the leaf."""
    grad = entry.leaf.grad
    if grad is None or not in_group:
        return grad
    if is_view(grad):
        return grad.clone()  # of DDP with `gradient_as_bucket_view`: the next pass overwrites what it is a view of
    return None if entry.joined is not None and times_written(grad) == 0 else grad


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
