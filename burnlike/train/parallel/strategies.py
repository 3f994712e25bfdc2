"""The strategies of several processes: DDP, each has the whole model; FSDP2, each has a part of each parameter."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext
from itertools import chain
from typing import Any

import torch
from torch import nn

from ...errors import ConfigError
from ...module.torch_objects.wrappers import division_problem, is_distributed, is_quantized, own_class, part_of
from .configs import REDUCED_ON_CPU, DistributedConfig
from .distributed import SeveralProcesses
from .part_of_model import Stage
from .single_process import Step


class Fsdp2(SeveralProcesses):
    """Each process has a part of each parameter (`torch.distributed.fsdp.fully_shard`), blocks one by one."""

    is_sharded = True

    def prepare(self, model: nn.Module, optimizer: Any) -> None:
        """Shard the model's blocks and the rest; its `train_step` and `valid_step` may be called as `forward`."""
        from torch.distributed.fsdp import FSDPModule, fully_shard, register_fsdp_forward_method

        before = {name: id(it) for name, it in model.named_parameters(remove_duplicate=False)}
        super().prepare(model, optimizer)
        count = self.mesh.fsdp.shape[-1]
        for name, parameter in model.named_parameters():
            if is_quantized(parameter) and (problem := division_problem(parameter, count)):
                raise ConfigError(
                    f"distributed.strategy: fsdp2 can't divide '{name}', a {type(parameter).__name__} of"
                    f" {list(parameter.shape)}, among {count} processes ({problem}); take fewer of `shard`, or"
                    " `strategy: ddp`, with which each has all"
                )
        # From within: `fully_shard` leaves to a module what a call before it has not taken, so the outermost is last.
        experts = () if self.experts is None else self.experts.layers
        blocks: dict[nn.Module, list[nn.Module]] = {
            part: [*part.blocks] if isinstance(part, Stage) else blocks_of(part) for part in self._roots(model)
        }
        check_divisible(model, [*experts, *([it] for it in chain(*blocks.values(), blocks))])
        for layer in experts:
            fully_shard(layer, mesh=self.mesh.same_experts, **_options(self.config, is_whole=False))
        for part, inner in blocks.items():
            for block in (it for it in inner if any(True for _ in it.parameters())):
                if isinstance(block, FSDPModule):  # experts, where they are the only blocks
                    continue
                fully_shard(block, mesh=self.mesh.fsdp, **_options(self.config, is_whole=False))
            fully_shard(part, mesh=self.mesh.fsdp, **_options(self.config, is_whole=part is model))
        if isinstance(optimizer, torch.optim.Optimizer):
            sharded = dict(model.named_parameters(remove_duplicate=False))
            _replace_parameters(
                optimizer, {address: sharded[name] for name, address in before.items() if name in sharded}
            )
        for name in ("train_step", "valid_step") if self.pipeline is None else ():
            if callable(getattr(type(model), name, None)):
                register_fsdp_forward_method(model, name)

    def release_whole(self, model: nn.Module) -> None:
        """Without a backward pass the outermost module keeps them, and blocks where they are not resharded before."""
        from torch.distributed.fsdp import FSDPModule

        for module in (it for root in self._roots(model) for it in root.modules()):
            if isinstance(module, FSDPModule):
                module.reshard()

    def _roots(self, model: nn.Module) -> Sequence[nn.Module]:
        """The outermost modules whose forward is called: the model, or the stages of it that this process has."""
        return [model] if self.pipeline is None else self.pipeline.stages

    @contextmanager
    def accumulating(self, model: Any, is_last: bool, counts: bool) -> Iterator[None]:
        if self.pipeline is None:  # whose schedule does this
            model.set_requires_gradient_sync(is_last)
            if self.config.reshard_after_backward is False:
                model.set_reshard_after_backward(is_last)
        with super().accumulating(model, is_last, counts):
            yield


def blocks_of(model: nn.Module) -> list[nn.Module]:
    """The blocks of a model: of modules of one class that stand side by side, those with the most parameters in all.

    Where none stand side by side, the only module of a list is a block, as of a model that was made with one layer.
    """
    groups: list[list[nn.Module]] = []
    for module in model.modules():
        by_class: dict[type, list[nn.Module]] = {}
        for child in module.children():
            by_class.setdefault(own_class(child), []).append(child)
        groups += [value for value in by_class.values() if len(value) > 1 or isinstance(module, nn.ModuleList)]
    called = [group for group in groups if type(group[0]).forward is not nn.Module.forward]  # a ModuleList is no block
    blocks = [it for it in called if any(True for block in it for _ in block.children())]
    several = [block for block in blocks if len(block) > 1]
    return max(several or blocks, key=lambda it: sum(p.numel() for block in it for p in block.parameters()), default=[])


