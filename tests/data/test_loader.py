"""DataLoaders: order, workers, prefetching, balanced batches and windows."""

import copy
import os
import pickle
import random
import re
import signal
from collections import Counter, OrderedDict, namedtuple
from contextlib import contextmanager
from typing import Any

import numpy
import pytest
import torch

from burnlike.data import (
    DataLoader,
    InMemDataset,
    MapperDataset,
    PartialDataset,
    SelectionDataset,
    TensorDataset,
    TokenBatcher,
    TokenWindows,
)
from burnlike.data.batching import Made, copied_ahead, to_device
from burnlike.errors import ArgumentError, DataError


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


def test_a_look_takes_nothing_from_an_evaluation_and_a_training_goes_on() -> None:
    data = TensorDataset(torch.arange(8))
    for seed, expected in ((None, 4), (0, 3)):
        loader = DataLoader(data, batch_size=2, seed=seed)
        next(iter(loader))
        assert len([*loader]) == expected
        assert len([*loader]) == 4
        next(iter(loader))
        loader.load_state_dict(loader.state_dict())
        assert len([*loader]) == 3


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
    with pytest.raises(DataError, match=r"a position that state_dict\(\) .* without epoch, position"):
        of.load_state_dict({})


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
    message = (
        r"^item 5 of Bad can't be read: OSError: disk gone\. Mend the data, or leave such items out by on_bad_item"
    )
    with pytest.raises(DataError, match=message) as caught:
        list(of)
    assert of.position == 2
    cause = caught.value.__cause__
    assert isinstance(cause, OSError) or "in __getitem__" in str(cause)


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
    message = "items 0, 1 of the data make no batch: RuntimeError: stack expects.*A batch is of items of one shape"
    with pytest.raises(DataError, match=re.compile(message, re.DOTALL)):
        list(of)


def test_a_function_is_no_batcher() -> None:
    with pytest.raises(ArgumentError, match=r"expected a batcher with a method batch\(items, device\), .*, got flat"):
        DataLoader(InMemDataset([1, 2]), flat, batch_size=2)


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
    wrong = [{"batch_size": 0}, {"steps_per_epoch": 0}, {"num_workers": -1}, {"on_bad_item": "drop"}, {"sampling": "a"}]
    for options in wrong:
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


TARGETS = torch.tensor([0] * 20 + [1] * 5 + [2] * 3)
DATA = TensorDataset(torch.arange(28), TARGETS)


def balanced_loader(data: Any = DATA, **options: Any) -> DataLoader[Any, Any]:
    return DataLoader(data, **{"batch_size": 4, "seed": 3, "sampling": "balanced", **options})


def test_a_pass_has_each_class_equally_often_and_all_items_of_a_class_before_one_comes_again() -> None:
    (found,) = balanced_loader(batch_size=28)
    counts = Counter(found[1].tolist())
    assert sorted(counts.values()) == [9, 9, 10]
    of_class = {it: Counter(found[0][found[1] == it].tolist()) for it in range(3)}
    assert max(of_class[0].values()) == 1
    assert set(of_class[1].values()) <= {1, 2}
    assert set(of_class[2].values()) <= {3, 4}


def test_the_order_is_one_of_seed_and_epoch_and_goes_on_after_a_stop_with_any_workers() -> None:
    whole = balanced_loader()
    epochs = [[batch[0].tolist() for batch in whole] for _ in range(2)]
    assert epochs[0] != epochs[1]
    stopped = balanced_loader()
    first = [batch[0].tolist() for _, batch in zip(range(3), stopped, strict=False)]
    resumed = balanced_loader()
    resumed.load_state_dict(stopped.state_dict())
    assert first + [batch[0].tolist() for batch in resumed] == epochs[0]
    ranks = [balanced_loader(batch_size=2, rank=rank, world_size=2) for rank in range(2)]
    joined = [a[0].tolist() + b[0].tolist() for a, b in zip(*ranks, strict=True)]
    assert joined == epochs[0]
    with pytest.raises(DataError, match="sampling was balanced, is all now"):
        balanced_loader(sampling="all").load_state_dict(stopped.state_dict())


def test_classes_are_found_in_what_is_made_of_a_data_set() -> None:
    some = SelectionDataset(DATA, [0, 1, 2, 3, 20, 25])
    for data in (some, MapperDataset(some, lambda it: it), PartialDataset(some, 0, 6), InMemDataset([*some])):
        (batch,) = balanced_loader(data, batch_size=6)
        assert sorted(Counter(batch[1].tolist()).values()) == [2, 2, 2]
    named = InMemDataset([{"x": a, "labels": b} for a, b in (DATA[it] for it in (0, 1, 2, 20))])
    (batch,) = balanced_loader(named)
    assert sorted(batch["labels"].tolist()) == [0, 0, 1, 1]


def test_what_has_no_class_for_each_item_is_refused() -> None:
    with pytest.raises(DataError, match=r"balanced: expected items with one class each, .* got Tensor"):
        balanced_loader(InMemDataset([torch.zeros(3)]))
    with pytest.raises(DataError, match=r"got a target of \[2\], torch.float32"):
        balanced_loader(TensorDataset(torch.zeros(3), torch.zeros(3, 2)))
    with pytest.raises(ValueError, match="needs a seed"):
        balanced_loader(seed=None)


