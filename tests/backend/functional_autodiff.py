"""A second implementation of the AutodiffBackend protocol: gradients by `torch.autograd.grad`."""

from typing import Any

import torch
from torch import Tensor

from burnlike import Autodiff, Backend, Gradients
from burnlike.backend import GradientMap, TrackedGradients
from burnlike.errors import TensorValueError


class FunctionalAutodiff:
    """Tracks over any backend; unlike `Autodiff` it forgets the graph by its own list of leaves."""

    def __init__(self, inner: Backend) -> None:
        self.inner_backend = inner
        self.device = inner.device
        self.float_dtype, self.int_dtype = inner.float_dtype, inner.int_dtype
        self.name = f"functional<{inner.name}>"
        self.ad_enabled = True
        self.float_ops, self.int_ops, self.bool_ops = inner.float_ops, inner.int_ops, inner.bool_ops
        self.module_ops, self.activation_ops = inner.module_ops, inner.activation_ops

    def __eq__(self, other: object) -> bool:
        return isinstance(other, FunctionalAutodiff) and other.inner_backend == self.inner_backend

    def __hash__(self) -> int:
        return hash(("functional", self.inner_backend))

    def seed(self, seed: int) -> None:
        self.inner_backend.seed(seed)

    def sync(self) -> None:
        self.inner_backend.sync()

    def full_precision(self) -> "FunctionalAutodiff":
        return FunctionalAutodiff(self.inner_backend.full_precision())

    def backward(self, root: Tensor, *, create_graph: bool = False) -> GradientMap:
        leaves: list[Tensor] = [root] if root.is_leaf and root.requires_grad else []
        pending: list[Any] = [root.grad_fn]
        seen: set[Any] = set()
        while pending:
            node = pending.pop()
            if node is None or node in seen:
                continue
            seen.add(node)
            leaf = getattr(node, "variable", None)
            if leaf is not None:
                leaves.append(leaf)
            pending.extend(following for following, _ in node.next_functions)
        gradients = TrackedGradients() if create_graph else Gradients()
        ones = torch.ones_like(root)
        try:
            found = torch.autograd.grad(root, leaves, ones, create_graph=create_graph, allow_unused=True)
        except RuntimeError as error:
            raise TensorValueError("Backward", str(error)) from error
        for leaf, grad in zip(leaves, found, strict=True):
            if grad is not None:
                gradients.register(leaf, grad)
        return gradients

    grad = Autodiff.grad
    grad_remove = Autodiff.grad_remove
    grad_replace = Autodiff.grad_replace
    require_grad = Autodiff.require_grad
    to_inner = Autodiff.to_inner
    from_inner = Autodiff.from_inner
