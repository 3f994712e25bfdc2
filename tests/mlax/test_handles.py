"""Parameter handles as on MLAX's page, under torch's tools, and as operands in place of their tensors."""

import copy
import operator
import pickle
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
import torch._dynamo.testing
import torch.nn.functional as F
from torch import Tensor, nn

import burnlike as bl
from burnlike import mlax
from burnlike.errors import EmptyParamError, StructureMismatchError
from burnlike.module import LoraConfig, apply_lora, params

from ..torch_versions import copies_in_compiled_code
from .samples import FROZEN, PATHS, TRAINABLE, Bar, Counter, Foo, by_path, paths, tensors, values


def test_01_leaves_are_the_parameters_in_order_of_assignment() -> None:
    m = Bar()
    assert paths(m) == PATHS
    assert all(mlax.is_parameter(leaf) for leaf in m.leaves())
    assert m.leaves()[2].data == [1, 2, 3]
    assert [leaf.name for leaf in m.leaves()] == ["A", None, None, None, None, None]


def test_02_a_partition_shares_tensors_and_leaves_holes() -> None:
    m = Bar()
    before = tensors(m)
    t, n = m.partition()
    for part, kept, gone in ((t, TRAINABLE, FROZEN), (n, FROZEN, TRAINABLE)):
        assert type(part) is Bar
        assert (part.h, part.i) == ("abc", 1)
        assert paths(part) == kept
        assert paths(part, holes=True) == PATHS
        found = by_path(part)
        for path in gone:
            assert found[path].trainable is None
            assert found[path].data is None
            assert found[path].name is None
        assert all(tensor is before[name] for name, tensor in tensors(part).items())
    assert t.a.trainable is True
    assert t.a.data is m.a.data
    assert t.b.data is None
    assert paths(m) == PATHS
    assert all(tensor is before[name] for name, tensor in tensors(m).items())


def test_03_combining_the_parts_gives_the_module_in_either_order() -> None:
    m, x = Bar(), torch.randn(5, 3)
    t, n = m.partition()
    for whole in (t.combine(n), n.combine(t)):
        assert {name: id(it) for name, it in tensors(whole).items()} == {
            name: id(it) for name, it in tensors(m).items()
        }
        for leaf, original in zip(whole.leaves(), m.leaves(), strict=True):
            assert (leaf.id, leaf.name, leaf.trainable, leaf.kind) == (
                original.id,
                original.name,
                original.trainable,
                original.kind,
            )
        assert torch.equal(whole(x), m(x))


def test_04_map_calls_the_function_once_a_parameter_and_leaves_the_module() -> None:
    m = Bar()
    before = values(m)
    met: list[Any] = []

    def double(param: mlax.Parameter) -> Any:
        met.append(param.path)
        assert isinstance(param, mlax.Parameter)
        return [2 * item for item in param.data] if isinstance(param.data, list) else 2 * param.data

    new = m.map(double)
    assert met == PATHS
    assert type(new) is Bar
    assert new.c.data == [2, 4, 6]
    for name, tensor in values(new).items():
        assert torch.equal(tensor, 2 * before[name])
    for name, tensor in values(m).items():
        assert torch.equal(tensor, before[name])
    assert [leaf.id for leaf in new.leaves()] == [leaf.id for leaf in m.leaves()]


def test_05_filter_keeps_what_the_predicate_selects() -> None:
    m = Bar()
    assert paths(m.filter(lambda p: p.name == "A")) == ["a"]
    assert paths(m.filter(lambda p: p.name == "A", inverse=True)) == PATHS[1:]
    assert tensors(m.filter(lambda p: p.name == "A", inverse=True)).keys() == (
        tensors(m.partition(lambda p: p.name == "A")[1]).keys()
    )


