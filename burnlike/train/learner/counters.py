"""Counters: the numbers of a Learner as a part of its state, and what each of several processes has of its own."""

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import torch

from ..state.random_generators import random_state, restore_random, seed_random

if TYPE_CHECKING:
    from .learner import Learner


class Counters:
    """Steps, last values, the state of `fit`, and of each process its random generators and its window of losses."""

    def __init__(self, learner: "Learner[Any]") -> None:
        self._learner = learner
        self._ranks: list[Any] = []

    def state_dict(self) -> dict[str, Any]:
        """Plain values and tensors; all processes must ask for them."""
        learner = self._learner
        state = {"step": learner.step, "last": dict(learner.last), "fit": learner.fit_state()}
        several = learner.parallel.world_size > 1
        own = {"random": random_state(), "window": learner.window.state_dict()} if several else {}
        return {**state, "ranks": learner.parallel.gather(own)} if several else state

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Put back what all processes have in common; `take_own` does the rest."""
        learner = self._learner
        step, last = int(state["step"]), {name: state["last"][name] for name in learner.last}
        learner.step, learner.last, learner.loaded_fit = step, last, dict(state.get("fit", {}))
        self._ranks = state.get("ranks", [])

    def take_own(self) -> list[str]:
        """Put back this process's part, after all other parts of the state; rank 0 takes that of another number.

        Returns:
            Notes on what does not go on as it was: nothing, but with another number of processes.
        """
        learner, ranks = self._learner, self._ranks
        rank, count, before = learner.parallel.rank, learner.parallel.world_size, len(ranks) or 1
        if before == count:
            if count > 1:
                learner.window.load_state_dict(ranks[rank]["window"])
                restore_random(ranks[rank]["random"])
            return []
        if ranks:
            windows = [it["window"] for it in ranks]
            learner.window.load_state_dict({name: torch.cat([it[name] for it in windows]) for name in windows[0]})
        if rank:
            learner.window.clear()
            seed_random(int(torch.randint(2**31, ())) + rank)  # what was loaded are the generators of rank 0
        return [
            f"saved by {before} process{'es' * (before > 1)}, goes on with {count}: sums are rounded otherwise, random"
            " numbers such as dropout's are others, and metrics of training batches (train_metrics) begin anew"
        ]
