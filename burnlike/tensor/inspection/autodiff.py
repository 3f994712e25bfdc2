"""Tracking and gradients."""

from typing import Any, Literal, Never, TypeAlias, overload

from ...backend import Autodiff, AutodiffBackend, GradientMap, Gradients, TrackedGradients
from ...errors import TensorTypeError, TensorValueError
from ..core.base import B2, K2, B, D, E, Floats, K, Tensor, TensorBase, wrap
from ..core.kinds import Float
from ..core.operands import operand
from ..core.spec import family_of

Tracked: TypeAlias = TensorBase[Autodiff[B2], D, Float]


class AutodiffMethods(TensorBase[B, D, K]):
    """Tracking and gradients."""

    __slots__ = ()

    @overload
    def backward(self: "Tracked[B2, D]") -> Gradients: ...
    @overload
    def backward(self: "Tracked[B2, D]", *, create_graph: Literal[True]) -> TrackedGradients: ...
    @overload
    def backward(self, *, needs_a_Float_on_the_backend_Autodiff: Never) -> Gradients: ...  # what checkers then name
    def backward(  # pyright: ignore[reportInconsistentOverload]
        self: Any, gradient: None = None, retain_graph: None = None, *, create_graph: bool = False
    ) -> Any:
        """Differentiate this tensor, seeded with ones of its shape, `[..]`; any shape will do.

        What is taken out of the container is taken out of `.grad` too, see `Gradients`.

        Args:
            create_graph: keep the graph, and track the gradients, so that they can be differentiated again; they are
                in the container only.

        Torch: `loss.backward()`.
        Differs: adds to `.grad` and gives a container of what it added, consumes the graph; no `retain_graph`.
        Raises TensorValueError: not tracked, or part of the graph was consumed by an earlier pass.
        Raises TensorTypeError: the backend does not track.
        """
        if gradient is not None or retain_graph is not None:
            raise TensorTypeError(
                "Backward",
                "a tensor is seeded with ones and its graph consumed: multiply by the gradient before, add losses that"
                " share a graph, or call torch's, x.inner.backward(gradient, retain_graph), which fills .grad only",
            )
        return _tracking("Backward", self).backward(self.inner, create_graph=create_graph)

    @overload
    def grad(self: "Tracked[B2, D]", grads: TrackedGradients) -> "Tensor[Autodiff[B2], D, Float] | None": ...
    @overload
    def grad(self: "Tracked[B2, D]", grads: Gradients) -> "Tensor[B2, D, Float] | None": ...
    def grad(self: Any, grads: Any) -> Any:
        """The gradient of this leaf, or None if it has none. `[..]`. Torch: `x.grad`.

        It is on the inner backend; that of `backward(create_graph=True)` is on this one, with its history.

        Differs: read from the container; None for results of operations.
        """
        return _gradient("Grad", self, "grad", grads)

    @overload
    def grad_remove(self: "Tracked[B2, D]", grads: TrackedGradients) -> "Tensor[Autodiff[B2], D, Float] | None": ...
    @overload
    def grad_remove(self: "Tracked[B2, D]", grads: Gradients) -> "Tensor[B2, D, Float] | None": ...
    def grad_remove(self: Any, grads: Any) -> Any:
        """Take this leaf's gradient out of the container and its `.grad`, and return it; None if it has none. `[..]`.
        Torch: `x.grad`, then `x.grad = None`.
        """
        return _gradient("Grad Remove", self, "grad_remove", grads)

    def grad_replace(self: "Tracked[B2, D]", grads: GradientMap, grad: "Tensor[B2, D, Float]") -> None:
        """Put `grad` in place of this leaf's gradient, in its `.grad` too. `[..]`. Torch: `x.grad = grad`.

        Raises TensorValueError: another shape than the leaf's.
        """
        backend = _tracking("Grad Replace", self)
        _check_gradients("Grad Replace", grads)
        inner_spec = family_of(backend.inner_backend)[self.spec.dtype][self.spec.rank]
        value = operand("grad_replace", inner_spec, grad)
        if value.shape != self.inner.shape:
            raise TensorValueError(
                "Grad Replace", f"expected a gradient of shape {list(self.inner.shape)}, got {list(value.shape)}"
            )
        backend.grad_replace(self.inner, grads, value)

    @overload
    def without_autodiff(self: "AutodiffMethods[Autodiff[B2], D, K]") -> "Tensor[B2, D, K]": ...
    @overload
    def without_autodiff(self) -> "Tensor[B, D, K]": ...
    def without_autodiff(self: Any) -> Any:
        """The same values on the inner backend, untracked; a tensor of a backend that does not track, itself. `[..]`.
        Torch: `x.detach()`. Differs: Burn's `inner()`; `x.inner` is the torch tensor.
        """
        spec = self.spec
        return _on_inner(self, spec.backend.to_inner(self.inner)) if spec.tracks else self

    @overload
    def autodiff(self: "AutodiffMethods[Autodiff[B2], D, K]") -> "Tensor[Autodiff[B2], D, K]": ...
    @overload
    def autodiff(self) -> "Tensor[Autodiff[B], D, K]": ...
    def autodiff(self: Any) -> Any:
        """The same tensor on the `Autodiff` of its backend; untracked until `require_grad()`. `[..]`. Torch: none."""
        return from_inner(self)

    @overload
    @staticmethod
    def from_inner(tensor: "Tensor[Autodiff[B2], E, K2]") -> "Tensor[Autodiff[B2], E, K2]": ...
    @overload
    @staticmethod
    def from_inner(tensor: "Tensor[B2, E, K2]") -> "Tensor[Autodiff[B2], E, K2]": ...
    @staticmethod
    def from_inner(tensor: Any) -> Any:
        """An untracked tensor on the `Autodiff` of its backend; one that is there, itself. `[..]`. Torch: none."""
        return from_inner(tensor)

    def require_grad(self: "Tracked[B2, D]") -> "Tensor[Autodiff[B2], D, Float]":
        """A leaf with the same values, whose gradient the backward passes calculate; a leaf that is one, itself.
        Torch: `x.requires_grad_()`. Differs: this tensor is not changed.
        Raises TensorTypeError: the backend does not track.
        Raises TensorValueError: the tensor is the result of a tracked operation.
        """
        backend = _tracking("Require Grad", self)
        if self.spec.kind is not Float:
            raise TensorTypeError(
                "Require Grad", f"expected a Float tensor, got one of kind {self.spec.kind.name}; float() converts it"
            )
        leaf = backend.require_grad(self.inner)
        return self if leaf is self.inner else wrap(leaf, self.spec)  # pyright: ignore[reportReturnType]

    @overload
    def set_require_grad(self: "Tracked[B2, D]", require_grad: bool) -> "Tensor[Autodiff[B2], D, Float]": ...
    @overload
    def set_require_grad(self: "Floats[B, D]", require_grad: Literal[False]) -> "Tensor[B, D, Float]": ...
    def set_require_grad(self: Any, require_grad: bool) -> Any:
        """`require_grad()`, or for False the same values untracked. Torch: `x.requires_grad_(flag)`.
        Differs: a new tensor.
        """
        if require_grad:
            return self.require_grad()
        tracked = self.spec.tracks and self.inner.requires_grad
        return wrap(self.spec.ops.detach(self.inner), self.spec) if tracked else self

    def is_require_grad(self: "Floats[B, D]") -> bool:
        """True if this is a leaf that was marked by `require_grad()`. Torch: `x.requires_grad and x.is_leaf`.
        Differs: False for results of operations.
        """
        return self.inner.requires_grad and self.inner.grad_fn is None

    def is_tracked(self) -> bool:
        """True if a backward pass reaches this tensor: a marked leaf, or a result of one. Torch: `x.requires_grad`."""
        return self.inner.requires_grad

    def is_autodiff(self) -> bool:
        """True if the backend tracks. Torch: none."""
        return self.spec.tracks

    def detach(self: "Floats[B, D]") -> "Tensor[B, D, Float]":
        """The same values without their history. A leaf that requires grad gives another leaf that does.
        Torch: `x.detach()`. Differs: a leaf that requires grad still requires grad.
        """
        if not self.inner.requires_grad:
            return self  # pyright: ignore[reportReturnType]
        values: Any = wrap(self.spec.ops.detach(self.inner), self.spec)
        return values.require_grad() if self.inner.grad_fn is None else values

    def gradient_checkpointing_strategy(self) -> Literal["NoCheckpointing"]:
        """The strategy that saves memory in the backward pass of this tensor's operations: none. Torch: none.
        Differs: `burnlike.tensor.checkpoint` recomputes a function's results in the backward pass.
        """
        return "NoCheckpointing"

    def with_gradient_checkpointing_strategy(self, strategy: Literal["NoCheckpointing"]) -> "Tensor[B, D, K]":
        """The tensor itself: there is one strategy. Torch: `torch.utils.checkpoint`.
        Differs: checkpointing is chosen by function, with `burnlike.tensor.checkpoint`, not by tensor.
        Raises TensorValueError: another strategy.
        """
        if strategy != "NoCheckpointing":
            raise TensorValueError(
                "With Gradient Checkpointing Strategy",
                f"expected 'NoCheckpointing', got {strategy!r}; run the function through burnlike.tensor.checkpoint",
            )
        return self  # pyright: ignore[reportReturnType]

    def is_distributed(self) -> bool:
        """True if gradients of this tensor are reduced by the tensor itself: never, the module's wrapper does it.
        Torch: none. Differs: wrap the module in DistributedDataParallel or FSDP2.
        """
        return False

    def set_distributed(self, param_id: object) -> "Tensor[B, D, K]":
        """Refused: gradients are reduced by the module's wrapper. Torch: none.
        Differs: wrap the module in DistributedDataParallel or FSDP2. Raises TensorValueError: always.
        """
        raise TensorValueError(
            "Set Distributed",
            "a tensor does not reduce its gradient itself; wrap the module in DistributedDataParallel or FSDP2,"
            " and backward() holds the reduced gradients",
        )


