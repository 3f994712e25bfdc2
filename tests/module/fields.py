"""Modules of the fields that a test gives them, and what traversals find in a tree."""

from collections.abc import Callable
from typing import Any

import torch
from torch import nn

from burnlike.module import Content, Module, params


class Fields(Module):
    """A module with the fields that it is given."""

    def __init__(self, **fields: Any) -> None:
        super().__init__()
        for name, value in fields.items():
            setattr(self, name, value)


class Chosen(Fields):
    """A module that shows what it is told."""

    def __init__(self, choose: Callable[[Content], Any], **fields: Any) -> None:
        super().__init__(**fields)
        self.__dict__["_choose"] = choose

    def custom_content(self, content: Content) -> Content | None:
        return self._choose(content)


def linear(d_input: int = 2, d_output: int = 2) -> nn.Linear:
    return nn.Linear(d_input, d_output, bias=False)


def paths(module: nn.Module) -> list[str]:
    return [param.path for param in params(module)]


def ids(module: nn.Module) -> dict[str, int]:
    return {param.path: int(param.id) for param in params(module)}


def bare(value: float) -> nn.Parameter:
    return nn.Parameter(torch.full((2,), value))


def values_and_labels(module: Fields) -> dict[int, tuple[float, str | None]]:
    return {int(p.id): (p.tensor.flatten()[0].item(), p.name) for p in params(module) if p.tensor.ndim == 1}
