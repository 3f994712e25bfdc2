"""The interface of a backend: a device, element types, and five tables of functions."""

# pyright: reportReturnType=false

from typing import Any, Protocol, runtime_checkable

import torch
from torch import Tensor

from .gradients import GradientMap
from .tables import ActivationOps, BoolOps, FloatOps, IntOps, ModuleOps


@runtime_checkable
class Backend(Protocol):
    """A small immutable object, equal by value and hashable. Everything a typed tensor does goes through its tables.

    A backend of your own implements these members; `burnlike.backend.map_ops` makes a table from another one.
    """

    @property
    def device(self) -> torch.device:
        """The device of the tensors."""

    @property
    def float_dtype(self) -> torch.dtype:
        """The element type of Float tensors that the backend creates."""

    @property
    def int_dtype(self) -> torch.dtype:
        """The element type of Int tensors that the backend creates, indices among them."""

    @property
    def name(self) -> str:
        """As in `torch<cpu>`; a decorator puts its own around it: `autodiff<torch<cpu>>`."""

    @property
    def ad_enabled(self) -> bool:
        """True if operations are tracked for a backward pass."""

    @property
    def float_ops(self) -> FloatOps:
        """The functions of Float tensors."""

    @property
    def int_ops(self) -> IntOps:
        """The functions of Int tensors."""

    @property
    def bool_ops(self) -> BoolOps:
        """The functions of Bool tensors."""

    @property
    def module_ops(self) -> ModuleOps:
        """Convolutions, pools, attention, linear algebra, signals."""

    @property
    def activation_ops(self) -> ActivationOps:
        """Activation functions."""

    def seed(self, seed: int) -> None:
        """Seed the generator that random creation and sampling draw from."""

    def sync(self) -> None:
        """Wait for all work that was queued on the device."""

    # Not Self: mypy then infers no type argument of `Autodiff(Cpu())` where a Backend is expected.
    def full_precision(self) -> "Backend":
        """The same backend with float32 as its float type (float64 stays), of the same class."""


@runtime_checkable
class AutodiffBackend(Backend, Protocol):
    """A backend that tracks, and how it calculates gradients. Tensors here are torch tensors."""

    @property
    def inner_backend(self) -> Backend:
        """The backend of gradients and of untracked tensors."""

    def backward(self, root: Tensor, *, create_graph: bool = False) -> GradientMap:
        """Differentiate `root`, seeded with ones of its shape: `Gradients`, or `TrackedGradients`."""

    def grad(self, leaf: Tensor, gradients: GradientMap) -> Tensor | None:
        """The gradient of a leaf, or None."""

    def grad_remove(self, leaf: Tensor, gradients: GradientMap) -> Tensor | None:
        """Take out the gradient of a leaf and return it; None if there is none."""

    def grad_replace(self, leaf: Tensor, gradients: GradientMap, grad: Tensor) -> None:
        """Replace the gradient of a leaf."""

    def require_grad(self, tensor: Tensor) -> Tensor:
        """A leaf that is tracked, with the values of `tensor`."""

    def to_inner(self, tensor: Tensor) -> Tensor:
        """The values without their history."""

    def from_inner(self, tensor: Tensor) -> Any:
        """An untracked tensor of the inner backend as one of this backend."""
