"""What a mapping function may return, and what becomes of ties."""

from typing import Any

import pytest
import torch
from torch import Tensor, nn

from burnlike import mlax
from burnlike.errors import StructureMismatchError
from burnlike.module import ModuleMapper, Param

from .samples import PATHS, Bar, Foo, paths, tensors, values


def test_31_a_tensor_keeps_id_name_and_trainability() -> None:
    m = Bar()
    new = m.map(lambda p: p.data if p.path == "c" else torch.zeros_like(p.data))
    for leaf, original in zip(new.leaves(), m.leaves(), strict=True):
        assert (leaf.id, leaf.name, leaf.trainable) == (original.id, original.name, original.trainable)
    assert new.a.requires_grad
    assert new.a.data.is_leaf


@pytest.mark.parametrize("wrong", [None, 3, "abc", [None]])
def test_31_anything_else_is_refused_with_its_path(wrong: Any) -> None:
    m = Bar()
    before = tensors(m)
    with pytest.raises(TypeError, match=r"(NoneType|int|str).*f\.w|f\.w.*NoneType"):
        m.map(lambda p: wrong if p.path == "f.w" else p.data)
    assert all(it is before[name] for name, it in tensors(m).items())


def test_31_neither_whole_numbers_for_what_is_trained_nor_no_data_are_taken() -> None:
    m = Bar()
    with pytest.raises(TypeError, match=r"f\.w: torch\.int64 can't be trainable"):
        m.map(lambda p: torch.ones(4, 2, dtype=torch.long) if p.path == "f.w" else p)
    with pytest.raises(TypeError, match=r"without data for 'f\.w'"):
        m.map(lambda p: mlax.Parameter(None) if p.path == "f.w" else p)
    assert m.map(lambda p: torch.ones(2) if p.path == "c" else p).c.trainable is False


def test_31_map_shares_no_memory() -> None:
    m = Bar()
    before = values(m)
    for new in (m.map(lambda p: p), m.map(lambda p: p.data), m.map(lambda p: p.data if p.path == "c" else p.data[:])):
        with torch.no_grad():
            for tensor in tensors(new).values():
                tensor.fill_(9)
    assert all(torch.equal(it, before[name]) for name, it in values(m).items())


def test_32_a_parameter_brings_its_trainability_and_name() -> None:
    m = Bar()
    frozen = m.map(lambda p: mlax.Parameter(False, p.data, "frozen") if p.path == "a" else p)
    assert (frozen.a.trainable, frozen.a.requires_grad, frozen.a.name) == (False, False, "frozen")
    assert frozen.a.id == m.a.id
    assert torch.equal(frozen.a.data, m.a.data)
    assert (m.a.trainable, m.a.requires_grad, m.a.name) == (True, True, "A")
    other = m.map(lambda p: Param.from_tensor(torch.zeros(2), trainable=False) if p.path == "a" else p)
    assert (other.a.data.tolist(), other.a.trainable, other.a.id) == ([0, 0], False, m.a.id)


def test_32_a_state_becomes_what_a_trainable_parameter_makes_of_it() -> None:
    m = Bar()
    new = m.map(lambda p: mlax.Parameter(True, [1.0, 2.0]) if p.path == "c" else p)
    assert (new.c.trainable, new.c.kind, new.c.id) == (True, "weight", m.c.id)
    assert all(it.requires_grad for it in new.c.data)
    norm = mlax.map(nn.BatchNorm1d(2), lambda p: mlax.Parameter(True, p.data) if p.path == "running_mean" else p)
    assert [name for name, _ in norm.named_parameters()] == ["weight", "bias", "running_mean"]


class Tied(mlax.Module):
    def __init__(self) -> None:
        self.a = mlax.Parameter(True, torch.randn(2, 2), "shared")
        self.b = self.a
        self.f = Foo(2, 2)
        self.g = self.f
        self.f2 = Foo(2, 2)
        self.f2.w = self.a

    def forward(self, x: Tensor) -> Tensor:
        return x @ self.a.data @ self.b.data @ self.f.w.data @ self.f2.w.data


