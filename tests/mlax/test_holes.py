"""Holes: what filter leaves, what may be done with them, and that modules don't compute as if nothing were missing."""

import copy
import gc
import pickle
import weakref
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn

import burnlike as bl
from burnlike import func, mlax
from burnlike.errors import EmptyParamError, RecordMismatchError
from burnlike.module import Param

from ..torch_versions import copies_in_compiled_code
from .samples import FROZEN, PATHS, TRAINABLE, Bar, by_path, paths


def test_18_a_hole_cannot_be_written() -> None:
    m = Bar()
    _, n = m.partition()
    with pytest.raises(EmptyParamError, match=r"'a' of Bar"):
        n.a.data = torch.zeros(3, 4)
    assert paths(n) == FROZEN
    assert paths(m.partition()[1]) == FROZEN
    assert paths(m) == PATHS


def test_19_a_hole_cannot_be_read_or_computed_with() -> None:
    _, n = Bar().partition()
    with pytest.raises(EmptyParamError, match=r"'a' of Bar"):
        n.a.val()
    with pytest.raises(EmptyParamError, match=r"'a' of Bar"):
        F.linear(torch.zeros(1, 4), n.a)
    with pytest.raises(EmptyParamError, match=r"'a' of Bar"):
        _ = torch.zeros(1, 3) @ n.a
    with pytest.raises(EmptyParamError, match=r"'g\.0\.w' of Foo"):
        by_path(n)["g.0.w"].val()
    assert n.a.data is None


def test_20_holes_are_shown_to_no_function() -> None:
    m = Bar()
    t, _ = m.partition()
    met: list[str] = []

    def ask(param: mlax.Parameter) -> bool:
        met.append(param.path)
        assert not param.is_hole
        return not param.trainable

    assert paths(t.filter(ask)) == []
    assert met == TRAINABLE
    again, rest = t.partition()
    assert paths(again) == TRAINABLE
    assert paths(rest) == []
    met.clear()
    doubled = t.map(lambda p: met.append(p.path) or 2 * p.data)
    assert met == TRAINABLE
    assert paths(doubled) == TRAINABLE
    assert [leaf.id for leaf in doubled.leaves(holes=True)] == [leaf.id for leaf in m.leaves()]


def test_20_map_may_fill_holes() -> None:
    t, n = Bar().partition()
    filled = t.map(lambda p: torch.zeros(1) if p.path == "b" else p, include_empty=True)
    assert paths(filled) == ["a", "b", "f.w", "g.0.w"]
    assert filled.b.data.tolist() == [0]
    assert filled.b.trainable is False
    assert n.b.data.tolist()[0][0] == 0.5


def test_21_a_hole_is_neither_trainable_nor_not() -> None:
    m = Bar()
    t, n = m.partition()
    assert not mlax.is_trainable(n.a)
    assert not mlax.is_non_trainable(n.a)
    assert not mlax.is_trainable(t.b)
    assert mlax.is_parameter(n.a)
    assert mlax.is_non_trainable(m.b)
    assert not mlax.is_non_trainable(m.a)


def test_22_an_uninitialized_parameter_is_no_hole() -> None:
    class Lazy(mlax.Module):
        def __init__(self) -> None:
            self.w = mlax.Parameter(True, None, "W")
            self.s = mlax.Parameter(False, None, kind="state")

    before, after = Lazy(), Lazy()
    after.w.data = torch.ones(2)
    after.s.data = torch.ones(2)
    assert (after.w.trainable, after.w.requires_grad, after.w.kind) == (True, True, "weight")
    assert (after.s.trainable, after.s.requires_grad, after.s.kind) == (False, False, "state")
    assert not before.w.is_hole
    t, n = before.partition()
    assert (t.w.trainable, t.w.data, t.w.name) == (True, None, "W")
    assert t.s.is_hole
    assert (n.s.trainable, n.s.kind) == (False, "state")
    whole = t.combine(n, strict=True)
    assert (whole.w.trainable, whole.s.trainable) == (True, False)
    assert t.combine(after).w.data is None
    assert n.combine(after).w.data is after.w.data
    with pytest.raises(EmptyParamError, match=r"'w' of Lazy has no data yet"):
        t.w.val()


def test_23_data_without_trainability_is_refused() -> None:
    with pytest.raises(ValueError, match=r"marks a hole"):
        mlax.Parameter(None, torch.ones(1))


