"""Models of which each process has a part, built so that none ever has the whole.

Constructors and initializers run without values (`module/torch_objects/deferred.py`), and the strategy divides what
they made on the meta device. Then each process gets its part of the values that a single one would have, one parameter
at a time.
"""

from collections.abc import Iterator, Mapping
from typing import Any

import torch
from torch import Tensor, nn

from ...config import ModuleConfig
from ...errors import BurnlikeError
from ...module import params, seed_param_ids
from ...module.torch_objects.deferred import Deferred
from ...module.torch_objects.wrappers import bare_name, is_distributed, local
from ...record.loading.filling import boxes_of
from ..parallel.single_process import SingleProcess
from ..state.frozen_base import digest_of
from ..state.small_parts import random_state, restore_random
from ..tasks.task import Task
from .configs import TrainConfig
from .starting import first_model


class FirstValues:
    """Initial values of a divided model; each process makes its own part. Called once, after the division."""

    def __init__(
        self, config: TrainConfig, device: torch.device, deferred: Deferred, fakes: Mapping[str, Tensor]
    ) -> None:
        self._deferred, self._fakes = deferred, fakes
        self._device = torch.device("cpu") if config.distributed.offload == "cpu" else device

    def digests(self, model: nn.Module, parallel: SingleProcess, tensors: Mapping[str, Tensor]) -> Iterator[bytes]:
        """Digests of the values of the undivided model's tensors; each process makes some of the values, one by one."""
        names = {id(it): name for name, it in model.named_parameters()}
        fakes = {it.path: self._fakes.get(bare_name(names.get(id(it.tensor), ""))) for it in params(model)}
        digests: dict[str, bytes] = {}
        for number, (path, tensor) in enumerate(tensors.items()):
            if number % parallel.world_size == parallel.rank:
                fake = fakes.get(path)
                digests[path] = digest_of(tensor if fake is None else self._deferred.values(fake))
        digest_at = {path: it for part in parallel.gather(digests) for path, it in part.items()}
        yield from (digest_at[path] for path in tensors)

    @torch.no_grad()
    def __call__(self, model: nn.Module) -> None:
        """Give all parameters memory, and values."""
        _make_memory(model, self._device)
        for name, parameter in model.named_parameters():
            if (fake := self._fakes.get(bare_name(name))) is not None:
                self._fill(parameter, fake)
        self._fakes = {}

    def _fill(self, parameter: Any, fake: Tensor) -> None:
        if not is_distributed(parameter):
            parameter.copy_(self._deferred.part(fake, None))
            return
        shard = local(parameter.detach())
        for box in boxes_of(parameter):
            target = shard
            for dim, (start, length) in enumerate(zip(box.own_offsets, box.sizes, strict=True)):
                target = target.narrow(dim, start, length)
            target.copy_(self._deferred.part(fake, box))


def deferred_model(
    config: TrainConfig, chosen: ModuleConfig, task: Task, device: torch.device
) -> tuple[nn.Module, list[str], FirstValues] | str:
    """The model of the config `chosen`, prepared by the task, with its parameters on the meta device, lines for the
    user about it, and what gives it values; or why it can't be built so, with the random generators as they were.
    """
    before = random_state()
    deferred = Deferred()
    try:
        with deferred:
            model, notes = first_model(config, chosen)
            model = task.prepare(model)
        return model, notes, FirstValues(config, device, deferred, deferred.settle(model))
    except Exception as error:  # of anyone's constructor; what is wrong with the config is told where values are made
        # The model is built again, whole: with the numbers and ids that were drawn for this attempt.
        restore_random(before)
        seed_param_ids(config.seed)
        cause = error.__cause__ if isinstance(error, BurnlikeError) and error.__cause__ is not None else error
        return " ".join(f"{type(cause).__name__}: {cause}".split())[:200]


def _make_memory(model: nn.Module, device: torch.device) -> None:
    """Give parameters on the meta device memory, and leave all other tensors as they are."""
    buffers = [(part, name, it) for part in model.modules() for name, it in part._buffers.items() if it is not None]
    kept = {name: local(it).clone() for name, it in model.named_parameters() if not it.is_meta}
    slots = [(part, name, it) for part in model.modules() for name, it in part._parameters.items() if it is not None]
    model.to_empty(device=device)
    new_of: dict[int, Any] = {}
    for part, name, tensor in slots:  # torch makes a parameter of its own of each that is tied
        part._parameters[name] = new_of.setdefault(id(tensor), part._parameters[name])
    for part, name, tensor in buffers:
        part._buffers[name] = tensor.to(device)
    for name, tensor in model.named_parameters():
        if name in kept:
            local(tensor).copy_(kept[name])
