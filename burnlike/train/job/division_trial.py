"""What is wrong with how a job divides its model: stages of a pipeline, parts of layers and of parameters."""

from collections.abc import Callable, Iterator
from contextlib import suppress
from copy import deepcopy
from typing import Any

from torch import nn

from ...errors import ConfigError
from ...module.torch_objects.wrappers import is_quantized
from ...optim import OptimizerAdaptor
from ..parallel.configs import DistributedConfig
from ..parallel.schedules import SCHEDULES


def division_problems(config: DistributedConfig, optimizer: Any, module: nn.Module) -> Iterator[tuple[str, str]]:
    """The paths in a job's config, and what is wrong there; the module, on the meta device, stays as it is.

    Args:
        optimizer: the config of what updates the parts.
    """
    if config.pipeline > 1:
        from ..parallel.pipeline_plan import plan_of  # torch.distributed takes time

        stages = config.pipeline * SCHEDULES[config.schedule]
        yield from _told("distributed.pipeline", lambda: plan_of(module, stages, config.stages))
    if config.tensor > 1:
        yield from _told("distributed.tensor", lambda: _divide(config, optimizer, module))
    if config.name == "fsdp2":
        from ..parallel.fsdp2 import blocks_of, check_divisible

        # What is gathered together of stages and of experts depends on the processes.
        units = [[it] for it in (*blocks_of(module), module)] if config.pipeline == config.expert == 1 else []
        problems = [*_told("distributed.strategy", lambda: check_divisible(module, units))]
        yield from problems or _told("distributed.strategy", lambda: _shard(optimizer, module))


def _shard(optimizer: Any, module: nn.Module) -> None:
    import torch.distributed as dist

    from ..._torch_compat.fake_processes import fake_processes

    if dist.is_initialized() or any(is_quantized(it) for it in module.parameters()):
        return
    with suppress(ImportError), fake_processes(2, 0):
        from torch.distributed.fsdp import fully_shard

        sharded = deepcopy(module)
        fully_shard(sharded, mesh=dist.device_mesh.init_device_mesh("cpu", (2,)))
        _update(optimizer, sharded)


def _update(optimizer: Any, module: nn.Module) -> None:
    """Ask the optimizer of a config about parameters that are divided."""
    if isinstance(made := optimizer.init(), OptimizerAdaptor):
        try:
            made.check(module)
        except ConfigError as error:
            raise ConfigError(f"optimizer: {error}") from error


def _divide(config: DistributedConfig, optimizer: Any, module: nn.Module) -> None:
    import torch.distributed as dist

    from ..._torch_compat.fake_processes import fake_processes
    from ...interop.parallel_plans import parallelize, plan_of

    plan_of(module, config.plan)
    if dist.is_initialized():
        return
    with suppress(ImportError), fake_processes(config.tensor, 0):
        mesh = dist.device_mesh.init_device_mesh("cpu", (config.tensor,))
        divided = deepcopy(module)
        parallelize(divided, mesh, config.plan)
        _update(optimizer, divided)


def _told(place: str, tried: Callable[[], object]) -> Iterator[tuple[str, str]]:
    try:
        tried()
    except ConfigError as error:
        path, _, message = str(error).partition(": ")
        yield (path, message) if path.startswith(("distributed.", "optimizer")) else (place, str(error))
