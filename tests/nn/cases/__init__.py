"""The table of cases that drives the tests of all layers: each module of this folder lists those of one family.

A module has `CASES`, a list of `Case`. Every layer and loss of `burnlike.nn` has at least one, and one for each option
that takes a path of its own.
"""

import importlib
import pkgutil
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from types import ModuleType
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from burnlike.config import ModuleConfig
from burnlike.interop.torch_counterparts import pairs
from burnlike.nn.tensor_source import TensorRecipe
from burnlike.nn.torch_counterpart import Counterpart


@dataclass(frozen=True)
class Case:
    """One layer with inputs, and what it has to compute.

    Attributes:
        name: unique, such as "Conv2d/same".
        config: of the layer.
        inputs: draws the inputs from torch's global generator, floats as float64; what is no tensor is passed on as it
            is, a last dict as arguments by name.
        reference: the formula, not the code under test: the layer (in float64) and the inputs to the expected output.
            None: the layer's torch counterpart, by its entry of `COUNTERPARTS`, with `torch_output`.
        torch_inputs: the inputs as torch's layer takes them.
        torch_output: what of torch's layer's output is compared.
        train: whether the layer is in training mode.
        bad_shapes: inputs that are refused with `ShapeError` before anything is computed.
        not_in: why the layer can't be tested by one of the drivers (`vmap`, `export`, `autocast`, ...), by its name.
    """

    name: str
    config: ModuleConfig
    inputs: Callable[[], tuple[Any, ...]]
    reference: Callable[..., Any] | None = None
    torch_inputs: Callable[..., tuple[Any, ...]] = lambda *inputs: inputs
    torch_output: Callable[[Any], Any] = lambda output: output
    train: bool = True
    bad_shapes: tuple[tuple[int, ...], ...] = ()
    not_in: Mapping[str, str] = field(default_factory=dict)

    def layer(self) -> nn.Module:
        """The layer with random weights and statistics, none of them constant, in float64."""
        torch.manual_seed(0)
        layer = self.config.init()
        for tensor in layer.state_dict().values():
            if tensor.is_floating_point():
                tensor.add_(0.1 * torch.rand_like(tensor))
        return layer.double().train(self.train)

    def drawn(self) -> tuple[tuple[Any, ...], dict[str, Any]]:
        """The inputs in their order, and those by name."""
        torch.manual_seed(1)
        inputs = self.inputs()
        if inputs and isinstance(inputs[-1], dict):
            return inputs[:-1], inputs[-1]
        return inputs, {}


def floats(*shape: int) -> Tensor:
    """Normal numbers in float64."""
    return torch.randn(shape, dtype=torch.float64)


def tensors_of(output: Any) -> list[Tensor]:
    """The tensors of an output, in order."""
    if isinstance(output, Tensor):
        return [output]
    if isinstance(output, tuple | list):
        return [tensor for item in output for tensor in tensors_of(item)]
    return []


def _modules() -> list[ModuleType]:
    return [importlib.import_module(f"{__name__}.{it.name}") for it in pkgutil.iter_modules(__path__)]


CASES: list[Case] = [case for module in _modules() for case in module.CASES]
COUNTERPARTS: dict[str, Counterpart] = {it.layer: it for it in pairs()}
FIRST: dict[type[ModuleConfig], Case] = {type(case.config): case for case in reversed(CASES)}
"""One case of each layer."""


def made_by(recipes: Mapping[str, TensorRecipe], tensors: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """Tensors of one library, of those of the other."""
    return {name: recipe.make(tensors) for name, recipe in recipes.items()}


def first_of_each(case: Case, others: pytest.MarkDecorator = pytest.mark.slow) -> Any:
    """The case as a parameter; slow, or as is given, if it is not the first of its layer."""
    return pytest.param(case, id=case.name, marks=() if FIRST[type(case.config)] is case else others)
