"""Losses of values: their other calls, their edges, and what is refused."""

from collections.abc import Callable
from typing import Any

import pytest
import torch
from hypothesis import given, settings, strategies as st
from torch import Tensor

from burnlike import nn
from burnlike.errors import ArgumentError, ConfigError, ShapeError, TargetError

PREDICTIONS = torch.tensor([[0.5, -1.0, 3.0], [2.0, 0.1, -0.7]], dtype=torch.float64)
TARGETS = torch.tensor([[0.2, 1.0, 0.5], [1.5, 0.1, 0.9]], dtype=torch.float64)

ELEMENTWISE: dict[str, tuple[Any, Callable[[Tensor, Tensor], Tensor]]] = {
    "mse": (nn.MseLossConfig(), lambda x, y: (x - y) ** 2),
    "huber": (
        nn.HuberLossConfig(delta=0.5),
        lambda x, y: torch.where((x - y).abs() <= 0.5, (x - y) ** 2 / 2, 0.5 * ((x - y).abs() - 0.25)),
    ),
    "l1": (nn.LpLossConfig(p=1.0), lambda x, y: (x - y).abs()),
    "l2": (nn.LpLossConfig(p=2.0), lambda x, y: (x - y) ** 2),
    "l2.5": (nn.LpLossConfig(p=2.5), lambda x, y: (x - y).abs() ** 2.5),
    "kl": (nn.KLDivLossConfig(), lambda x, y: y * (y.log() - x)),
    "kl_log": (nn.KLDivLossConfig(log_target=True), lambda x, y: y.exp() * (y - x)),
    "poisson": (nn.PoissonNllLossConfig(), lambda x, y: x.exp() - y * x),
    "hinge": (nn.HingeEmbeddingLossConfig(), lambda x, y: torch.where(y == 1, x, (1 - x).clamp(min=0))),
    "soft_margin": (nn.SoftMarginLossConfig(), lambda x, y: torch.log1p((-x * y).exp())),
}
each_loss = pytest.mark.parametrize(("config", "formula"), ELEMENTWISE.values(), ids=[*ELEMENTWISE])


@each_loss
def test_values_without_reduction(config: Any, formula: Callable[[Tensor, Tensor], Tensor]) -> None:
    found = config.init().forward_no_reduction(PREDICTIONS, TARGETS)
    torch.testing.assert_close(found, formula(PREDICTIONS, TARGETS), rtol=1e-12, atol=1e-12)


@each_loss
@settings(derandomize=True, max_examples=10, deadline=None)
@given(shape=st.lists(st.integers(1, 4), min_size=1, max_size=4), seed=st.integers(0, 99))
def test_reductions_of_any_shape(
    config: Any, formula: Callable[[Tensor, Tensor], Tensor], shape: list[int], seed: int
) -> None:
    loss, generator = config.init(), torch.Generator().manual_seed(seed)
    x, y = torch.randn(2, *shape, dtype=torch.float64, generator=generator)
    y = y.abs()
    values = formula(x, y)
    is_kl = isinstance(loss, nn.KLDivLoss)
    expected = {
        "mean": values.mean(),
        "sum": values.sum(),
        "auto": values.sum() / shape[0] if is_kl else values.mean(),
    }
    for name, value in expected.items():
        torch.testing.assert_close(loss(x, y, name), value, rtol=1e-11, atol=1e-11)
        assert loss(x.to("meta"), y.to("meta"), name).shape == ()
    if not is_kl:
        with pytest.raises(ArgumentError, match=r"expected 'mean', 'sum' or 'auto', got 'batch_mean'"):
            loss(x, y, "batch_mean")
    with pytest.raises(ShapeError, match=r"targets?: expected"):
        loss.forward_no_reduction(x, y.unsqueeze(0))
    with pytest.raises(ArgumentError, match="got 'median'"):
        loss(x, y, "median")


def test_huber_of_residuals() -> None:
    loss = nn.HuberLossConfig(delta=0.5).init()
    expected = loss.forward_no_reduction(PREDICTIONS, TARGETS)
    assert torch.equal(loss.forward_residuals(PREDICTIONS - TARGETS), expected)
    assert str(loss) == "HuberLoss {delta: 0.5, lin_bias: 0.125}"


def test_smooth_l1_with_reductions() -> None:
    loss = nn.SmoothL1LossConfig(beta=0.5).init()
    values = loss(PREDICTIONS, TARGETS)
    error = (PREDICTIONS - TARGETS).abs()
    torch.testing.assert_close(values, torch.where(error < 0.5, error**2, error - 0.25))
    torch.testing.assert_close(loss.forward_with_reduction(PREDICTIONS, TARGETS), values.mean())
    torch.testing.assert_close(loss.forward_with_reduction(PREDICTIONS, TARGETS, "sum"), values.sum())
    with pytest.raises(ArgumentError, match="batch_mean"):
        loss.forward_with_reduction(PREDICTIONS, TARGETS, "batch_mean")