def from_inner(tensor: Any, backend: AutodiffBackend | None = None) -> Any:
    """`tensor` on an autodiff backend: `backend`, or the `Autodiff` of its own."""
    spec = tensor.spec
    if spec.tracks:
        return tensor
    backend = backend or Autodiff(spec.backend)
    family = family_of(backend)
    return wrap(backend.from_inner(tensor.inner), family[spec.dtype][spec.rank])


def _tracking(operation: str, tensor: Any) -> AutodiffBackend:
    backend = tensor.spec.backend
    if not tensor.spec.tracks:
        raise TensorTypeError(
            operation,
            f"expected a tensor of an autodiff backend, got one of {backend!r}; call autodiff() first,"
            f" or create it on Autodiff({backend!r})",
        )
    return backend


def _check_gradients(operation: str, grads: Any) -> None:
    if not isinstance(grads, GradientMap):
        raise TensorTypeError(
            operation,
            f"expected the Gradients that backward() gave, got {type(grads).__name__}; torch's is x.inner.grad",
        )


def _on_inner(tensor: Any, inner: Any) -> Any:
    return wrap(inner, family_of(tensor.spec.backend.inner_backend)[inner.dtype][tensor.spec.rank])


def _gradient(operation: str, leaf: Any, take: str, grads: Any) -> Any:
    """Call the backend's function `take` for a leaf, and give a tensor of the backend that the gradient is on."""
    spec = leaf.spec
    _check_gradients(operation, grads)
    grad = getattr(spec.backend, take)(leaf.inner, grads) if spec.tracks else None
    if grad is None:
        return None
    return (
        wrap(grad, spec.family[grad.dtype][spec.rank]) if isinstance(grads, TrackedGradients) else _on_inner(leaf, grad)
    )