def check_tied(m: Any) -> None:
    assert m.a.data is m.b.data
    assert m.a.data is m.f2.w.data
    assert m.f is m.g
    assert m.a.id == m.b.id == m.f2.w.id
    assert [leaf.path for leaf in m.leaves()] == ["a", "f.w"]
    assert m.leaves()[0].aliases == ("b", "f2.w")


def test_33_ties_and_shared_modules_survive() -> None:
    m = Tied()
    check_tied(m)
    met: list[str] = []
    check_tied(m.map(lambda p: met.append(p.path) or 2 * p.data))
    assert met == ["a", "f.w"]
    t, n = m.partition(lambda p: p.name == "shared")
    assert paths(t) == ["a"]
    assert t.f is t.g
    check_tied(t.combine(n))
    check_tied(n.combine(t))
    check_tied(m.apply(torch.ones(1, 2))[1])
    check_tied(m.clone())


def test_33_writing_a_leaf_writes_all_places_of_a_tie() -> None:
    m = Tied()
    m.leaves()[0].data = torch.zeros(2, 2)
    check_tied(m)
    assert m.f2.w.data.abs().sum() == 0
    m = Tied()
    m.f2.w = mlax.Parameter(True, torch.ones(2, 2))
    m.a.data = torch.zeros(2, 2)
    assert m.a.data is m.b.data


def test_34_two_modules_are_mapped_together() -> None:
    m, other = Bar(), Bar()
    met: list[tuple[str, str]] = []

    def mean(p: mlax.Parameter, q: mlax.Parameter) -> Any:
        met.append((p.path, q.path))
        return p.data if p.path == "c" else (p.data + q.data) / 2

    new = m.map(mean, other)
    assert met == [(path, path) for path in paths(m)]
    torch.testing.assert_close(new.f.w.data, (m.f.w.data + other.f.w.data) / 2)
    assert new.a.id == m.a.id
    other.h = "zzz"
    with pytest.raises(StructureMismatchError, match="'h'"):
        m.map(mean, other)
    assert len(met) == 6


def test_34_what_is_a_hole_in_the_other_module_stays_as_it_is() -> None:
    m = Bar()
    t, _ = m.partition()
    new = m.map(lambda p, q: p.data + q.data, t)
    assert torch.equal(new.a.data, 2 * m.a.data)
    assert torch.equal(new.b.data, m.b.data)
    assert new.c.data == [1, 2, 3]


def test_35_a_mapper_sees_each_tensor_by_its_kind() -> None:
    class Mapper(ModuleMapper):
        def __init__(self) -> None:
            self.ints: list[str] = []
            self.floats: list[str] = []
            self.path: list[str] = []

        def map_int(self, param: Param) -> Tensor:
            self.ints.append(param.path)
            return param.tensor + 1

        def map_float(self, param: Param) -> Tensor | Param:
            self.floats.append(param.path)
            if param.path == "g.0.w":
                raise ValueError("stop")
            return param

        def enter_module(self, name: str, container: str) -> None:
            self.path.append(name)

        def exit_module(self, name: str, container: str) -> None:
            assert self.path.pop() == name

    mapper, m = Mapper(), Bar()
    with pytest.raises(ValueError, match="stop"):
        m.map(mapper)
    assert mapper.path == []
    assert mapper.ints == ["c.0", "c.1", "c.2"]
    assert mapper.floats == ["a", "b", "f.w", "g.0.w"]
    new = m.filter(mlax.Not(lambda p: p.path == "g.0.w")).map(Mapper())
    assert new.c.data == [2, 3, 4]
    assert new.c.id == m.c.id
    assert new.g[0].w.is_hole


def test_what_is_mapped_shares_memory_with_nothing() -> None:
    module, other, shared = Foo(3, 3), Foo(3, 3), torch.ones(3, 3)
    assert not same_memory(module.map(lambda p, q: q.data, other).w.data, other.w.data)
    assert not same_memory(module.map(lambda p: p.data.T).w.data, module.w.data)
    bar = Bar().map(lambda p: shared if p.path in ("f.w", "g.0.w") else p.data)
    assert not same_memory(bar.f.w.data, bar.g[0].w.data)
    assert paths(bar) == PATHS


def same_memory(a: torch.Tensor, b: torch.Tensor) -> bool:
    return a.untyped_storage().data_ptr() == b.untyped_storage().data_ptr()
