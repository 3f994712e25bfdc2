"""Holes: what filter leaves, and what may be done with them."""

from pathlib import Path

import pytest
import torch
import torch.nn.functional as F

from burnlike import mlax
from burnlike.errors import EmptyParamError, RecordMismatchError
from burnlike.module import Param

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
