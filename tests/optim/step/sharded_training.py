"""What one process and several train alike: the rules, a model with sizes that two can't share evenly, its steps."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.distributed.device_mesh import DeviceMesh, init_device_mesh
from torch.distributed.fsdp import fully_shard
from torch.distributed.tensor import Replicate
from torch.distributed.tensor.parallel import ColwiseParallel, RowwiseParallel, parallelize_module
from torch.nn.parallel import DistributedDataParallel

import burnlike as bl
from burnlike import optim
from burnlike.config import registry
from burnlike.module import ParamGroup, agree_ids, params
from burnlike.optim import GradientsParams, ModuleOptimizerConfig, OptimizerGroupConfig
from burnlike.optim.core.sharded import whole


def grouped(matrices: ModuleOptimizerConfig, others: ModuleOptimizerConfig) -> ModuleOptimizerConfig:
    """One rule for the matrices of `Net`, another one for the rest."""
    groups = [(ParamGroup.all(), others), (ParamGroup.from_regex(r"^(first|second)\.weight$"), matrices)]
    return optim.OptimizerGroupsConfig(
        groups=tuple(OptimizerGroupConfig(params=group, optimizer=rule) for group, rule in groups)
    )


@dataclass
class Velocity:
    velocity: bl.Tensor[Any, Any]


class Normalized(optim.SimpleOptimizer[Velocity]):
    """A rule of a program that needs whole tensors: steps of equal length."""

    state_type = Velocity
    elementwise = False

    def step(self, lr: float, tensor: Any, grad: Any, state: Velocity | None) -> tuple[Any, Velocity]:
        velocity = grad.inner if state is None else state.velocity.inner * 0.9 + grad.inner
        values = tensor.inner - lr * velocity / (velocity.norm() + 1e-3)
        return bl.Tensor(values, tensor.backend), Velocity(bl.Tensor(velocity, tensor.backend))


class NormalizedConfig(ModuleOptimizerConfig, tag="NormalizedSteps"):
    """Normalized."""

    def build(self) -> Normalized:
        """The rule."""
        return Normalized()


RULES: Mapping[str, ModuleOptimizerConfig] = {
    "sgd": optim.SgdConfig(weight_decay=0.05, momentum=optim.MomentumConfig(nesterov=True)),
    "plain sgd": optim.SgdConfig(),
    "adam": optim.AdamConfig(amsgrad=True, weight_decay=0.05),
    "adamw": optim.AdamWConfig(cautious_weight_decay=True, weight_decay=0.1),
    "adagrad": optim.AdaGradConfig(lr_decay=0.1),
    "rmsprop": optim.RmsPropConfig(centered=True),
    "adan": optim.AdanConfig(weight_decay=0.1),
    "lion": optim.LionConfig(weight_decay=0.1),
    "lamb": optim.LambConfig(weight_decay=0.1),
    "adafactor": optim.AdafactorConfig(weight_decay=0.1),
    "schedule-free": optim.ScheduleFreeAdamWConfig(weight_decay=0.1, warmup_steps=2),
    "muon": grouped(optim.MuonConfig(weight_decay=0.1), optim.AdamWConfig()),
    "groups": grouped(optim.LambConfig(), optim.SgdConfig()),
    "of a program": NormalizedConfig(),
}
registry.load_built_in()
DEFAULTS: Mapping[str, ModuleOptimizerConfig] = {
    f"{name} by default": grouped(config(), optim.AdamWConfig()) if name == "Muon" else config()
    for name, config in registry.imported(ModuleOptimizerConfig).items()
    if config.__module__.startswith("burnlike.") and "build" in vars(config)
}
SAVED: Mapping[str, ModuleOptimizerConfig] = {**RULES, **DEFAULTS}
"""Whose states are saved: those of every rule that there is, too."""
CLIPPINGS: Mapping[str, optim.GradientClipping | None] = {
    "no clipping": None,
    "value": optim.ClipByValue(threshold=0.02),
    "norm": optim.ClipByNorm(threshold=0.05),
    "global norm": optim.ClipByGlobalNorm(threshold=0.1),
}
OF_LARGER = ("no clipping", "global norm")
LINE_SEARCHES = (None, "StrongWolfe")
FOUR = "four parts"
MESHES: Mapping[str, Mapping[str, int]] = {
    "fsdp": {"shard": 2},
    "ddp": {"replicate": 2},
    "tensor": {"tensor": 2},
    "hsdp": {"replicate": 2, "shard": 2},
    "fsdp x tensor": {"shard": 2, "tensor": 2},
    "hsdp x tensor": {"replicate": 2, "shard": 1, "tensor": 2},
    FOUR: {"shard": 4},
}
"""The processes of each way to train, by what they divide."""
WRAPPINGS, LARGER = (
    tuple(name for name, sizes in MESHES.items() if math.prod(sizes.values()) == count and name != FOUR)
    for count in (2, 4)
)
WITH_WHOLES = ("lamb", "adafactor", "muon", "groups")
"""Rules that compute with norms, means or whole matrices: they alone are trained in four parts, some of no values."""
STEPS = (0, 1, 2, 3)
SPOILED = 1
"""The step whose gradients on one rank are not finite, where one is to be skipped."""
RATE = 0.02


class Net(nn.Module):
    """Parameters of one, two and three dimensions, with odd sizes, and one of a single value."""

    def __init__(self) -> None:
        super().__init__()
        generator = torch.Generator().manual_seed(7)
        self.first = nn.Linear(5, 7)
        self.norm = nn.LayerNorm(7)
        self.second = nn.Linear(7, 3, bias=False)
        self.kernel = nn.Parameter(torch.empty(3, 2, 2))
        self.scale = nn.Parameter(torch.empty(1))
        self.double()
        with torch.no_grad():
            for param in self.parameters():
                param.copy_(torch.randn(param.shape, generator=generator))

    def forward(self, x: Tensor) -> Tensor:
        """`[batch, 5] -> [batch, 3]`."""
        y = self.second(torch.tanh(self.norm(self.first(x))))
        return (y[..., None, None] * self.kernel).sin().sum((2, 3)) * self.scale


PLAN = {
    "first": ColwiseParallel(output_layouts=Replicate()),
    "second": RowwiseParallel(input_layouts=Replicate()),
}


@cache
def mesh_of(wrapping: str) -> DeviceMesh:
    sizes = MESHES[wrapping]
    return init_device_mesh("cpu", tuple(sizes.values()), mesh_dim_names=tuple(sizes))


def wrapped(wrapping: str | None) -> nn.Module:
    """The net, as it is or for the processes of this job."""
    model = Net()
    if wrapping is None:
        return model
    mesh = mesh_of(wrapping)
    names = mesh.mesh_dim_names or ()
    if "tensor" in names:
        parallelize_module(model, mesh["tensor"], PLAN)
    if "shard" in names:
        data = mesh["replicate", "shard"] if "replicate" in names else mesh["shard"]
        fully_shard(model.first, mesh=data)
        fully_shard(model, mesh=data)
    elif wrapping == "ddp":
        model = DistributedDataParallel(model)
    agree_ids(model)
    return model


def loss_of(model: nn.Module, step: int, wrapping: str | None) -> Tensor:
    """The mean over a batch of 20, or over this rank's part: processes average their gradients."""
    generator = torch.Generator().manual_seed(step)
    x = torch.randn(20, 5, generator=generator, dtype=torch.float64)
    target = torch.randn(20, 3, generator=generator, dtype=torch.float64)
    if wrapping is not None:
        tensor = MESHES[wrapping].get("tensor", 1)
        count, place = dist.get_world_size() // tensor, dist.get_rank() // tensor
        x, target = x.chunk(count)[place], target.chunk(count)[place]
    return (model(x) - target).square().mean()


