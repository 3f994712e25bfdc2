"""Layers that processes share: by the plan of a model (tensor and sequence parallelism), and the experts of each
`MixtureOfExperts`, of which each process has some.
"""

from collections.abc import Mapping
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import torch
from torch import nn
from torch.distributed.device_mesh import DeviceMesh

from ...errors import ConfigError
from ...interop.parallel_plans import parallelize, plan_of
from ...module import params
from ...module.torch_objects.wrappers import note_elsewhere, own_class
from ...nn.transformer.divided_experts import DividedExperts
from ...nn.transformer.feed_forward import MixtureOfExperts
from .mesh import Mesh
from .part_of_model import PartOfModel

if TYPE_CHECKING:
    from .pipeline import Pipeline


def divide_layers(model: nn.Module, mesh: DeviceMesh, plan: Mapping[str, str], pipeline: "Pipeline | None") -> None:
    """Divide the layers of a model, or of the stages of it here, among the processes of a mesh, in place.

    The plan of the job goes before what the model and its layers say themselves; see `interop.parallelize`.

    Raises:
        ConfigError: what has no plan, what is unknown in it, and sizes that do not divide, by paths and numbers.
    """
    if pipeline is None:
        parallelize(model, mesh, plan)
    else:
        parallelize(model, mesh, {**_sequences_within(model, pipeline, plan), **plan}, pipeline.elsewhere)


def _sequences_within(model: nn.Module, pipeline: "Pipeline", plan: Mapping[str, str]) -> dict[str, str]:
    """The words by which each stage divides sequences by itself, where the model does so from block to block."""
    words, units = plan_of(model, plan), pipeline.plan.units
    if "sequence_begin" not in words.get(units[0], ()) or "sequence_end" not in words.get(units[-1], ()):
        return {}
    sequence_words: dict[str, str] = {}
    for begin, end in pairwise([*pipeline.plan.begins, len(units)]):
        if end - begin == 1:
            sequence_words[units[begin]] = "sequence_begin sequence_end"
        elif end > begin:
            sequence_words |= {units[begin]: "sequence_begin", units[end - 1]: "sequence_end"}
    return sequence_words


class Experts(PartOfModel):
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
        divided = DividedExperts(mesh.expert.get_group())
        expert_layers = {name: it for name, it in model.named_modules() if isinstance(it, MixtureOfExperts)}
        if not expert_layers:
            raise ConfigError(
                f"distributed.expert: {own_class(model).__name__} has no MixtureOfExperts whose experts processes could"
                " share; leave out `expert`, or take a model with `feed_forward: {type: Experts}`"
            )
        for name, layer in expert_layers.items():
            if (n_experts := len(layer.experts)) % divided.size:
                raise ConfigError(
                    f"distributed.expert: expected a divisor of the {n_experts} experts of '{name}', got {divided.size}"
                )
        super().__init__(model, optimizer, mesh.expert.get_group(), device)
        self.layers: list[list[nn.Module]] = []
        for layer in expert_layers.values():
            layer.__dict__[DividedExperts.NAME] = divided
            modules: Any = layer.experts._modules
            n_own = len(modules) // divided.size
            kept = range(divided.rank * n_own, (divided.rank + 1) * n_own)
            for number in range(len(modules)):
                if number not in kept:
                    del modules[str(number)]
            self.layers.append([*modules.values()])
        of_layers = {id(it) for modules in self.layers for module in modules for it in module.parameters()}
        after = params(model)
        note_elsewhere(model, {*self._names} - {path for it in after for path in (it.path, *it.aliases)})
        common = {it.id for it in after if id(it.tensor) not in of_layers}
        self._share(model, optimizer, frozenset(common if divided.rank else ()))
