"""Putting modules together, mapping their leaves, and what a filter may be."""

import re
from functools import partial
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from burnlike import ParamGroup, mlax
from burnlike.errors import ArgumentError, ConflictError, MissingParamError, ParamPathError, StructureMismatchError
from burnlike.module import ModuleMapper, Param

from .samples import FROZEN, PATHS, TRAINABLE, Bar, Foo, by_path, paths, tensors, values


class One(mlax.Module):
    def __init__(self, a: float, **fields: object) -> None:
        self.a = mlax.Parameter(True, a)
        for name, value in fields.items():
            setattr(self, name, value)


def sevens(m: Bar) -> Bar:
    return m.map(lambda p: [torch.full_like(it, 7) for it in p.data] if p.path == "c" else torch.full_like(p.data, 7))


def test_09_the_module_itself_comes_first_and_overlay_is_the_opposite() -> None:
    m = Bar()
    m7 = sevens(m)
    for first, second in ((m, m7), (m7, m)):
        assert all(it is tensors(first)[name] for name, it in tensors(first.combine(second)).items())
        assert all(it is tensors(second)[name] for name, it in tensors(first.overlay(second)).items())


def test_09_overlay_updates_a_part() -> None:
    m = Bar()
    patch = sevens(m).filter(lambda p: p.path == "f.w")
    new = m.overlay(patch)
    assert torch.equal(new.f.w.data, torch.full((4, 2), 7.0))
    assert new.a.data is m.a.data


def test_10_of_three_the_first_that_has_it_wins() -> None:
    x, y, z = One(0.0).filter(False), One(1.0), One(2.0)
    assert x.combine(y, z).a.data == 1
    assert x.combine(z, y).a.data == 2
    assert x.overlay(y, z).a.data == 2


def test_11_what_no_part_has_stays_a_hole_or_is_missing() -> None:
    m = Bar()
    t, _ = m.partition()
    both = t.combine(t)
    assert [path for path, leaf in by_path(both).items() if leaf.is_hole] == FROZEN
    assert [leaf.id for leaf in both.leaves(holes=True)] == [leaf.id for leaf in m.leaves()]
    for other in (t, t.filter(False)):
        with pytest.raises(MissingParamError, match=r"'b', 'c', 'g.1'"):
            t.combine(other, strict=True)
    with pytest.raises(MissingParamError, match=r"'b', 'c', 'g.1'"):
        t.combine(strict=True)


def test_12_strict_refuses_parts_that_overlap_or_are_of_other_modules() -> None:
    m = Bar()
    t, n = m.partition()
    with pytest.raises(ConflictError, match=r"'a'"):
        m.combine(m, strict=True)
    assert paths(t.combine(n, strict=True)) == PATHS
    with pytest.raises(ConflictError, match=r"'a' has the ids"):
        t.combine(Bar().partition()[1], strict=True)


def test_13_other_structure_is_refused_with_path_and_both_values() -> None:
    m, other = Bar(), Bar()
    other.h = "zzz"
    with pytest.raises(StructureMismatchError, match=r"'h': 'abc' and 'zzz'"):
        m.combine(other)
    other = Bar()
    other.f.extra = 3
    with pytest.raises(StructureMismatchError, match=r"'f.extra': no such field and 3"):
        m.combine(other)
    with pytest.raises(StructureMismatchError, match=r"'f.extra': 3 and no such field"):
        other.combine(m)
    other = Bar()
    other.f = nn.Linear(2, 2)
    with pytest.raises(StructureMismatchError, match=r"'f': Foo and Linear"):
        m.combine(other)
    with pytest.raises(StructureMismatchError, match=r"the root: Bar and Foo"):
        m.combine(Foo())
    other = Bar()
    other.g.append(Foo())
    with pytest.raises(StructureMismatchError, match=r"'g': 2 items and 3 items"):
        m.combine(other)


def test_13_what_is_no_module_is_refused() -> None:
    t, n = Bar().partition()
    for wrong in ((n,), None, "n"):
        for call in (t.combine, t.overlay, lambda it: t.map(lambda p, q: p, it), lambda it: t.filter(..., it)):
            with pytest.raises(TypeError, match=rf"module of the structure of Bar, got {type(wrong).__name__}"):
                call(wrong)


