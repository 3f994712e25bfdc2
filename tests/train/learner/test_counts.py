"""Numbers of batches, steps and left-out items."""

from types import SimpleNamespace
from typing import Any

import pytest
import torch

from burnlike.train import TrainingConfig
from burnlike.train.learner.steps import left_out_of
from burnlike.train.parallel.step_output import counting_nothing


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


def test_a_loss_of_no_items_leaves_the_gradients_of_others_as_they_are() -> None:
    """Schedules such as GPipe compute the losses of all micro-batches before the first backward pass."""
    scale = torch.tensor(2.0, requires_grad=True)
    counted, nothing = 3 * scale, counting_nothing(scale * torch.zeros(()) / torch.zeros(()))
    nothing_of_a_leaf = counting_nothing(scale * torch.tensor(torch.nan))
    counted.backward()
    assert scale.grad == 3.0
    for loss in (nothing, nothing_of_a_leaf):
        loss.backward()
        assert loss == 0.0
        assert scale.grad == 3.0
