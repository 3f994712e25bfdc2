"""What a Learner asks of the processes that train with it, as a single one answers it."""

from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from torch import Tensor, nn

from ...errors import BurnlikeError
from ...optim.core.sharded import OtherStages
from ...record import Record
from ..checkpoint.checkpointer import Checkpoint, Checkpointer
from ..view.callback import Callback
from .sizes import MeshSizes

Step = Callable[[Any, Any], Any]
"""`train_step(model, batch)` of a task."""


@dataclass(frozen=True, slots=True)
class Pass:
    """What is done with a training batch.

    Attributes:
        compute: gives the StepOutput of a batch.
        weighed: the loss to differentiate, of a StepOutput; None for one of no items.
        count: is told of how many values the loss of a batch is the mean, where another process has weighed it.
    """

    compute: Callable[[Any], Any]
    weighed: Callable[[Any], Tensor | None]
    count: Callable[[float], None]


class SingleProcess:
    """Trains by itself; several processes have the same interface.

    Attributes:
        rank: number of the process, of `world_size`.
        first_values: gives a model that has none its first values, once it is divided; None afterwards.
        is_sharded: whether each process has a part of each parameter.
        sizes: how many processes each kind of parallelism has.
        data_rank: which part of the batches it reads, of `data_size`.
        is_first_of_data: whether it is the first of its data_group.
        data_group: torch's group of the processes with other items or another part of a sequence; None: all.
    """

    rank = 0
    world_size = 1
    data_rank = 0
    data_group: Any = None
    is_first_of_data = True
    is_sharded = False
    first_values: Callable[[nn.Module], object] | None = None

    @property
    def sizes(self) -> MeshSizes:
        return MeshSizes()

    @property
    def data_size(self) -> int:
        """How many processes read items of their own."""
        return self.sizes.data

    @property
    def mean_size(self) -> int:
        """How many processes have gradients of their own, of which a step has the mean."""
        return self.sizes.mean

    @property
    def random_number(self) -> int:
        """Which of the processes with random numbers of their own it is."""
        return self.data_rank

    @property
    def is_main(self) -> bool:
        """Whether this process writes files and prints."""
        return self.rank == 0

    def describe(self) -> list[str]:
        """Lines for the beginning of a run."""
        return []

    def prepare(self, model: nn.Module, optimizer: Any) -> None:
        """Wrap or shard the model, in place as far as anyone sees; an optimizer of torch gets its new parameters."""

    def give_first_values(self, model: nn.Module) -> None:
        """Give a model that was divided without values those that it begins with."""
        give, self.first_values = self.first_values, None
        if give is not None:
            give(model)

    def check_computing(self, precision: str, *, compiles: bool, in_float8: bool = False) -> None:
        """Refuse a way of computing that the processes can't divide the model in, by a ConfigError."""

    def train_step(self, step: Step, model: nn.Module, batch: Any) -> Any:
        return step(model, batch)

    def backward(self, step: Pass, batch: Any) -> Any:
        """Add the gradients of a batch to those of the step, and give its result."""
        output = step.compute(batch)
        loss = step.weighed(output)
        if loss is not None:
            loss.backward()
        return output

    def measure(self, compute: Callable[[Any], Any], batch: Any) -> Any:
        """The result of a batch that nothing is learned by."""
        return compute(batch)

    @contextmanager
    def accumulating(self, model: nn.Module, is_last: bool, counts: bool) -> Iterator[None]:
        """Around a forward and backward pass; gradients are exchanged in the last of a step.

        A batch that does not count belongs to another process.
        """
        yield

    def callbacks(self) -> list[Callback]:
        """What follows a training, beside what its program gives."""
        return []

    def notes(self) -> list[str]:
        """What is to be said of the processes, and was not said before."""
        return []

    @contextmanager
    def others_alive(self) -> Iterator[None]:
        """Say it clearly where what is done within the `with` block fails because another process is gone."""
        yield

    @contextmanager
    def all_or_none(self) -> Iterator[None]:
        """A `with` block that all enter together: the error of one is raised in all."""
        own: Exception | None = None
        try:
            yield
        except (BurnlikeError, OSError) as error:
            own = error
        found = (it for it in self.gather(own and (type(own), str(own))) if it is not None)
        for kind, text in found:
            raise own if own is not None and str(own) == text else kind(text) from own

    def release_whole(self, model: nn.Module) -> None:
        """Forget whole parameters that a forward pass has gathered from sharded ones, before these are replaced."""

    @property
    def other_stages(self) -> OtherStages | None:
        """What steps need of the other stages of the model, where this process has some of them."""
        return None

    @property
    def has_predictions(self) -> bool:
        """Whether this process has the predictions of its batches, as the last stage of a pipeline has."""
        return True

    def with_predictions(self, value: Any) -> Any:
        """The value of the process that has the predictions of this one's batches."""
        return value

    def whole(self, record: Record) -> Record:
        """The record of the whole model, on the process that writes it; all ask for it."""
        return record

    def share_buffers(self, model: nn.Module) -> None:
        """Give all processes the buffers of rank 0, such as running statistics, which it saves and exports."""

    def share_weights(self, model: nn.Module) -> None:
        """Give all processes the parameters and buffers of rank 0, where each has the whole model."""

    def reference(self, size: float) -> float:
        """The size by which losses are weighed, for a step that begins with a batch of so many values."""
        return size

    def sums(self, values: Sequence[float]) -> list[float]:
        """The sum of each number over the processes."""
        return list(values)

    def largest(self, value: float) -> int:
        """The largest of the processes' numbers, rounded down."""
        return int(value)

    def gather(self, value: Any) -> list[Any]:
        """The values of all processes, by rank; plain values."""
        return [value]

    def broadcast(self, value: Any) -> Any:
        """The value of rank 0."""
        return value

    def remember(self, text: str) -> None:
        """Keep a text for the job's next start, where the launcher can start it again."""

    def remembered(self) -> str:
        """The text that this job kept before it was started again; empty where there is none."""
        return ""

    def checkpointer(self, directory: Path, keep: int, *, gather: bool = False) -> Checkpointer:
        """What this process writes checkpoints with; a CheckpointError if parts have no common directory.

        With `gather` they need none: rank 0 writes the parts of all.
        """
        return Checkpointer(directory, keep)

    def latest(self, checkpointer: Checkpointer) -> Checkpoint | None:
        """The last checkpoint, which all processes are about to read; a CheckpointError if some don't see it."""
        return checkpointer.latest()

    def reading(self, checkpoint: Checkpoint) -> AbstractContextManager[Checkpoint]:
        """The checkpoint as this process can read it within the `with` block, which all enter together."""
        return nullcontext(checkpoint)

    def close(self) -> None:
        """Leave the group."""
