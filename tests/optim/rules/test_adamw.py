"""Adam and AdamW against Burn's steps, Burn's test vectors and their formulas in float64."""

import itertools
import math
from collections.abc import Callable
from typing import Any

import pytest
import torch

import burnlike as bl
from burnlike import nn
from burnlike.module import params
from burnlike.optim import Adam, AdamConfig, AdamState, AdamWConfig, ClipByNorm, GradientsParams, OptimizerAdaptor
from tests.conftest import tensor_of

GOLDEN = {
    "optim_adamw": AdamWConfig(),
    "optim_adamw_clip": AdamWConfig(
        grad_clipping=ClipByNorm(threshold=0.1), cautious_weight_decay=True, weight_decay=0.1
    ),
}


def check_step(model: nn.Linear, optimizer: OptimizerAdaptor, step: dict[str, Any]) -> None:
    """Run one of Burn's steps and compare loss, gradients and parameters."""
    prediction = model(tensor_of(step["input"]))
    loss = (prediction - tensor_of(step["target"])).square().mean()
    loss.backward()
    torch.testing.assert_close(loss.detach().reshape(1), tensor_of(step["loss"]), rtol=1e-6, atol=1e-7)
    grads = GradientsParams.from_module(model)
    for param, entry in zip(params(model), step["grads"], strict=True):
        assert param.path == entry["path"]
        torch.testing.assert_close(grads.get(param), tensor_of(entry), rtol=1e-5, atol=1e-7)
    optimizer.step(step["lr"], model, grads)
    for param, entry in zip(params(model), step["params_after"], strict=True):
        torch.testing.assert_close(param.tensor.detach(), tensor_of(entry), rtol=1e-6, atol=5e-7)


@pytest.mark.parametrize("name", GOLDEN)
def test_steps_are_burns_also_after_saving_and_loading(name: str, golden: Callable[[str], dict[str, Any]]) -> None:
    values = golden(name)
    model = nn.LinearConfig(d_input=4, d_output=3).init()
    for param, entry in zip(params(model), values["params"], strict=True):
        assert param.path == entry["path"]
        param.assign(tensor_of(entry))
    optimizer = GOLDEN[name].init()
    for step in values["steps_before_save"]:
        check_step(model, optimizer, step)
    fresh = GOLDEN[name].init().load_record(optimizer.to_record())
    check_step(model, fresh, values["step_after_load"])


@pytest.mark.parametrize(("cautious", "amsgrad"), [*itertools.product([False, True], repeat=2)])
def test_a_run_is_the_formula_in_float64(cautious: bool, amsgrad: bool) -> None:
    decay, lr, beta_1, beta_2, epsilon = 0.3, 0.02, 0.8, 0.95, 1e-3
    model = nn.LinearConfig(d_input=5, d_output=3, bias=False).init().double()
    (param,) = params(model)
    optimizer = AdamWConfig(
        beta_1=beta_1,
        beta_2=beta_2,
        epsilon=epsilon,
        weight_decay=decay,
        cautious_weight_decay=cautious,
        amsgrad=amsgrad,
    ).init()
    p = param.tensor.detach().clone()
    m, v, largest = (torch.zeros_like(p) for _ in range(3))
    for t in range(1, 8):
        grad = torch.randn(5, 3, dtype=torch.float64) / t
        grads = GradientsParams()
        grads.register(param, grad)
        optimizer.step(lr, model, grads)
        m = beta_1 * m + (1 - beta_1) * grad
        v = beta_2 * v + (1 - beta_2) * grad**2
        largest = torch.maximum(largest, v)
        root = torch.sqrt((largest if amsgrad else v) / (1 - beta_2**t))
        decays = ((p >= 0) == (m >= 0)) if cautious else torch.ones_like(p, dtype=torch.bool)
        p = torch.where(decays, p * (1 - lr * decay), p) - lr * (m / (1 - beta_1**t)) / (root + epsilon)
        # Scalars are float32 in Burn, float64 here: both are the formula.
        torch.testing.assert_close(param.tensor.detach(), p, rtol=1e-6, atol=1e-6)
    assert math.isfinite(p.sum().item())


def test_half_parameters_keep_their_dtype_and_float32_moments() -> None:
    model = nn.LinearConfig(d_input=4, d_output=4).init().bfloat16()
    optimizer = AdamWConfig().init()
    model(torch.randn(2, 4, dtype=torch.bfloat16)).sum().backward()
    optimizer.step(1e-2, model, GradientsParams.from_module(model))
    assert model.weight.dtype == torch.bfloat16
    moments = optimizer.to_record().tensors
    assert len(moments) == 4
    assert all(moment.dtype == torch.float32 for moment in moments.values())


def test_the_bare_formula_changes_no_argument() -> None:
    formula = AdamWConfig().build()
    tensor, grad = bl.Tensor(torch.randn(5)), bl.Tensor(torch.randn(5))
    kept = tensor.inner.clone()
    first, state = formula.step(0.1, tensor, grad, None)
    moment = state.momentum.moment_1.clone()
    second, after = formula.step(0.1, first, grad, state)
    assert torch.equal(tensor.inner, kept)
    assert (state.momentum.time, after.momentum.time) == (1, 2)
    assert torch.equal(state.momentum.moment_1, moment)
    assert not torch.equal(second.inner, first.inner)


def test_the_defaults_are_burns() -> None:
    config = AdamConfig()
    assert (config.beta_1, config.beta_2, config.epsilon, config.weight_decay) == (0.9, 0.999, 1e-5, 0.0)
    assert not config.amsgrad
    rule = config.build()
    assert isinstance(rule, Adam)
    assert rule.state_type is AdamState
