"""Twins train as the layers of torch that they were made of, also as twins of derived classes."""

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
from burnlike.interop import from_torch, register_twin, to_torch
from burnlike.interop.registered_classes import INPLACE
from burnlike.interop.torch_counterparts import of_torch
from burnlike.module import params
from burnlike.record import NamedMpkFileRecorder, Record

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


class NormAct(nn.BatchNorm1d):
    """As timm has it: a norm with modules, a parameter, a buffer and options of its own."""

    def __init__(self, size: int) -> None:
        super().__init__(size)
        self.drop: nn.Module = nn.Identity()
        self.act = nn.ReLU(inplace=True)
        self.gain = nn.Parameter(torch.full((size,), 2.0))
        self.register_buffer("shift", torch.ones(size))
        self.scales = [0.5]
        self.slow = False

    def forward(self, input: Tensor) -> Tensor:
        return self.act(self.drop(super().forward(input) * self.gain + self.shift)) * self.scales[0]


class NormActTwin(layers.BatchNorm):
    gain: Tensor
    shift: Tensor
    scales: Any
    act: nn.Module
    drop: nn.Module

    def forward(self, x: Tensor) -> Tensor:
        return self.act(self.drop(super().forward(x) * self.gain + self.shift)) * self.scales[0]


def expect_fast(layer: Any) -> None:
    if layer.slow:
        raise NoCounterpartError("slow=True has no counterpart")


class Lookup(nn.Module):
    """A program that calls `nn.LSTM` as torch's."""

    def __init__(self) -> None:
        super().__init__()
        self.lstm = nn.LSTM(3, 4, batch_first=True)
        self.head = nn.Linear(4, 2)

    def forward(self, x: Tensor) -> Tensor:
        return self.head(self.lstm(x)[0])


class LookupTwin(Lookup):
    def forward(self, x: Tensor) -> Tensor:
        output, _ = self.lstm(x)
        return self.head(output)


class Squared(nn.Linear):
    def forward(self, input: Tensor) -> Tensor:
        return super().forward(input).square()


class SquaredTwin(layers.Linear):
    def forward(self, x: Tensor) -> Tensor:
        return super().forward(x).square()