def test_24_torch_and_records_see_no_holes(tmp_path: Path) -> None:
    m = Bar()
    t, n = m.partition()
    assert [id(it) for it in t.parameters()] == [id(m.a.data), id(m.f.w.data), id(m.g[0].w.data)]
    assert len([*n.parameters()]) == 2
    assert [*t.state_dict()] == TRAINABLE
    with pytest.raises(RuntimeError, match=r'Unexpected key.*"b", "c.0", "c.1", "c.2", "g.1"'):
        t.load_state_dict(m.state_dict())
    assert [*t.into_record().tensors] == TRAINABLE
    t.save(tmp_path / "t.safetensors")
    other = Bar()
    with pytest.raises(RecordMismatchError, match=r"b"):
        other.load(tmp_path / "t.safetensors")
    assert not torch.equal(other.a.data, m.a.data)
    other.load(tmp_path / "t.safetensors", strict=False)
    assert torch.equal(other.a.data, m.a.data)
    t.map(torch.zeros_like).load(tmp_path / "t.safetensors")


def test_25_holes_keep_ids() -> None:
    m = Bar()
    ids = {path: leaf.id for path, leaf in by_path(m).items()}
    for part in m.partition():
        assert {path: leaf.id for path, leaf in by_path(part).items()} == ids
    assert all(isinstance(leaf, Param) for leaf in m.leaves())


X = torch.ones(2, 3)
IMAGE = torch.ones(2, 4, 5, 5)
WORDS = torch.tensor([[1, 2, 0]])


