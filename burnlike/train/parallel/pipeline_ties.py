"""Parameters that several stages of a pipeline have, such as a table of tokens that is also the output head."""

from collections.abc import Sequence
from typing import Any

import torch
import torch.distributed as dist
from torch import nn

from ...module import ParamId, params
from ...module.torch_objects.wrappers import local
from .mesh import Mesh
from .pipeline_plan import Plan


class TiedGradients:
    """Adds up the gradients of such a parameter over the processes that have it, so that all take the same steps.

    Attributes:
        counted_elsewhere: ids of those of this process that a process of an earlier stage has, too.
    """

    def __init__(self, model: nn.Module, plan: Plan, owners: Sequence[int], mesh: Mesh) -> None:
        """Find them in the whole model; all processes of the job do."""
        stages: dict[int, set[int]] = {}
        for path, module in model.named_modules(remove_duplicate=False):
            for it in module.parameters(recurse=False):
                stages.setdefault(id(it), set()).update(plan.stages_of[path])
        own_rank, groups = mesh.coordinates["pipeline"], {}
        counted_elsewhere: set[ParamId] = set()
        self._groups: dict[str, Any] = {}
        for param in params(model, "weight"):
            ranks = tuple(sorted({owners[stage] for stage in stages[id(param.tensor)]}))
            if len(ranks) == 1:
                continue
            if ranks not in groups:
                groups[ranks] = mesh.group_of_stages(ranks)
            if own_rank in ranks:
                self._groups[param.path] = groups[ranks]
                if own_rank != owners[min(stages[id(param.tensor)])]:
                    counted_elsewhere.add(param.id)
        self.counted_elsewhere = frozenset(counted_elsewhere)

    @torch.no_grad()
    def add_up(self, model: nn.Module) -> None:
        for param in params(model, "weight") if self._groups else ():
            group = self._groups.get(param.path)
            if group is not None and param.tensor.requires_grad:
                if param.tensor.grad is None:
                    param.tensor.grad = torch.zeros_like(param.tensor)
                dist.all_reduce(local(param.tensor.grad), group=group)
