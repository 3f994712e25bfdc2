"""One stage of a pipeline, as a module of its own."""

from collections.abc import Callable, Sequence
from typing import Any

from torch import Tensor, nn


class Stage(nn.Module):
    """One stage, as torch's PipelineStage takes it: its modules, and a forward that runs a step of a task on them."""

    def __init__(self, number: int, parts: Sequence[nn.Module], units: Sequence[nn.Module]) -> None:
        super().__init__()
        self.number = number
        self.parts = nn.ModuleList(parts)
        self.blocks = tuple(units)
        self.run: Callable[[int, Tensor | None, int], Tensor] = _not_begun

    def forward(self, received: Tensor, number: Tensor) -> Tensor:
        """What the stage sends on of a micro-batch, by its number, for what it received; of the last, the loss."""
        return self.run(self.number, received if self.number else None, int(number))


def _not_begun(*_: Any) -> Tensor:
    raise RuntimeError("a stage runs within a step of the pipeline")
