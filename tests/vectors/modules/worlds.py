"""Where a layer runs: on torch tensors, and on typed ones of a backend."""

from dataclasses import dataclass
from typing import Any

import torch

from burnlike import Backend, Tensor
from burnlike.module import params

from ..backends import plain_backend, tracking
from ..problems import UnknownError


@dataclass(frozen=True)
class World:
    """One kind of tensor.

    Attributes:
        name: in messages.
        device: of the tensors.
        backend: of typed tensors; None for torch's own.
    """

    name: str
    device: torch.device
    backend: Backend | None = None

    @property
    def tracks(self) -> bool:
        """Whether gradients can be computed."""
        return self.backend is None or self.backend.name.startswith("autodiff")

    def given(self, tensor: torch.Tensor) -> Any:
        """The tensor as an input of a layer."""
        return tensor if self.backend is None else Tensor(tensor, self.backend)

    def leaf(self, tensor: torch.Tensor) -> Any:
        """The tensor as an input that gets a gradient."""
        return tensor.clone().requires_grad_() if self.backend is None else self.given(tensor).require_grad()

    def plain(self, value: Any) -> torch.Tensor:
        """The torch tensor of a result, which must be of this world.

        Raises:
            UnknownError: it is of another.
        """
        if self.backend is None and isinstance(value, torch.Tensor):
            return value.detach()
        if isinstance(value, Tensor) and value.backend == self.backend:
            return value.inner.detach()
        raise UnknownError(f"a result {type(value).__name__} on {self.name}")

    def gradients(self, total: Any, inputs: dict[str, Any], layer: torch.nn.Module) -> dict[str, torch.Tensor | None]:
        """The gradients of the sum of `total`, of inputs and of parameters, by name; None where there is none."""
        found = total.sum().backward()
        grads = {param.path: param.tensor.grad for param in params(layer)}
        for name, it in inputs.items():
            typed = None if self.backend is None else it.grad(found)
            grads[name] = it.grad if self.backend is None else None if typed is None else typed.inner
        return grads


def worlds_on(name: str) -> list[World]:
    """The worlds on the device `cpu` or `cuda`; none where there is no such device."""
    plain = plain_backend(name)
    if plain is None:
        return []
    typed = [plain, tracking(plain)[0]]
    return [World("torch tensors", plain.device), *(World(it.name, it.device, it) for it in typed)]
