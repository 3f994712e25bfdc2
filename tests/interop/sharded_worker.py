"""One of two processes that train with a TorchOptimizer under FSDP2. Run by test_sharded.py, which starts it."""

import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist
import torch.distributed.checkpoint as dcp
from torch import nn
from torch.distributed.checkpoint.state_dict import (
    StateDictOptions,
    get_optimizer_state_dict,
    get_state_dict,
    set_optimizer_state_dict,
    set_state_dict,
)
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import fully_shard
from torch.distributed.tensor import DTensor

from burnlike.interop import TorchOptimizer
from burnlike.optim import AdafactorConfig, ClipByGlobalNorm, ModuleOptimizerConfig

from ..checks import write_results
from .models import GROUPED, loss_of, model_of, optimizer_of, train

CONFIGS: dict[str, ModuleOptimizerConfig] = {
    "adamw": GROUPED.replace(grad_clipping=ClipByGlobalNorm(threshold=0.1)),
    "adafactor": AdafactorConfig(),
}


def sharded(model: nn.Module) -> nn.Module:
    mesh = init_device_mesh("cpu", (dist.get_world_size(),))
    for layer in model:  # pyright: ignore[reportGeneralTypeIssues]
        if isinstance(layer, nn.Linear):
            fully_shard(layer, mesh=mesh)
    return fully_shard(model, mesh=mesh)


def whole(tensor: Any) -> torch.Tensor:
    return tensor.full_tensor() if isinstance(tensor, DTensor) else tensor


def error_of(model: nn.Module, expected: nn.Module) -> float:
    pairs = zip(model.parameters(), expected.parameters(), strict=True)
    return max(float((whole(ours) - theirs).abs().max()) for ours, theirs in pairs)


def expected_of(config: ModuleOptimizerConfig, steps: int) -> nn.Module:
    model = model_of()
    train(model, optimizer_of(model, config), steps)
    return model


def wrapped_before(config: ModuleOptimizerConfig) -> tuple[nn.Module, TorchOptimizer]:
    model = sharded(model_of())
    return model, optimizer_of(model, config)


def steps_agree(config: ModuleOptimizerConfig) -> float:
    model, optimizer = wrapped_before(config)
    train(model, optimizer, 4)
    return error_of(model, expected_of(config, 4))


def wrapped_afterwards(config: ModuleOptimizerConfig) -> float:
    """The optimizer was made, and has stepped, before the module is wrapped."""
    model = model_of()
    optimizer = optimizer_of(model, config)
    train(model, optimizer, 2)
    sharded(model)
    train(model, optimizer, 2, 2)
    return error_of(model, expected_of(config, 4))


def files_go_on(config: ModuleOptimizerConfig, in_background: bool = False) -> float:
    folder = Path(sys.argv[1], f"{type(config).__name__} {in_background}")
    model, optimizer = wrapped_before(config)
    train(model, optimizer, 2)
    weights, states = get_state_dict(model, optimizer)
    parts = {"model": weights, "optimizer": states}
    if in_background:
        group: Any = dist.new_group(backend="gloo")  # its thread must not wait amid what training sends
        saving: Any = dcp.async_save(parts, checkpoint_id=str(folder), process_group=group)
        train(model, optimizer, 1, 5)  # what is saved is as it was
        saving.result()
    else:
        dcp.save(parts, checkpoint_id=str(folder))
    other = sharded(model_of(2))
    resumed = optimizer_of(other, config)
    weights, states = get_state_dict(other, resumed)
    dcp.load({"model": weights, "optimizer": states}, checkpoint_id=str(folder))
    set_state_dict(other, resumed, model_state_dict=weights, optim_state_dict=states)
    train(other, resumed, 2, 2)
    return error_of(other, expected_of(config, 4))


def whole_states_go_on(config: ModuleOptimizerConfig) -> float:
    """The states of one process go into a sharded optimizer."""
    model = model_of()
    optimizer = optimizer_of(model, config)
    train(model, optimizer, 2)
    options = StateDictOptions(full_state_dict=True)
    states = get_optimizer_state_dict(model, optimizer, options=options)
    other = sharded(model)
    resumed = optimizer_of(other, config)
    set_optimizer_state_dict(other, resumed, states, options=options)
    train(other, resumed, 2, 2)
    return error_of(other, expected_of(config, 4))


def shown_states(config: ModuleOptimizerConfig) -> float:
    """States are shown divided as the parameters are, and share memory with what is stepped."""
    model, optimizer = wrapped_before(config)
    train(model, optimizer, 1)
    weight = model[0].weight  # pyright: ignore[reportIndexIssue]
    moment = optimizer.state[weight]["momentum.moment_1"]
    assert isinstance(moment, DTensor)
    assert moment.placements == weight.placements
    before = moment.full_tensor().clone()
    train(model, optimizer, 1, 1)
    assert not torch.equal(moment.full_tensor(), before)
    loss_of(model).backward()
    return 0.0


CHECKS: Mapping[str, Callable[[], float]] = {
    f"{name} {check}": lambda run=run, config=config: run(config)
    for name, config in CONFIGS.items()
    for check, run in {
        "steps": steps_agree,
        "wrapped afterwards": wrapped_afterwards,
        "files": files_go_on,
        "files in the background": lambda config: files_go_on(config, True),
        "whole states": whole_states_go_on,
        "shown": shown_states,
    }.items()
    if check != "shown" or name == "adamw"
}


if __name__ == "__main__":
    write_results(Path(sys.argv[1]), CHECKS)
