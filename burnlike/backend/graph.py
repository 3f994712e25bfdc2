"""The graph behind a tensor: its leaves, and which of its steps a backward pass has consumed already."""

from typing import Any

from torch import Tensor

from .._torch_compat.fsdp import copies_and_sharded
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
        for copy, sharded in copies_and_sharded():
            if targets.pop(id(copy), None) is not None:
                targets[id(sharded)] = sharded
        for node in self.steps:
            ddp = getattr(node, "ddp_weakref", None)
            if ddp is not None and (module := ddp()) is not None:
                targets |= {id(param): param for param in module.parameters() if param.requires_grad}
        return list(targets.values())