def test_06_a_layer_that_returns_itself_is_threaded_through_apply() -> None:
    m = Counter()
    x = torch.randn(1, 3)
    y, m1 = m.apply(x)
    y2, m2 = m1.apply(x)
    assert torch.equal(y, y2)
    assert isinstance(m2, Counter)
    assert m.seen.data == 0
    assert m1.seen.data == 1
    assert m2.seen.data == 2
    assert m2.apply(x, inference_mode=True)[1].seen.data == 2


def test_07_data_that_cannot_be_a_parameter_is_refused_by_its_type() -> None:
    for wrong, name in (("abc", "str"), (Foo(), "Foo"), (mlax.Parameter(True, 1.0), "Parameter"), ({1}, "set")):
        with pytest.raises(TypeError, match=name):
            mlax.Parameter(False, wrong)
    with pytest.raises(TypeError, match=r"data\[1\]\['k'\].*str"):
        mlax.Parameter(False, [1, {"k": "abc"}])
    with pytest.raises(TypeError, match="expected keys"):
        mlax.Parameter(False, {1: 2.0})
    for right in (torch.ones(2), np.ones(2), np.float32(2), 3, 2.5, True, [1, 2], (1.0, [2.0]), {"k": torch.ones(1)}):
        assert mlax.Parameter(False, right).data is not None


def test_07_the_array_of_the_caller_is_not_shared() -> None:
    array = np.zeros(2)
    param = mlax.Parameter(True, array)
    array[0] = 1
    assert param.data.tolist() == [0, 0]


def test_08_a_module_seq_is_a_list() -> None:
    layers = [Foo() for _ in range(4)]
    seq = mlax.ModuleSeq(layers[:2])
    seq.append(layers[2])
    seq.insert(0, layers[3])
    assert [*seq] == [layers[3], *layers[:3]]
    assert seq[-1] is layers[2]
    del seq[0]
    seq.extend([layers[3]])
    assert [*seq] == layers
    part = seq[1:3]
    assert type(part) is mlax.ModuleSeq
    assert [*part] == layers[1:3]
    part.append(Foo())
    assert len(seq) == 4
    assert seq.pop() is layers[3]
    seq.reverse()
    assert [*seq] == layers[2::-1]
    seq[0:2] = [layers[3]]
    assert [*seq] == [layers[3], layers[0]]


def test_08_series_takes_over_the_updated_layers() -> None:
    class Renewed(mlax.Module):
        def __init__(self, count: int = 0) -> None:
            self.count = count

        def forward(self, x: Tensor) -> tuple[Tensor, "Renewed"]:
            return x + 1, Renewed(self.count + 1)

    series = mlax.Series([Renewed(), Counter()])
    y, updated = series.apply(torch.zeros(2, 3))
    assert torch.equal(y, torch.ones(2, 3) @ series.layers[1].w.data)
    assert (series.layers[0].count, series.layers[1].seen.data) == (0, 0)
    assert (updated.layers[0].count, updated.layers[1].seen.data) == (1, 2)


class Layer(mlax.Module):
    def __init__(self) -> None:
        self.w = mlax.Parameter(True, torch.randn(3, 3))
        self.b = mlax.Parameter(True, torch.randn(3))
        self.s = mlax.Parameter(False, {"n": 0, "m": torch.zeros(3)}, "statistics", kind="state")

    def forward(self, x: Tensor) -> Tensor:
        seen = self.s.data
        self.s.data = {"n": seen["n"] + 1, "m": seen["m"] + x.mean(0)}
        return F.linear(x, self.w, self.b) + x @ self.w


def test_a_handle_stands_for_its_tensor_in_functions_of_torch() -> None:
    m, x = Layer(), torch.randn(2, 3)
    assert torch.equal(m(x), F.linear(x, m.w.data, m.b.data) + x @ m.w.data)
    assert torch.equal(torch.stack([m.b, m.b]), torch.stack([m.b.data, m.b.data]))
    assert torch.equal(m.w @ x.T, m.w.data @ x.T)