class Texts(TensorDataset):
    """Items with lengths."""

    lengths = torch.arange(64) * 37 % 64


def test_items_of_a_step_have_like_lengths_also_balanced() -> None:
    data = Texts(torch.arange(64), torch.arange(64) % 8 // 7)
    spread = []
    for sampling in ("all", "balanced"):
        batches = [Texts.lengths[batch[0]] for batch in balanced_loader(data, batch_size=8, sampling=sampling)]
        spread.append(sum(float(it.max() - it.min()) for it in batches) / len(batches))
    assert max(spread) < 40  # of random ones about 50
    plain = balanced_loader(data, batch_size=8, sampling="all")
    assert sorted(it for batch in plain for it in batch[0].tolist()) == [*range(64)]


CPU = torch.device("cpu")


class Stream:
    """Notes what is asked of it."""

    def __init__(self, name: str, events: list[str]) -> None:
        self.name = name
        self.events = events
        self.count = 0

    def record_event(self) -> str:
        self.count += 1
        self.events.append(f"copied {self.count}")
        return str(self.count)

    def wait_event(self, event: str) -> None:
        self.events.append(f"{self.name} waits for {event}")


@pytest.fixture
def events(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    found: list[str] = []
    computing = Stream("computing", found)

    @contextmanager
    def using(stream: Stream) -> Any:
        assert stream.name == "copies"
        yield

    monkeypatch.setattr(torch.cuda, "Stream", lambda device: Stream("copies", found))
    monkeypatch.setattr(torch.cuda, "stream", using)
    monkeypatch.setattr(torch.cuda, "current_stream", lambda device: computing)
    monkeypatch.setattr(
        torch.Tensor, "record_stream", lambda it, stream: found.append(f"{stream.name} uses {it.item()}")
    )
    return found


def test_each_batch_is_copied_before_the_one_before_is_handed_out(events: list[str]) -> None:
    made = [Made({"x": torch.tensor(number), "name": "a text"}) for number in range(3)]
    for number, found in enumerate(copied_ahead(made, CPU)):
        assert found.batch["x"] == number
        events.append(f"step {number}")
    assert events == [
        *("copied 1", "copied 2", "computing waits for 1", "computing uses 0", "step 0"),
        *("copied 3", "computing waits for 2", "computing uses 1", "step 1"),
        *("computing waits for 3", "computing uses 2", "step 2"),
    ]


def test_nothing_and_a_batch_that_was_not_made_pass_through(events: list[str]) -> None:
    assert list(copied_ahead([], CPU)) == []
    assert [it.error for it in copied_ahead([Made(None, error="broken")], CPU)] == ["broken"]


@pytest.mark.cuda
def test_on_cuda_the_batches_are_those_of_the_cpu() -> None:
    data = TensorDataset(torch.randn(64, 256, 256), torch.arange(64))
    alone, loader = (DataLoader(data, batch_size=8, seed=1, **it) for it in ({}, {"num_workers": 2, "device": "cuda"}))
    for _ in range(2):
        for (rows, numbers), (its_rows, its_numbers) in zip(loader, alone, strict=True):
            assert rows.device.type == numbers.device.type == "cuda"
            total = rows.double().sum()  # while the next one is copied
            assert torch.equal(rows.cpu(), its_rows)
            assert torch.equal(numbers.cpu(), its_numbers)
            assert total.item() == pytest.approx(its_rows.double().sum().item(), rel=1e-12)


def test_every_token_but_the_first_is_predicted_once() -> None:
    tokens = torch.arange(21, dtype=torch.uint8)
    windows = TokenWindows(tokens, 5)
    assert len(windows) == 4
    targets = torch.cat([windows[i][1:] for i in range(len(windows))])
    assert targets.tolist() == list(range(1, 21))
    assert len(TokenWindows(tokens[:20], 5)) == 3


def test_stride_sets_the_distance_of_starts() -> None:
    windows = TokenWindows(torch.arange(10), 3, stride=2)
    assert [windows[i].tolist() for i in range(len(windows))] == [
        [0, 1, 2, 3],
        [2, 3, 4, 5],
        [4, 5, 6, 7],
        [6, 7, 8, 9],
    ]


def test_windows_are_views_and_end_where_they_end() -> None:
    tokens = torch.arange(9, dtype=torch.uint8)
    windows = TokenWindows(tokens, 4)
    assert windows[1].data_ptr() == tokens.data_ptr() + 4
    for index in (-1, 2):
        with pytest.raises(IndexError):
            windows[index]


def test_too_few_tokens_for_one_window_is_an_error() -> None:
    with pytest.raises(DataError, match="at least 6 tokens for one window of 5, got 5"):
        TokenWindows(torch.arange(5), 5)
    assert len(TokenWindows(torch.arange(6), 5)) == 1


def test_batch_stacks_in_order_as_int64() -> None:
    windows = TokenWindows(torch.tensor([0, 255, 7, 200, 9], dtype=torch.uint8), 2)
    batch = TokenBatcher().batch([windows[1], windows[0]], torch.device("cpu"))
    assert batch.dtype == torch.int64
    assert batch.tolist() == [[7, 200, 9], [0, 255, 7]]
