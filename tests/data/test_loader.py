"""DataLoader: its order, its position, its workers."""

import copy
import os
import pickle
import random
import re
import signal
from collections import Counter, OrderedDict, namedtuple

import numpy
import pytest
import torch

from burnlike.data import DataLoader, InMemDataset
from burnlike.data.batching import to_device
from burnlike.errors import DataError


class Stack:
    def batch(self, items: list[int], device: torch.device) -> list[int]:
        return list(items)


def loader(n_items: int = 10, **options) -> DataLoader:
    options = {"batch_size": 3, "seed": 7, **options}
    return DataLoader(InMemDataset(range(n_items)), Stack(), **options)


def epochs(of: DataLoader, count: int) -> list[list[list[int]]]:
    return [list(of) for _ in range(count)]


def flat(lists: list[list]) -> list:
    return [item for items in lists for item in items]


def test_an_epoch_is_every_item_once_in_another_order_each_time() -> None:
    first, second = epochs(loader(), 2)
    assert [len(batch) for batch in first] == [3, 3, 3, 1]
    assert sorted(flat(first)) == sorted(flat(second)) == list(range(10))
    assert first != second


def test_without_seed_the_order_is_that_of_the_dataset() -> None:
    assert epochs(loader(seed=None), 2) == [[[0, 1, 2], [3, 4, 5], [6, 7, 8], [9]]] * 2


def test_order_depends_on_seed_and_epoch_only() -> None:
    expected = epochs(loader(), 4)
    assert epochs(loader(), 4) == expected
    assert epochs(loader(seed=8), 4) != expected
    jumped = loader()
    jumped.load_state_dict({**jumped.state_dict(), "epoch": 3})
    assert list(jumped) == expected[3]


def test_global_random_state_plays_no_part_and_is_not_touched() -> None:
    expected = epochs(loader(), 2)
    torch.manual_seed(123)
    before = torch.get_rng_state()
    assert epochs(loader(), 2) == expected
    assert torch.equal(torch.get_rng_state(), before)


@pytest.mark.parametrize("workers", [1, 3])
@pytest.mark.parametrize("steps", [None, 5])
def test_order_is_the_same_with_any_number_of_workers(workers: int, steps: int | None) -> None:
    expected = epochs(loader(100, steps_per_epoch=steps), 3)
    assert epochs(loader(100, steps_per_epoch=steps, num_workers=workers), 3) == expected


def test_steps_per_epoch_cuts_passes_so_that_items_are_seen_equally_often() -> None:
    of = loader(10, steps_per_epoch=4)  # 12 items an epoch; 5 epochs are 6 passes
    batches = flat(epochs(of, 5))
    assert {len(batch) for batch in batches} == {3}
    assert len(of) == 4
    row = flat(batches)
    for start in range(0, 60, 10):
        assert sorted(row[start : start + 10]) == list(range(10))
    assert set(Counter(row).values()) == {6}


@pytest.mark.parametrize("workers", [0, 2])
@pytest.mark.parametrize("taken", range(9))
def test_saved_position_goes_on_with_the_next_batch(taken: int, workers: int) -> None:
    expected = flat(epochs(loader(), 3))
    of = loader(num_workers=workers)
    seen = []
    while len(seen) < taken:
        for batch in of:
            seen.append(batch)
            if len(seen) == taken:
                break
    state = of.state_dict()
    assert (state["epoch"], state["position"]) == divmod(taken, 4)
    resumed = loader()
    resumed.load_state_dict(state)
    rest = list(resumed)
    assert seen + rest == expected[: taken + len(rest)]
    assert resumed.epoch == taken // 4 + 1


@pytest.mark.parametrize("change", [{"seed": 8}, {"batch_size": 2}, {"steps_per_epoch": 7}, {"n_items": 11}])
def test_position_in_other_batches_is_refused(change: dict) -> None:
    state = loader().state_dict()
    other = loader(**change)
    with pytest.raises(DataError, match=r"one of other (batches|data)"):
        other.load_state_dict(state)
    assert (other.epoch, other.position) == (0, 0)


def test_position_in_other_data_of_the_same_size_is_refused() -> None:
    of, other = loader(), loader()
    of.dataset.fingerprint, other.dataset.fingerprint = "a", "b"
    message = (
        "other data: the content of its files, or what .*, was 10 items with the fingerprint a, is 10 items .* b now"
    )
    with pytest.raises(DataError, match=message):
        other.load_state_dict(of.state_dict())