@pytest.mark.parametrize("make", [Layer, Counter])
def test_handles_are_compiled_whole_and_state_needs_no_recompilation(make: type[mlax.Module]) -> None:
    counter = torch._dynamo.testing.CompileCounter()
    eager = make()
    compiled, x = eager.map(lambda p: p), torch.randn(2, 3)
    step = torch.compile(lambda m, x: m(x), backend=counter, fullgraph=True)
    for _ in range(5):
        y, expected = step(compiled, x), eager(x)
        torch.testing.assert_close(*((it[0] if isinstance(it, tuple) else it) for it in (y, expected)))
    assert counter.frame_count == 1
    for ours, theirs in zip(compiled.state_dict().values(), eager.state_dict().values(), strict=True):
        torch.testing.assert_close(ours, theirs)


@copies_in_compiled_code
def test_parts_are_made_and_put_together_inside_of_compiled_code() -> None:
    def step(m: mlax.Module, x: Tensor) -> tuple[Tensor, mlax.Module]:
        t, n = m.partition()
        y, updated = t.combine(n).apply(x)
        return y, updated.map(lambda p: [it - 1 for it in p.data] if p.path == "c" else p.data * 0.5)

    counter = torch._dynamo.testing.CompileCounter()
    compiled, x = torch.compile(step, backend=counter, fullgraph=True), torch.randn(2, 3)
    for _ in range(4):
        m = Bar()
        y, new = compiled(m, x)
        torch.testing.assert_close(y, m(x))
        assert paths(new) == PATHS
        assert [leaf.id for leaf in new.leaves()] == [leaf.id for leaf in m.leaves()]
        assert [leaf.trainable for leaf in new.leaves()] == [leaf.trainable for leaf in m.leaves()]
        torch.testing.assert_close(new.f.w.data, 0.5 * m.f.w.data)
        assert new.c.data == [0, 1, 2]
    assert counter.frame_count <= 2


def test_copies_and_pickles_are_whole_modules_of_their_own() -> None:
    m = Bar()
    for other in (copy.deepcopy(m), pickle.loads(pickle.dumps(m)), m.clone()):
        assert type(other) is Bar
        assert [(it.id, it.name, it.trainable) for it in other.leaves()] == [
            (it.id, it.name, it.trainable) for it in m.leaves()
        ]
        other.c.data = [7, 8, 9]
        other.a.data = torch.zeros(3, 4)
        assert m.c.data == [1, 2, 3]
        assert m.a.data.abs().sum() > 0
        assert other.a.trainable is True
    t, _ = m.partition()
    assert [it.is_hole for it in copy.deepcopy(t).leaves(holes=True)] == [it.is_hole for it in t.leaves(holes=True)]


@pytest.mark.parametrize("path", ["a", "c", "g.1"])
def test_a_handle_is_copied_with_the_module_that_has_it(path: str) -> None:
    for handle in (by_path(Bar())[path], by_path(Bar().filter(False))[path], mlax.Parameter(True, [1.0], "own")):
        for other in (copy.deepcopy(handle), pickle.loads(pickle.dumps(handle)), copy.copy(handle)):
            assert (other.id, other.path, other.name, other.is_hole) == (
                handle.id,
                handle.path,
                handle.name,
                handle.is_hole,
            )
    m = Bar()
    copied, handle = copy.deepcopy((m, m.c))
    copied.c.data = [7, 8, 9]
    assert handle.data == [7, 8, 9]
    assert m.c.data == [1, 2, 3]


def test_none_takes_the_place_of_anything() -> None:
    teacher = Foo()

    class Fields(mlax.Module):
        def __init__(self) -> None:
            self.f, self.w, self.many = Foo(), mlax.Parameter(True, 1.0), mlax.Parameter(True, [1.0])
            self.layers, self.teacher, self.size = [Foo()], bl.constant(teacher), 3
            self.register_buffer("cache", torch.zeros(1), persistent=False)

    for name in ("f", "w", "many", "layers", "teacher", "size", "cache"):
        m = Fields()
        setattr(m, name, None)
        assert getattr(m, name) is None
        assert not [path for path in paths(m) if path.split(".")[0] == name]
        assert not [key for key in m.state_dict() if key.split(".")[0] == name]
        with pytest.raises(StructureMismatchError, match=f"'{name}"):
            m.combine(Fields())
    m.cache = torch.ones(1)
    assert "cache" in m._buffers
    m.teacher = mlax.Parameter(True, 1.0)
    assert m.teacher.trainable
    assert m.teacher.data == 1
    assert "teacher" in paths(m.combine())


