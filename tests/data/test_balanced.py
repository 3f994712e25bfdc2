"""Balanced sampling and lengths: the order of a pass, and its position after a stop."""

from collections import Counter
from typing import Any

import pytest
import torch

from burnlike.data import DataLoader, InMemDataset, MapperDataset, PartialDataset, SelectionDataset, TensorDataset
from burnlike.errors import DataError

TARGETS = torch.tensor([0] * 20 + [1] * 5 + [2] * 3)
DATA = TensorDataset(torch.arange(28), TARGETS)


def loader(data: Any = DATA, **options: Any) -> DataLoader[Any, Any]:
    return DataLoader(data, **{"batch_size": 4, "seed": 3, "sampling": "balanced", **options})


def test_a_pass_has_each_class_equally_often_and_all_items_of_a_class_before_one_comes_again() -> None:
    (found,) = loader(batch_size=28)
    counts = Counter(found[1].tolist())
    assert sorted(counts.values()) == [9, 9, 10]
    of_class = {it: Counter(found[0][found[1] == it].tolist()) for it in range(3)}
    assert max(of_class[0].values()) == 1
    assert set(of_class[1].values()) <= {1, 2}
    assert set(of_class[2].values()) <= {3, 4}


def test_the_order_is_one_of_seed_and_epoch_and_goes_on_after_a_stop_with_any_workers() -> None:
    whole = loader()
    epochs = [[batch[0].tolist() for batch in whole] for _ in range(2)]
    assert epochs[0] != epochs[1]
    stopped = loader()
    first = [batch[0].tolist() for _, batch in zip(range(3), stopped, strict=False)]
    resumed = loader()
    resumed.load_state_dict(stopped.state_dict())
    assert first + [batch[0].tolist() for batch in resumed] == epochs[0]
    ranks = [loader(batch_size=2, rank=rank, world_size=2) for rank in range(2)]
    joined = [a[0].tolist() + b[0].tolist() for a, b in zip(*ranks, strict=True)]
    assert joined == epochs[0]
    with pytest.raises(DataError, match="sampling was balanced, is all now"):
        loader(sampling="all").load_state_dict(stopped.state_dict())


def test_classes_are_found_in_what_is_made_of_a_data_set() -> None:
    some = SelectionDataset(DATA, [0, 1, 2, 3, 20, 25])
    for data in (some, MapperDataset(some, lambda it: it), PartialDataset(some, 0, 6), InMemDataset([*some])):
        (batch,) = loader(data, batch_size=6)
        assert sorted(Counter(batch[1].tolist()).values()) == [2, 2, 2]
    named = InMemDataset([{"x": a, "labels": b} for a, b in (DATA[it] for it in (0, 1, 2, 20))])
    (batch,) = loader(named)
    assert sorted(batch["labels"].tolist()) == [0, 0, 1, 1]


def test_what_has_no_class_for_each_item_is_refused() -> None:
    with pytest.raises(DataError, match=r"balanced: expected items with one class each, .* got Tensor"):
        loader(InMemDataset([torch.zeros(3)]))
    with pytest.raises(DataError, match=r"got a target of \[2\], torch.float32"):
        loader(TensorDataset(torch.zeros(3), torch.zeros(3, 2)))
    with pytest.raises(ValueError, match="needs a seed"):
        loader(seed=None)


class Texts(TensorDataset):
    """Items with lengths."""

    lengths = torch.arange(64) * 37 % 64


def test_items_of_a_step_have_like_lengths_also_balanced() -> None:
    data = Texts(torch.arange(64), torch.arange(64) % 8 // 7)
    spread = []
    for sampling in ("all", "balanced"):
        batches = [Texts.lengths[batch[0]] for batch in loader(data, batch_size=8, sampling=sampling)]
        spread.append(sum(float(it.max() - it.min()) for it in batches) / len(batches))
    assert max(spread) < 40  # of random ones about 50
    plain = loader(data, batch_size=8, sampling="all")
    assert sorted(it for batch in plain for it in batch[0].tolist()) == [*range(64)]
