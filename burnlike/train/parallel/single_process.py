"""Interface between the Learner and the process group; the one-process case."""

from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from pathlib import Path
from typing import TYPE_CHECKING, Any

from torch import nn

from ...errors import BurnlikeError
from ...optim.core.sharded import OtherStages
from ...record import Record
from ..checkpoint.checkpointer import Checkpoint, Checkpointer
from ..view.callback import Callback
from .configs import MeshSizes

if TYPE_CHECKING:
    from .pipeline import Pipeline

Step = Callable[[Any, Any], Any]
"""`train_step(model, batch)` of a task."""


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
        pipeline: the stages of the model that it has, whose schedule makes the passes of a batch; None without one.
    """

    rank = 0
    world_size = 1
    data_rank = 0
    data_group: Any = None
    is_first_of_data = True
    is_sharded = False
    pipeline: "Pipeline | None" = None
    first_values: Callable[[nn.Module], object] | None = None

    @property
    def sizes(self) -> MeshSizes:
        return MeshSizes()

    @property
    def data_size(self) -> int:
        """The number of processes that read items of their own."""
        return self.sizes.data

    @property
    def mean_size(self) -> int:
        """Number of processes with gradients of their own, over which a step takes the mean."""
        return self.sizes.mean

    @property
    def random_number(self) -> int:
        """Number of this process among those with random numbers of their own."""
        return self.data_rank

    @property
    def is_main(self) -> bool:
        """True if this process writes files and prints."""
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
        """The result of a task's step on a batch, by the model as the processes have wrapped it."""
        return step(model, batch)

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
        """Callbacks of a training, beside those that its program gives."""
        return []

    def notes(self) -> list[str]:
        """New status messages of the processes."""
        return []

    @contextmanager
    def explain_lost_peer(self) -> Iterator[None]:
        """Explain an error within the `with` block that another process causes, which has ended or hangs."""
        yield

    @contextmanager
    def all_or_none(self) -> Iterator[None]:
        """A `with` block that all enter together: the error of one is raised in all."""
        raised: Exception | None = None
        # Not of errors of exchanges: where one has failed, the others may wait elsewhere, and would never gather.
        try:
            yield
        except (BurnlikeError, OSError) as error:
            raised = error
        for kind, text in filter(None, self.gather(raised and (type(raised), str(raised)))):
            if raised is not None and str(raised) == text:
                raise raised  # without `from`, which would make it its own cause
            raise kind(text) from raised

    def release_whole(self, model: nn.Module) -> None:
        """Forget whole parameters that a forward pass has gathered from sharded ones, before these are replaced."""

    @property
    def other_stages(self) -> OtherStages | None:
        """Sums over the other stages of the model, which a step needs where this process has some stages."""
        return None

    @property
    def has_predictions(self) -> bool:
        """True if this process has the predictions of its batches, as the last stage of a pipeline has."""
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
        """The size that losses are weighed by, for a step whose first batch has `size` values."""
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
        """The Checkpointer of this process; a CheckpointError if parts have no common directory.

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
