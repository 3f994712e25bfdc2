"""The modules of MLAX's documentation page, and small ones."""

import numpy as np
import torch
from torch import Tensor

from burnlike import mlax


class Foo(mlax.Module):
    def __init__(self, d_input: int = 4, d_output: int = 2) -> None:
        super().__init__()
        self.w = mlax.Parameter(True, torch.randn(d_input, d_output))

    def forward(self, x: Tensor) -> Tensor:
        return x @ self.w.data


class Bar(mlax.Module):
    def __init__(self) -> None:
        super().__init__()
        self.a = mlax.Parameter(True, torch.randn(3, 4), "A")
        self.b = mlax.Parameter(False, np.full((3, 4), 0.5, dtype=np.float32))
        self.c = mlax.Parameter(False, [1, 2, 3])
        self.f = Foo()
        self.g = mlax.ModuleSeq([Foo(2, 2), mlax.Parameter(False, torch.ones(2))])
        self.h = "abc"
        self.i = 1

    def forward(self, x: Tensor) -> Tensor:
        y = self.f(x @ (self.a.data + self.b.data))
        return self.g[0](y) + self.g[1].data * sum(self.c.data)


class Counter(mlax.Module):
    """MLAX's style: returns the pair."""

    def __init__(self) -> None:
        self.w = mlax.Parameter(True, torch.randn(3, 3))
        self.seen = mlax.Parameter(False, torch.zeros((), dtype=torch.long), kind="state")

    def forward(self, x: Tensor, rng: object = None, inference_mode: bool = False) -> tuple[Tensor, "Counter"]:
        if not inference_mode:
            self.seen.data = self.seen.data + len(x)
        return x @ self.w.data, self


PATHS = ["a", "b", "c", "f.w", "g.0.w", "g.1"]
TRAINABLE = ["a", "f.w", "g.0.w"]
FROZEN = ["b", "c", "g.1"]


def paths(module: mlax.Module, holes: bool = False) -> list[str]:
    return [leaf.path for leaf in module.leaves(holes)]


def by_path(module: mlax.Module) -> dict[str, mlax.Parameter]:
    return {leaf.path: leaf for leaf in module.leaves(holes=True)}


def tensors(module: torch.nn.Module) -> dict[str, Tensor]:
    return dict(module.state_dict(keep_vars=True))


def values(module: torch.nn.Module) -> dict[str, Tensor]:
    return {name: tensor.detach().clone() for name, tensor in tensors(module).items()}