def test_several_tensors_have_one_id_and_ids_of_their_own() -> None:
    m = Bar()
    whole = m.c.id
    ids = [param.id for param in params(m) if param.path.startswith("c.")]
    assert len({whole, *ids}) == 4
    m.c.data = [4, 5, 6]
    assert m.c.id == whole
    assert [param.id for param in params(m) if param.path.startswith("c.")] == ids
    m.c.data = (4, {"k": 5})
    assert m.c.id == whole
    assert m.c.data == (4, {"k": 5})
    assert next(param.id for param in params(m) if param.path.startswith("c.")) == ids[0]
    other = bl.ParamId.new()
    m.c.adopt(other)
    assert m.c.id == other
    given = bl.ParamId(7)
    m.c = mlax.Parameter(False, [1.0], id=given)
    assert m.c.id == given


def test_the_order_of_parameters_stays() -> None:
    m = Bar()
    m.b = mlax.Parameter(True, [1.0, 2.0])
    order = [name for name, _ in m.named_parameters()]
    assert order == ["a", "b.0", "b.1", "f.w", "g.1", "g.0.w"]
    states = [*m.state_dict()]
    t, n = m.partition(lambda p: p.path in ("b", "f.w"))
    m.a.data = torch.zeros(3, 4)
    for module in (m, t.combine(n), n.combine(t), m.map(lambda p: p), m.combine(t)):
        assert [name for name, _ in module.named_parameters()] == order
        assert [*module.state_dict()] == states


def test_a_record_keeps_labels_apart_and_loads_several_tensors(tmp_path: Path) -> None:
    m, other = Bar(), Bar()
    m.save(tmp_path / "m.safetensors")
    other.c.data = [0, 0, 0]
    other.load(tmp_path / "m.safetensors")
    assert other.c.data == [1, 2, 3]
    assert torch.equal(other.a.data, m.a.data)
    assert [leaf.id for leaf in other.leaves()] == [leaf.id for leaf in m.leaves()]


def test_what_a_handle_holds_is_told() -> None:
    m = Bar()
    assert repr(m.a).startswith("Parameter('a', trainable=True, [3, 4], torch.float32, name='A', id=")
    assert "hole" in repr(m.partition()[1].a)
    with pytest.raises(TypeError, match="'c' of Bar holds several tensors"):
        _ = m.c.tensor
    with pytest.raises(EmptyParamError, match="'a' of Bar is a hole"):
        _ = m.partition()[1].a.tensor


def test_a_parameter_can_be_tied_by_assigning_it_twice() -> None:
    m = Foo()
    shared = mlax.Parameter(True, [torch.zeros(1), torch.ones(1)], "pair")
    m.p = shared
    m.q = shared
    assert m.p.data[0] is m.q.data[0]
    m.q.data = [torch.ones(1), torch.ones(1)]
    assert m.p.data[0] is m.q.data[0]
    assert by_path(m)["p"].aliases == ("q",)
    m.v = mlax.Parameter(True, torch.zeros(2))
    m.u = m.v
    assert by_path(m)["v"].aliases == ("u",)


class Pair(nn.Module):
    """Not ours, with modules of ours that share a weight with each other and with one of torch's."""

    def __init__(self) -> None:
        super().__init__()
        self.f, self.g, self.h = Foo(2, 2), Foo(2, 2), nn.Linear(2, 2, bias=False)
        self.g.w = self.f.w
        self.h.weight = self.f.w.data