def check_divisible(model: nn.Module, units: Iterable[Sequence[nn.Module]]) -> None:
    """Refuse what `fully_shard` can't divide, by a ConfigError: a parameter without dimensions, or dtypes that differ.

    Args:
        units: modules whose parameters are gathered together, each without those of the units before it.
    """
    paths = {id(it): name for name, it in model.named_parameters(remove_duplicate=False)}
    for name, parameter in model.named_parameters():
        if parameter.dim() == 0:
            raise ConfigError(
                f"distributed.strategy: fsdp2 can't divide '{name}', which has no dimensions; make it one of shape [1],"
                " or take `strategy: ddp`, with which each process has all of it"
            )
    seen: set[int] = set()
    for unit in units:
        unit_parameters = [it for part in unit for it in part.parameters() if id(it) not in seen]
        seen.update(map(id, unit_parameters))
        by_dtype: dict[torch.dtype, str] = {}
        for parameter in unit_parameters:
            if parameter.requires_grad:
                by_dtype.setdefault(parameter.dtype, paths[id(parameter)])
        if len(by_dtype) > 1:
            shown = " and ".join(f"'{path}' in {str(dtype)[6:]}" for dtype, path in by_dtype.items())
            raise ConfigError(
                f"distributed.strategy: fsdp2 gathers the trained parameters of a {type(unit[0]).__name__} together, so"
                f" that they need one dtype, got {shown}; convert or freeze some, or take `strategy: ddp`"
            )


def _replace_parameters(optimizer: torch.optim.Optimizer, new: Mapping[int, nn.Parameter]) -> None:
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
            name: part_of(value, parameter) if is_distributed(parameter) and value.shape == old.shape else value
            for name, value in state.items()
        }


def _options(config: DistributedConfig, *, is_whole: bool) -> dict[str, Any]:
    """Options of `fully_shard` for a part of the model, or for the whole, beside the mesh."""
    from torch.distributed.fsdp import CPUOffloadPolicy, MixedPrecisionPolicy

    # A schedule that computes gradients of weights later needs the parameters after the block's backward pass, too.
    reshard = False if config.computes_weights_later else config.reshard_after_forward
    options: dict[str, Any] = {"reshard_after_forward": reshard}
    if (precision := config.precision) is not None:
        names = (precision.params, precision.reduce, precision.output if is_whole else None)
        params, reduce, output = (name and getattr(torch, name) for name in names)
        options["mp_policy"] = MixedPrecisionPolicy(params, reduce, output)
    if config.offload == "cpu":
        options["offload_policy"] = CPUOffloadPolicy(pin_memory=torch.cuda.is_available())
    return options


_UNUSED = "Expected to have finished reduction in the prior iteration"
"""What DistributedDataParallel says in the step after one in which a parameter got no gradient."""


class _Forward(nn.Module):
    """Module that DistributedDataParallel wraps; its forward is a task's step, which may call the model as it likes."""

    def __init__(self, model: nn.Module) -> None:
        super().__init__()
        self.model = model

    def forward(self, step: Step, batch: Any) -> Any:
        return step(self.model, batch)


class Ddp(SeveralProcesses):
    """Each process has the whole model; gradients are averaged by DistributedDataParallel, or what stands for it."""

    wrapper: Any = nn.parallel.DistributedDataParallel

    def prepare(self, model: nn.Module, optimizer: Any) -> None:
        """Wrap the model for its steps; everyone else sees the same module, names and ids."""
        super().prepare(model, optimizer)
        self.give_first_values(model)  # torch compares them between processes
        if self.pipeline is not None:
            self.pipeline.wrapped = [self._replicated(stage) for stage in self.pipeline.stages]
        self._wrapped = None if self.pipeline is not None else self._replicated(_Forward(model))

    def _replicated(self, module: nn.Module) -> Any:
        trains = any(parameter.requires_grad for parameter in module.parameters())
        if self.pipeline is not None and not (trains and self.mean_size > 1):
            return module
        wrapped = self.wrapper(module, process_group=self.data_group)
        precision = self.config.precision
        if precision is not None and precision.reduce == "bfloat16":
            if self.device.type == "cpu":
                raise ConfigError(f"distributed.precision.reduce: {REDUCED_ON_CPU}")
            from torch.distributed.algorithms.ddp_comm_hooks.default_hooks import bf16_compress_hook

            wrapped.register_comm_hook(self.data_group, bf16_compress_hook)
        return wrapped

    def train_step(self, step: Step, model: nn.Module, batch: Any) -> Any:
        return step(model, batch) if self._wrapped is None else self._wrapped(step, batch)

    @contextmanager
    def accumulating(self, model: nn.Module, is_last: bool, counts: bool) -> Iterator[None]:
        # A pipeline has its stages exchange gradients, in its last micro-batch.
        quiet = nullcontext() if is_last or self._wrapped is None else self._wrapped.no_sync()
        with super().accumulating(model, is_last, counts), quiet:
            yield

    @contextmanager
    def explain_lost_peer(self) -> Iterator[None]:
        with super().explain_lost_peer():
            try:
                yield
            except RuntimeError as error:
                if _UNUSED not in str(error):
                    raise
                raise ConfigError(
                    "distributed.strategy: with ddp every parameter that is trained must get a gradient in every step,"
                    " and some got none; freeze them (requires_grad=False), or use them in the loss"
                ) from error
