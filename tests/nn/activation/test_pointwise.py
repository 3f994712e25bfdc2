"""Any config of an activation: its gradients, its shapes, its range; and how it is displayed."""

import pytest
import torch
from hypothesis import given, settings, strategies as st

from burnlike import nn
from burnlike.errors import ConfigError, NoCounterpartError
from burnlike.module import display
from burnlike.nn import ActivationConfig
from tests.nn.cases import COUNTERPARTS
from tests.nn.cases.activation import CASES

TENTHS = st.integers(-30, 30).map(lambda count: count / 10)
ABOVE_0 = st.integers(1, 30).map(lambda count: count / 10)
FROM_0 = st.integers(0, 30).map(lambda count: count / 10)
NOT_0 = TENTHS.filter(bool)
BOUNDS = st.tuples(TENTHS, ABOVE_0)
CONFIGS = st.one_of(
    st.sampled_from([nn.ReluConfig(), nn.Relu6Config(), nn.SeluConfig(), nn.SiLUConfig(), nn.MishConfig()]),
    st.sampled_from([nn.SigmoidConfig(), nn.LogSigmoidConfig(), nn.TanhConfig(), nn.SoftsignConfig()]),
    st.sampled_from([nn.HardSwishConfig(), nn.TanhshrinkConfig(), nn.IdentityConfig()]),
    st.booleans().map(lambda approximate: nn.GeluConfig(approximate=approximate)),
    TENTHS.map(lambda slope: nn.LeakyReluConfig(negative_slope=slope)),
    TENTHS.map(lambda alpha: nn.PReluConfig(alpha=alpha)),
    TENTHS.map(lambda alpha: nn.ThresholdedReluConfig(alpha=alpha)),
    st.builds(lambda threshold, value: nn.ThresholdConfig(threshold=threshold, value=value), TENTHS, TENTHS),
    FROM_0.map(lambda alpha: nn.EluConfig(alpha=alpha)),
    NOT_0.map(lambda alpha: nn.CeluConfig(alpha=alpha)),
    st.builds(lambda beta, threshold: nn.SoftplusConfig(beta=beta, threshold=threshold), NOT_0, FROM_0),
    st.builds(lambda alpha, beta: nn.HardSigmoidConfig(alpha=alpha, beta=beta), TENTHS, TENTHS),
    BOUNDS.map(lambda bounds: nn.HardtanhConfig(min_val=bounds[0], max_val=bounds[0] + bounds[1])),
    BOUNDS.map(lambda bounds: nn.RReluConfig(lower=bounds[0], upper=bounds[0] + bounds[1])),
    FROM_0.map(lambda lambd: nn.HardShrinkConfig(lambd=lambd)),
    FROM_0.map(lambda lambd: nn.SoftShrinkConfig(lambd=lambd)),
    st.builds(lambda lambd, bias: nn.ShrinkConfig(lambd=lambd, bias=bias), FROM_0, TENTHS),
)
SHAPES = st.lists(st.integers(0, 2), max_size=3).map(tuple)


@settings(max_examples=80)
@given(CONFIGS, SHAPES, st.integers(0, 1000))
def test_gradients_and_shapes_of_any_config(config: ActivationConfig, shape: tuple[int, ...], seed: int) -> None:
    generator = torch.Generator().manual_seed(seed)
    # Never a tenth, where the bends are.
    x = torch.randint(-40, 40, shape, generator=generator).double() / 10 + 0.0317
    layer = config.init().double().eval()
    assert layer(x).shape == shape
    assert config.init("meta").double().eval()(x.to("meta")).shape == shape
    if x.numel():
        assert torch.autograd.gradcheck(layer, x.requires_grad_())


@settings(max_examples=20)
@given(st.lists(st.integers(1, 3), min_size=1, max_size=4), st.data())
def test_glu_halves_any_dimension(shape: list[int], data: st.DataObject) -> None:
    dim = data.draw(st.integers(-len(shape), len(shape) - 1))
    doubled = list(shape)
    doubled[dim] *= 2
    layer = nn.GLUConfig(dim=dim).init()
    assert layer(torch.zeros(doubled)).shape == tuple(shape)
    assert layer(torch.zeros(doubled, device="meta")).shape == tuple(shape)


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float32, torch.float64], ids=str)
@pytest.mark.parametrize("threshold", [20.0, 1e6])
def test_softplus_and_its_gradient_are_finite_for_large_values(dtype: torch.dtype, threshold: float) -> None:
    x = torch.tensor([-9e3, -90.0, 0.0, 10.0, 60.0, 120.0, 9e3], dtype=dtype, requires_grad=True)
    y = nn.SoftplusConfig(threshold=threshold).init()(x)
    y.float().sum().backward()
    assert y.isfinite().all()
    torch.testing.assert_close(y[-3:], x[-3:])
    torch.testing.assert_close(x.grad, x.detach().double().sigmoid().to(dtype))