def test_ties_stay_when_a_parent_of_another_class_is_converted() -> None:
    m = Pair().double()
    assert m.f.w.data.dtype == torch.float64
    assert m.f.w.data is m.g.w.data
    assert m.f.w.data is m.h.weight


def test_places_that_torch_unties_get_ids_of_their_own() -> None:
    for m in (Pair(), mlax.ModuleSeq([Pair()])):
        mlax.leaves(m)
        m.load_state_dict({name: it.clone() for name, it in m.state_dict().items()}, assign=True)
        found = mlax.leaves(m)
        assert len({leaf.id for leaf in found}) == len(found) == 3
        t, n = mlax.partition(m)
        assert len(mlax.leaves(mlax.combine(t, n, strict=True))) == 3


def test_a_tree_of_modules_is_exported() -> None:
    m, x = mlax.ModuleSeq([Foo(2, 2), nn.Linear(2, 2)]), torch.ones(1, 2)

    class Net(mlax.Module):
        def __init__(self) -> None:
            self.layers, self.teacher = m, bl.constant(Foo())

        def forward(self, x: Tensor) -> Tensor:
            return self.layers[1](self.layers[0](x))

    exported = torch.export.export(Net(), (x,))
    assert torch.equal(exported.module()(x), Net()(x))


def test_parts_of_parametrized_and_recurrent_layers() -> None:
    m = nn.Sequential(nn.utils.parametrizations.weight_norm(nn.Linear(3, 4)), nn.Linear(4, 2))
    x = torch.randn(2, 3)
    before = [param.id for param in params(m)]
    t, n = mlax.partition(m, lambda p: p.path.endswith("original0"))
    whole = mlax.combine(n, t, strict=True)
    assert torch.equal(whole(x), m(x))
    assert [param.id for param in params(whole)] == before
    assert [leaf.id for leaf in mlax.leaves(whole)] == before

    lstm = nn.LSTM(3, 4)
    zeros = mlax.map(lstm, lambda p: torch.zeros_like(p.data))
    assert zeros(x)[0].abs().sum() == 0
    recurrent = mlax.filter(zeros, lambda p: "hh" in p.path)
    mixed = mlax.combine(recurrent, lstm)
    expected = nn.LSTM(3, 4)
    expected.load_state_dict(lstm.state_dict() | recurrent.state_dict())
    assert torch.equal(mixed(x)[0], expected(x)[0])
    assert torch.equal(mlax.overlay(lstm, recurrent)(x)[0], expected(x)[0])


def test_adapters_are_a_part() -> None:
    m = nn.Sequential(nn.Linear(3, 4))
    adapted = apply_lora(m, LoraConfig(rank=2, alpha=2.0))
    t, n = mlax.partition(adapted)
    assert [leaf.path for leaf in mlax.leaves(t)] == ["0.weight.lora.a", "0.weight.lora.b"]
    assert [leaf.path for leaf in mlax.leaves(n)] == ["0.bias", "0.weight"]
    assert mlax.combine(t, n, strict=True)(torch.ones(1, 3)).shape == (1, 4)


BINARY = [operator.add, operator.sub, operator.mul, operator.truediv, operator.floordiv, operator.mod, operator.pow]
ORDER = [operator.lt, operator.le, operator.gt, operator.ge]
BITS = [operator.and_, operator.or_, operator.xor, operator.lshift, operator.rshift]


@pytest.mark.parametrize("function", [*BINARY, *ORDER])
@pytest.mark.parametrize("other", [2, 1.5, torch.full((3, 4), 1.5)], ids=["int", "float", "tensor"])
def test_operators_are_those_of_the_tensor(function: Any, other: Any) -> None:
    m = Bar()
    for handle in (m.a, m.b):
        tensor = handle.data
        torch.testing.assert_close(function(handle, other), function(tensor, other), equal_nan=True)
        torch.testing.assert_close(function(other, handle), function(other, tensor), equal_nan=True)
        torch.testing.assert_close(function(handle, m.a), function(tensor, m.a.data), equal_nan=True)


