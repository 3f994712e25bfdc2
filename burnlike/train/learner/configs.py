"""TrainingConfig: how long a Learner trains, and in what steps."""

from typing import Annotated

from ...config import Config, Meta
from ...config.bounds import Count, at_most

_BATCH = at_most(2**20, "larger batches are made of several by training.accumulation_steps")


class TrainingConfig(Config):
    """The length and the steps of a training.

    Attributes:
        epochs: how many there are; each ends with a validation and a checkpoint.
        batch_size: items of a batch.
        accumulation_steps: batches whose gradients are accumulated for one optimizer step, as if they were one batch:
            each item, such as a token, has the same weight. An epoch's last step takes what is left.
        steps_per_epoch: optimizer steps of an epoch; None takes every item once.
        validation_steps: batches of the validation after each epoch; None takes all, as the one at the end always does.
        checkpoint_every_steps: also write a checkpoint every so many steps; None writes one an epoch.
        keep_checkpoints: how many of the last ones stay.
        log_every_steps: steps from one line of metrics to the next.
    """

    epochs: Count = 1
    batch_size: Annotated[int, Meta(ge=1), _BATCH]
    accumulation_steps: Count = 1
    steps_per_epoch: Count | None = None
    validation_steps: Count | None = None
    checkpoint_every_steps: Count | None = None
    keep_checkpoints: Count = 2
    log_every_steps: Count = 10

    def steps_of(self, batches: int) -> int:
        """Optimizer steps of an epoch of so many batches."""
        return -(-batches // self.accumulation_steps)