@pytest.mark.parametrize("position", [-1, 4])
def test_position_that_does_not_exist_is_refused(position: int) -> None:
    of = loader()
    with pytest.raises(DataError, match="does not exist"):
        of.load_state_dict({**of.state_dict(), "position": position})


def test_rewind_goes_back_to_the_beginning() -> None:
    of = loader()
    expected = list(of)
    of.rewind()
    assert list(of) == expected


class Bad(InMemDataset):
    """Items 5 and 6 can't be read."""

    def __getitem__(self, index: int) -> int:
        if index in (5, 6):
            raise OSError("disk gone")
        return index


@pytest.mark.parametrize("workers", [0, 2])
def test_an_item_that_can_not_be_read_is_named(workers: int) -> None:
    of = DataLoader(Bad(range(50)), Stack(), batch_size=2, num_workers=workers)
    message = r"^item 5 of Bad can't be read: OSError: disk gone.*Mend the data, or leave such items out by on_bad_item"
    with pytest.raises(DataError, match=re.compile(message, re.DOTALL)) as caught:
        list(of)
    assert of.position == 2
    assert isinstance(caught.value.__cause__, OSError) or "in __getitem__" in str(caught.value)


@pytest.mark.parametrize("workers", [0, 2])
def test_items_that_can_not_be_read_are_left_out_and_counted_if_asked(workers: int) -> None:
    of = DataLoader(Bad(range(8)), Stack(), batch_size=3, num_workers=workers, on_bad_item="skip")
    for _ in range(2):
        assert list(of) == [[0, 1, 2], [3, 4], [7]]
        assert of.left_out == [f"item {it} of Bad: OSError: disk gone" for it in (5, 6)]
    assert of.skipped == 4
    with pytest.raises(DataError, match="none of items 5, 6 of Bad can be read"):
        list(DataLoader(Bad(range(7)), Stack(), batch_size=5, num_workers=workers, on_bad_item="skip"))


@pytest.mark.parametrize("workers", [0, 2])
def test_a_batcher_that_fails_names_the_items(workers: int) -> None:
    of = DataLoader(InMemDataset([torch.zeros(2), torch.zeros(3)]), batch_size=2, num_workers=workers)
    message = "items 0, 1 of InMemDataset make no batch: RuntimeError: stack expects.*A batch is of items of one shape"
    with pytest.raises(DataError, match=re.compile(message, re.DOTALL)):
        list(of)


class Dies(InMemDataset):
    """Reading item 7 kills the process."""

    def __getitem__(self, index: int) -> int:
        if index == 7:
            os.kill(os.getpid(), signal.SIGKILL)
        return index


def test_a_worker_that_dies_is_one_message() -> None:
    with pytest.raises(
        DataError, match=r"a worker process of the data loader has died: .*(Killed|exited unexpectedly).*num_workers"
    ):
        list(DataLoader(Dies(range(40)), Stack(), batch_size=2, num_workers=2))


class Drawing(InMemDataset):
    """Items with numbers of three global generators."""

    draws = True

    def __getitem__(self, index: int) -> tuple[int, float, float, float]:
        return index, random.random(), torch.rand(1).item(), float(numpy.random.rand())


def test_what_a_dataset_draws_is_the_same_with_any_number_of_workers() -> None:
    def drawn(**options) -> list[list[list]]:
        return epochs(DataLoader(Drawing(range(10)), Stack(), batch_size=3, seed=4, **options), 2)

    before = random.getstate(), torch.get_rng_state(), numpy.random.get_state()[1].tolist()
    expected = drawn()
    assert (random.getstate(), numpy.random.get_state()[1].tolist()) == (before[0], before[2])
    assert torch.equal(torch.get_rng_state(), before[1])
    assert drawn(num_workers=1) == drawn(num_workers=3) == expected
    numbers = [number for batch in flat(expected) for _, *drawn in batch for number in drawn]
    assert len(set(numbers)) == len(numbers) == 60


def test_workers_need_no_batcher_and_leave_the_global_generators_alone() -> None:
    torch.manual_seed(3)
    before = torch.get_rng_state()
    data = [(torch.tensor([float(i)]), i) for i in range(5)]
    batches = [list(DataLoader(data, batch_size=2, num_workers=workers)) for workers in (0, 2)]
    for x, y in zip(*batches, strict=True):
        assert torch.equal(x[0], y[0])
        assert torch.equal(x[1], y[1])
    assert batches[0][2][0].tolist() == [[4.0]]
    assert torch.equal(torch.get_rng_state(), before)


