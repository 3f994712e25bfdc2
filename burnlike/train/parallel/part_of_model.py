"""Models of which each process has some parameters: their norms, optimizer, and the record of the whole."""

from collections import ChainMap
from collections.abc import Callable, Sequence
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor, nn

from ...module import ParamId, params
from ...optim import OptimizerAdaptor
from ...optim.core.sharded import OtherStages
from ...record import Record


class PartOfModel:
    """The part of a model that a process has; the processes of a group have all of it together.

    Attributes:
        group: these processes.
        other_stages: what a norm of all gradients needs of the others.
    """

    other_stages: OtherStages

    def __init__(self, model: nn.Module, optimizer: Any, group: Any, device: torch.device) -> None:
        """Note the names of the whole model, and check that the optimizer fits it."""
        self.group, self._device = group, device
        self._names = [path for it in params(model) for path in (it.path, *it.aliases)]
        if isinstance(optimizer, OptimizerAdaptor):
            optimizer.check(model)

    def _share(self, model: nn.Module, optimizer: Any, counted_elsewhere: frozenset[ParamId]) -> None:
        """Let the optimizer step the parameters left here; other processes' norms count the ids `counted_elsewhere`."""
        self.other_stages = OtherStages(self._summed, counted_elsewhere)
        if isinstance(optimizer, OptimizerAdaptor):
            optimizer.other_stages = self.other_stages
        elif isinstance(optimizer, torch.optim.Optimizer):
            kept = {id(it) for it in model.parameters()}
            for group in optimizer.param_groups:
                group["params"] = [it for it in group["params"] if id(it) in kept]

    def _summed(self, values: Tensor) -> Tensor:
        total = values.to(self._device)
        dist.all_reduce(total, group=self.group)
        return total

    def whole(self, record: Record) -> Record:
        """The record of the whole model, from those of its parts, on the first process of the group; all call it.

        What several processes have is taken from the first.
        """
        group = self.group
        rank, shapes = dist.get_rank(group), {name: (it.shape, it.dtype) for name, it in record.tensors.items()}
        parts: list[Any] = [None] * dist.get_world_size(group)
        dist.all_gather_object(parts, (shapes, record.values, record.ids, record.aliases, record.states), group)
        tensors = dict(record.tensors) if rank == 0 else {}
        received_names = {*parts[0][0]}
        for sender, (theirs, *_) in enumerate(parts[1:], 1):
            for name, (shape, dtype) in theirs.items():
                if name in received_names:
                    continue
                received_names.add(name)
                if rank == sender:
                    dist.send(record.tensors[name].detach().contiguous().to(self._device), group=group, group_dst=0)
                elif rank == 0:
                    received = torch.empty(shape, dtype=dtype, device=self._device)
                    dist.recv(received, group=group, group_src=sender)
                    tensors[name] = received.cpu()
        if rank:
            return record
        _, values, ids, aliases, states = ([it[place] for it in parts] for place in range(5))
        place = {name: number for number, name in enumerate(self._names)}
        return Record(
            tensors={name: tensors[name] for name in sorted(tensors, key=lambda it: place.get(it, len(place)))},
            values=dict(ChainMap(*map(dict, values))),
            ids=dict(ChainMap(*map(dict, ids))),
            aliases={name: it for name, it in ChainMap(*map(dict, aliases)).items() if name not in tensors},
            source=record.source,
            states=frozenset().union(*states),
        )


class Stage(nn.Module):
    """One stage, as torch's PipelineStage takes it: its modules, and a forward that runs a step of a task on them."""

    def __init__(self, number: int, parts: Sequence[nn.Module], units: Sequence[nn.Module]) -> None:
        super().__init__()
        self.number = number
        self.parts = nn.ModuleList(parts)
        self.blocks = tuple(units)
        self.run: Callable[[int, Tensor | None, int], Tensor] = _not_begun

    def forward(self, received: Tensor, number: Tensor) -> Tensor:
        """Output of the stage for the micro-batch `number`, given what it received; the loss on the last stage."""
        return self.run(self.number, received if self.number else None, int(number))


def _not_begun(*_: Any) -> Tensor:
    raise RuntimeError("a stage runs within a step of the pipeline")
