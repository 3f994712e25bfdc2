"""A case of a layer: its config in Burn's form, its inputs, and the same layer of burnlike."""

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from random import Random
from typing import Any

import torch
from torch import Tensor, nn as torch_nn

from burnlike import nn
from tests.burn_configs import module_config

Fields = dict[str, Any]
Outputs = Sequence[Tensor]


@dataclass
class LayerCase:
    """A layer of Burn's by its config, what it is called with, and how burnlike's is called."""

    layer: str
    config: Any
    inputs: dict[str, Tensor]
    options: Fields = field(default_factory=dict)
    call: Callable[[Any, Mapping[str, Tensor]], Any] = lambda it, inputs: it(inputs["x"])
    make: Callable[[], torch_nn.Module] | None = None

    def __str__(self) -> str:
        shapes = {name: [*tensor.shape] for name, tensor in self.inputs.items()}
        return f"{self.layer} {json.dumps(self.config)} {self.options or ''} {shapes}"

    def module(self) -> Any:
        """The layer of burnlike."""
        if self.make is not None:
            return self.make()
        return module_config(self.layer, self.config).init()

    def outputs(self, module: Any, inputs: Mapping[str, Tensor]) -> Outputs:
        """What burnlike's layer gives."""
        output = self.call(module, inputs)
        return [output] if isinstance(output, Tensor) else [*output]


def floats(random: Random, *shape: int) -> Tensor:
    """Normal numbers, the same for the same state of `random`."""
    return torch.randn(shape, generator=torch.Generator().manual_seed(random.getrandbits(40)))


def bools(random: Random, *shape: int) -> Tensor:
    """True in one place of three."""
    return torch.rand(shape, generator=torch.Generator().manual_seed(random.getrandbits(40))) < 0.33


KAIMING = {"KaimingUniform": {"gain": 0.5773502691896258, "fan_out_only": False}}
XAVIER = {"XavierNormal": {"gain": 1.0}}
PLAIN = {"Identity", "Gelu", "Relu", "Selu", "Sigmoid", "Tanh", "HardSwish", "Softsign"}


def rounded(random: Random, low: float, high: float) -> float:
    return round(random.uniform(low, high), 3)


def yes(random: Random) -> bool:
    return random.random() < 0.5


ACTIVATIONS: dict[str, Callable[[Random], Fields | None]] = {
    **dict.fromkeys(sorted(PLAIN), lambda _: None),
    "GeluApproximate": lambda _: None,
    "PRelu": lambda r: {"num_parameters": 1, "alpha": rounded(r, 0, 1)},
    "LeakyRelu": lambda r: {"negative_slope": rounded(r, 0, 1)},
    "HardSigmoid": lambda r: {"alpha": rounded(r, 0.1, 1), "beta": rounded(r, 0.1, 1)},
    "Softplus": lambda r: {"beta": rounded(r, 0.2, 3), "threshold": rounded(r, 0.5, 20)},
    "Elu": lambda r: {"alpha": rounded(r, 0.1, 2)},
    "Celu": lambda r: {"alpha": rounded(r, 0.1, 2)},
    "ThresholdedRelu": lambda r: {"alpha": rounded(r, 0.1, 2)},
    "HardShrink": lambda r: {"lambda": rounded(r, 0, 1)},
    "SoftShrink": lambda r: {"lambda": rounded(r, 0, 1)},
    "Shrink": lambda r: {"lambda": rounded(r, 0, 1), "bias": rounded(r, 0, 1)},
}
"""The variants of `ActivationConfig` that keep the shape."""
OTHER_ACTIVATIONS: dict[str, Callable[[Random], Fields]] = {
    "Hardtanh": lambda r: {"min_val": rounded(r, -2, 0), "max_val": rounded(r, 0.1, 2)},
    "Threshold": lambda r: {"threshold": rounded(r, -1, 1), "value": rounded(r, -2, 2)},
}


def activation(random: Random, *, weights: bool = False) -> Any:
    """A variant of `ActivationConfig` in Burn's form."""
    name = random.choice([it for it in ACTIVATIONS if weights or it != "PRelu"])
    fields = ACTIVATIONS[name](random)
    return name if fields is None else {name: fields}


def activation_config(variant: Any) -> Any:
    """The config of burnlike for a variant of `ActivationConfig`."""
    name, fields = (variant, {}) if isinstance(variant, str) else next(iter(variant.items()))
    if name == "GeluApproximate":
        return nn.GeluConfig(approximate=True)
    return module_config(name, {key: value for key, value in fields.items() if key != "layout"})


def with_activations(config: Fields) -> Fields:
    """A config whose activations have burnlike's names."""
    return {key: _renamed(value) if key.endswith("activation") else value for key, value in config.items()}


def built(name: str, config: Fields) -> torch_nn.Module:
    """burnlike's layer of a config with activations."""
    return module_config(name, with_activations(config)).init()


def _renamed(variant: Any) -> Any:
    if variant == "GeluApproximate":
        return {"Gelu": {"approximate": True}}
    if isinstance(variant, str):
        return variant
    ((name, fields),) = variant.items()
    return {name: {"lambd" if key == "lambda" else key: value for key, value in fields.items()}}


def sizes(random: Random, rank: int, low: int, high: int) -> list[int]:
    return [random.randint(low, high) for _ in range(rank)]


def epsilon(random: Random) -> float:
    return random.choice([1e-5, 1e-3, 0.1])
