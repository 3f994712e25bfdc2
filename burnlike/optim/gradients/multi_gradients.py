"""MultiGradientsParams: sums the gradients of one module that several devices computed."""

from typing import Self

from torch import Tensor, nn

from ...module import Param, ParamId
from ...module.tree.walk import weights
from .gradients import GradientsParams


class MultiGradientsParams:
    """Gradients of replicas of a module, one container for each.

    Attributes:
        containers: what each replica gave, whose parameters have the same ids.
    """

    def __init__(self) -> None:
        self.containers: list[GradientsParams] = []

    def add(self, grads: GradientsParams) -> Self:
        """Add the gradients of a replica; returns the container."""
        self.containers.append(grads)
        return self

    def remove(self, param: Param | ParamId) -> Tensor | None:
        """Take the gradients of a parameter out of all containers; returns their sum, or None.

        The sum is on the device of the first container that has one, from number `id % len(containers)` on, so that
        the sums of many parameters are spread over the devices (burn-optim, multi_gradients.rs).
        """
        count = len(self.containers)
        start = (param.id if isinstance(param, Param) else param).value % max(count, 1)
        total: Tensor | None = None
        for place in range(count):
            grad = self.containers[(start + place) % count].remove(param)
            if grad is not None:
                total = grad if total is None else total + grad.to(total.device)
        return total

    def summed(self, module: nn.Module) -> GradientsParams:
        """The sums for the parameters of `module`, on their devices, for a step; takes them out of the containers."""
        found = ((param, self.remove(param)) for param in weights(module))
        return GradientsParams.of((param, grad.to(param.tensor.device)) for param, grad in found if grad is not None)
