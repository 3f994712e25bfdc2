"""What is wrong with how a job divides its model: the stages of a pipeline, and the plan of `tensor`."""

from collections.abc import Callable, Iterator
from contextlib import suppress
from copy import deepcopy

from torch import nn

from ...errors import ConfigError
from ..parallel.configs import DistributedConfig
from ..parallel.schedules import SCHEDULES


def division_problems(config: DistributedConfig, module: nn.Module) -> Iterator[tuple[str, str]]:
    """The paths in a job's config, and what is wrong there; the module, on the meta device, stays as it is."""
    if config.pipeline > 1:
        from ..parallel.pipeline_plan import plan_of  # torch.distributed takes time

        stages = config.pipeline * SCHEDULES[config.schedule]
        yield from _told("distributed.pipeline", lambda: plan_of(module, stages, config.stages))
    if config.tensor > 1:
        yield from _told("distributed.tensor", lambda: _divide(config, module))


def _divide(config: DistributedConfig, module: nn.Module) -> None:
    import torch.distributed as dist

    from ..._torch_compat.fake_processes import fake_processes
    from ...interop.parallel_plans import parallelize, plan_of

    plan_of(module, config.plan)
    if dist.is_initialized():
        return
    with suppress(ImportError), fake_processes(config.tensor, 0):
        mesh = dist.device_mesh.init_device_mesh("cpu", (config.tensor,))
        parallelize(deepcopy(module), mesh, config.plan)


def _told(place: str, tried: Callable[[], object]) -> Iterator[tuple[str, str]]:
    try:
        tried()
    except ConfigError as error:
        path, _, message = str(error).partition(": ")
        yield (path, message) if path.startswith("distributed.") else (place, str(error))
