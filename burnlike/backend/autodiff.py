"""Autodiff: the decorator that makes a backend track, with torch's own backward."""

from typing import Any, Generic

import torch
from torch import Tensor
from typing_extensions import TypeVar

from ..errors import BackendError
from .gradients import Gradients
from .protocol import Backend
from .tables import ActivationOps, BoolOps, FloatOps, IntOps, ModuleOps

InnerB = TypeVar("InnerB", bound=Backend)


class Autodiff(Generic[InnerB]):
    """`inner` with tracking. Its tables are the inner backend's: torch records what they do.

    Attributes:
        inner_backend: the backend of gradients and of untracked tensors.

    Example:
        >>> from burnlike.backend import Autodiff, Cpu
        >>> Autodiff(Cpu()).name
        'autodiff<torch<cpu>>'
    """

    __slots__ = ("inner_backend",)
    inner_backend: InnerB

    def __init__(self, inner: InnerB) -> None:
        """Decorate a backend.

        Raises:
            BackendError: `inner` is not a backend, or tracks already.
        """
        if not isinstance(inner, Backend):
            raise BackendError(f"Autodiff: expected a backend such as Cpu(), got {inner!r}")
        if inner.ad_enabled:
            raise BackendError(f"Autodiff: {inner!r} tracks already")
        object.__setattr__(self, "inner_backend", inner)

    def __setattr__(self, name: str, value: object) -> None:
        raise AttributeError(f"a backend can't be changed; make another one instead of setting {name!r}")

    def __eq__(self, other: object) -> bool:
        return type(other) is type(self) and other.inner_backend == self.inner_backend

    def __hash__(self) -> int:
        return hash((type(self), self.inner_backend))

    def __repr__(self) -> str:
        return f"Autodiff({self.inner_backend!r})"

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (self.inner_backend,)

    @property
    def device(self) -> torch.device:
        """Where the tensors are."""
        return self.inner_backend.device

    @property
    def float_dtype(self) -> torch.dtype:
        """The element type of new Float tensors."""
        return self.inner_backend.float_dtype

    @property
    def int_dtype(self) -> torch.dtype:
        """The element type of new Int tensors."""
        return self.inner_backend.int_dtype

    @property
    def name(self) -> str:
        """As in `autodiff<torch<cpu>>`."""
        return f"autodiff<{self.inner_backend.name}>"

    @property
    def ad_enabled(self) -> bool:
        """True."""
        return True

    @property
    def float_ops(self) -> FloatOps:
        """The inner backend's."""
        return self.inner_backend.float_ops

    @property
    def int_ops(self) -> IntOps:
        """The inner backend's."""
        return self.inner_backend.int_ops

    @property
    def bool_ops(self) -> BoolOps:
        """The inner backend's."""
        return self.inner_backend.bool_ops

    @property
    def module_ops(self) -> ModuleOps:
        """The inner backend's."""
        return self.inner_backend.module_ops

    @property
    def activation_ops(self) -> ActivationOps:
        """The inner backend's."""
        return self.inner_backend.activation_ops

    def seed(self, seed: int) -> None:
        """Seed the inner backend's generator."""
        self.inner_backend.seed(seed)

    def sync(self) -> None:
        """Wait for the inner backend's work."""
        self.inner_backend.sync()

    def full_precision(self) -> "Autodiff[InnerB]":
        """Autodiff of the inner backend in full precision."""
        return Autodiff(self.inner_backend.full_precision())

    def backward(self, root: Tensor, *, create_graph: bool = False) -> Gradients:
        """Differentiate `root`, seeded with ones of its shape."""
        raise NotImplementedError

    def grad(self, leaf: Tensor, gradients: Gradients) -> Tensor | None:
        """The gradient of a leaf, or None."""
        return gradients.get(leaf)

    def grad_remove(self, leaf: Tensor, gradients: Gradients) -> Tensor | None:
        """Take the gradient of a leaf out, or None."""
        return gradients.remove(leaf)

    def grad_replace(self, leaf: Tensor, gradients: Gradients, grad: Tensor) -> None:
        """Put a gradient in the place of a leaf's."""
        gradients.register(leaf, grad)

    def require_grad(self, tensor: Tensor) -> Tensor:
        """A leaf that is tracked, with the values of `tensor`, which is not changed."""
        return tensor if tensor.requires_grad else tensor.detach().requires_grad_()

    def to_inner(self, tensor: Tensor) -> Tensor:
        """The values without their history."""
        return tensor.detach()

    def from_inner(self, tensor: Tensor) -> Tensor:
        """The same tensor: torch tracks by leaf, not by backend."""
        return tensor
