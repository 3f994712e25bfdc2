"""Callback: what a program does at the points of a training."""

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from ..checkpoint.checkpointer import Checkpoint
    from ..learner.learner import Learner


class Callback:
    """Is called at each point of a training; each method does nothing unless a subclass defines it.

    An exception in a method ends the training. What the callback keeps belongs to a checkpoint if it has `state_dict()`
    and `load_state_dict(state)` of plain values and tensors. It is found again by the name of its class, and among
    several of one class by its attribute `name`, a text, or else by its number among them.

    Example:
        >>> from burnlike.train import Callback
        >>> class Losses(Callback):
        ...     def on_metrics(self, learner, line):
        ...         print(line["split"], line["loss"])
    """

    def on_fit_start(self, learner: "Learner[Any]") -> None:
        """The training begins, or goes on, after `learner.step` of `learner.total_steps` steps."""

    def on_epoch_start(self, learner: "Learner[Any]", epoch: int) -> None:
        """An epoch begins, or goes on; the first has the number 0."""

    def on_batch_start(self, learner: "Learner[Any]", batch: Any) -> None:
        """The batch is on the device, and nothing has been computed of it."""

    def on_backward_end(self, learner: "Learner[Any]") -> None:
        """The gradients of a step are complete, in `.grad`; they are clipped by the optimizer's step."""

    def on_step_end(self, learner: "Learner[Any]") -> None:
        """An optimizer step was taken; `learner.step` counts it."""

    def on_valid_start(self, learner: "Learner[Any]", split: str) -> None:
        """A split is about to be evaluated."""

    def on_metrics(self, learner: "Learner[Any]", line: Mapping[str, Any]) -> None:
        """A line of metrics: `step`, `epoch`, `split`, `loss` and so on, as in `metrics.jsonl`."""

    def on_checkpoint(self, learner: "Learner[Any]", checkpoint: "Checkpoint") -> None:
        """A checkpoint is on the disk, whole."""

    def on_epoch_end(self, learner: "Learner[Any]", epoch: int) -> None:
        """An epoch has ended, validation included."""

    def on_note(self, learner: "Learner[Any]", text: str) -> None:
        """Something else that is worth a line."""

    def on_fit_end(self, learner: "Learner[Any]") -> None:
        """The training has ended as planned, or was stopped after a checkpoint."""

    def on_exception(self, learner: "Learner[Any]", error: BaseException) -> None:
        """The training ends with an exception, which is raised after this."""


class Callbacks:
    """Calls several callbacks; a point that none of them defines costs one look-up."""

    def __init__(self, callbacks: "list[Callback]") -> None:
        self.all = callbacks
        self._methods: dict[str, list[Callable[..., None]]] = {
            point: [getattr(it, point) for it in callbacks if getattr(type(it), point, None) is not method]
            for point, method in vars(Callback).items()
            if point.startswith("on_")
        }

    def call(self, point: str, *values: Any) -> None:
        for method in self._methods[point]:
            method(*values)

    def state_dict(self) -> dict[str, Any]:
        return {name: it.state_dict() for name, it in self._stateful().items()}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Give each its saved state; one that was not there begins anew."""
        for name, callback in self._stateful().items():
            if name in state:
                callback.load_state_dict(state[name])

    def _stateful(self) -> dict[str, Any]:
        found: dict[str, Any] = {}
        for callback in self.all:
            if hasattr(callback, "state_dict") and hasattr(callback, "load_state_dict"):
                own = getattr(callback, "name", None)
                name = f"{type(callback).__qualname__} {own}" if isinstance(own, str) else type(callback).__qualname__
                number = sum(it.partition("#")[0] == name for it in found)
                found[f"{name}#{number}" if number else name] = callback
        return found
