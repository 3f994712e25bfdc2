"""Layers as MLAX's page has them: `__call__(self, x, rng, inference_mode=False)`, which returns the pair."""

import functools
from collections.abc import Callable
from typing import Any

import pytest
import torch
import torch._dynamo.testing
from torch import Tensor, nn

import burnlike as bl
from burnlike import func, mlax
from burnlike.errors import ArgumentError, EmptyParamError

from ..torch_versions import copies_in_compiled_code

X = torch.ones(4, 3)
KEY = mlax.Key(3)


class Scale(mlax.Module):
    """Needs no key."""

    def __init__(self) -> None:
        super().__init__()
        self.a = mlax.Parameter(True, torch.full((3,), 2.0))
        self.seen = mlax.Parameter(False, 0)
        self.mode: Any = None

    def __call__(self, x: Tensor, rng: Any = None, inference_mode: bool = False) -> tuple[Tensor, "Scale"]:
        self.mode = inference_mode
        if not inference_mode:
            self.seen.data = self.seen.data + 1
        return x * self.a.data, self


class Noise(mlax.Module):
    """Needs a key."""

    def __init__(self) -> None:
        super().__init__()
        self.a = mlax.Parameter(True, torch.ones(3))

    def __call__(self, x: Tensor, rng: mlax.Key, inference_mode: bool = False) -> tuple[Tensor, "Noise"]:
        return (x if inference_mode else x + self.a.data * rng.rand(x.shape)), self


class LouderNoise(Noise):
    def __call__(self, x: Tensor, rng: mlax.Key, inference_mode: bool = False) -> tuple[Tensor, Noise]:
        y, self = super().__call__(x, rng, inference_mode)
        return 2 * y, self


class Plain(nn.Module):
    """The form in a module that is not ours."""

    def __call__(self, x: Tensor, rng: mlax.Key, inference_mode: bool = False) -> tuple[Tensor, "Plain"]:
        return (x if inference_mode else x + rng.rand(x.shape)), self


class Anything(nn.Module):
    """A `__call__` that hands on what it gets, as frameworks have them."""

    def __call__(self, *args: Any, **options: Any) -> Any:
        return super().__call__(*args, **options)

    def forward(self, x: Tensor, rng: Any, inference_mode: bool = False) -> Tensor:
        return x if inference_mode else x + rng.rand(x.shape)


def ways(module: nn.Module) -> dict[str, Callable[..., Any]]:
    t, n = mlax.partition(module)
    return {
        "apply": lambda rng, mode: mlax.apply(module, X, rng, mode)[0],
        "fwd": lambda rng, mode: func.fwd(t, n, x=X, rng=rng, inference_mode=mode)[0],
        "Series": lambda rng, mode: mlax.Series([module])(X, rng, mode)[0],
        "applied Series": lambda rng, mode: mlax.Series([module]).apply(X, rng, mode)[0],
        "Parallel": lambda rng, mode: mlax.Parallel([module])([X], rng, mode)[0][0],
    }


def test_the_mode_is_passed_on() -> None:
    module = Scale()
    for call in ways(module).values():
        assert torch.equal(call(None, True), 2 * X)
        call(None, False)
    assert module.seen.data == 2  # what is called and not applied changes itself: Series and Parallel
    y, after = module.apply(X, inference_mode=True)
    assert (after.mode, after.seen.data, module.apply(X)[1].mode) == (True, 2, False)
    assert module.eval().apply(X)[1].mode is True
    assert torch.equal(y, 2 * X)


@pytest.mark.parametrize("make", [Noise, LouderNoise, Plain, Anything])
def test_a_required_key_is_handed_out(make: type[nn.Module]) -> None:
    module = make()
    factor = 2 if make is LouderNoise else 1
    for name, call in ways(module).items():
        key = KEY if name in ("apply", "fwd") else KEY.fold_in(0)
        assert torch.equal(call(KEY, False), factor * (X + key.rand(X.shape)))
        assert torch.equal(call(KEY, True), factor * X)
        with pytest.raises(ArgumentError, match=f"{make.__name__} needs a key"):
            call(None, False)
    assert torch.equal(mlax.SeriesRng([module, nn.Identity()])(X, KEY)[0], factor * (X + KEY.rand(X.shape)))


def test_the_pair_hands_the_updated_layer_on() -> None:
    series = mlax.Series([Scale(), nn.Linear(3, 3), Scale()])
    y, after = series.apply(X)
    assert [after.layers[index].seen.data.item() for index in (0, 2)] == [1, 1]
    assert [series.layers[index].seen.data.item() for index in (0, 2)] == [0, 0]
    assert torch.equal(y, 2 * series.layers[1](2 * X))


