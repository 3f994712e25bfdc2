"""Small problems that the tests of L-BFGS share."""

from collections.abc import Callable

import torch
from torch import Tensor, nn

from burnlike.optim import GradientsParams


class Point(nn.Module):
    """A place in two halves, and the value of a function there."""

    def __init__(self, function: Callable[[Tensor], Tensor], start: list[float]) -> None:
        super().__init__()
        self.function = function
        values = torch.tensor(start, dtype=torch.float64)
        self.first = nn.Parameter(values[: len(start) // 2].clone())
        self.last = nn.Parameter(values[len(start) // 2 :].clone())

    def forward(self) -> Tensor:
        return self.function(torch.cat([self.first, self.last]))


def rosenbrock(x: Tensor) -> Tensor:
    return (100 * (x[1:] - x[:-1] ** 2) ** 2 + (1 - x[:-1]) ** 2).sum()


def convex(x: Tensor) -> Tensor:
    scales = torch.logspace(-2, 2, len(x), dtype=x.dtype)
    return (scales * (x - 1) ** 2).sum() / 2 + torch.logsumexp(x, 0)


def closure_of(model: nn.Module) -> tuple[Tensor, GradientsParams]:
    loss = model()
    loss.backward()
    return loss, GradientsParams.from_module(model)


def values_of(model: nn.Module) -> list[Tensor]:
    return [param.detach().clone() for param in model.parameters()]