@pytest.mark.parametrize("name", ["Relu", "Relu6", "Gelu", "SoftShrink", "HardShrink", "Shrink", "HardSigmoid"])
def test_nan_stays(name: str) -> None:
    layer = getattr(nn, f"{name}Config")().init()
    assert layer(torch.tensor([float("nan")])).isnan().all()


@pytest.mark.parametrize(
    ("config", "text"),
    [
        (nn.ReluConfig(), "Relu"),
        (nn.SiLUConfig(), "SiLU"),
        (nn.LeakyReluConfig(), "LeakyRelu {negative_slope: 0.01}"),
        (nn.PReluConfig(), "PRelu {num_parameters: 1, alpha_value: 0.25, params: 1}"),
        (nn.RReluConfig(lower=0.1, upper=0.3), "RRelu {lower: 0.1, upper: 0.3}"),
        (nn.EluConfig(), "Elu {alpha: 1}"),
        (nn.CeluConfig(), "Celu {alpha: 1}"),
        (nn.SoftplusConfig(), "Softplus {beta: 1, threshold: 20}"),
        (nn.ThresholdConfig(threshold=1.0, value=20.0), "Threshold {threshold: 1, value: 20}"),
        (nn.HardtanhConfig(), "Hardtanh {min_val: -1, max_val: 1}"),
        (nn.HardSigmoidConfig(), "HardSigmoid {alpha: 0.2, beta: 0.5}"),
        (nn.HardShrinkConfig(), "HardShrink {lambda: 0.5}"),
        (nn.SoftShrinkConfig(), "SoftShrink {lambda: 0.5}"),
        (nn.ShrinkConfig(), "Shrink {lambda: 0.5, bias: 0.5}"),
        (nn.GLUConfig(dim=1), "GLU {\n  dim: 1\n}"),
        (nn.GeluConfig(approximate=True), "Gelu {\n  approximate: true\n}"),
    ],
)
def test_the_display_is_burns(config: ActivationConfig, text: str) -> None:
    assert display(config.init()) == text


@pytest.mark.parametrize(
    ("name", "fields", "message"),
    [
        ("Celu", {"alpha": 0}, "alpha: expected a number other than 0: x is divided by it"),
        ("Softplus", {"beta": 0}, "beta: expected a number other than 0: it is divided by"),
        ("Hardtanh", {"min_val": 2}, r"min_val: expected at most max_val \(1.0\), got 2.0"),
        ("RRelu", {"lower": 0.5}, r"lower: expected at most upper \(0.33.*\), got 0.5"),
        ("SoftShrink", {"lambd": -1}, "lambd: expected a finite number >= 0"),
        ("PRelu", {"num_parameters": 0}, "num_parameters: expected an int >= 1"),
        ("Elu", {"alpha": float("inf")}, "alpha: expected"),
        ("GLU", {"dim": 64}, "dim: expected at most 63"),
    ],
)
def test_impossible_configs_are_refused(name: str, fields: dict[str, float], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        getattr(nn, f"{name}Config")(**fields)


@pytest.mark.parametrize("case", [case for case in CASES if case.reference is None], ids=lambda case: case.name)
def test_torchs_layer_gives_the_config_back(case) -> None:
    layer = case.config.init()
    twin = COUNTERPARTS[type(layer).__name__]
    assert twin.config(twin.build(layer, torch.device("cpu"))) == case.config


@pytest.mark.parametrize("config", [nn.HardSigmoidConfig(), nn.HardtanhConfig(min_val=1.0, max_val=1.0)])
def test_what_torch_cannot_say_is_refused(config: ActivationConfig) -> None:
    layer = config.init()
    with pytest.raises(NoCounterpartError, match=f"{type(layer).__name__}: .* no counterpart"):
        COUNTERPARTS[type(layer).__name__].build(layer, torch.device("cpu"))