@pytest.mark.parametrize("loss", [nn.LpLossConfig.l1(), nn.LpLossConfig.l2(), nn.SmoothL1LossConfig().init()])
@pytest.mark.parametrize("dims", [0, -1, [1], [1, 0], [-2, -1], ()])
def test_the_mean_over_some_dimensions(loss: Any, dims: Any) -> None:
    unreduced = loss if type(loss) is nn.SmoothL1Loss else loss.forward_no_reduction
    values = unreduced(PREDICTIONS, TARGETS)
    expected = values
    for dim in [dims] if isinstance(dims, int) else dims:
        expected = expected.mean(dim, keepdim=True)
    torch.testing.assert_close(loss.forward_reduce_dims(PREDICTIONS, TARGETS, dims), expected)


def test_the_derivative_of_a_root_is_0_where_nothing_is_missed() -> None:
    x = torch.tensor([1.0, 2.0], requires_grad=True)
    nn.LpLossConfig(p=0.5).init()(x, torch.tensor([1.0, 1.0])).backward()
    assert x.grad is not None
    assert x.grad.tolist() == [0.0, 0.25]


def test_soft_margin_of_large_logits_is_finite() -> None:
    x = torch.tensor([-1000.0, 1000.0], requires_grad=True)
    loss = nn.SoftMarginLossConfig().init().forward_no_reduction(x, torch.tensor([1.0, 1.0]))
    assert loss.tolist() == [1000.0, 0.0]
    loss.sum().backward()
    assert x.grad is not None
    assert x.grad.tolist() == [-1.0, 0.0]


def test_a_variance_below_eps_counts_as_eps_and_has_no_gradient() -> None:
    var = torch.tensor([1e-9, 2.0], requires_grad=True)
    loss = nn.GaussianNLLLossConfig(eps=0.5).init().forward_no_reduction(torch.ones(2), torch.zeros(2), var)
    torch.testing.assert_close(
        loss, torch.tensor([0.5 * (torch.tensor(0.5).log() + 2), 0.5 * torch.tensor(2.0).log() + 0.25])
    )
    loss.sum().backward()
    assert var.grad is not None
    assert var.grad[0] == 0
    assert var.grad[1] != 0


def test_variances_are_one_for_each_value_or_each_row() -> None:
    loss = nn.GaussianNLLLossConfig().init()
    for shape in ([2], [1, 3], [2, 2]):
        with pytest.raises(ShapeError, match=r"var: expected \[2, 3\], got"):
            loss(PREDICTIONS, TARGETS, torch.ones(shape))


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float32, torch.float64], ids=str)
def test_the_angle_with_a_zero_vector_is_a_right_one(dtype: torch.dtype) -> None:
    zero, other = torch.zeros(2, 3, dtype=dtype, requires_grad=True), torch.ones(2, 3, dtype=dtype)
    values = nn.CosineEmbeddingLossConfig().init().forward_no_reduction(zero, other, torch.tensor([1, -1]))
    assert values.tolist() == [1.0, 0.0]
    values.sum().backward()
    assert zero.grad is not None
    assert zero.grad.isfinite().all()


def test_targets_other_than_1_and_minus_1_do_not_count_in_cosine_embedding() -> None:
    loss = nn.CosineEmbeddingLossConfig(reduction="sum").init()
    x = torch.tensor([[1.0, 0.0], [1.0, 0.0]])
    assert loss(x, x, torch.tensor([0, 3])).item() == 0
    assert loss(x, x, torch.tensor([-1, -1])).item() == 2
    with pytest.raises(ConfigError, match="reduction"):
        nn.CosineEmbeddingLossConfig(reduction="batch_mean")  # pyright: ignore[reportArgumentType]


def test_counts_and_rates_are_not_negative() -> None:
    negative, ones = torch.tensor([1.0, -0.5]), torch.ones(2)
    with pytest.raises(TargetError, match=r"expected counts >= 0, got -0\.5"):
        nn.PoissonNllLossConfig().init()(ones, negative)
    with pytest.raises(ArgumentError, match=r"expected rates >= 0, got -0\.5; .* `log_input: true`"):
        nn.PoissonNllLossConfig(log_input=False).init()(negative, ones)
    assert nn.PoissonNllLossConfig().init()(negative, torch.tensor([2, 3])).isfinite()


def test_triplets_without_a_distance_have_a_finite_gradient() -> None:
    x = torch.ones(1, 3, requires_grad=True)
    nn.TripletMarginLossConfig().init()(x, torch.ones(1, 3), torch.ones(1, 3)).backward()
    assert x.grad is not None
    assert x.grad.isfinite().all()


@pytest.mark.parametrize(
    ("make", "options"),
    [
        (nn.HuberLossConfig, {"delta": 0.0}),
        (nn.SmoothL1LossConfig, {"beta": 0.0}),
        (nn.LpLossConfig, {"p": 0.0}),
        (nn.PoissonNllLossConfig, {"eps": 0.0}),
        (nn.MarginRankingLossConfig, {"margin": -0.1}),
        (nn.MultiMarginLossConfig, {"p": 3}),
        (nn.TripletMarginLossConfig, {"p": 0.0}),
    ],
)
def test_options_that_make_no_sense_are_refused(make: type, options: dict[str, float]) -> None:
    with pytest.raises(ConfigError, match=next(iter(options))):
        make(**options)
