"""Lion against its formula in float64."""

import pytest
import torch
from torch import nn

from burnlike.module import params
from burnlike.optim import GradientsParams, LionConfig


def test_a_run_is_the_formula_in_float64() -> None:
    lr, beta_1, beta_2, decay = 0.02, 0.8, 0.95, 0.3
    model = nn.ParameterList([torch.randn(5, 3).double()])
    optimizer = LionConfig(beta_1=beta_1, beta_2=beta_2, weight_decay=decay).init()
    p = model[0].detach().clone()
    m = torch.zeros_like(p)
    for _ in range(300):
        grad = torch.randn(5, 3, dtype=torch.float64)
        grad[0, 0] = 0.0  # whose sign is 0
        grads = GradientsParams()
        grads.register(params(model)[0], grad)
        optimizer.step(lr, model, grads)
        direction = torch.sign(beta_1 * m + (1 - beta_1) * grad)
        m = beta_2 * m + (1 - beta_2) * grad
        p = p * (1 - lr * decay) - lr * direction
    torch.testing.assert_close(model[0].detach(), p, rtol=1e-12, atol=1e-14)
    (moment,) = optimizer.to_record().tensors.values()
    torch.testing.assert_close(moment, m, rtol=1e-12, atol=1e-14)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.bfloat16, torch.float16])
@pytest.mark.parametrize("size", [3, 40])
def test_a_nan_in_a_gradient_is_seen_in_its_value(dtype: torch.dtype, size: int) -> None:
    model = nn.ParameterList([torch.ones(size, dtype=dtype)])
    optimizer = LionConfig().init()
    for _ in range(2):
        model[0].grad = torch.ones(size, dtype=dtype)
        model[0].grad[1] = torch.nan
        optimizer.step(0.125, model, GradientsParams.from_module(model))
    assert model[0].isnan().nonzero().flatten().tolist() == [1]
    assert model[0][0].item() == 0.75


def test_the_state_of_half_parameters_is_float32() -> None:
    model = nn.ParameterList([torch.randn(5).bfloat16()])
    optimizer = LionConfig().init()
    model[0].grad = torch.randn(5).bfloat16()
    optimizer.step(1e-2, model, GradientsParams.from_module(model))
    assert [it.dtype for it in optimizer.to_record().tensors.values()] == [torch.float32]


def test_the_defaults_are_burns() -> None:
    config = LionConfig()
    assert (config.beta_1, config.beta_2, config.weight_decay) == (0.9, 0.99, 0.0)