class Reads(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.squared = Squared(3, 3)

    def forward(self, x: Tensor) -> Tensor:
        return functional.linear(self.squared(x), self.squared.weight)


register_twin(NormAct, NormActTwin, expect_fast)
register_twin(Lookup, LookupTwin)
register_twin(Squared, SquaredTwin)


def model_of(*parts: nn.Module) -> nn.Module:
    model = nn.Sequential(*parts).double()
    with torch.no_grad():
        for param in model.parameters():
            param.add_(torch.randn_like(param) * 0.1)
    return model


def step(model: nn.Module, x: Tensor) -> Tensor:
    output = model(x)
    output.square().sum().backward()
    torch.optim.SGD(model.parameters(), lr=0.1).step()
    return output.detach()


def expect_same(one: nn.Module, other: nn.Module) -> None:
    assert [(name, type(it)) for name, it in one.named_modules()] == [
        (name, type(it)) for name, it in other.named_modules()
    ]
    assert list(one.state_dict()) == list(other.state_dict())
    for name, tensor in other.state_dict().items():
        torch.testing.assert_close(one.state_dict()[name], tensor, rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("make", [NormAct, lambda size: Squared(size, 3), lambda size: Reads(), lambda size: Lookup()])
def test_there_a_step_of_training_and_back(make: Any) -> None:
    torch.manual_seed(0)
    model = model_of(nn.Linear(3, 3), make(3))
    x = torch.randn(5, 3, dtype=torch.float64)
    x = x.view(1, 5, 3) if isinstance(model[1], Lookup) else x
    ids = [(it.path, it.id) for it in params(model) if it.path.startswith("0.")]
    twin = from_torch(model)
    assert isinstance(twin[1], NormActTwin | SquaredTwin | LookupTwin | Reads)
    assert [(it.path, it.id) for it in params(twin) if it.path.startswith("0.")] == ids
    expect_same(to_torch(twin), model)
    twin = pickle.loads(pickle.dumps(twin))
    torch.testing.assert_close(step(twin, x), step(model, x), rtol=1e-12, atol=1e-12)
    expect_same(to_torch(twin), model)
    torch.testing.assert_close(to_torch(twin.eval())(x), model.eval()(x), rtol=1e-12, atol=1e-12)
    torch.testing.assert_close(twin(x), model(x), rtol=1e-12, atol=1e-12)
    again = from_torch(make(3).double())
    record = NamedMpkFileRecorder().from_bytes(NamedMpkFileRecorder().to_bytes(Record.from_module(twin[1])))
    record.load_into(again)
    for one, other in zip(params(again), params(twin[1]), strict=True):
        assert torch.equal(one.tensor, other.tensor)


def test_what_a_class_adds_is_converted_and_copied() -> None:
    layer = NormAct(3)
    layer.drop = nn.Sequential(nn.Linear(3, 3))
    twin = from_torch(nn.Sequential(layer, layer))
    assert twin[0] is twin[1]
    assert isinstance(twin[0].drop[0], layers.Linear)
    assert twin[0].scales == [0.5]
    assert twin[0].scales is not layer.scales
    assert twin[0].gain is not layer.gain
    assert [it.path for it in params(twin[0])][:4] == ["gamma", "beta", "running_mean", "running_var"]
    back = to_torch(twin)
    assert back[0] is back[1]
    assert vars(back[0]).keys() - {"_burnlike"} == vars(layer).keys()


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        (lambda it: setattr(it, "slow", True), "slow=True has no counterpart"),
        (lambda it: setattr(it, "epsilon", 1.0), "'epsilon' has the name of one of the twin's"),
        (lambda it: setattr(it, "act", nn.Dropout2d()), r"0\.act \(Dropout2d\): burnlike has no such layer"),
        (lambda it: it.register_forward_hook(print), "hooks"),
        (lambda it: setattr(it, "forward", torch.relu), "its forward is not that of its class"),
    ],
)
def test_what_has_no_counterpart(change: Any, reason: str) -> None:
    layer = NormAct(3)
    change(layer)
    with pytest.raises(NoCounterpartError, match=reason):
        from_torch(nn.Sequential(layer))


def test_a_class_derived_from_a_registered_one_is_refused() -> None:
    class More(NormAct):
        pass

    with pytest.raises(NoCounterpartError, match="name its twin by register_twin"):
        from_torch(nn.Sequential(More(3)))


@pytest.mark.parametrize(
    ("theirs", "ours", "message"),
    [
        (nn.Linear, SquaredTwin, "Linear is a layer of torch's"),
        (Squared, layers.BatchNorm, r"to be derived from burnlike.nn.linear.Linear, got"),
        (Squared, layers.Linear, "to be derived from"),
        (type("Other", (nn.Linear,), {}), SquaredTwin, "is the twin of Squared already"),
        (type("Reader", (nn.LSTM,), {}), layers.Lstm, "register the class that calls it"),
        (Reads, Lookup, "to be derived from .*Reads"),
        (Reads, 3, "expected two classes of modules, got 3"),
    ],
)
def test_what_can_not_be_registered(theirs: Any, ours: Any, message: str) -> None:
    with pytest.raises(TypeError, match=message):
        register_twin(theirs, ours)


def test_a_later_registration_takes_the_place() -> None:
    class Doubled(nn.Linear):
        def forward(self, input: Tensor) -> Tensor:
            return super().forward(input) * 2

    class Wrong(layers.Linear):
        pass

    class Right(layers.Linear):
        def forward(self, x: Tensor) -> Tensor:
            return super().forward(x) * 2

    register_twin(Doubled, Wrong)
    register_twin(Doubled, Right)
    layer, x = Doubled(2, 2), torch.ones(1, 2)
    torch.testing.assert_close(from_torch(layer)(x), layer(x))