@pytest.mark.parametrize("steps", [None, 4])
@pytest.mark.parametrize("world_size", [2, 3, 4])
def test_ranks_see_together_what_one_process_sees(world_size: int, steps: int | None) -> None:
    of = [loader(13, batch_size=2, rank=r, world_size=world_size, steps_per_epoch=steps) for r in range(world_size)]
    alone = loader(13, batch_size=2 * world_size, steps_per_epoch=steps)
    for _ in range(2):
        for whole, *parts in zip(alone, *of, strict=True):
            joined = [item for part, it in zip(parts, of, strict=True) if not it.is_padding for item in part]
            assert joined == whole
            sizes = [0 if it.is_padding else len(part) for part, it in zip(parts, of, strict=True)]
            assert max(sizes) - min(sizes) <= 1
            assert all(parts)
    assert [it.state_dict() for it in of] == [alone.state_dict()] * world_size


def test_a_position_is_one_of_the_joined_batches() -> None:
    two = loader(12, batch_size=3, rank=1, world_size=2)
    next(iter(two))
    one = loader(12, batch_size=6)
    one.load_state_dict(two.state_dict())
    assert one.position == 1


@pytest.mark.parametrize("options", [{"rank": 1}, {"rank": -1, "world_size": 2}, {"world_size": 0}])
def test_wrong_ranks_are_refused(options: dict) -> None:
    with pytest.raises(ValueError, match=r"expected (rank|world_size)"):
        loader(**options)


def test_empty_dataset_and_numbers_out_of_range_are_refused() -> None:
    with pytest.raises(DataError, match="at least one item"):
        loader(0)
    for options in ({"batch_size": 0}, {"steps_per_epoch": 0}, {"num_workers": -1}):
        with pytest.raises(ValueError, match=next(iter(options))):
            loader(**options)


@pytest.mark.parametrize("steps", [None, 5])
def test_a_copy_with_another_dataset_or_seed_has_batches_of_its_own(steps: int | None) -> None:
    first = loader(steps_per_epoch=steps)
    before = epochs(first, 1)
    changed = copy.deepcopy(first)
    changed.dataset = InMemDataset(range(100, 107))
    changed.rewind()
    expected = DataLoader(InMemDataset(range(100, 107)), Stack(), batch_size=3, seed=7, steps_per_epoch=steps)
    assert epochs(changed, 3) == epochs(expected, 3)
    first.seed = 8
    first.rewind()
    assert epochs(first, 3) == epochs(loader(seed=8, steps_per_epoch=steps), 3) != before * 3
    first.dataset.append(10)
    first.rewind()
    assert epochs(first, 3) == epochs(loader(11, seed=8, steps_per_epoch=steps), 3)


@pytest.mark.parametrize("copied", [copy.copy, copy.deepcopy, lambda it: pickle.loads(pickle.dumps(it))])
def test_copies_and_pickles_go_on_at_the_same_batch(copied) -> None:
    whole = epochs(loader(steps_per_epoch=4), 3)
    first = loader(steps_per_epoch=4)
    begun = iter(first)
    next(begun), next(begun)
    other = copied(first)
    assert [*begun] == [*other] == whole[0][2:]
    assert epochs(first, 2) == epochs(other, 2) == whole[1:]


def test_what_is_kept_of_the_order_does_not_grow() -> None:
    many = loader(1000)
    epochs(many, 5)
    assert sum(map(len, many._passes.values())) <= 2000


class Row(tuple):
    """A tuple of a library's own."""


class Columns(dict):
    """A dict of a library's own."""


def test_tensors_of_any_batch_go_to_the_device() -> None:
    pair = namedtuple("pair", "x y")
    one = torch.ones(1)
    batch = {
        "a": [one, (one, "text")],
        "b": pair(one, 2),
        "c": OrderedDict(x=one),
        "d": Row([one]),
        "e": Columns(x=one),
    }
    found = to_device(batch, torch.device("meta"))
    tensors = [found["a"][0], found["a"][1][0], found["b"].x, found["c"]["x"], found["d"][0], found["e"]["x"]]
    assert all(it.is_meta for it in tensors)
    assert (found["a"][1][1], found["b"].y) == ("text", 2)
    kinds = [type(it) for it in (found["a"][1], found["b"], found["c"], found["d"])]
    assert kinds == [tuple, pair, OrderedDict, Row]
