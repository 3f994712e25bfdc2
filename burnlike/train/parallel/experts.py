"""Expert parallelism: processes that share the experts of each `MixtureOfExperts` have some of them each."""

from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor, nn

from ...errors import ConfigError
from ...module import params
from ...module.torch_objects.wrappers import note_elsewhere, own_class
from ...nn.transformer.divided_experts import DividedExperts
from ...nn.transformer.feed_forward import MixtureOfExperts
from ...optim import OptimizerAdaptor
from ...optim.core.sharded import OtherStages
from ...record import Record
from .mesh import Mesh
from .whole_record import joined_record


class Experts:
    """The experts of a model that this process has, and how it exchanges rows with those that have the others.

    Attributes:
        layers: the own experts of each layer.
    """

    def __init__(self, model: nn.Module, optimizer: Any, mesh: Mesh, device: torch.device) -> None:
        """Take the experts of other processes out of a model, in place.

        Raises:
            ConfigError: it has none, or their number can't be divided.
        """
        assert mesh.expert is not None
        self._group, self._device = mesh.expert.get_group(), device
        divided = DividedExperts(self._group)
        found = {name: it for name, it in model.named_modules() if isinstance(it, MixtureOfExperts)}
        _check(model, found, divided.size)
        before = params(model)
        self._names = [path for it in before for path in (it.path, *it.aliases)]
        if isinstance(optimizer, OptimizerAdaptor):
            optimizer.check(model)
        self.layers: list[list[nn.Module]] = []
        for layer in found.values():
            layer.__dict__[DividedExperts.NAME] = divided
            modules: Any = layer.experts._modules
            n_own = len(modules) // divided.size
            own = range(divided.rank * n_own, (divided.rank + 1) * n_own)
            for number in range(len(modules)):
                if number not in own:
                    del modules[str(number)]
            self.layers.append([*modules.values()])
        of_layers = {id(it) for modules in self.layers for module in modules for it in module.parameters()}
        after = params(model)
        note_elsewhere(model, {*self._names} - {path for it in after for path in (it.path, *it.aliases)})
        common = {it.id for it in after if id(it.tensor) not in of_layers}
        self.other_stages = OtherStages(self._summed, frozenset(common if divided.rank else ()))
        if isinstance(optimizer, OptimizerAdaptor):
            optimizer.other_stages = self.other_stages
        elif isinstance(optimizer, torch.optim.Optimizer):
            kept = {id(it) for it in model.parameters()}
            for group in optimizer.param_groups:
                group["params"] = [it for it in group["params"] if id(it) in kept]

    def whole(self, record: Record) -> Record:
        """The record of the whole model, on the first of the processes that share experts."""
        return joined_record(record, self._group, self._names, self._device)

    def _summed(self, values: Tensor) -> Tensor:
        total = values.to(self._device)
        dist.all_reduce(total, group=self._group)
        return total


def _check(model: nn.Module, layers: dict[str, MixtureOfExperts], size: int) -> None:
    if not layers:
        raise ConfigError(
            f"distributed.expert: {own_class(model).__name__} has no MixtureOfExperts whose experts processes could"
            " share; leave out `expert`, or take a model with `feed_forward: {type: Experts}`"
        )
    for name, layer in layers.items():
        if len(layer.experts) % size:
            raise ConfigError(
                f"distributed.expert: expected a divisor of the {len(layer.experts)} experts of '{name}', got {size}"
            )
