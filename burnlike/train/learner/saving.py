"""When a training writes checkpoints, which stay, and what they hold of a Learner beside its parts."""

import math
import time
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import torch

from ...errors import TrainingError
from ...module import params
from ...module.torch_objects.wrappers import is_quantized
from ...optim.core.sharded import local
from ..checkpoint.checkpointer import (
    Checkpoint,
    Checkpointer,
    ComposedCheckpointingStrategy,
    KeepLastNCheckpoints,
    MetricCheckpointingStrategy,
)
from ..state.training_state import random_state, restore_random, seed_random
from .configs import TrainingConfig
from .foreign_loader import ForeignLoader

if TYPE_CHECKING:
    from .learner import Learner


class Saving:
    """Writes the checkpoints of one training; `strategy` says which stay, `last` is the last one written or begun."""

    def __init__(self, learner: "Learner[Any]", training: TrainingConfig, checkpointer: Checkpointer) -> None:
        self._learner = learner
        self._training = training
        self._checkpointer = checkpointer
        best = training.keep_best
        self._best = None if best is None else MetricCheckpointingStrategy(f"valid.{best.metric}", best.direction)
        self._last = KeepLastNCheckpoints(checkpointer.keep)
        self.strategy = ComposedCheckpointingStrategy([self._last] if self._best is None else [self._last, self._best])
        self.last: Checkpoint | None = None
        self._saved_at = time.monotonic()
        self._is_told = True

    @property
    def best(self) -> Checkpoint | None:
        """The checkpoint of the best validation, if it is kept and there is one."""
        kept = [] if self._best is None else self._best.kept
        return self._checkpointer.of_step(kept[-1]) if kept else None

    def begin(self) -> None:
        """Take stock of the checkpoints, and remove those that a killed process was about to remove."""
        checkpointer = self._checkpointer
        checkpointer.check(self._learner.step)
        steps = [checkpoint.step for checkpoint in checkpointer.all()]
        best = [] if self._best is None else self._best.kept
        self._last.kept = steps[-checkpointer.keep :]
        self.strategy.kept = [step for step in steps if step in self._last.kept or step in best]
        checkpointer.keep_only(self.strategy.kept)
        state = self._last.kept, self.strategy.kept, checkpointer.latest()
        self._last.kept, self.strategy.kept, self.last = self._learner.parallel.broadcast(state)

    def state_dict(self) -> dict[str, Any]:
        return {} if self._best is None else self._best.state_dict()

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        if self._best is not None and state:
            self._best.load_state_dict(state)

    def is_due(self, values: Mapping[str, float], *, epochs: int, epoch_done: bool, is_end: bool) -> bool:
        """True if one is to be written after this step, the last of an epoch (`epoch_done`) or of all (`is_end`)."""
        training, step = self._training, self._learner.step
        if step in self.strategy.kept:
            return False
        every_steps, minutes = training.checkpoint_every_steps, training.checkpoint_every_minutes
        every_epochs = training.checkpoint_every_epochs
        is_time = minutes is not None and time.monotonic() - self._saved_at >= 60 * minutes
        # Clocks differ, so processes agree on the time; all come to that line or none, as the rest is alike on all.
        return (
            is_end
            or (epoch_done and every_epochs is not None and epochs % every_epochs == 0)
            or (every_steps is not None and step % every_steps == 0)
            or (minutes is not None and bool(self._learner.parallel.largest(is_time)))
            or (self._best is not None and self._best.is_better(values))
        )

    def save(self, train: Any, values: Mapping[str, float], *, background: bool) -> None:
        # First: a model that is not finite must not make a strategy give up a checkpoint that is.
        self._check_finite()
        learner = self._learner
        self.strategy.checkpointing(learner.step, values)
        with learner.saved_weights():
            records, kept = learner.state(train).to_records(), tuple(self.strategy.kept)
            self.last = self._checkpointer.save(learner.step, records, kept=kept, background=background)
        self._saved_at = time.monotonic()
        self._is_told = False

    def written(self, *, wait: bool) -> Checkpoint | None:
        """The checkpoint written since the last call, if there is one; `wait` for one that is being written.

        Only where it waits it raises that one could not be written.
        """
        if self._is_told or (not wait and (self._checkpointer.is_saving or self._checkpointer.has_failed)):
            return None
        self._checkpointer.wait()
        self._is_told = True
        return self.last

    def _check_finite(self) -> None:
        total, size = self._learner.parallel.sums(self._learner.window.sums())
        if size and not math.isfinite(total):
            raise not_finite(self._learner.step, f"the loss became {total / size}")
        float_params = [parameter for parameter in params(self._learner.model) if parameter.tensor.is_floating_point()]
        floats = [parameter for parameter in float_params if not is_quantized(local(parameter.tensor))]
        if not floats:
            return
        # A sum is not finite if a value is not; in float64, as finite weights in 16 bits may overflow in theirs.
        sums = torch.stack([local(param.tensor).sum(dtype=torch.float64).cpu() for param in floats])
        wrong = next((it.path for it, total in zip(floats, sums.tolist(), strict=True) if not math.isfinite(total)), "")
        name = next(filter(None, self._learner.parallel.gather(wrong)), "")
        if name:
            raise not_finite(self._learner.step, f"the parameter '{name}' is not finite any more")


