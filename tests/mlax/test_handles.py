"""MLAX's documentation page: leaves, filter, partition, combine, map, ModuleSeq. Numbers are those of our test plan."""

from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

from burnlike import mlax

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
