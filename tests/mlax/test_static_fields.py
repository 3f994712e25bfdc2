"""Hyperparameters: the static part of a module."""

import math
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn

from burnlike import constant, mlax
from burnlike.errors import ModuleTreeError, StructureMismatchError

from .samples import Bar, Foo, paths


class Holder(mlax.Module):
    def __init__(self, j: Any) -> None:
        self.w = mlax.Parameter(True, 1.0)
        self.j = j


def test_38_a_hyperparameter_need_not_be_hashable_until_a_key_is_asked_for() -> None:
    m = Holder([1, 2])
    assert m.filter(...).j == [1, 2]
    assert m.map(lambda p: p.data).j == [1, 2]
    with pytest.raises(TypeError, match=r"'j' is a list"):
        m.static_key()
    outer = Holder(1)
    outer.inner = m
    with pytest.raises(TypeError, match=r"'inner\.j' is a list"):
        mlax.static_key(outer)


def test_38_arrays_are_compared_by_value() -> None:
    first, second = Holder(np.arange(3)), Holder(np.arange(3))
    assert paths(first.filter(False).combine(second)) == ["w"]
    with pytest.raises(StructureMismatchError, match="'j'"):
        first.combine(Holder(np.arange(3.0)))
    with pytest.raises(StructureMismatchError, match="'j'"):
        first.combine(Holder(np.array([0, 1, 3])))


def test_38_a_key_tells_modules_apart_that_compile_differently() -> None:
    key = Bar().static_key()
    assert key == Bar().static_key()
    assert hash(key) == hash(Bar().static_key())
    changed = [Bar() for _ in range(4)]
    changed[0].h = "other"
    changed[1].freeze()
    changed[2].f = Foo(3, 3)
    changed[2].f.k = True
    changed[3] = changed[3].partition()[0]
    assert len({key, *(it.static_key() for it in changed)}) == 5
    assert len({Holder(value).static_key() for value in (1, 1.0, True)}) == 3
    assert Holder(math.nan).static_key() == Holder(float("nan")).static_key()


def test_39_equality_is_strict_about_types() -> None:
    for first, second in ((1, True), (1, 1.0), (0, False), ([1], [1.0]), ({"k": 1}, {"k": True}), ((1,), [1])):
        with pytest.raises(StructureMismatchError, match="'j'"):
            Holder(first).combine(Holder(second))
    nan = float("nan")
    Holder(nan).combine(Holder(nan))
    Holder([nan]).combine(Holder([nan]))
    with pytest.raises(StructureMismatchError, match="'j'"):
        Holder(float("nan")).combine(Holder(float("nan")))
    Holder(len).combine(Holder(len))
    with pytest.raises(StructureMismatchError, match="'j'"):
        Holder(lambda: 1).combine(Holder(lambda: 1))


def test_39_a_constant_is_a_hyperparameter() -> None:
    teacher = nn.Linear(1, 1)
    first, second = Holder(constant(teacher)), Holder(constant(teacher))
    assert paths(first) == ["w"]
    assert first.filter(False).combine(second).j is teacher
    with pytest.raises(StructureMismatchError, match="'j'"):
        first.combine(Holder(constant(nn.Linear(1, 1))))


def test_41_slots_are_refused_when_the_class_is_made() -> None:
    with pytest.raises(TypeError, match="__slots__"):

        class Slotted(mlax.Module):  # pyright: ignore[reportUnusedClass]
            __slots__ = ("k",)

    class Empty(mlax.Module):
        __slots__ = ()

    assert paths(Empty()) == []


def test_42_the_constructor_of_the_base_need_not_run() -> None:
    class Bare(mlax.Module):
        def __init__(self) -> None:
            self.w = mlax.Parameter(True, torch.ones(2, 2))
            self.f = Foo(2, 2)

        def forward(self, x: Tensor) -> Tensor:
            return self.f(x @ self.w.data)

    class Late(Bare):
        def __init__(self) -> None:
            self.early = mlax.Parameter(True, 1.0)
            super().__init__()
            nn.Module.__init__ and mlax.Module.__init__(self)

    m = Bare()
    assert paths(m) == ["w", "f.w"]
    assert m(torch.ones(1, 2)).shape == (1, 2)
    assert len([*m.parameters()]) == 2
    assert paths(Late()) == ["early", "w", "f.w"]


def test_43_lists_tuples_and_dicts_of_modules_are_parts() -> None:
    m = Holder([Foo(), mlax.Parameter(False, [1.0, 2.0])])
    m.pair = (Foo(), mlax.Parameter(True, 2.0), None)
    m.named = {"x": Foo(), "y": mlax.Parameter(True, 3.0)}
    m.deep = [[Foo()], Foo()]
    m.plain = [1, 2]
    found = ["w", "j.0.w", "j.1", "pair.0.w", "pair.1", "named.x.w", "named.y", "deep.0.0.w", "deep.1.w"]
    assert paths(m) == found
    assert type(m.j) is mlax.ModuleSeq
    assert m.plain == [1, 2]
    assert m.j[1].data == [1.0, 2.0]
    assert m.pair[1].data == 2
    assert m.pair[2] is None
    assert m.named["y"].data == 3
    assert {*m.state_dict()} == {*found, "j.1.0", "j.1.1"} - {"j.1"}
    assert len([*m.parameters()]) == 10
    t, n = m.partition()
    assert paths(n) == ["j.1"]
    assert paths(t.combine(n, strict=True)) == found
    assert t.combine(n).pair[1].id == m.pair[1].id


def test_43_a_list_of_a_view_is_no_list_of_the_original() -> None:
    m = Holder([1])
    view = m.combine()
    view.j = 3
    m.j.append(Foo())
    with pytest.raises(ModuleTreeError, match=r"Holder\.j was assigned before"):
        m.params()


def test_44_a_plain_tensor_is_a_constant() -> None:
    first, second = Holder(torch.arange(3.0)), Holder(torch.arange(3.0))
    assert paths(first) == ["w"]
    assert [*first.state_dict()] == ["w"]
    assert [*first.into_record().tensors] == ["w"]
    assert first.filter(False).combine(second).w.data is second.w.data
    assert first.filter(False).j is first.j
    with pytest.raises(StructureMismatchError, match="'j'"):
        first.combine(Holder(torch.arange(4.0)))
    assert first.to(torch.float64).j.dtype == torch.float64
    assert hash(second.static_key()) == hash(Holder(torch.zeros(7)).static_key())
