"""Sequences, keys and layers, also with calls as on MLAX's page: (x, rng, inference_mode) and the module back."""

import functools
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
import torch._dynamo.testing
from torch import Tensor, nn

import burnlike as bl
from burnlike import Param, func, mlax
from burnlike.errors import ArgumentError, EmptyParamError, RecordMismatchError
from tests.conftest import tensor_of

from ..torch_versions import copies_in_compiled_code
from .samples import Foo, paths, tensors, values


def test_63_ids_stay_when_a_sequence_is_indexed_anew(tmp_path: Path) -> None:
    seq = mlax.ModuleSeq([Foo(2, 2), mlax.Parameter(True, torch.ones(2)), Foo(2, 2)])
    old_state, old, ids = seq.state_dict(), values(seq), [leaf.id for leaf in seq.leaves()]
    tensor = seq[1].data
    seq.save(tmp_path / "seq.safetensors")
    del seq[0]
    assert seq[0].data is tensor
    assert seq[0].trainable is True
    assert [leaf.id for leaf in seq.leaves()] == ids[1:]
    assert paths(seq) == ["0", "1.w"]
    assert [*seq.state_dict()] == ["0", "1.w"]
    with pytest.raises(RuntimeError, match=r'Missing key.*"0", "1\.w"'):
        seq.load_state_dict(old_state)
    zeros = seq.map(lambda p: torch.zeros_like(p.data))
    with pytest.raises(RecordMismatchError):
        zeros.load(tmp_path / "seq.safetensors")
    report = zeros.load(tmp_path / "seq.safetensors", match="id", strict=False)
    assert (report.applied, report.missing, report.unexpected) == (["0", "1.w"], [], ["0.w"])
    assert torch.equal(zeros[0].data, old["1"])
    assert torch.equal(zeros[1].w.data, old["2.w"])


def test_63_several_tensors_move_along_too() -> None:
    seq = mlax.ModuleSeq([Foo(2, 2), mlax.Parameter(False, [1.0, 2.0], "pair"), mlax.Parameter(False, 3)])
    ids = [leaf.id for leaf in seq.leaves()]
    seq.reverse()
    assert [leaf.id for leaf in seq.leaves()] == ids[::-1]
    assert (seq[1].data, seq[1].name, seq[0].data) == ([1.0, 2.0], "pair", 3)
    seq.insert(1, mlax.Parameter(True, None))
    t, _ = seq.partition()
    del t[0]
    assert [leaf.is_hole for leaf in t.leaves(holes=True)] == [False, True, False]
    assert [leaf.id for leaf in t.leaves(holes=True)][1:] == ids[1::-1]


def test_63_an_item_that_is_taken_out_is_what_was_there() -> None:
    seq = mlax.ModuleSeq([mlax.Parameter(True, 1.0, "one"), Foo(2, 2), mlax.Parameter(False, [2.0], "two")])
    ids = [leaf.id for leaf in seq.leaves()]
    first, last = seq.pop(0), seq.pop()
    assert (first.data, first.name, first.id, first.trainable) == (1, "one", ids[0], True)
    assert (last.data, last.name, last.id, last.trainable) == ([2.0], "two", ids[2], False)
    assert paths(seq) == ["0.w"]
    seq.append(first)
    assert seq[1].data is first.data
    m = Named("x", 0)
    m.named = {"p": mlax.Parameter(True, 1.0), "f": Foo(2, 2)}
    assert m.named.pop("p").data == 1
    assert m.named.pop("p", None) is None
    assert paths(m.named) == ["f.w"]


def test_64_an_item_that_is_no_module_is_refused_by_its_index() -> None:
    seq = mlax.ModuleSeq([Foo()])
    for change in (
        lambda: seq.append(3),
        lambda: seq.insert(1, 3),
        lambda: seq.extend([3]),
        lambda: mlax.ModuleSeq([Foo(), 3]),
    ):
        with pytest.raises(TypeError, match=r"item 1 of a ModuleSeq.*int"):
            change()
    with pytest.raises(TypeError, match=r"item 0 of a ModuleSeq.*Tensor"):
        seq[0] = torch.zeros(1)
    assert paths(seq) == ["0.w"]