def test_13_other_flags_names_and_values_are_no_difference() -> None:
    m, other = Bar(), Bar()
    other.a.with_name("Z")
    other.freeze()
    assert paths(m.combine(other)) == PATHS
    assert m.partition()[0].combine(other).b.data is other.b.data


def test_14_the_order_of_assignment_does_not_matter() -> None:
    class Pair(mlax.Module):
        def __init__(self, names: str) -> None:
            for name in names:
                setattr(self, name, mlax.Parameter(name == "x", float(ord(name))))

    xy, yx = Pair("xy"), Pair("yx")
    new = xy.partition()[0].combine(yx)
    assert paths(new) == ["x", "y"]
    assert (new.x.data, new.y.data) == (ord("x"), ord("y"))
    assert new.x.data is xy.x.data
    assert new.y.data is yx.y.data


def test_15_none_is_no_hole() -> None:
    without, having = One(1.0, bias=None), One(1.0, bias=mlax.Parameter(True, 2.0))
    with pytest.raises(StructureMismatchError, match=r"'bias': None and a parameter"):
        without.combine(having)
    with pytest.raises(StructureMismatchError, match=r"'bias': a parameter and None"):
        having.filter(False).combine(without)
    assert without.bias is None
    assert paths(without) == ["a"]


def test_16_trainability_and_name_come_with_the_winner() -> None:
    m = Bar()
    frozen = m.map(lambda p: p).freeze()
    frozen.a.with_name("Z")
    t, n = m.partition()
    assert [leaf.trainable for leaf in frozen.combine(m).leaves()] == [False] * 6
    assert n.combine(frozen).a.name == "Z"
    assert n.combine(frozen).a.trainable is False
    assert t.combine(frozen).a.name == "A"
    assert t.combine(frozen).a.trainable is True


def test_17_combine_without_arguments_is_an_independent_shell() -> None:
    m = Bar()
    new = m.combine()
    assert all(it is tensors(m)[name] for name, it in tensors(new).items())
    new.a.data = torch.zeros(3, 4)
    new.c.data = [4, 5, 6]
    new.h = "changed"
    new.g.append(Foo())
    assert m.a.data.abs().sum() > 0
    assert m.c.data == [1, 2, 3]
    assert (m.h, len(m.g)) == ("abc", 2)


def test_the_functions_work_on_plain_modules() -> None:
    m = nn.Sequential(nn.Linear(2, 3), nn.BatchNorm1d(3))
    m[0].bias.requires_grad_(False)
    t, n = mlax.partition(m)
    assert [leaf.path for leaf in mlax.leaves(t)] == ["0.weight", "1.weight", "1.bias"]
    assert [*n.state_dict()] == ["0.bias", "1.running_mean", "1.running_var", "1.num_batches_tracked"]
    x = torch.randn(4, 2)
    assert torch.equal(mlax.combine(t, n, strict=True).eval()(x), m.eval()(x))
    with pytest.raises(MissingParamError, match=r"'1.running_mean'"):
        mlax.combine(t, strict=True)