def train(
    model: nn.Module,
    optimizer: Any,
    wrapping: str | None,
    steps: Sequence[int] = STEPS,
    *,
    spoiled: int | None = None,
    loss_scale: float = 1.0,
) -> nn.Module:
    """Make some steps.

    Args:
        model: from `wrapped(wrapping)`.
        optimizer: of it.
        wrapping: of it.
        steps: which batches.
        spoiled: a step in which gradients of rank 1 are not finite.
        loss_scale: what losses are multiplied by.
    """
    for step in steps:
        (loss_of(model, step, wrapping) * (math.nan if _is_spoiled(step, spoiled, wrapping) else loss_scale)).backward()
        optimizer.step(
            RATE, model, GradientsParams.from_module(model), loss_scale=None if loss_scale == 1 else loss_scale
        )
    return model


def _is_spoiled(step: int, spoiled: int | None, wrapping: str | None) -> bool:
    return step == spoiled and wrapping is not None and dist.get_rank() == 1


def fit(model: nn.Module, optimizer: optim.Lbfgs, wrapping: str | None) -> nn.Module:
    """Two steps of L-BFGS."""

    def closure(module: nn.Module) -> tuple[Tensor, GradientsParams]:
        loss = loss_of(module, 0, wrapping)
        loss.backward()
        return loss, GradientsParams.from_module(module)

    for _ in range(2):
        optimizer.step(0.5, model, closure)
    return model


def weights_of(model: nn.Module) -> dict[str, Tensor]:
    """All values, whole."""
    found = {param.path.removeprefix("module."): param.tensor.detach() for param in params(model)}
    return {path: whole(it).clone() for path, it in found.items()}


def largest_error(found: Mapping[str, Tensor], expected: Mapping[str, Tensor]) -> float:
    """The largest difference, as a part of the largest value of the same tensor; inf where the names differ or NaN."""
    if found.keys() != expected.keys():
        return math.inf
    errors = [float((found[path] - it).abs().max() / it.abs().max()) for path, it in expected.items()]
    return max(error if math.isfinite(error) else math.inf for error in errors)
