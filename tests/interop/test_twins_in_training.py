"""A twin trains as the layer of torch's that it was made of: in-place layers, running statistics, 16-bit types."""

import copy
import functools
import pickle
from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional

from burnlike import nn as layers
from burnlike.errors import NoCounterpartError
from burnlike.interop import from_torch, to_torch
from burnlike.interop.special_layers import INPLACE
from burnlike.interop.torch_counterparts import of_torch
from burnlike.module import params

WRITES: list[Callable[..., nn.Module]] = [
    nn.ReLU, nn.ReLU6, nn.SiLU, nn.Hardswish, nn.Hardsigmoid, nn.Hardtanh, nn.ELU, nn.CELU, nn.SELU, nn.LeakyReLU,
    nn.Mish, nn.RReLU, lambda inplace: nn.Threshold(0.1, 0.0, inplace), lambda inplace: nn.Dropout(0.5, inplace),
]  # fmt: skip


def test_all_layers_that_write_into_their_input_are_here() -> None:
    assert {type(made(inplace=True)) for made in WRITES} == {
        kind for kind, pairs in of_torch().items() if getattr(layers, pairs[0].layer) in INPLACE
    }


def trained(model: nn.Module, x: Tensor) -> tuple[Tensor, list[Tensor | None]]:
    torch.manual_seed(1)
    output = model(x)
    output.square().sum().backward()
    return output.detach(), [it.tensor.grad for it in params(model)]


@pytest.mark.parametrize("last", [False, True])
@pytest.mark.parametrize("made", WRITES)
def test_a_layer_that_writes_into_its_input_is_trained(made: Callable[..., nn.Module], last: bool) -> None:
    torch.manual_seed(0)
    model = nn.Sequential(nn.Conv1d(3, 4, 1), made(inplace=True), *([] if last else [nn.Conv1d(4, 4, 1)])).double()
    x = torch.randn(2, 3, 5, dtype=torch.float64)
    twin = from_torch(model)
    expected, gradients = trained(model, x)
    for module in (twin, copy.deepcopy(from_torch(model)), pickle.loads(pickle.dumps(from_torch(model)))):
        output, found = trained(module, x)
        torch.testing.assert_close(output, expected, rtol=1e-12, atol=1e-12)
        for one, other in zip(found, gradients, strict=True):
            torch.testing.assert_close(one, other, rtol=1e-12, atol=1e-12)
    assert type(twin[1]).__name__ == of_torch()[type(model[1])][0].layer
    for module in (model.eval(), twin.eval()):
        hidden = module[0](x)
        assert module[1](hidden) is hidden
    back = to_torch(twin)
    assert back[1].inplace
    assert [type(it) for it in back] == [type(it) for it in model]


def test_softmax_and_a_dropout_that_does_nothing() -> None:
    model = nn.Sequential(nn.Linear(3, 3), nn.Softmax(-1), nn.Dropout(0.0, inplace=True)).double()
    x = torch.randn(2, 3, dtype=torch.float64)
    for one, other in zip(trained(from_torch(model), x)[1], trained(model, x)[1], strict=True):
        assert one is not None
        assert other is not None
        torch.testing.assert_close(one if one.ndim == 1 else one.T, other, rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("kind", [nn.BatchNorm1d, nn.BatchNorm2d])
def test_running_statistics_go_on_as_torchs(kind: type[nn.Module]) -> None:
    torch.manual_seed(0)
    model: Any = kind(3, momentum=0.3).double()
    shape = (2, 3) if kind is nn.BatchNorm1d else (2, 3, 1, 2)
    twin = from_torch(nn.Sequential(model))
    for module in (model, twin, copy.deepcopy(twin), pickle.loads(pickle.dumps(twin))):
        torch.manual_seed(1)
        for _ in range(3):
            module(torch.randn(shape, dtype=torch.float64))
        module.eval()(torch.ones(shape, dtype=torch.float64))
        back = model if module is model else to_torch(module)[0]
        assert back.state_dict().keys() == model.state_dict().keys()
        for name, tensor in model.state_dict().items():
            torch.testing.assert_close(back.state_dict()[name], tensor, rtol=1e-12, atol=1e-12)
    assert model.num_batches_tracked == 3
    assert not any("batches" in name for name in twin.state_dict())


def test_a_models_running_variance_on_the_meta_device() -> None:
    model = nn.Sequential(nn.BatchNorm1d(2, device="meta"))
    assert to_torch(from_torch(model))[0].num_batches_tracked.device.type == "meta"


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32, torch.bfloat16, torch.float16])
@pytest.mark.parametrize("eps", [None, 1e-3])
def test_rms_norm_of_small_numbers(dtype: torch.dtype, eps: float | None) -> None:
    torch.manual_seed(0)
    layer = nn.RMSNorm(4, eps).to(dtype)
    x = (torch.randn(3, 4) * 1e-3).to(dtype)
    # By the formula, with the epsilon of the type that torch computes in.
    added = torch.finfo(torch.float64 if dtype == torch.float64 else torch.float32).eps if eps is None else eps
    expected = (x.double() * torch.rsqrt(x.double().square().mean(-1, keepdim=True) + added)).to(dtype)
    twin = from_torch(layer)
    steps = {torch.float64: 1e-12, torch.float32: 1e-5, torch.bfloat16: 1e-2, torch.float16: 2e-3}[dtype]
    torch.testing.assert_close(twin(x), expected, rtol=steps, atol=steps)
    torch.testing.assert_close(twin(x), layer(x), rtol=steps, atol=steps)
    assert to_torch(twin).eps == eps
    twin.epsilon = 0.5
    assert to_torch(twin).eps == 0.5


