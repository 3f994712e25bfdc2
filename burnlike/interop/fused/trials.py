"""Whether another forward gives what a module's own gives: tried on a stand-in with small random weights.

What a class computes is not in its name: one RMSNorm adds 1 to its weight, another does not. So a forward takes the
place of another only after both gave the same results. The stand-in has the module's class and attributes, none of its
hooks, and weights of its own, so that nothing of the module is read, run or changed; it works for modules on `meta`.
"""

from collections.abc import Callable, Mapping
from typing import Any

import torch
from torch import Tensor, nn

# Different orders of the same float32 operations: stock forwards compute in float32 whatever they get.
_TOLERANCE = 2e-5


def stand_in(module: nn.Module, children: Mapping[str, nn.Module] | None = None) -> nn.Module:
    """A module of the same class and attributes, with random float32 parameters of the same shapes, no hooks and, where
    given, other children."""
    made = object.__new__(type(module))
    nn.Module.__init__(made)
    private = set(vars(made))
    vars(made).update(
        {name: value for name, value in vars(module).items() if name not in private and name != "forward"}
    )
    made.training = False
    generator = torch.Generator().manual_seed(0)
    for name, parameter in module.named_parameters(recurse=False):
        values = torch.rand(parameter.shape, generator=generator) + 0.5
        made.register_parameter(name, nn.Parameter(values, requires_grad=False))
    for name, child in (children or dict(module.named_children())).items():
        made.add_module(name, child)
    return made


def numbers(*sizes: int) -> Tensor:
    """Random values in float32, the same at each call; every second row is small, so that an epsilon shows."""
    values = torch.randn(sizes, generator=torch.Generator().manual_seed(1)) * 2
    return values * torch.tensor([1.0, 1e-3])[torch.arange(sizes[-2]) % 2].unsqueeze(-1)


def agree(stock: Callable[[], Any], other: Callable[[], Any]) -> str:
    """Why the two calls don't give the same tensors; empty if they do."""
    with torch.no_grad():
        try:
            expected, actual = _tensors(stock()), _tensors(other())
        except Exception as error:  # a foreign forward may raise anything
            return f"it could not be tried: {type(error).__name__}: {str(error).splitlines()[0] if str(error) else ''}"
    same = len(expected) == len(actual) and all(
        one.shape == two.shape and torch.allclose(one, two, rtol=_TOLERANCE, atol=_TOLERANCE)
        for one, two in zip(expected, actual, strict=False)
    )
    return "" if same else "its forward gives other results than the fused op"


def _tensors(result: Any) -> list[Tensor]:
    return [result] if isinstance(result, Tensor) else [it for it in result if isinstance(it, Tensor)]