def test_64_copies_of_a_sequence_are_lists_of_their_own() -> None:
    seq = mlax.ModuleSeq([Foo()])
    for other in (seq.filter(...), seq.map(lambda p: p), seq.combine()):
        other.append(Foo())
        assert (len(other), len(seq)) == (2, 1)
        assert paths(other) == ["0.w", "1.w"]


def test_64_copies_of_a_dict_are_dicts_of_their_own() -> None:
    m = Foo()
    m.named = {"p": mlax.Parameter(True, 1.0), "f": Foo()}
    for other in (m.filter(...), m.map(lambda p: p), m.combine(), m.valid()):
        other.named["new"] = Foo()
        del other.named["p"]
        assert [*m.named] == ["p", "f"]
        assert [*other.named] == ["f", "new"]


class Named(mlax.ModuleSeq):
    def __init__(self, label: str, count: int) -> None:
        self.label = label
        self.head = Foo(2, 2)
        super().__init__(Foo(2, 2) for _ in range(count))


def test_65_other_fields_of_a_sequence_survive() -> None:
    m = Named("x", 3)
    assert {*paths(m)} == {"head.w", "0.w", "1.w", "2.w"}
    new = m.map(lambda p: 2 * p.data)
    assert type(new) is Named
    assert (new.label, len(new)) == ("x", 3)
    assert torch.equal(new.head.w.data, 2 * m.head.w.data)
    part = m[1:]
    assert type(part) is mlax.ModuleSeq
    assert [*part] == [m[1], m[2]]


def test_66_any_iterable_of_layers_will_do() -> None:
    layers = [Foo(2, 2), Foo(2, 2)]
    for made in (mlax.ModuleSeq(iter(layers)), mlax.Series(iter(layers)).layers, mlax.Parallel(iter(layers)).layers):
        assert [*made] == layers


def test_67_parallel_layers_need_an_input_each() -> None:
    m = mlax.Parallel([Foo(2, 2) for _ in range(3)])
    inputs = [torch.randn(1, 2) for _ in range(3)]
    outputs, _ = m.apply(inputs)
    for output, layer, x in zip(outputs, m.layers, inputs, strict=True):
        assert torch.equal(output, x @ layer.w.data)
    with pytest.raises(ValueError, match="3 layers need as many inputs, got 2"):
        m.apply(inputs[:2])


class Noise(mlax.Module):
    """Needs a key."""

    def forward(self, x: Tensor, rng: mlax.Key, inference_mode: bool = False) -> tuple[Tensor, "Noise"]:
        return x + torch.rand(x.shape, generator=rng.generator()), self


class Records(mlax.Module):
    """Shows which key it gets."""

    def __init__(self) -> None:
        self.met: list[Any] = []


class Needing(Records):
    def forward(self, x: Tensor, rng: Any) -> Tensor:
        self.met.append(rng)
        return x


class Optional(Records):
    def forward(self, x: Tensor, rng: Any = None) -> Tensor:
        self.met.append(rng)
        return x


class Without(Records):
    def forward(self, x: Tensor) -> Tensor:
        self.met.append("none taken")
        return x


def test_68_keys_are_split_among_the_layers_that_need_one() -> None:
    key, x = mlax.Key(7), torch.zeros(3)
    layers = mlax.SeriesRng([Needing(), Optional(), Without()]).apply(x, key)[1].layers
    assert [layer.met for layer in layers] == [[key], [None], ["none taken"]]
    layers = mlax.SeriesRng([Needing(), Optional(), Needing()]).apply(x, key)[1].layers
    assert layers[1].met == [None]
    assert len({key, layers[0].met[0], layers[2].met[0]}) == 3
    assert (layers[0].met[0], layers[2].met[0]) == key.split(2)


