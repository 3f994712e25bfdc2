"""Autodiff: adds gradients to a backend, by torch's own backward pass."""

import dataclasses
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import cached_property
from typing import Any, Generic

import torch
from torch import Tensor
from typing_extensions import TypeVar

from .._torch_compat.fsdp import copies_and_sharded, is_distributed
from .._torch_compat.tensors import in_backward, is_view, run_backward, times_written
from ..errors import BackendError, TensorValueError
from .differentiable import differentiable
from .gradients import GradientMap, Gradients, LeafGradient, TrackedGradients
from .protocol import Backend
from .tables import (
    ActivationOps,
    BoolOps,
    FloatOps,
    IntOps,
    ModuleOps,
    TorchActivationOps,
    TorchFloatOps,
    TorchModuleOps,
)
from .torch_backend import check_members, is_torchs
from .torch_calls import through

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
        # No recursion: graphs are deeper than Python's stack.
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
            if in_group and entry.before is not None and not is_distributed(entry.leaf):
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


# The leaves whose `.grad` a pass is using now. Guarded by the condition, which is notified when some are free again.
_IN_USE: set[int] = set()
_FREED = threading.Condition()


@contextmanager
def _exclusive(leaves: Sequence[Tensor]) -> Iterator[None]:
    """Wait until no other pass uses the `.grad` of one of these leaves, then keep others away from them."""
    wanted = {id(leaf) for leaf in leaves}
    with _FREED:
        # All or none: two passes that each had leaves of the other would wait for ever.
        while not _IN_USE.isdisjoint(wanted):
            _FREED.wait()
        _IN_USE.update(wanted)
    try:
        yield
    finally:
        with _FREED:
            _IN_USE.difference_update(wanted)
            _FREED.notify_all()


InnerB = TypeVar("InnerB", bound=Backend)