def not_finite(step: int, what: str) -> TrainingError:
    return TrainingError(
        f"{what} by step {step}; checkpoints from before are kept. Start again with a lower learning rate"
        " (lr_scheduler), a longer warm-up, or clipping of gradients (optimizer.grad_clipping)"
    )


class Counters:
    """Steps, last values, the state of `fit`, and of each process its random generators, its window of losses and, of
    another library, its loader.
    """

    def __init__(self, learner: "Learner[Any]", loader: Any) -> None:
        self._learner = learner
        self._loader = loader if isinstance(loader, ForeignLoader) else None
        self._ranks: list[Any] = []
        self._layout = [1, 1, 1, 1]

    def state_dict(self) -> dict[str, Any]:
        """Plain values and tensors; all processes must ask for them."""
        learner = self._learner
        state = {"step": learner.step, "last": dict(learner.last), "fit": learner.fit_state()}
        if learner.parallel.world_size == 1:
            return state
        rank_state = {"random": random_state(), "window": learner.window.state_dict()}
        if self._loader is not None:
            rank_state["loader"] = self._loader.state_dict()
        return {**state, "ranks": learner.parallel.gather(rank_state), "layout": learner.parallel.sizes.layout}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Put back what all processes have in common; `take_own` does the rest."""
        learner = self._learner
        step, last = int(state["step"]), {name: state["last"][name] for name in learner.last}
        learner.step, learner.last, learner.loaded_fit = step, last, dict(state.get("fit", {}))
        self._ranks = state.get("ranks", [])
        self._layout = state.get("layout", [1, len(self._ranks) or 1, 1, 1])

    def take_own(self) -> list[str]:
        """Restore this process's own state, after all other parts; with another number of processes, rank 0's.

        Returns notes on what does not go on as it was: nothing, but with another number of processes.
        """
        learner, ranks, sizes = self._learner, self._ranks, self._learner.parallel.sizes
        if self._layout == sizes.layout:
            if ranks:
                rank_state = ranks[learner.parallel.rank]
                learner.window.load_state_dict(rank_state["window"])
                restore_random(rank_state["random"])
                if self._loader is not None and "loader" in rank_state:
                    self._loader.load_state_dict(rank_state["loader"])
            return []
        if ranks:
            learner.window.load_state_dict(_joined(self._windows()))
        if not learner.parallel.is_first_of_data:
            learner.window.clear()
        if learner.parallel.data_rank:  # what was loaded are the generators of rank 0
            seed_random(int(torch.randint(2**31, ())) + learner.parallel.data_rank)
        before, count = len(ranks) or 1, sizes.world
        change = f"with {count}" if before != count else f"with other sizes ({sizes})"
        return [
            f"saved by {before} process{'es' * (before > 1)}, goes on {change}: sums are rounded otherwise, random"
            " numbers such as dropout's are others, and metrics of training batches (train_metrics) begin anew"
        ]

    def _windows(self) -> list[Mapping[str, Any]]:
        """The windows of the processes that had losses of their own: of those with the same items, one."""
        _, data, context, tensor = self._layout
        of_data: dict[int, Mapping[str, Any]] = {}
        for rank, rank_state in enumerate(self._ranks):
            place = rank // tensor % (data * context)
            window = of_data.get(place)
            if window is None or rank_state["window"]["sizes"].sum() > window["sizes"].sum():
                of_data[place] = rank_state["window"]
        return [*of_data.values()]


def _joined(windows: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """Windows one after the other."""
    parts: dict[str, list[Mapping[str, Any]]] = {}
    for window in windows:
        for name, part in window.get("parts", {}).items():
            parts.setdefault(name, []).append(part)
    joined: dict[str, Any] = {name: torch.cat([it[name] for it in windows]) for name in ("means", "sizes")}
    return {**joined, "parts": {name: _joined(windows) for name, windows in parts.items()}}
