"""Training under sequence parallelism, where ranks have summands of gradients; and gradients that one rank lacks."""

from collections.abc import Callable, Mapping
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.tensor import DTensor, Partial, Shard
from torch.distributed.tensor.parallel import ColwiseParallel, RowwiseParallel, SequenceParallel, parallelize_module

import burnlike as bl
from burnlike import optim
from burnlike.errors import ArgumentError
from burnlike.interop import TorchOptimizer
from burnlike.module import params
from burnlike.optim import GradientsAccumulator, GradientsParams, ModuleOptimizerConfig, MultiGradientsParams, clip
from burnlike.optim.core.sharded import local
from burnlike.optim.gradients.clipping import norms_of

from .sharded_training import largest_error, loss_of, weights_of, wrapped

RATE = 0.1
BATCHES = torch.randn(20, 2, 6, 4, generator=torch.Generator().manual_seed(5), dtype=torch.float64)
Theirs = Callable[[Any], torch.optim.Optimizer]
RULES: Mapping[str, tuple[ModuleOptimizerConfig, Theirs]] = {
    "sgd": (optim.SgdConfig(), lambda given: torch.optim.SGD(given, lr=RATE)),
    "adamw": (
        optim.AdamWConfig(epsilon=1e-8, weight_decay=0.01),
        lambda given: torch.optim.AdamW(given, lr=RATE, weight_decay=0.01),
    ),
}


class Block(nn.Module):
    """Norms around a layer that is divided, as in a transformer."""

    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(3)
        self.norm = nn.LayerNorm(4)
        self.up = nn.Linear(4, 8)
        self.down = nn.Linear(8, 4)
        self.last = nn.LayerNorm(4)
        self.double()

    def forward(self, x: Tensor) -> Tensor:
        """`[batch, sequence, 4] -> [batch, sequence, 4]`."""
        return self.last(self.down(self.up(self.norm(x)).tanh()) + 1)


def divided() -> nn.Module:
    """In the usual plan of torch: each rank normalizes a part of the sequence."""
    plan = {
        "norm": SequenceParallel(),
        "up": ColwiseParallel(input_layouts=Shard(1)),
        "down": RowwiseParallel(output_layouts=Shard(1)),
        "last": SequenceParallel(),
    }
    return parallelize_module(Block(), init_device_mesh("cpu", (2,)), plan)


def loss_in_parallel(model: Any, x: Tensor) -> Tensor:
    mesh = model.norm.weight.device_mesh
    part = DTensor.from_local(x.chunk(2, 1)[dist.get_rank()], mesh, [Shard(1)])
    return (model(part) - 0.5).square().sum().full_tensor() / BATCHES[0].numel()


def of_one_process(theirs: Theirs, largest_norm: float | None = None) -> dict[str, Tensor]:
    """What torch's optimizer makes of the whole model."""
    one = Block()
    optimizer = theirs(one.parameters())
    for x in BATCHES:
        optimizer.zero_grad()
        ((one(x) - 0.5).square().sum() / x.numel()).backward()
        if largest_norm is not None:
            grads = [param.grad for param in one.parameters() if param.grad is not None]
            norm = torch.stack([grad.norm() for grad in grads]).norm()
            for grad in grads:
                grad *= (largest_norm / norm).clamp(max=1)  # without the 1e-6 that torch's clipping adds
        optimizer.step()
    return {name: param.detach() for name, param in one.named_parameters()}


def by_module(model: nn.Module, x: Tensor) -> GradientsParams:
    loss_in_parallel(model, x).backward()
    return GradientsParams.from_module(model)


def by_typed_loss(model: nn.Module, x: Tensor) -> GradientsParams:
    loss = bl.Tensor(loss_in_parallel(model, x).reshape(1), bl.Autodiff(bl.Cpu()))
    return GradientsParams.from_grads(loss.backward(), model)


def by_hand(model: nn.Module, x: Tensor) -> GradientsParams:
    loss_in_parallel(model, x).backward()
    grads = GradientsParams()
    for param in params(model):
        assert param.tensor.grad is not None
        grads.register(param, param.tensor.grad)
        param.tensor.grad = None
    return grads