def test_layers_without_a_mode_of_their_own_follow_that_of_the_call() -> None:
    layers = [nn.Dropout(0.9), bl.nn.DropoutConfig(prob=0.9).init(), nn.Sequential(nn.Dropout(0.9)), nn.BatchNorm1d(3)]
    series = mlax.Series(layers)
    y, _ = series(X, KEY, True)
    torch.testing.assert_close(y, X, rtol=1e-5, atol=0)
    assert all(part.training for part in series.modules())
    assert layers[3].num_batches_tracked == 0
    with pytest.raises(RuntimeError):
        series(torch.ones(4, 2), KEY, True)
    assert all(part.training for part in series.modules())
    series.eval()
    assert (mlax.Parallel([layers[0]])([torch.ones(1000)], inference_mode=False)[0][0] == 0).any()


@copies_in_compiled_code
def test_calls_in_this_form_are_compiled_whole() -> None:
    series = mlax.Series([Scale(), Noise(), bl.nn.DropoutConfig(prob=0.5).init()])
    counter = torch._dynamo.testing.CompileCounter()
    compiled = torch.compile(lambda m, x, key: m.apply(x, key), fullgraph=True, backend=counter)
    for number in range(4):
        key = mlax.Key(number).fold_in(number)
        y, after = compiled(series, X, key)
        assert torch.equal(y, series.apply(X, key)[0])
        assert after.layers[0].seen.data == 1
    assert counter.frame_count <= 2


class OnThePage(mlax.Module):
    """Changes a parameter and hyperparameters in a compiled call."""

    def __init__(self) -> None:
        super().__init__()
        self.a = mlax.Parameter(True, torch.ones(3, 4))
        self.e, self.f = "abc", 0

    @functools.partial(torch.compile, fullgraph=True, backend="eager")
    def __call__(self, x: Tensor, rng: Any = None, inference_mode: bool = False) -> tuple[Tensor, "OnThePage"]:
        self.a.data = torch.zeros(3, 4)
        self.e = "bcd"
        self.e = inference_mode
        self.f += 1
        return x @ self.a.data, self


def test_a_compiled_call_changes_parameters_and_hyperparameters() -> None:
    module = OnThePage()
    y, same = module(X, inference_mode=True)
    assert same is module
    assert (module.e, module.f, y.sum()) == (True, 1, 0)
    y, after = OnThePage().apply(X)
    assert (after.e, after.f, after.a.data.sum()) == (False, 1, 0)
    part, _ = module.partition(lambda p: False)
    with pytest.raises(EmptyParamError, match="'a' of OnThePage"):
        part(X)


def loss(t: nn.Module, n: nn.Module, key: mlax.Key) -> Tensor:
    return func.fwd(t, n, x=X, rng=key)[0].square().sum()


@copies_in_compiled_code
def test_gradients_are_taken_through_it() -> None:
    t, n = mlax.Series([Scale(), Noise()]).partition()
    gradient = func.grad(loss)(t, n, KEY)
    noise = KEY.fold_in(1).rand(X.shape)
    expected = 2 * (2 * X + noise)
    torch.testing.assert_close(gradient.layers[0].a.data, expected.sum(0))
    torch.testing.assert_close(gradient.layers[1].a.data, (expected * noise).sum(0))
    compiled = torch.compile(func.grad(loss), fullgraph=True, backend="eager")(t, n, KEY)
    torch.testing.assert_close(compiled.layers[1].a.data, (expected * noise).sum(0))


def test_dropout_by_a_key() -> None:
    layer, x = bl.nn.DropoutConfig(prob=0.25).init(), torch.ones(100, 100, requires_grad=True)
    y = layer(x, KEY)
    assert torch.equal(y, layer(x, rng=KEY))
    assert torch.equal(y, layer(x, rng=mlax.Key(torch.tensor(3))))
    assert not torch.equal(y, layer(x, rng=mlax.Key(4)))
    assert y.unique().tolist() == [0, pytest.approx(1 / 0.75)]
    assert (y == 0).double().mean().item() == pytest.approx(0.25, abs=0.02)
    y.sum().backward()
    assert x.grad is not None
    assert torch.equal(x.grad, y.detach())
    assert torch.equal(torch.compile(layer, fullgraph=True, backend="aot_eager")(x, rng=KEY), y)
    assert layer(bl.Tensor(x.detach(), bl.Cpu()), rng=KEY).inner.equal(y.detach())
    assert torch.equal(layer(x, torch.Generator().manual_seed(1)), layer(x, torch.Generator().manual_seed(1)))
    assert torch.equal(layer.eval()(x, rng=KEY), x)
    assert layer.train()(x.half(), rng=KEY).dtype == torch.float16
    assert torch.equal(layer.apply(lambda _: None)(x, KEY), y)
