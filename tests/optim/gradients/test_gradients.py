"""Containers of gradients: taking, registering, moving, and sums of several devices."""

from typing import Any

import pytest
import torch
from torch import nn

import burnlike as bl
from burnlike.errors import DeviceError, DTypeError, ModuleTreeError, ShapeError
from burnlike.module import ParamId, params
from burnlike.optim import GradientsParams, MultiGradientsParams


def model_of(dtype: torch.dtype = torch.float32) -> nn.Sequential:
    return nn.Sequential(nn.Linear(2, 3, dtype=dtype), nn.Linear(3, 1, dtype=dtype))


def backward(model: nn.Sequential) -> list[torch.Tensor]:
    model(torch.ones(4, 2)).sum().backward()
    return [parameter.grad for parameter in model.parameters() if parameter.grad is not None]


def test_iterating_gives_each_parameter_with_its_gradient() -> None:
    model = model_of()
    expected = backward(model)
    grads = GradientsParams.from_module(model)
    assert [param.path for param, _ in grads] == ["0.weight", "0.bias", "1.weight", "1.bias"]
    assert all(grad is want for (_, grad), want in zip(grads, expected, strict=True))
    assert len(grads) == 4
    assert not grads.is_empty()
    assert GradientsParams().is_empty()


def test_the_gradients_of_some_parameters_are_taken_and_the_others_stay() -> None:
    model = model_of()
    expected = backward(model)
    weight, bias, *_ = params(model)
    grads = GradientsParams.from_params(model, [bias.id, str(weight.id), ParamId(77)])
    assert [param.path for param, _ in grads] == ["0.weight", "0.bias"]
    assert grads.get(bias.id) is expected[1]
    assert model[0].weight.grad is None
    assert model[1].weight.grad is expected[2]
    assert GradientsParams.from_params(model, [weight.id]).is_empty(), "it is taken already"
    with pytest.raises(ValueError, match="weight"):
        GradientsParams.from_params(model, ["0.weight"])


def test_the_gradients_of_some_parameters_are_taken_out_of_a_typed_backward_pass() -> None:
    model = model_of()
    found = model(bl.Tensor(torch.ones(4, 2), bl.Autodiff(bl.Cpu()))).sum().backward()
    weight, *others = params(model)
    grads = GradientsParams.from_params(model, [weight.id], grads=found)
    assert [param.path for param, _ in grads] == ["0.weight"]
    assert len(GradientsParams.from_grads(found, model)) == len(others)


def test_registering_replaces_and_removing_takes_out() -> None:
    model = model_of()
    backward(model)
    grads = GradientsParams.from_module(model)
    weight, bias, *_ = params(model)
    other = torch.zeros(3, 2)
    grads.register(weight, other)
    assert grads.get(weight) is other
    assert len(grads) == 4
    assert grads.remove(weight.id) is other
    assert weight not in grads
    assert bias in grads
    assert [param.path for param in grads.params] == ["0.bias", "1.weight", "1.bias"]
    assert len(grads.values) == 3


@pytest.mark.parametrize(
    ("grad", "error", "message"),
    [
        (torch.ones(2, 3), ShapeError, r"the gradient of '0\.weight' has shape \[2, 3\], expected \[3, 2\]"),
        (torch.ones(3, 2).half(), DTypeError, r"has dtype torch\.float16, expected torch\.float32"),
        (torch.ones(3, 2, device="meta"), DeviceError, "is on 'meta', expected 'cpu'"),
    ],
)
def test_a_gradient_that_does_not_fit_is_refused(grad: torch.Tensor, error: type[Exception], message: str) -> None:
    grads = GradientsParams()
    with pytest.raises(error, match=message):
        grads.register(params(model_of())[0], grad)
    assert grads.is_empty()


def test_gradients_move_with_their_module_and_others_stay() -> None:
    model, other = model_of(), model_of()
    backward(model)
    grads = GradientsParams.from_module(model)
    foreign = params(other)[0]
    grads.register(foreign, torch.ones(3, 2))
    assert grads.to_device("meta", model) is grads
    assert [grad.device.type for _, grad in grads] == ["meta"] * 4 + ["cpu"]


def test_thousands_of_gradients_are_looked_up_and_removed_quickly() -> None:
    model = nn.ParameterList([nn.Parameter(torch.zeros(1)) for _ in range(5000)])
    grads = GradientsParams()
    every = params(model)
    for param in every:  # a list that is searched each time would take minutes here
        grads.register(param, torch.ones(1))
    assert all(grads.remove(param) is not None for param in every)
    assert grads.is_empty()


def replicas(model: nn.Sequential, count: int) -> tuple[MultiGradientsParams, list[list[torch.Tensor]]]:
    multi, given = MultiGradientsParams(), []
    for _ in range(count):
        grads = GradientsParams()
        for param in params(model):
            grads.register(param, torch.randn(param.tensor.shape))
        given.append(grads.values)
        multi.add(grads)
    return multi, given


def test_gradients_of_several_devices_are_summed_for_a_step() -> None:
    model = model_of()
    multi, given = replicas(model, 3)
    weight = params(model)[0]
    multi.containers[1].remove(weight)
    summed = multi.summed(model)
    torch.testing.assert_close(summed.get(weight), given[0][0] + given[2][0])
    torch.testing.assert_close(summed.values[3], given[0][3] + given[1][3] + given[2][3])
    assert all(grads.is_empty() for grads in multi.containers)
    assert multi.remove(weight) is None
    assert MultiGradientsParams().remove(weight) is None


def test_the_sum_begins_at_the_container_that_the_id_says() -> None:
    model = model_of()
    multi, given = replicas(model, 3)
    weight, bias, *_ = params(model)
    start = weight.id.value % 3
    only = MultiGradientsParams()
    for grads in multi.containers:
        only.add(grads)
    for place in range(3):
        if place != start:
            only.containers[place].remove(weight)
    assert only.remove(weight) is given[start][0]
    assert only.remove(bias) is not None


def test_a_parameter_is_named_by_its_param_or_its_id() -> None:
    model = model_of()
    backward(model)
    grads = GradientsParams.from_module(model)
    weight = params(model)[0]
    assert grads.get(weight) is grads.get(weight.id) is not None
    wrong: Any = model[0].weight
    with pytest.raises(ModuleTreeError, match=r"expected a Param or a ParamId, .* got a Parameter"):
        grads.get(wrong)