def test_parts_of_a_module_that_refers_to_its_own_parts_fit_together() -> None:
    class Referring(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.layer = nn.Linear(2, 1)
            self.known = [self.layer]
            self.call = self.layer.forward
            self.later = partial(self.layer.forward)

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return self.call(x) + self.later(x) + self.known[0](x)

    module, x = Referring(), torch.ones(3, 2)
    combined = mlax.combine(*mlax.partition(module))
    assert combined.known[0] is combined.layer
    assert torch.equal(combined(x), module(x))
    other = Referring()
    other.known = [nn.Linear(2, 1)]
    with pytest.raises(StructureMismatchError, match="'known'"):
        mlax.combine(module, other)


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


def test_26_a_predicate_with_side_effects_is_asked_once() -> None:
    m = Bar()
    answers: list[bool] = []

    def alternating(param: mlax.Parameter) -> bool:
        answers.append(len(answers) % 2 == 0)
        return answers[-1]

    yes, no = m.partition(alternating)
    assert len(answers) == 6
    assert paths(yes) == PATHS[0::2]
    assert paths(no) == PATHS[1::2]


@pytest.mark.parametrize("answer", [1, "x", [0], torch.tensor([True])])
def test_27_what_is_true_selects(answer: Any) -> None:
    assert paths(Bar().filter(lambda p: answer if p.path == "a" else None)) == ["a"]


def test_27_a_tensor_of_several_values_is_no_answer() -> None:
    with pytest.raises(TypeError, match=r"shape \[3, 4\] for 'a'"):
        Bar().filter(lambda p: p.data > 0)


def test_28_a_parameter_with_several_tensors_is_asked_about_once() -> None:
    met: list[Any] = []
    Bar().filter(lambda p: met.append(p.data))
    assert len(met) == 6
    assert met[2] == [1, 2, 3]


def test_29_filters_of_all_kinds() -> None:
    m = Bar()
    cases: list[tuple[Any, list[str]]] = [
        (ParamGroup.from_path("f.w"), ["f.w"]),
        (ParamGroup.from_path("c"), ["c"]),
        (ParamGroup.from_paths(("a", "c.1")), ["a", "c"]),
        (ParamGroup.ids_from_module(m).exclude(ParamGroup.from_regex("w")), ["a", "b", "c", "g.1"]),
        (ParamGroup.from_ids([m.c.id]), ["c"]),
        ({m.a.id, m.c.id}, ["a", "c"]),
        (re.compile(r"\.w$"), ["f.w", "g.0.w"]),
        (..., PATHS),
        (True, PATHS),
        (False, []),
        (mlax.Not(mlax.is_trainable), FROZEN),
        (mlax.All(mlax.is_trainable, mlax.Not("A")), ["f.w", "g.0.w"]),
        (mlax.Any("A", ParamGroup.from_path("g.1")), ["a", "g.1"]),
        ("A", ["a"]),
        ("weight", ["a", "b", "f.w", "g.0.w", "g.1"]),
        ("state", ["c"]),
    ]
    for f, expected in cases:
        assert paths(m.filter(f)) == expected
    assert paths(m.filter(lambda path, p: path.startswith("g") and p.trainable, with_path=True)) == ["g.0.w"]
    with pytest.raises(ParamPathError, match=r"'f.x'"):
        m.filter(ParamGroup.from_path("f.x"))
    with pytest.raises(ParamPathError, match=r"'f.x'"):
        m.filter(ParamGroup.from_paths(("c", "f.x")))
    with pytest.raises(TypeError, match=r"set of ParamIds.*'a'"):
        m.filter({"a"})  # pyright: ignore[reportArgumentType]
    with pytest.raises(TypeError, match=r"expected a filter.*got int"):
        m.filter(3)  # pyright: ignore[reportArgumentType]


def test_29_split_into_several_parts() -> None:
    m = Bar()
    parts = m.split("A", mlax.is_trainable, ...)
    assert [paths(part) for part in parts] == [["a"], ["f.w", "g.0.w"], FROZEN]
    assert paths(parts[2].combine(*parts[:2], strict=True)) == PATHS
    with pytest.raises(ArgumentError, match=r"'b', 'c', 'g.1'.*`...`"):
        m.split("A", mlax.is_trainable)
    assert [paths(part) for part in m.split(mlax.is_trainable, mlax.is_non_trainable)] == [TRAINABLE, FROZEN]


def test_29_a_filter_compares_with_other_trees() -> None:
    m, other = Bar(), Bar()
    other.a.data = m.a.data
    assert paths(m.filter(lambda p, q: p.path == "a" and torch.equal(p.data, q.data), other)) == ["a"]
    same, different = m.partition(lambda p, q: True, other.partition()[0])
    assert paths(same) == TRAINABLE
    assert paths(different) == FROZEN


def test_30_the_intent_counts_not_what_is_tracked_now() -> None:
    m = Bar()
    assert paths(m.valid().filter(mlax.is_trainable)) == paths(m.filter(mlax.is_trainable)) == TRAINABLE
    assert not any(leaf.requires_grad for leaf in m.valid().leaves())
    m.freeze(ParamGroup.from_path("a"))
    assert paths(m.valid().filter(mlax.is_trainable)) == ["f.w", "g.0.w"]