def test_68_other_layers_do_not_change_the_noise() -> None:
    key, x = mlax.Key(7), torch.zeros(3)
    y, _ = mlax.SeriesRng([Noise(), Noise()]).apply(x, key)
    again, _ = mlax.SeriesRng([Noise(), Without(), Noise(), nn.Identity()]).apply(x, key)
    assert torch.equal(y, again)
    assert not torch.equal(y, mlax.SeriesRng([Noise(), Noise()]).apply(x, mlax.Key(8))[0])
    many, _ = mlax.ParallelRng([Noise(), Noise()]).apply([x, x], key)
    assert not torch.equal(many[0], many[1])


def test_68_series_makes_a_key_of_each_position() -> None:
    key, x = mlax.Key(7), torch.zeros(3)
    layers = mlax.Series([Needing(), Optional(), Without(), Needing()]).apply(x, key)[1].layers
    assert [layer.met for layer in layers] == [
        [key.fold_in(0)],
        [key.fold_in(1)],
        ["none taken"],
        [key.fold_in(3)],
    ]


def test_68_keys_are_functions_of_their_seed() -> None:
    key = mlax.Key(3)
    made = [key, *key.split(4), *(key.fold_in(index) for index in range(4)), mlax.Key(4), *mlax.Key(4).split(2)]
    assert len({*made}) == len(made)
    assert key.split(2) == key.split(4)[:2]
    assert torch.equal(torch.rand(4, generator=key.generator()), torch.rand(4, generator=mlax.Key(3).generator()))


def test_69_a_layer_that_needs_a_key_says_so() -> None:
    with pytest.raises(ValueError, match="Noise needs a key"):
        Noise().apply(torch.zeros(1))
    for kind in (mlax.Series, mlax.SeriesRng):
        with pytest.raises(ValueError, match=r"(layer 1 Noise|SeriesRng) needs a key"):
            kind([nn.Identity(), Noise()]).apply(torch.zeros(1))


def test_70_a_lazy_layer_is_initialized_once_for_all_views() -> None:
    calls: list[int] = []

    def init(device: torch.device) -> Tensor:
        calls.append(1)
        return torch.randn(2, 2, device=device)

    class Lazy(mlax.Module):
        def __init__(self) -> None:
            self.w = Param.uninitialized(init, (2, 2), name="W")
            self.s = mlax.Parameter(False, 1.0)

        def forward(self, x: Tensor) -> Tensor:
            return x @ self.w.data * self.s.data

    m, x = Lazy(), torch.ones(1, 2)
    assert not m.w.is_initialized()
    t, n = m.partition()
    early = t.combine(n)
    y = early(x)
    assert calls == [1]
    assert m.w.is_initialized()
    t2, n2 = m.partition()
    for module in (m, t.combine(n2), t2.combine(n), n.combine(t)):
        assert torch.equal(module(x), y)
    assert m.w.name == "W"
    assert calls == [1]


def test_70_a_layer_of_torch_without_shape_is_taken_apart_and_put_together() -> None:
    m = nn.Sequential(nn.LazyLinear(2), Foo(2, 2))
    m.handle = m.register_forward_hook(lambda *_: None)
    t, n = mlax.partition(m, lambda p: p.path.startswith("0"))
    whole = mlax.combine(t, n, strict=True)
    assert whole(torch.ones(1, 3)).shape == (1, 2)
    assert [leaf.id for leaf in mlax.leaves(whole)] == [leaf.id for leaf in mlax.leaves(m)]