def test_what_a_program_asks_for_stays() -> None:
    model = nn.Sequential(nn.Identity(), nn.Softmax(-1), nn.ZeroPad2d(1), nn.ReflectionPad1d(1), nn.Flatten())
    assert [type(it) for it in from_torch(model)] == [type(it) for it in model]
    assert type(from_torch(nn.Identity())) is nn.Identity
    assert type(to_torch(layers.IdentityConfig().init())) is nn.Identity


def test_sizes_may_be_lists() -> None:
    x = torch.randn(2, 3, 8, 8)
    sizes: Any = [3, 3], [2, 2]
    for layer in (nn.MaxPool2d(*sizes, padding=[1, 1]), nn.AvgPool2d(*sizes), nn.AdaptiveAvgPool2d([2, 3])):  # pyright: ignore
        torch.testing.assert_close(from_torch(layer)(x), layer(x))
    unfold = nn.Unfold([2, 2], stride=[2, 2])  # pyright: ignore[reportArgumentType]
    torch.testing.assert_close(from_torch(unfold)(x), unfold(x))


class Own(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.linear = nn.Linear(3, 3)

    def forward(self, x: Tensor) -> Tensor:
        return self.linear(x)

    def other(self, x: Tensor) -> Tensor:
        return self.linear(x) + 1


def test_a_forward_of_an_object_is_refused() -> None:
    model = nn.Sequential(nn.Linear(3, 3), Own())
    model[0].forward = lambda x: x * 2
    model[1].forward = lambda x: functional.relu(x)
    with pytest.raises(NoCounterpartError) as caught:
        from_torch(model)
    assert [path for path, _ in caught.value.problems] == ["0 (Linear)", "1 (Own)"]
    assert all("forward is not that of its class" in reason for _, reason in caught.value.problems)
    twin = from_torch(nn.Sequential(nn.Linear(3, 3)))
    twin[0].forward = torch.relu
    with pytest.raises(NoCounterpartError, match="forward is not that of its class"):
        to_torch(twin)


def test_a_method_as_forward_computes_with_the_copy() -> None:
    model = Own()
    model.forward = model.other
    twin = from_torch(model)
    x = torch.randn(2, 3)
    torch.testing.assert_close(twin(x), model(x))
    with torch.no_grad():
        model.linear.weight.zero_()
    assert not torch.allclose(twin(x), model(x))
    layer = nn.Linear(3, 3)
    layer.forward = Own.other.__get__(layer)
    with pytest.raises(NoCounterpartError, match="forward is not that of its class"):
        from_torch(layer)


class Calls(nn.Module):
    """A program that computes by a function which it has been given."""

    def __init__(self, function: Callable[["Calls"], Any]) -> None:
        super().__init__()
        self.linear = nn.Linear(3, 3)
        self.functions = [function(self)]

    def doubled(self, x: Tensor) -> Tensor:
        return 2 * self.linear(x)

    def forward(self, x: Tensor) -> Tensor:
        return self.functions[0](x)


def with_default(program: Calls) -> Any:
    def function(x: Tensor, layer: nn.Module = program.linear) -> Tensor:
        return layer(x)

    return function


def within_a_function(program: Calls) -> Any:
    function = with_default(program)
    return lambda x: function(x)


@pytest.mark.parametrize("function", [lambda it: lambda x: it.doubled(x), with_default, within_a_function])
def test_a_function_around_the_originals_layers_is_refused(function: Callable[[Calls], Any]) -> None:
    """A copy would go on to compute with the original."""
    for convert in (from_torch, to_torch):
        with pytest.raises(NoCounterpartError, match="its functions is a function around the original's layers"):
            convert(nn.Sequential(Calls(function)))


def test_a_hook_around_the_originals_layers_is_refused() -> None:
    model = nn.Sequential(nn.Linear(3, 3), nn.Sequential(nn.ReLU()))
    handle = model[1].register_forward_hook(lambda module, inputs, output: model[0](output))
    with pytest.raises(NoCounterpartError, match=r"1 .*its _forward_hooks is a function around the original's layers"):
        from_torch(model)
    handle.remove()
    from_torch(model)


@pytest.mark.parametrize("function", [lambda it: it.doubled, lambda it: functools.partial(Calls.doubled, it)])
def test_a_method_and_a_partial_function_compute_with_the_copy(function: Callable[[Calls], Any]) -> None:
    twin = from_torch(Calls(function))
    with torch.no_grad():
        for param in twin.parameters():
            param.zero_()
    assert (twin(torch.ones(2, 3)) == 0).all()


@pytest.mark.parametrize("replaced", [lambda self, x: x, functools.wraps(nn.Linear.forward)(lambda self, x: x)])
def test_a_class_whose_forward_was_replaced_is_refused(
    replaced: Callable[..., Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(nn.Linear, "forward", replaced)
    with pytest.raises(NoCounterpartError, match="the forward of Linear was replaced"):
        from_torch(nn.Sequential(nn.Linear(2, 2)))