@pytest.mark.parametrize("function", BITS)
def test_operators_of_whole_numbers(function: Any) -> None:
    m = Foo()
    m.n = mlax.Parameter(False, torch.arange(4))
    assert torch.equal(function(m.n, 2), function(m.n.data, 2))
    assert torch.equal(function(torch.tensor(2), m.n), function(torch.tensor(2), m.n.data))
    assert torch.equal(~m.n, ~m.n.data)
    assert [10, 11, 12, 13][m.n[2]] == 12


def test_indices_and_attributes_are_those_of_the_tensor() -> None:
    m = Bar()
    a = m.a.data
    assert m.a.shape == (3, 4)
    assert (m.a.dtype, m.a.device, m.a.ndim, m.a.size(0)) == (a.dtype, a.device, 2, 3)
    assert torch.equal(m.a[0], a[0])
    assert torch.equal(m.a[:, 1:2], a[:, 1:2])
    assert torch.equal(m.a.T @ m.a, a.T @ a)
    assert torch.equal(m.a.sum(0), a.sum(0))
    assert torch.equal(-m.a + abs(m.a), -a + a.abs())
    assert (len(m.a), len([*m.a])) == (3, 3)
    assert float(m.b[0, 0]) == 0.5
    assert np.asarray(m.b).tolist() == m.b.data.tolist()
    assert m.c[1] == 2
    assert [int(it) for it in m.c] == [1, 2, 3]
    (2 * m.a).sum().backward()
    assert torch.equal(m.a.grad, torch.full((3, 4), 2.0))


def test_equality_is_that_of_handles() -> None:
    m = Bar()
    assert m.a == m.a
    assert m.a != m.b
    assert len({m.a, m.a, m.b}) == 2


def test_what_a_tensor_does_not_have_a_handle_has_not() -> None:
    m = Bar()
    assert not hasattr(m.a, "no_such_thing")
    assert not hasattr(m.partition()[1].a, "no_such_thing")
    with pytest.raises(AttributeError, match="Parameter has no attribute 'into_items'"):
        _ = m.a.into_items
    with pytest.raises(TypeError, match="'c' of Bar holds several tensors"):
        _ = m.c * 2


def test_a_hole_has_none_of_it() -> None:
    hole = Bar().partition()[1].a
    for use in (
        lambda: hole * 2,
        lambda: 2 - hole,
        lambda: torch.ones(3, 1) * hole,
        lambda: hole[0],
        lambda: hole.shape,
        lambda: hole.sum(),
        lambda: len(hole),
        lambda: [*hole],
        lambda: float(hole),
        lambda: np.asarray(hole),
        lambda: -hole,
        lambda: hole > 1,
    ):
        with pytest.raises(EmptyParamError, match="'a' of Bar"):
            use()


def test_operators_are_compiled_whole() -> None:
    def compute(m: Bar, x: torch.Tensor) -> torch.Tensor:
        return (2 * m.a + x * m.b[0] - m.b).sum(0) / m.a.shape[0] @ m.a[0] * len(m.c)

    m, x = Bar(), torch.ones(3, 4)
    expected = compute(m, x)
    torch.testing.assert_close(torch.compile(compute, fullgraph=True, backend="eager")(m, x), expected)


def test_names_of_arguments_are_those_of_the_page() -> None:
    seq = mlax.ModuleSeq(submodules=[Foo(2, 2), mlax.Parameter(True, torch.ones(2))])
    assert len(seq) == 2
    m = Bar()
    assert m.map(f=lambda p: p).a.data.shape == (3, 4)
    trainables, others = m.partition(f=mlax.is_trainable)
    assert [leaf.path for leaf in m.filter(f=mlax.is_trainable).leaves()] == [leaf.path for leaf in trainables.leaves()]
    assert mlax.map(m, f=lambda p: p).combine(others).a.data.shape == (3, 4)
