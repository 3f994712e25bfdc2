"""Steps of a small model whose changes are looked at, for the tests of groups and clipping."""

from typing import Any

import torch
from torch import nn

from burnlike.module import ParamGroup, params
from burnlike.optim import GradientsParams, ModuleLearningRate, ModuleOptimizerConfig, OptimizerGroupConfig

BIAS = ParamGroup.from_predicate("bias")
LAST = ParamGroup.from_predicate("1.")
ALL = ParamGroup.all()
LR = 0.1


def model_of() -> nn.Sequential:
    torch.manual_seed(2)
    return nn.Sequential(nn.Linear(3, 4), nn.Linear(4, 2)).double()


def gradients(model: nn.Module, seed: int = 4) -> dict[str, torch.Tensor]:
    generator = torch.Generator().manual_seed(seed)
    return {
        param.path: torch.randn(param.tensor.shape, generator=generator, dtype=torch.float64).to(param.tensor.dtype)
        for param in params(model, "weight")
    }


def taken(model: nn.Module, grads: dict[str, torch.Tensor]) -> GradientsParams:
    return GradientsParams.of((param, grads[param.path].clone()) for param in params(model, "weight"))


def stepped(config: ModuleOptimizerConfig, lr: float | ModuleLearningRate = LR) -> dict[str, torch.Tensor]:
    """How one step changes each parameter, by its path."""
    model = model_of()
    before = {param.path: param.tensor.detach().clone() for param in params(model)}
    config.init().step(lr, model, taken(model, gradients(model)))
    return {param.path: param.tensor.detach() - before[param.path] for param in params(model)}


def group(params: ParamGroup, **options: Any) -> OptimizerGroupConfig:
    return OptimizerGroupConfig(params=params, **options)


def close(found: torch.Tensor, expected: torch.Tensor) -> None:
    torch.testing.assert_close(found, expected, rtol=1e-12, atol=1e-15)
