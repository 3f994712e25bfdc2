"""Parameters that are not contiguous: rules give them the values of contiguous ones, and leave them where they are."""

from collections.abc import Sequence
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from burnlike import optim
from burnlike.optim import GradientsParams, ModuleOptimizerConfig, MomentumConfig

RULES: dict[str, ModuleOptimizerConfig] = {
    "Sgd": optim.SgdConfig(momentum=MomentumConfig(), weight_decay=0.1),
    "Adam": optim.AdamConfig(amsgrad=True),
    "AdamW": optim.AdamWConfig(cautious_weight_decay=True),
    "Lion": optim.LionConfig(weight_decay=0.1),
    "AdaGrad": optim.AdaGradConfig(weight_decay=0.1),
    "RmsProp": optim.RmsPropConfig(centered=True),
    "Adan": optim.AdanConfig(weight_decay=0.1),
    "Lamb": optim.LambConfig(weight_decay=0.1),
    "Adafactor": optim.AdafactorConfig(weight_decay=0.1),
    "ScheduleFreeAdamW": optim.ScheduleFreeAdamWConfig(weight_decay=0.1),
    "Muon": optim.MuonConfig(weight_decay=0.1),
}
TOLERANCE = {torch.float64: 1e-13, torch.float32: 1e-5, torch.bfloat16: 2**-6}


def values_for(config: ModuleOptimizerConfig, dtype: torch.dtype) -> list[Tensor]:
    generator = torch.Generator().manual_seed(0)
    shapes = [(4, 6), (12, 8)] if isinstance(config, optim.MuonConfig) else [(4, 6), (12, 8), (4, 3, 5, 5)]
    return [torch.randn(shape, generator=generator).to(dtype) for shape in shapes]


def rearranged(values: Sequence[Tensor]) -> list[Tensor]:
    """A transposed matrix, every second row and column of a larger one, and an image with its channels last."""
    transposed = values[0].mT.contiguous().mT
    large = torch.zeros(2 * values[1].shape[0], 2 * values[1].shape[1], dtype=values[1].dtype)
    large[::2, ::2] = values[1]
    return [transposed, large[::2, ::2], *(it.to(memory_format=torch.channels_last) for it in values[2:])]


def step(model: nn.Module, optimizer: Any, seed: int, *, is_rearranged: bool) -> None:
    for place, parameter in enumerate(model.parameters()):
        generator = torch.Generator().manual_seed(10 * seed + place)
        grad = torch.randn(parameter.shape, generator=generator).to(parameter.dtype)
        parameter.grad = torch.empty_like(parameter).copy_(grad) if is_rearranged and seed % 2 else grad
    optimizer.step(0.01, model, GradientsParams.from_module(model))


@pytest.mark.parametrize("dtype", TOLERANCE, ids=str)
@pytest.mark.parametrize("config", RULES.values(), ids=RULES)
def test_steps_go_by_place_not_by_memory(config: ModuleOptimizerConfig, dtype: torch.dtype) -> None:
    values = values_for(config, dtype)
    plain, other = nn.ParameterList([it.clone() for it in values]), nn.ParameterList(rearranged(values))
    layout = [(parameter.stride(), parameter.data_ptr()) for parameter in other]
    optimizer, its_optimizer = config.init(), config.init()
    for seed in range(3):
        step(plain, optimizer, seed, is_rearranged=False)
        step(other, its_optimizer, seed, is_rearranged=True)
    again = config.init().load_record(optimizer.to_record(), other)  # states of contiguous parameters, by path
    step(plain, optimizer, 3, is_rearranged=False)
    step(other, again, 3, is_rearranged=True)
    for one, its in zip(plain, other, strict=True):
        torch.testing.assert_close(its, one, rtol=TOLERANCE[dtype], atol=TOLERANCE[dtype])
    assert [(parameter.stride(), parameter.data_ptr()) for parameter in other] == layout


@pytest.mark.parametrize("search", [None, "StrongWolfe"])
def test_lbfgs_goes_by_place_not_by_memory(search: Any) -> None:
    x = torch.randn(5, 3, 6, 6, generator=torch.Generator().manual_seed(1), dtype=torch.float64)
    torch.manual_seed(2)
    plain = nn.Conv2d(3, 4, 3, dtype=torch.float64)
    other = nn.Conv2d(3, 4, 3, dtype=torch.float64).to(memory_format=torch.channels_last)
    other.load_state_dict(plain.state_dict())
    strides = other.weight.stride()

    def closure(model: nn.Module) -> tuple[Tensor, GradientsParams]:
        loss = (model(x).tanh() - 0.5).square().mean()
        loss.backward()
        return loss, GradientsParams.from_module(model)

    for model in (plain, other):
        optim.LbfgsConfig(max_iter=6, line_search_fn=search).init().step(0.5, model, closure)
    torch.testing.assert_close(other.weight, plain.weight, rtol=1e-10, atol=1e-12)
    assert other.weight.stride() == strides != plain.weight.stride()
