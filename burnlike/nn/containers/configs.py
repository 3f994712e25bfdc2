"""The configs of layers that are made of layers. Imports no torch."""

from collections.abc import Iterable
from typing import TYPE_CHECKING, Annotated

from ...config import Meta, ModuleConfig
from ...config.bounds import Layers
from .input_counts import input_counts
from .names import name_problem

if TYPE_CHECKING:
    import torch

    from .repeat import Repeat
    from .residual import Residual
    from .sequential import Sequential

Parts = Annotated[tuple[ModuleConfig, ...], Meta(min_length=1)] | Annotated[dict[str, ModuleConfig], Meta(min_length=1)]
"""Layers in a row: a list, or a mapping that gives each a name."""


def named_parts(layers: Parts) -> dict[str, ModuleConfig]:
    """The layers by name; those of a list are called 0, 1, 2."""
    return layers if isinstance(layers, dict) else {str(number): layer for number, layer in enumerate(layers)}


def first_example(layer: ModuleConfig, name: str) -> dict[str, tuple[str, tuple[int, ...]]]:
    """The example of a layer's only input, under another name; nothing where it has several or does not say."""
    found = [*layer.example_inputs().values()]
    return {name: found[0]} if len(found) == 1 else {}


def _chain_problems(layers: Parts) -> Iterable[tuple[str, str]]:
    """What is wrong with layers of which each gets the output of the one before."""
    for name, layer in named_parts(layers).items():
        if isinstance(layers, dict) and (message := name_problem(name)):
            yield f"layers.{name}", message
        if (least := input_counts(layer)[0]) > 1:
            yield f"layers.{name}", f"takes {least} inputs or more, but gets only what comes before it; use a Graph"


class SequentialConfig(ModuleConfig, tag="Sequential"):
    """Layers in a row: each gets the output of the one before.

    Attributes:
        layers: a list of layers, or a mapping that gives each a name.
    """

    layers: Parts

    @property
    def input_counts(self) -> tuple[int, int | None]:
        return 1, 1

    def example_inputs(self) -> dict[str, tuple[str, tuple[int, ...]]]:
        return first_example(next(iter(named_parts(self.layers).values())), "x")

    def part(self, name: str) -> tuple[str, ModuleConfig] | None:
        found = named_parts(self.layers).get(name)
        return None if found is None else (f"layers.{name}", found)

    def validate(self) -> Iterable[tuple[str, str]]:
        yield from _chain_problems(self.layers)

    def init(self, device: "torch.device | str | None" = None) -> "Sequential":
        from .sequential import Sequential

        return Sequential(self, device)


class ResidualConfig(ModuleConfig, tag="Residual"):
    """layers(x) + x (He et al. 2016, eq. 1), or layers(x) + shortcut(x) where the shapes differ (eq. 2).

    Attributes:
        layers: a list of layers in a row, or a mapping that gives each a name.
        shortcut: from x to the shape of what the layers give; None where that is the shape of x.
    """

    layers: Parts
    shortcut: ModuleConfig | None = None

    @property
    def input_counts(self) -> tuple[int, int | None]:
        return 1, 1

    def example_inputs(self) -> dict[str, tuple[str, tuple[int, ...]]]:
        return first_example(next(iter(named_parts(self.layers).values())), "x")

    def part(self, name: str) -> tuple[str, ModuleConfig] | None:
        if name == "layers":
            return "", SequentialConfig(layers=self.layers)
        return ("shortcut", self.shortcut) if name == "shortcut" and self.shortcut is not None else None

    def validate(self) -> Iterable[tuple[str, str]]:
        yield from _chain_problems(self.layers)

    def init(self, device: "torch.device | str | None" = None) -> "Residual":
        from .residual import Residual

        return Residual(self, device)


class RepeatConfig(ModuleConfig, tag="Repeat"):
    """One layer several times in a row, each with parameters of its own.

    Attributes:
        times: how many layers.
        layer: each of them. It gets the output of the one before; inputs after the first go to all of them.
    """

    times: Layers
    layer: ModuleConfig

    @property
    def input_counts(self) -> tuple[int, int | None]:
        return input_counts(self.layer)

    def example_inputs(self) -> dict[str, tuple[str, tuple[int, ...]]]:
        return self.layer.example_inputs()

    def part(self, name: str) -> tuple[str, ModuleConfig] | None:
        return ("layer", self.layer) if name.isdecimal() else None

    def init(self, device: "torch.device | str | None" = None) -> "Repeat":
        from .repeat import Repeat

        return Repeat(self, device)
