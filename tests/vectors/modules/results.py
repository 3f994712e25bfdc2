"""What a call gave, by the names that vectors use: `output`, `state.hidden`, `weights`, `x.grad`, `x.shape`."""

import re
from dataclasses import dataclass, field
from typing import Any

import torch

from ..problems import UnknownError
from .worlds import World

INDEX = re.compile(r"(.+)\[([\d,]+)\]")


@dataclass
class Result:
    """What a call gave.

    Attributes:
        world: where it ran.
        values: results by name: tensors of the world, objects with fields, plain values.
        grads: gradients by the name of what they belong to, None where there is none.
        text: a display.
    """

    world: World
    values: dict[str, Any] = field(default_factory=dict)
    grads: dict[str, torch.Tensor | None] = field(default_factory=dict)
    text: str | None = None

    @classmethod
    def of(cls, world: World, output: Any) -> "Result":
        """The result of a forward pass: one tensor, a named tuple, or an output with the state after it."""
        if hasattr(output, "_fields"):
            return cls(world, output._asdict())
        if isinstance(output, tuple) and len(output) == 2:
            return cls(world, {"output": output[0], "loss": output[0], "state": output[1]})
        return cls(world, {"output": output, "loss": output})

    def single(self) -> torch.Tensor:
        """The one tensor that came back."""
        return self.tensor("context" if "context" in self.values else "output")

    def tensor(self, name: str) -> torch.Tensor:
        """The tensor of a name."""
        found = self.named(name)
        if found is None:
            raise UnknownError(f"{name} is not there")
        return found if isinstance(found, torch.Tensor) else self.world.plain(found)

    def named(self, name: str) -> Any:
        """What a name of the vectors stands for: a tensor, a list of sizes, or a plain value."""
        if indexed := INDEX.fullmatch(name):
            return self.tensor(indexed[1])[tuple(map(int, indexed[2].split(",")))]
        if name in self.values:
            found = self.values[name]
            return found if isinstance(found, bool | int | float | list | None) else self.world.plain(found)
        above, _, last = name.rpartition(".")
        if last == "shape":
            return list(self.tensor(above).shape)
        if last == "grad" and above in self.grads:
            return self.grads[above]
        if above in self.values and hasattr(self.values[above], last):
            return self.world.plain(getattr(self.values[above], last))
        raise UnknownError(f"the result has no {name!r}")