class OwnTorch(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.a = nn.Parameter(torch.ones(3))
        self.b = nn.Parameter(torch.ones(3))

    def forward(self, x: Tensor) -> Tensor:
        return x * self.a if self.b is None else x * self.a + self.b


class OwnMlax(mlax.Module):
    def __init__(self) -> None:
        self.a = mlax.Parameter(True, torch.ones(3))
        self.b = mlax.Parameter(True, torch.ones(3))

    def forward(self, x: Tensor) -> Tensor:
        return x * self.a.data + self.b.data


class OwnCall(OwnMlax):
    """In the form of MLAX's page."""

    def __call__(self, x: Tensor, rng: Any = None, inference_mode: bool = False) -> tuple[Tensor, "OwnCall"]:
        return x * self.a.data + self.b.data, self


class ReadsItsParts(nn.Module):
    """Computes with the parameters of its layer, without calling it."""

    def __init__(self) -> None:
        super().__init__()
        self.layer = nn.Linear(3, 3)

    def forward(self, x: Tensor) -> Tensor:
        return F.linear(x, self.layer.weight, self.layer.bias)


class InAList(mlax.Module):
    def __init__(self) -> None:
        self.items = [OwnMlax(), mlax.Parameter(True, torch.ones(3))]

    def forward(self, x: Tensor) -> Tensor:
        return x + (0 if self.items[1].data is None else self.items[1].data)


def language_model() -> nn.Module:
    return bl.nn.DecoderLmConfig(vocab_size=4, max_sequence_length=8, d_model=4, n_layers=1, n_heads=2, d_ff=4).init()


LAYERS: dict[str, tuple[Callable[[], nn.Module], Any]] = {
    "Linear": (lambda: nn.Linear(3, 2), X),
    "Sequential": (lambda: nn.Sequential(nn.Linear(3, 2), nn.Tanh(), nn.Linear(2, 2)), X),
    "Bilinear": (lambda: nn.Bilinear(3, 3, 2), (X, X)),
    "LayerNorm": (lambda: nn.LayerNorm(3), X),
    "GroupNorm": (lambda: nn.GroupNorm(2, 4), IMAGE),
    "RMSNorm": (lambda: nn.RMSNorm(3), X),
    "InstanceNorm": (lambda: nn.InstanceNorm2d(4, affine=True, track_running_stats=True), IMAGE),
    "BatchNorm": (lambda: nn.BatchNorm2d(4), IMAGE),
    "BatchNorm in evaluation": (lambda: nn.BatchNorm2d(4).eval(), IMAGE),
    "Conv1d": (lambda: nn.Conv1d(5, 2, 3), IMAGE[0]),
    "Conv2d": (lambda: nn.Conv2d(4, 2, 3), IMAGE),
    "ConvTranspose2d": (lambda: nn.ConvTranspose2d(4, 2, 3), IMAGE),
    "Embedding": (lambda: nn.Embedding(4, 3), WORDS),
    "EmbeddingBag": (lambda: nn.EmbeddingBag(4, 3), WORDS),
    "PReLU": (lambda: nn.PReLU(), X),
    "LSTM": (lambda: nn.LSTM(3, 2), X),
    "GRU": (lambda: nn.GRU(3, 2), X),
    "RNNCell": (lambda: nn.RNNCell(3, 2), X),
    "MultiheadAttention": (lambda: nn.MultiheadAttention(4, 2), (torch.ones(2, 4),) * 3),
    "Transformer": (lambda: nn.TransformerEncoderLayer(4, 2, 8, dropout=0.0), torch.ones(2, 3, 4)),
    "weight norm": (lambda: nn.utils.parametrizations.weight_norm(nn.Linear(3, 2)), X),
    "bl Linear": (lambda: bl.nn.LinearConfig(d_input=3, d_output=2).init(), X),
    "bl Embedding": (lambda: bl.nn.EmbeddingConfig(n_embedding=4, d_model=3).init(), WORDS),
    "bl RmsNorm": (lambda: bl.nn.RmsNormConfig(d_model=3).init(), X),
    "bl attention": (lambda: bl.nn.CausalAttentionConfig(d_model=6, n_heads=2).init(), torch.ones(1, 2, 6)),
    "bl language model": (lambda: language_model(), WORDS),
    "bl SwiGlu": (lambda: bl.nn.SwiGluConfig(d_input=3, d_output=2).init(), X),
    "own layer of torch": (OwnTorch, X),
    "own layer of mlax": (OwnMlax, X),
    "own layer by __call__": (OwnCall, X),
    "reads its parts": (ReadsItsParts, X),
    "in a list": (InAList, X),
}


def output(module: nn.Module, x: Any) -> Tensor:
    """The first tensor that it gives for `x`."""
    result = module(*x) if isinstance(x, tuple) else module(x)
    return result[0] if isinstance(result, tuple) else result


def fields(module: nn.Module) -> tuple[type, set[str]]:
    return type(module), {name for name in vars(module) if not name.startswith(("_burnlike", "_base_name"))}


@pytest.mark.parametrize("name", LAYERS)
def test_a_hole_anywhere_is_an_error_with_its_path(name: str) -> None:
    make, x = LAYERS[name]
    module = make()
    expected, given = output(copy.deepcopy(module), x), x if isinstance(x, tuple) else (x,)
    before = [fields(part) for part in module.modules()]
    for leaf in mlax.leaves(module):
        part, rest = mlax.partition(module, lambda p, path=leaf.path: p.path != path)
        calls: list[Callable[..., Any]] = [part, copy.deepcopy(part), part.eval(), part.train(module.training)]
        if not isinstance(part, OwnCall):
            calls.append(part.forward)
        for call in calls:
            with pytest.raises(EmptyParamError, match=f"Parameter '{mlax.leaves(rest)[0].path}' of .* is a hole"):
                call(*given)
        for call in (
            lambda part=part: torch.func.functional_call(part, dict(part.named_parameters()), given),
            lambda part=part: mlax.apply(part, given[0]),
            lambda part=part: func.grad(lambda part: output(part, x).sum())(mlax.partition(part)[0]),
        ):
            with pytest.raises(EmptyParamError, match="is a hole"):
                call()
        for whole in (mlax.combine(part, rest), mlax.combine(rest, part), mlax.overlay(part, rest)):
            assert torch.equal(output(whole, x), expected)
            assert [fields(part) for part in whole.modules()] == before
    torch.testing.assert_close(output(module, x), expected)


def test_statistics_of_batch_norm_that_are_holes_are_not_those_of_the_batch() -> None:
    for module in (nn.BatchNorm1d(3), nn.BatchNorm1d(3).eval()):
        t, n = mlax.partition(module)
        for part in (t, n):
            with pytest.raises(EmptyParamError, match=r"'(running_mean|weight)' of BatchNorm1d"):
                part(X)
        assert torch.equal(mlax.combine(t, n)(X), copy.deepcopy(module)(X))


def test_parts_that_have_no_hole_compute() -> None:
    net = nn.Sequential(nn.Linear(3, 3), nn.Linear(3, 3))
    first, second = mlax.partition(net, lambda p: p.path.startswith("0"))
    assert torch.equal(second[1](first[0](X)), net(X))
    with pytest.raises(EmptyParamError, match=r"'1\.weight'"):
        first(X)
    with pytest.raises(EmptyParamError, match="'weight' of Linear"):
        first[1](X)
    around = nn.Sequential(second[1], nn.Tanh())
    assert around(X).shape == (2, 3)


def test_holes_are_filled_for_a_functional_call() -> None:
    net = nn.Sequential(nn.Linear(3, 3), nn.Linear(3, 3))
    t, n = mlax.partition(net, lambda p: "bias" not in p.path)
    assert torch.equal(torch.func.functional_call(t, dict(n.named_parameters()), (X,)), net(X))
    with pytest.raises(EmptyParamError, match=r"'1\.bias'"):
        torch.func.functional_call(t, {"0.bias": torch.zeros(3)}, (X,))
    with pytest.raises(EmptyParamError, match=r"'0\.bias'"):
        t(X)


@copies_in_compiled_code
@pytest.mark.parametrize("name", ["Linear", "own layer of mlax", "own layer by __call__", "reads its parts"])
def test_holes_are_refused_in_compiled_code(name: str) -> None:
    make, x = LAYERS[name]
    module = make()
    last = mlax.leaves(module)[-1].path
    part, _ = mlax.partition(module, lambda p: p.path != last)

    def within(module: nn.Module, x: Tensor) -> Any:
        return mlax.partition(module, lambda p: p.path != last)[0](x)

    for run, given in ((lambda part, x: part(x), part), (within, module)):
        torch._dynamo.reset()
        with pytest.raises(Exception, match=f"'{last}' of .* is a hole"):  # dynamo puts an error of its own around it
            torch.compile(run, fullgraph=True, backend="eager")(given, x)
        with pytest.raises(EmptyParamError, match=f"'{last}' of .* is a hole"):
            torch.compile(run, backend="eager")(given, x)
    with pytest.raises(EmptyParamError, match=f"'{last}' of .* is a hole"):
        torch.export.export(part, (x,))


@copies_in_compiled_code
def test_parts_that_compiled_code_made_refuse_too() -> None:
    split = torch.compile(mlax.partition, fullgraph=True, backend="eager")
    layer = nn.Linear(3, 2)
    mlax.leaves(layer)
    layer.bias.requires_grad_(False)
    t, n = split(layer)
    with pytest.raises(EmptyParamError, match="'bias'"):
        t(X)
    assert torch.equal(mlax.combine(t, n)(X), layer(X))


def test_a_module_with_holes_is_copied_and_pickled_and_freed() -> None:
    part, rest = mlax.partition(nn.Sequential(nn.Linear(3, 2)), lambda p: "bias" not in p.path)
    for other in (copy.deepcopy(part), pickle.loads(pickle.dumps(part)), bl.module.clone(part)):
        with pytest.raises(EmptyParamError, match=r"'0\.bias'"):
            other(X)
        other[0].bias = nn.Parameter(torch.zeros(2))
        assert torch.equal(other(X), F.linear(X, other.get_parameter("0.weight")))
        for whole in (mlax.combine(other, rest), other):
            assert whole[0].bias is other[0].bias
            assert [leaf.trainable for leaf in mlax.leaves(whole)] == [True, True]
    gone = weakref.ref(part)
    gc.disable()
    try:
        del part
        assert gone() is None
    finally:
        gc.enable()


def test_a_pickled_part_asks_for_no_trust_in_what_guards_it(tmp_path: Path) -> None:
    part, _ = mlax.partition(nn.Linear(3, 2), lambda p: p.path == "weight")
    torch.save(part, tmp_path / "part.pt")
    unsafe = torch.serialization.get_unsafe_globals_in_checkpoint(str(tmp_path / "part.pt"))
    assert not [name for name in unsafe if "mlax" in name]


def test_a_forward_of_the_objects_own_comes_back() -> None:
    layer = nn.Linear(3, 3)
    plain = layer.forward
    layer.__dict__["forward"] = lambda x: 2 * plain(x)  # as tools that wrap layers do
    t, n = mlax.partition(layer, lambda p: p.path == "weight")
    with pytest.raises(EmptyParamError, match="'bias'"):
        t(X)
    for whole in (mlax.combine(t, n), mlax.combine(n, t)):
        assert vars(whole)["forward"] is layer.forward
        assert torch.equal(whole(X), 2 * F.linear(X, layer.weight, layer.bias))


def test_a_declared_hole_is_refused_until_it_is_filled() -> None:
    module = OwnMlax()
    module.b = mlax.Parameter(None)
    with pytest.raises(EmptyParamError, match="'b' of OwnMlax"):
        module(X)
    module.b = mlax.Parameter(True, torch.zeros(3))
    assert torch.equal(module(X), X)


def test_a_mapped_part_keeps_its_holes_and_loses_those_that_it_fills() -> None:
    part, _ = mlax.partition(nn.Linear(3, 2), lambda p: p.path == "weight")
    with pytest.raises(EmptyParamError, match="'bias'"):
        mlax.map(part, lambda p: p.data * 2)(X)
    filled = mlax.map(part, lambda p: torch.zeros(2) if p.is_hole else p.data, include_empty=True)
    assert torch.equal(filled(X), X @ part.weight.T)
    assert "forward" not in vars(filled)
