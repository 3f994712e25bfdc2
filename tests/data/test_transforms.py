"""Datasets made of other datasets."""

import pickle
from collections import Counter
from typing import Any

import pytest

from burnlike.data import (
    ComposedDataset,
    DataLoader,
    InMemDataset,
    MapperDataset,
    PartialDataset,
    SamplerDataset,
    SelectionDataset,
    ShuffledDataset,
    WindowsDataset,
)
from burnlike.errors import ArgumentError

TEN = InMemDataset(range(10))


def times_three(item: int) -> int:
    return item * 3


def test_mapper() -> None:
    of = MapperDataset(TEN, times_three)
    assert (len(of), of[4]) == (10, 12)


def test_shuffled_has_every_item_once_in_an_order_of_its_seed() -> None:
    first, again, other = (list(ShuffledDataset(TEN, seed)) for seed in (1, 1, 2))
    assert first == again
    assert sorted(first) == sorted(other) == list(range(10))
    assert len({tuple(first), tuple(other), tuple(range(10))}) == 3


def test_sampler_without_replacement_takes_each_before_any_again() -> None:
    items = list(SamplerDataset(TEN, 25, seed=3))
    assert sorted(items[:10]) == sorted(items[10:20]) == list(range(10))
    assert len(set(items[20:])) == 5
    assert len(SamplerDataset(TEN, ratio=0.5)) == 5
    assert len(SamplerDataset(TEN, 0)) == 0


def test_sampler_with_replacement_draws_each_equally_often() -> None:
    counts = Counter(SamplerDataset(TEN, 20_000, with_replacement=True, seed=5))
    assert set(counts) == set(range(10))
    assert all(1800 < count < 2200 for count in counts.values())  # 4.7 standard deviations


def test_partial_splits_as_burn_does() -> None:
    assert [list(it) for it in PartialDataset.split(TEN, 3)] == [[0, 1, 2], [3, 4, 5], [6, 7, 8, 9]]
    assert [list(it) for it in PartialDataset.split_chunks(TEN, 4)] == [[0, 1, 2, 3], [4, 5, 6, 7], [8, 9]]
    assert list(PartialDataset(TEN, 2, 5)) == [2, 3, 4]


def test_windows() -> None:
    assert list(WindowsDataset(TEN, 3, 4)) == [[0, 1, 2], [4, 5, 6]]
    assert len(WindowsDataset(TEN, 3)) == 8
    assert len(WindowsDataset(TEN, 11)) == 0


def test_composed() -> None:
    of = ComposedDataset([TEN, InMemDataset([]), InMemDataset("ab")])
    assert list(of) == [*range(10), "a", "b"]


@pytest.mark.parametrize(
    "make",
    [
        lambda: SelectionDataset(TEN, [10]),
        lambda: SelectionDataset(TEN, [-1]),
        lambda: SamplerDataset(TEN),
        lambda: SamplerDataset(TEN, 3, ratio=0.5),
        lambda: SamplerDataset(TEN, -1),
        lambda: SamplerDataset(InMemDataset([]), 1),
        lambda: PartialDataset(TEN, 3, 11),
        lambda: PartialDataset(TEN, 3, 2),
        lambda: PartialDataset.split(TEN, 11),
        lambda: PartialDataset.split_chunks(TEN, 0),
        lambda: WindowsDataset(TEN, 0),
    ],
)
def test_what_can_not_be_made_is_refused(make: Any) -> None:
    with pytest.raises(ArgumentError, match="expected"):
        make()


ALL = [
    MapperDataset(TEN, times_three),
    SelectionDataset(TEN, [1, 2]),
    ShuffledDataset(TEN, 1),
    SamplerDataset(TEN, 3),
    PartialDataset(TEN, 1, 4),
    ComposedDataset([TEN, TEN]),
    WindowsDataset(TEN, 2),
]


@pytest.mark.parametrize("of", ALL, ids=lambda it: type(it).__name__)
def test_each_is_pickled_and_knows_its_end(of: Any) -> None:
    assert list(pickle.loads(pickle.dumps(of))) == list(of)
    with pytest.raises(IndexError):
        of[len(of)]


def test_fingerprints_follow_the_data_and_what_is_made_of_it() -> None:
    named = InMemDataset(range(4))
    named.fingerprint = "a"
    made = [
        SelectionDataset(named, [1]),
        SelectionDataset(named, [2]),
        ComposedDataset([named, named]),
        WindowsDataset(named, 2),
        WindowsDataset(named, 3),
    ]
    found = [it.fingerprint for it in made]
    assert len(set(found)) == len(found)
    assert None not in found
    assert MapperDataset(named, times_three).fingerprint == "a"
    assert [it.fingerprint for it in ALL[:1]] == [None]
    assert SelectionDataset(TEN, [1]).fingerprint is None


def test_only_a_function_may_draw() -> None:
    assert not any(it.draws for it in ALL[1:])
    assert SelectionDataset(ALL[0], [1]).draws
    assert next(iter(DataLoader(SelectionDataset(TEN, [3, 4]), batch_size=2))).tolist() == [3, 4]