def by_micro_batches(model: nn.Module, x: Tensor) -> GradientsParams:
    accumulator = GradientsAccumulator()
    for part in x:
        accumulator.accumulate(model, by_module(model, part[None]))
    return accumulator.grads()


def by_replicas(model: nn.Module, x: Tensor) -> GradientsParams:
    multi = MultiGradientsParams()
    for part in x:
        multi.add(by_module(model, part[None]))
    return multi.summed(model)


def trained(config: ModuleOptimizerConfig, take: Callable[[nn.Module, Tensor], GradientsParams]) -> nn.Module:
    model, optimizer = divided(), config.init()
    for x in BATCHES:
        optimizer.step(RATE, model, take(model, x))
    return model


def trained_by_torchs_interface(config: ModuleOptimizerConfig) -> nn.Module:
    model = divided()
    optimizer = TorchOptimizer(model, config, lr=RATE)
    for x in BATCHES:
        loss = loss_in_parallel(model, x)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    return model


WAYS: Mapping[str, Callable[[ModuleOptimizerConfig], nn.Module]] = {
    **{
        take.__name__: lambda config, take=take: trained(config, take)
        for take in (by_module, by_typed_loss, by_hand, by_micro_batches, by_replicas)
    },
    "by_torchs_interface": trained_by_torchs_interface,
}


def error_of(model: Any, expected: Mapping[str, Tensor]) -> float:
    """How far it is from what one process has, and the replicas from each other."""
    errors = [largest_error(weights_of(model), expected)]
    for layer in (model.norm, model.last):
        for param in params(layer):
            first = local(param.tensor.detach()).clone()
            dist.broadcast(first, 0)
            errors.append(float((first - local(param.tensor.detach())).abs().max()))
    return max(errors)


def sequence_parallel(rule: str, way: str) -> float:
    config, theirs = RULES[rule]
    return error_of(WAYS[way](config), of_one_process(theirs))


def clipped_by_norm() -> float:
    """Steps that are clipped by the norm of all gradients."""
    config = optim.SgdConfig(grad_clipping=optim.ClipByGlobalNorm(threshold=0.03))
    return error_of(trained(config, by_module), of_one_process(RULES["sgd"][1], 0.03))


def norms_of_summands() -> float:
    """The norm of the sum, and the sum clipped by it."""
    mesh = init_device_mesh("cpu", (2,))
    summand = DTensor.from_local(torch.arange(3.0, dtype=torch.float64) + dist.get_rank(), mesh, [Partial()])
    total = torch.tensor([1.0, 3.0, 5.0], dtype=torch.float64)
    [clipped] = clip(optim.ClipByNorm(threshold=0.5), [summand])
    errors = [norms_of([summand]) - total.norm(), clipped - total * (0.5 / total.norm())]
    return max(float(it.abs().max()) for it in errors)


LACKING: Mapping[str, optim.LbfgsConfig | ModuleOptimizerConfig] = {
    "norm": optim.SgdConfig(grad_clipping=optim.ClipByGlobalNorm(threshold=0.1)),
    "whole tensors": optim.LambConfig(),
    "skip": optim.SgdConfig(skip_non_finite=True),
    "none at all": optim.SgdConfig(skip_non_finite=True),
    "lbfgs": optim.LbfgsConfig(max_iter=2),
}


def lacking(where: str) -> str:
    """What every rank says of a gradient that rank 1 has not."""
    model, optimizer = wrapped("fsdp"), LACKING[where].init()
    before = weights_of(model)

    def closure(module: nn.Module) -> Any:
        loss = loss_of(module, 0, "fsdp")
        loss.backward()
        grads = GradientsParams.from_module(module)
        for param in params(module):
            if dist.get_rank() == 1 and (param.path == "kernel" or where == "none at all"):
                grads.remove(param)
        return loss, grads

    try:
        if isinstance(optimizer, optim.Lbfgs):
            optimizer.step(RATE, model, closure)
        else:
            optimizer.step(RATE, model, closure(model)[1])
    except ArgumentError as error:
        return str(error) if largest_error(weights_of(model), before) == 0 else "changed"
    return "no error"
