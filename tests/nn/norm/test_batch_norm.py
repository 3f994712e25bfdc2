"""The statistics of BatchNorm."""

import copy
from pathlib import Path

import pytest
import torch
from hypothesis import given, settings, strategies as st
from torch import Tensor, nn as torch_nn

from burnlike import Autodiff, Cpu, Tensor as Typed
from burnlike.errors import ConfigError
from burnlike.nn import BatchNorm, BatchNormConfig
from burnlike.record import load, save


def made(**options: float) -> BatchNorm:
    return BatchNormConfig(num_features=3, **options).init().double()


def draw(*shape: int) -> Tensor:
    return torch.randn(shape, dtype=torch.float64, generator=torch.Generator().manual_seed(0))


def updated(layer: BatchNorm, batches: list[Tensor]) -> tuple[Tensor, Tensor]:
    """What the running statistics are after the batches, one number at a time."""
    mean, variance, momentum = layer.running_mean.clone(), layer.running_var.clone(), layer.momentum
    for x in batches:
        flat = x.transpose(0, 1).flatten(1)
        mean = (1 - momentum) * mean + momentum * flat.mean(1)
        variance = (1 - momentum) * variance + momentum * flat.var(1, correction=0)
    return mean, variance


@settings(max_examples=20)
@given(
    st.lists(st.integers(1, 3), min_size=1, max_size=4),
    st.sampled_from([0.0, 0.1, 0.5, 1.0]),
)
def test_the_running_variance_is_of_the_divisor_n(sizes: list[int], momentum: float) -> None:
    layer = made(momentum=momentum)
    batches = [draw(sizes[0], 3, *sizes[1:]) * scale for scale in (1, 2, 3)]
    mean, variance = updated(layer, batches)
    for x in batches:
        layer(x)
    torch.testing.assert_close(layer.running_mean, mean)
    torch.testing.assert_close(layer.running_var, variance)


def test_the_output_is_torchs_and_so_is_the_running_mean() -> None:
    layer, theirs = made(momentum=0.3), torch_nn.BatchNorm2d(3, momentum=0.3).double()
    x = draw(4, 3, 2, 2)
    assert torch.equal(layer(x), theirs(x))
    assert theirs.running_mean is not None
    assert theirs.running_var is not None
    assert torch.equal(layer.running_mean, theirs.running_mean)
    n = 16
    torch.testing.assert_close(layer.running_var - 0.7, (theirs.running_var - 0.7) * (n - 1) / n)


def test_evaluation_updates_nothing_and_uses_the_statistics() -> None:
    layer = made()
    layer(draw(4, 3))
    layer.eval()
    mean, variance = layer.running_mean.clone(), layer.running_var.clone()
    x = draw(2, 3)
    torch.testing.assert_close(layer(x), (x - mean) / (variance + layer.epsilon).sqrt())
    assert torch.equal(layer.running_mean, mean)
    assert torch.equal(layer.running_var, variance)
    assert torch.equal(layer.valid()(x), layer(x))


def test_a_typed_tensor_without_autodiff_updates_in_training_mode() -> None:
    for backend in (Cpu(), Autodiff(Cpu())):
        layer = made()
        layer(Typed(draw(4, 3), backend))
        assert not torch.equal(layer.running_mean, torch.zeros(3))


def test_two_forward_passes_before_a_backward_pass() -> None:
    layer = made()
    (layer(draw(4, 3)) + layer(draw(4, 3))).sin().sum().backward()
    assert layer.gamma.grad is not None


def test_no_values_leave_the_statistics_as_they_are() -> None:
    layer = made()
    assert layer(draw(0, 3, 2)).shape == (0, 3, 2)
    assert torch.equal(layer.running_mean, torch.zeros(3).double())
    assert torch.equal(layer.running_var, torch.ones(3).double())


@pytest.mark.parametrize("shape", [(4, 3, 2), (1, 3)])
def test_compiled_training_updates_the_same(shape: tuple[int, ...]) -> None:
    torch._dynamo.reset()
    layer = made()
    compiled = torch.compile(copy.deepcopy(layer), fullgraph=True, backend="aot_eager")
    for x in (draw(*shape), draw(*shape) * 2):
        y, other = layer(x), compiled(x)
        torch.testing.assert_close(other, y)
    for name in ("running_mean", "running_var"):
        torch.testing.assert_close(getattr(compiled, name), getattr(layer, name))


def test_vmap_over_layers_updates_each() -> None:
    layers = [made(momentum=0.5), made(momentum=0.5)]
    params, buffers = torch.func.stack_module_state(list(layers))
    x = torch.stack((draw(4, 3), draw(4, 3) * 2))

    def forward(params: dict[str, Tensor], buffers: dict[str, Tensor], x: Tensor) -> Tensor:
        return torch.func.functional_call(layers[0], (params, buffers), (x,))

    y = torch.vmap(forward)(params, buffers, x)
    for index, layer in enumerate(layers):
        torch.testing.assert_close(y[index], layer(x[index]))
        torch.testing.assert_close(buffers["running_mean"][index], layer.running_mean)
        torch.testing.assert_close(buffers["running_var"][index], layer.running_var)


def test_half_precision_parameters_may_be_wider_than_x() -> None:
    layer = BatchNormConfig(num_features=3).init()
    assert layer(draw(4, 3).bfloat16()).dtype is torch.bfloat16
    assert layer(draw(1, 3).bfloat16()).dtype is torch.bfloat16


def test_statistics_are_saved(tmp_path: Path) -> None:
    layer = made()
    layer(draw(4, 3))
    other = made()
    load(other, save(layer, tmp_path / "norm.safetensors"))
    assert torch.equal(other.running_mean, layer.running_mean)
    assert torch.equal(other.running_var, layer.running_var)


@pytest.mark.parametrize("options", [{"epsilon": 0.0}, {"momentum": 1.1}, {"momentum": -0.1}])
def test_options_out_of_range_are_refused(options: dict[str, float]) -> None:
    with pytest.raises(ConfigError):
        BatchNormConfig(num_features=3, **options)
