"""Parameter handles, and modules under torch's own tools."""

import copy
import pickle
from pathlib import Path

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
from .samples import PATHS, Bar, Counter, Foo, by_path, paths


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
