"""Models of which each process has a part, built so that none ever has the whole.

Constructors and initializers run without values (`module/torch_objects/deferred.py`), and the strategy divides what
they made on the meta device. Then each process gets its part of the values that a single one would have, one parameter
at a time.
"""

from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor, nn

from ...config import ModuleConfig
from ...errors import BurnlikeError, RecordMismatchError
from ...module import params, seed_param_ids
from ...module.torch_objects.deferred import Deferred
from ...module.torch_objects.wrappers import bare_name, is_distributed, local
from ...record.loading.divided import boxes_of
from ...record.loading.load_into import prepare
from ...record.loading.load_options import LoadOptions
from ...record.shortcuts import open_for
from ..state.small_parts import random_state, restore_random
from ..tasks.task import Task
from .configs import InitFromConfig, TrainConfig
from .record_paths import record_at
from .starting import check_loaded, load_options, loaded_line, said_of


class FirstValues:
    """What gives a divided model the values that it begins with; it is called once, with the model, after its division.

    Attributes:
        said: lines for the user about where they come from; more are added by the call.
    """

    def __init__(
        self,
        config: TrainConfig,
        device: torch.device,
        deferred: Deferred,
        fakes: Mapping[str, Tensor],
        said: list[str],
    ) -> None:
        self._config, self._deferred, self._fakes = config, deferred, fakes
        self._device = torch.device("cpu") if config.distributed.offload == "cpu" else device
        self.said = said

    @torch.no_grad()
    def __call__(self, model: nn.Module) -> None:
        """Give all parameters memory, and values."""
        _make_memory(model, self._device)
        source = self._config.init_from
        loaded: frozenset[str] = frozenset()
        load = None
        if source is not None:
            about = InitFromConfig(path=source) if isinstance(source, str) else source
            load = prepare(open_for(model, record_at(about.path)), model, LoadOptions(**load_options(about)))
            check_loaded(load.report, about)
            loaded = frozenset(load.report.applied)
        known = {path: param for param in params(model, "weight") for path in (param.path, *param.aliases)}
        done = {id(known[path].tensor) for path in loaded if path in known}
        for name, parameter in model.named_parameters():
            fake = self._fakes.get(bare_name(name))
            if fake is not None and id(parameter) not in done:
                self._fill(parameter, fake)
        if load is not None and source is not None:
            load()
            self.said.append(loaded_line(model, source, loaded))
        self._fakes = {}

    def _fill(self, parameter: Any, fake: Tensor) -> None:
        if not is_distributed(parameter):
            parameter.copy_(self._deferred.values(fake))
            return
        own = local(parameter.detach())
        for box in boxes_of(parameter):
            target = own
            for dim, (start, length) in enumerate(zip(box.own_offsets, box.sizes, strict=True)):
                target = target.narrow(dim, start, length)
            target.copy_(self._deferred.part(fake, box))


def deferred_model(
    config: TrainConfig, chosen: ModuleConfig, task: Task, device: torch.device
) -> tuple[nn.Module, FirstValues] | str:
    """The model of the config `chosen`, prepared by the task, with its parameters on the meta device, and what gives
    them values; or why it can't be built so, with the random generators as they were.
    """
    before = random_state()
    deferred = Deferred()
    try:
        with deferred:
            model = _unfilled(config, chosen)
            said = said_of(model)
            model = task.prepare(model)
        return model, FirstValues(config, device, deferred, deferred.settle(model), said)
    except Exception as error:  # of anyone's constructor; what is wrong with the config is told where values are made
        restore_random(before)
        seed_param_ids(config.seed)
        cause = error.__cause__ if isinstance(error, BurnlikeError) and error.__cause__ is not None else error
        return " ".join(f"{type(cause).__name__}: {cause}".split())[:200]


def _unfilled(config: TrainConfig, chosen: ModuleConfig) -> nn.Module:
    if not isinstance(config.init_from, str):
        return chosen.init("cpu")
    if type(chosen).init_from is not ModuleConfig.init_from:
        raise RecordMismatchError("init_from: this model reads its record in a way of its own")
    before = random_state()
    model = chosen.init("cpu")
    restore_random(before)  # what is all read draws nothing
    return model


def _make_memory(model: nn.Module, device: torch.device) -> None:
    """Give parameters on the meta device memory, and leave all other tensors as they are."""
    buffers = [(part, name, it) for part in model.modules() for name, it in part._buffers.items() if it is not None]
    kept = {name: local(it).clone() for name, it in model.named_parameters() if not it.is_meta}
    model.to_empty(device=device)
    for part, name, it in buffers:
        part._buffers[name] = it.to(device)
    for name, it in model.named_parameters():
        if name in kept:
            local(it).copy_(kept[name])
