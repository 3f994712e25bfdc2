"""DataLoader: its order, its position, its workers."""

import copy
import pickle
import threading
from collections import Counter

import pytest
import torch

from burnlike.data import DataLoader, InMemDataset
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
    with pytest.raises(DataError, match="other batches"):
        other.load_state_dict(state)
    assert (other.epoch, other.position) == (0, 0)


def test_position_in_other_data_of_the_same_size_is_refused() -> None:
    of, other = loader(), loader()
    of.dataset.fingerprint, other.dataset.fingerprint = "a", "b"
    with pytest.raises(DataError, match="fingerprint was a, is b now"):
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


def test_an_items_error_reaches_the_caller_and_threads_end() -> None:
    class Bad(InMemDataset):
        def __getitem__(self, index: int) -> int:
            if index == 5:
                raise OSError("disk gone")
            return index

    of = DataLoader(Bad(range(50)), Stack(), batch_size=2, num_workers=3)
    with pytest.raises(OSError, match="disk gone"):
        list(of)
    assert not [thread for thread in threading.enumerate() if thread.name.startswith("DataLoader")]


def test_workers_end_when_iteration_is_left_early() -> None:
    for _ in loader(100, num_workers=2):
        break
    assert not [thread for thread in threading.enumerate() if thread.name.startswith("DataLoader")]


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
