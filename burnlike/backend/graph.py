"""The graph behind a tensor: its leaves, and which of its steps a backward pass has consumed already."""

import sys
from collections.abc import Iterator
from typing import Any

from torch import Tensor

from ..errors import TensorValueError

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
        for unsharded, sharded in _fsdp_params():
            if targets.pop(id(unsharded), None) is not None:
                targets[id(sharded)] = sharded
        for node in self.steps:
            ddp = getattr(node, "ddp_weakref", None)
            if ddp is not None and (module := ddp()) is not None:
                targets |= {id(param): param for param in module.parameters() if param.requires_grad}
        return list(targets.values())


def _fsdp_params() -> Iterator[tuple[Tensor, Tensor]]:
    """The unsharded and the sharded form of each parameter under `fully_shard` in this process."""
    if "torch.distributed.fsdp._fully_shard._fsdp_state" not in sys.modules:
        return
    from torch.distributed._composable_state import _module_state_mapping

    for reference in list(_module_state_mapping.values()):
        state = reference()
        for group in getattr(state, "_fsdp_param_groups", None) or [getattr(state, "_fsdp_param_group", None)]:
            for param in getattr(group, "fsdp_params", ()):
                unsharded = getattr(param, "_unsharded_param", None)
                if unsharded is not None:
                    yield unsharded, param.sharded_param
