"""Ema: an exponential moving average of a model's weights."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Self

import torch
from torch import Tensor, nn

from ..._torch_compat import foreach
from ...errors import RecordMismatchError
from ...interop.adapters.layers import has_adapters
from ...module import params
from ...module.torch_objects.wrappers import is_distributed, part_of
from ...record import Record
from .configs import EmaConfig


class Ema:
    """Averages of the weights after `steps` steps; buffers, such as running statistics, are the model's own."""

    def __init__(self, model: nn.Module, config: EmaConfig | None = None) -> None:
        self.config = config or EmaConfig()
        self.steps = 0
        # Of adapters alone: what they are added to is frozen.
        trained = [it for it in params(model) if it.tensor.requires_grad or not has_adapters(model)]
        weights = {param.path: param.tensor for param in trained if param.tensor.is_floating_point()}
        self._weights = {name: tensor for name, tensor in weights.items() if isinstance(tensor, nn.Parameter)}
        self._averages = {name: tensor.detach().clone() for name, tensor in self._weights.items()}

    @torch.no_grad()
    def update(self) -> None:
        decay = self.config.decay
        if self.config.warmup:
            decay = min(decay, (1 + self.steps) / (10 + self.steps))
        self.steps += 1
        foreach.lerp_([*self._averages.values()], [it.detach() for it in self._weights.values()], 1 - decay)

    @contextmanager
    def applied(self) -> Iterator[None]:
        """The model has the averages for weights within the `with` block."""
        self.swap()
        try:
            yield
        finally:
            self.swap()

    @torch.no_grad()
    def swap(self) -> None:
        """Exchange the weights of the model and their averages."""
        for weight, average in zip(self._weights.values(), self._averages.values(), strict=True):
            kept = weight.detach().clone()
            weight.copy_(average)
            average.copy_(kept)

    def into_record(self) -> Record:
        return Record(dict(self._averages), {"steps": self.steps}, source="the record of the average of the weights")

    @torch.no_grad()
    def load_record(self, record: Record) -> Self:
        """Go on from a saved average; one of other parameters is a RecordMismatchError, and nothing has changed."""
        averages: dict[str, Tensor] = dict(record.tensors)
        for name, average in self._averages.items():
            if name not in averages or averages[name].shape != average.shape:
                there = "none" if name not in averages else f"one of the shape {list(averages[name].shape)}"
                raise RecordMismatchError(
                    f"{record.source}: expected an average of '{name}' of the shape {list(average.shape)}, got {there}"
                )
        for name, average in self._averages.items():
            average.copy_(part_of(averages[name], average) if is_distributed(average) else averages[name])
        self.steps = int(record.values["steps"])
        return self