@dataclasses.dataclass(frozen=True, repr=False)
class Autodiff(Generic[InnerB]):
    """`inner` with tracking: an `AutodiffBackend`. Its tables are the inner backend's: torch records what they do.

    A function of a backend of your own has the derivative of torch's function, computed by the backend's functions.

    Attributes:
        inner_backend: the backend of gradients and of untracked tensors.

    Raises:
        BackendError: `inner_backend` is not a backend, or tracks already.

    Example:
        >>> from burnlike.backend import Autodiff, Cpu
        >>> Autodiff(Cpu()).name
        'autodiff<torch<cpu>>'
    """

    inner_backend: InnerB

    def __post_init__(self) -> None:
        tracks = getattr(self.inner_backend, "ad_enabled", None)
        if not isinstance(tracks, bool):
            raise BackendError(f"Autodiff: expected a backend such as Cpu(), got {self.inner_backend!r}")
        if tracks:
            raise BackendError(f"Autodiff: {self.inner_backend!r} tracks already")
        check_members(self.inner_backend)

    def __repr__(self) -> str:
        return f"Autodiff({self.inner_backend!r})"

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (self.inner_backend,)

    @property
    def device(self) -> torch.device:
        return self.inner_backend.device

    @property
    def float_dtype(self) -> torch.dtype:
        return self.inner_backend.float_dtype

    @property
    def int_dtype(self) -> torch.dtype:
        return self.inner_backend.int_dtype

    @property
    def name(self) -> str:
        return f"autodiff<{self.inner_backend.name}>"

    @property
    def ad_enabled(self) -> bool:
        return True

    @property
    def float_ops(self) -> FloatOps:
        """The inner backend's; functions that are not torch's raise where they lose the history of an operand."""
        return self._tables[0]

    @property
    def int_ops(self) -> IntOps:
        return self.inner_backend.int_ops

    @property
    def bool_ops(self) -> BoolOps:
        return self.inner_backend.bool_ops

    @property
    def module_ops(self) -> ModuleOps:
        return self._tables[1]

    @property
    def activation_ops(self) -> ActivationOps:
        return self._tables[2]

    @cached_property
    def _tables(self) -> tuple[FloatOps, ModuleOps, ActivationOps]:
        float_ops = differentiable("float_ops", self.inner_backend, TorchFloatOps)
        module_ops = differentiable("module_ops", self.inner_backend, TorchModuleOps)
        return float_ops, module_ops, differentiable("activation_ops", self.inner_backend, TorchActivationOps)

    @cached_property
    def _torchs(self) -> bool:
        return is_torchs(self.inner_backend)

    def seed(self, seed: int) -> None:
        self.inner_backend.seed(seed)

    def sync(self) -> None:
        self.inner_backend.sync()

    def full_precision(self) -> "Autodiff[InnerB]":
        inner: Any = self.inner_backend.full_precision()
        return Autodiff(inner)

    def backward(self, root: Tensor, *, create_graph: bool = False) -> GradientMap:
        """Differentiate `root`, seeded with ones of its shape, by torch's own backward.

        The hooks of DDP and FSDP2 run, so the gradients are the reduced ones. They are added to `.grad`, as torch
        does, but never in place: what was there stays as it is, and is put back if the backward pass fails. Passes of
        other threads that share a leaf wait. A pass inside of another one's hook leaves `.grad` alone, and reduces
        nothing.

        Args:
            root: of any shape; its graph is consumed.
            create_graph: keep the graph, and track the gradients for a further backward pass. `.grad` is left alone,
                and hooks on parameters that reduce gradients don't run then.

        Raises:
            TensorValueError: `root` is not tracked, or a part of its graph was consumed by an earlier pass.
        """
        if not root.requires_grad:
            raise TensorValueError(
                "Backward",
                "the tensor is not tracked: no operand required grad, or it was detached;"
                " mark a leaf by require_grad()",
            )
        graph = Graph(root)
        try:
            if self._torchs:
                return _differentiated(root, graph, create_graph)
            with through(self.inner_backend):
                gradients = _differentiated(root, graph, create_graph)
            self.inner_backend.sync()  # torch reads what is in `.grad`
            return gradients
        except RuntimeError as error:
            if "second time" not in str(error):
                raise
            raise TensorValueError(
                "Backward", "a part of the graph was consumed by torch's own backward(); compute the shared part again"
            ) from error

    def grad(self, leaf: Tensor, gradients: GradientMap) -> Tensor | None:
        return gradients.get(leaf)

    def grad_remove(self, leaf: Tensor, gradients: GradientMap) -> Tensor | None:
        return gradients.remove(leaf)

    def grad_replace(self, leaf: Tensor, gradients: GradientMap, grad: Tensor) -> None:
        gradients.register(leaf, grad)

    def require_grad(self, tensor: Tensor) -> Tensor:
        """A leaf that is tracked, with the values of `tensor`, which is not changed; a leaf that is, itself.

        Raises:
            TensorValueError: the tensor is the result of a tracked operation.
        """
        if tensor.grad_fn is not None:
            raise TensorValueError(
                "Require Grad", "the result of a tracked operation can't be a leaf; detach() it first"
            )
        if tensor.requires_grad:
            return tensor
        if tensor.is_inference() and not torch.is_inference_mode_enabled():
            raise TensorValueError(
                "Require Grad", "the tensor was made in inference mode; copy it by Tensor(x.inner.clone(), x.backend)"
            )
        return self.inner_backend.float_ops.detach(tensor).requires_grad_()

    def to_inner(self, tensor: Tensor) -> Tensor:
        """The values without their history."""
        return self.inner_backend.float_ops.detach(tensor) if tensor.requires_grad else tensor

    def from_inner(self, tensor: Tensor) -> Tensor:
        """The same tensor: torch tracks by leaf, not by backend."""
        return tensor


def _differentiated(root: Tensor, graph: Graph, create_graph: bool) -> GradientMap:
    if not create_graph and not in_backward():
        return accumulate(root, graph)
    # Not in `.grad`: an outer pass is adding up there at this moment; or else, a tracked gradient there and its leaf
    # would keep each other alive.
    gradients = TrackedGradients() if create_graph else Gradients()
    seed = torch.ones_like(root)
    try:
        grads = torch.autograd.grad(root, graph.leaves, seed, create_graph=create_graph, allow_unused=True)
    finally:
        if not create_graph:
            graph.consume()
    for leaf, grad in zip(graph.leaves, grads, strict=True):
        if grad is not None:
            gradients.register(leaf, grad)
    return gradients
