"""Several processes train one model: DDP, each with the whole model, and FSDP2, each with a part of each parameter."""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager, nullcontext
from typing import Any

import torch
from torch import nn
from torch.distributed.device_mesh import DeviceMesh, init_device_mesh

from ...errors import ConfigError
from ...module.torch_objects.wrappers import is_distributed, part_of
from .distributed import SeveralProcesses
from .single_process import Step

_UNUSED = "Expected to have finished reduction in the prior iteration"
"""What DistributedDataParallel says in the step after one in which a parameter got no gradient."""


class _Forward(nn.Module):
    """What DistributedDataParallel wraps: its forward is a task's step, which may call the model as it likes."""

    def __init__(self, model: nn.Module) -> None:
        super().__init__()
        self.model = model

    def forward(self, step: Step, batch: Any) -> Any:
        return step(self.model, batch)


class Ddp(SeveralProcesses):
    """Each process has the whole model; gradients are averaged by DistributedDataParallel."""

    def prepare(self, model: nn.Module, optimizer: Any) -> None:
        """Wrap the model; it stays what it is for everyone else, with its names and ids."""
        super().prepare(model, optimizer)
        self._wrapped = nn.parallel.DistributedDataParallel(_Forward(model))

    def train_step(self, step: Step, model: nn.Module, batch: Any) -> Any:
        return self._wrapped(step, batch)

    @contextmanager
    def accumulating(self, model: nn.Module, is_last: bool, counts: bool) -> Iterator[None]:
        with super().accumulating(model, is_last, counts), nullcontext() if is_last else self._wrapped.no_sync():
            yield

    @contextmanager
    def others_alive(self) -> Iterator[None]:
        with super().others_alive():
            try:
                yield
            except RuntimeError as error:
                if _UNUSED not in str(error):
                    raise
                raise ConfigError(
                    "distributed.strategy: with ddp every parameter that is trained must get a gradient in every step,"
                    " and some got none; freeze them (requires_grad=False), or use them in the loss"
                ) from error


class Fsdp2(SeveralProcesses):
    """Each process has a part of each parameter (`torch.distributed.fsdp.fully_shard`), blocks one by one."""

    is_sharded = True

    def prepare(self, model: nn.Module, optimizer: Any) -> None:
        """Shard the model's blocks and the rest; `train_step` and `valid_step` of the model may be called as `forward`.

        Raises:
            ConfigError: the optimizer has states of the whole parameters.
        """
        from torch.distributed.fsdp import fully_shard, register_fsdp_forward_method

        super().prepare(model, optimizer)
        before = {name: id(it) for name, it in model.named_parameters(remove_duplicate=False)}
        for block in blocks_of(model):
            fully_shard(block, mesh=self._mesh())
        fully_shard(model, mesh=self._mesh())
        if isinstance(optimizer, torch.optim.Optimizer):
            sharded = dict(model.named_parameters(remove_duplicate=False))
            _replace_parameters(optimizer, {address: sharded[name] for name, address in before.items()})
        for name in ("train_step", "valid_step"):
            if callable(getattr(type(model), name, None)):
                register_fsdp_forward_method(model, name)

    def release_whole(self, model: Any) -> None:
        """Without a backward pass the outermost module keeps them."""
        model.reshard()

    def _mesh(self) -> DeviceMesh:
        """All processes in one dimension. Without it torch takes CUDA's devices wherever there are some."""
        return init_device_mesh(self.device.type, (self.world_size,), mesh_dim_names=("shard",))

    @contextmanager
    def accumulating(self, model: Any, is_last: bool, counts: bool) -> Iterator[None]:
        model.set_requires_gradient_sync(is_last)
        with super().accumulating(model, is_last, counts):
            yield


def blocks_of(model: nn.Module) -> list[nn.Module]:
    """The blocks of a model: of modules of one class that stand side by side, those with the most parameters in all.

    Where none stand side by side, the only module of a list is a block, as of a model that was made with one layer.
    """
    groups: list[list[nn.Module]] = []
    for module in model.modules():
        by_class: dict[type[nn.Module], list[nn.Module]] = {}
        for child in module.children():
            by_class.setdefault(type(child), []).append(child)
        groups += [it for it in by_class.values() if len(it) > 1 or isinstance(module, nn.ModuleList)]
    found = [it for it in groups if any(True for block in it for _ in block.children())]
    several = [it for it in found if len(it) > 1]
    return max(several or found, key=lambda it: sum(p.numel() for block in it for p in block.parameters()), default=[])


def _replace_parameters(optimizer: torch.optim.Optimizer, new: Mapping[int, nn.Parameter]) -> None:
    """Let an optimizer update other parameters, by the addresses of those before."""
    before = dict(optimizer.state)
    if any(float(state.get("step", 1)) for state in before.values()):
        raise ConfigError(
            f"optimizer: the {type(optimizer).__name__} has taken steps with the whole parameters, and fsdp2 shards"
            " them; give the Learner a new one"
        )
    for group in optimizer.param_groups:
        group["params"] = [new.get(id(it), it) for it in group["params"]]
    optimizer.state.clear()
    for old, state in before.items():  # those of Adagrad are there before the first step
        parameter: Any = new.get(id(old), old)
        optimizer.state[parameter] = {
            name: part_of(it, parameter) if is_distributed(parameter) and it.shape == old.shape else it
            for name, it in state.items()
        }
