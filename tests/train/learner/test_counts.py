"""Numbers of batches, steps and left-out items."""

from types import SimpleNamespace
from typing import Any

import pytest

from burnlike.train import TrainingConfig
from burnlike.train.learner.steps import left_out_of


@pytest.mark.parametrize(
    ("options", "items", "batches", "steps"),
    [
        ({"batch_size": 4}, 10, 3, 3),
        ({"batch_size": 4, "drop_last": True}, 10, 2, 2),
        ({"batch_size": 4, "drop_last": True}, 12, 3, 3),
        ({"batch_size": 4, "accumulation_steps": 2}, 10, 3, 2),
        ({"batch_size": 4, "global_batch_size": 5}, 10, 2, 2),
    ],
)
def test_batches_and_steps_of_an_epoch(options: dict[str, Any], items: int, batches: int, steps: int) -> None:
    training = TrainingConfig(epochs=1, **options)
    assert (training.batches_of(items), training.steps_of(batches)) == (batches, steps)


def test_only_items_left_out_since_then_are_told() -> None:
    alone: Any = SimpleNamespace(data_rank=0, gather=lambda value: [value])
    loader: Any = SimpleNamespace(on_bad_item="skip", skipped=7, left_out=["row 3: no number"])
    assert left_out_of(loader, alone, 5) == "left out 2 items that can't be read: row 3: no number; ..."
    assert left_out_of(loader, alone, 7) == ""