class BatchNorm(mlax.Module):
    """As in MLAX: new = momentum * old + (1 - momentum) * batch, of the biased variance."""

    def __init__(self, features: int, epsilon: float, momentum: float) -> None:
        self.gamma = mlax.Parameter(True, torch.ones(features))
        self.beta = mlax.Parameter(True, torch.zeros(features))
        self.running_mean = mlax.Parameter(False, torch.zeros(features), kind="state")
        self.running_var = mlax.Parameter(False, torch.ones(features), kind="state")
        self.epsilon, self.momentum = epsilon, momentum

    def forward(self, x: Tensor, rng: Any = None, inference_mode: bool = False) -> tuple[Tensor, "BatchNorm"]:
        mean, var = self.running_mean.data, self.running_var.data
        if not inference_mode:
            mean, var = x.mean((0, 2)), x.var((0, 2), unbiased=False)
            for running, batch in ((self.running_mean, mean), (self.running_var, var)):
                running.data = self.momentum * running.data + (1 - self.momentum) * batch
        scaled = (x - mean[:, None]) / torch.sqrt(var[:, None] + self.epsilon)
        return scaled * self.gamma.data[:, None] + self.beta.data[:, None], self


def test_71_batch_norm_has_burns_numbers(golden: Callable[[str], dict[str, Any]]) -> None:
    expected = golden("batch_norm")
    m = BatchNorm(3, expected["config"]["epsilon"], 1 - expected["config"]["momentum"])
    m.load_state_dict({it["path"]: tensor_of(it) for it in expected["params"]})
    x = tensor_of(expected["inputs"]["input"])
    before = tensors(m)
    y, updated = m.apply(x)
    outputs = {name: tensor_of(it) for name, it in expected["outputs"].items()}
    torch.testing.assert_close(y, outputs["output"])
    torch.testing.assert_close(updated.running_mean.data, outputs["running_mean_after"])
    torch.testing.assert_close(updated.running_var.data, outputs["running_var_after"])
    assert all(it is before[name] for name, it in tensors(m).items())
    assert not updated.running_var.data.requires_grad
    n = x.numel() / 3
    theirs = nn.BatchNorm1d(3, eps=1e-4, momentum=0.1)
    theirs.load_state_dict(
        {
            "weight": m.gamma.data,
            "bias": m.beta.data,
            "running_mean": m.running_mean.data,
            "running_var": m.running_var.data,
            "num_batches_tracked": torch.tensor(0),
        }
    )
    torch.testing.assert_close(theirs(x), y)
    kept = 0.9 * m.running_var.data
    torch.testing.assert_close((theirs.running_var - kept) * (n - 1) / n, updated.running_var.data - kept)
    quiet, same = updated.apply(x, inference_mode=True)
    assert torch.equal(same.running_var.data, updated.running_var.data)
    torch.testing.assert_close(quiet, theirs_in_evaluation(updated, x))


def theirs_in_evaluation(m: BatchNorm, x: Tensor) -> Tensor:
    return nn.functional.batch_norm(
        x, m.running_mean.data, m.running_var.data, m.gamma.data, m.beta.data, eps=m.epsilon
    )


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


class NoiseOfMlax(mlax.Module):
    """Needs a key."""

    def __init__(self) -> None:
        super().__init__()
        self.a = mlax.Parameter(True, torch.ones(3))

    def __call__(self, x: Tensor, rng: mlax.Key, inference_mode: bool = False) -> tuple[Tensor, "Noise"]:
        return (x if inference_mode else x + self.a.data * rng.rand(x.shape)), self


class LouderNoise(NoiseOfMlax):
    def __call__(self, x: Tensor, rng: mlax.Key, inference_mode: bool = False) -> tuple[Tensor, NoiseOfMlax]:
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


@pytest.mark.parametrize("make", [NoiseOfMlax, LouderNoise, Plain, Anything])
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
    series = mlax.Series([Scale(), NoiseOfMlax(), bl.nn.DropoutConfig(prob=0.5).init()])
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
    t, n = mlax.Series([Scale(), NoiseOfMlax()]).partition()
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
