"""Priority, conflicts and what is missing when modules are put together."""

from functools import partial

import pytest
import torch
from torch import nn

from burnlike import mlax
from burnlike.errors import ConflictError, MissingParamError, StructureMismatchError

from .samples import FROZEN, PATHS, Bar, Foo, by_path, paths, tensors


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
