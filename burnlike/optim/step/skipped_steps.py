"""SkippedSteps: counts steps that changed nothing, on the devices that find it out."""

from collections.abc import Sequence

import torch
from torch import Tensor

from ..rules.rule_set import RuleSet
from .batches import ParamBatch


class SkippedSteps:
    """Counts skipped steps.

    On CUDA nothing waits: the kernels see whether a step is to be skipped, and subtract from the times of the states
    what `on` has counted. `take_back` brings the states up to date.

    Attributes:
        count: steps known to be skipped, without those in `on`.
        on: steps skipped since the last `take_back`, by device: float64 `[1]`.
    """

    def __init__(self) -> None:
        self.count = 0
        self.on: dict[torch.device, Tensor] = {}
        self._is_settled = True

    def watch(self, batches: Sequence[ParamBatch]) -> None:
        """Count for these batches from now on; `take_back` those before first."""
        devices = {batch.device for batch in batches if batch.device.type == "cuda"}
        self.on = {device: torch.zeros(1, dtype=torch.float64, device=device) for device in devices}
        self._is_settled = True

    def add(self, found: Tensor) -> None:
        """Count a step as skipped where the one value of `found` is not 0."""
        for device, skipped in self.on.items():
            skipped.add_((found != 0).to(device))
        self._is_settled = False

    def take_back(self, batches: Sequence[ParamBatch], rules: RuleSet) -> None:
        """Take what was skipped back from the times of the states; waits for the devices if it may be any."""
        if self._is_settled:
            return
        self._is_settled = True
        counts = {device: int(skipped.item()) for device, skipped in self.on.items()}
        if not any(counts.values()):
            return
        for batch in batches:
            if steps := counts.get(batch.device):
                rules.rule(batch.group).take_back(batch.states, steps)
        self.count += max(counts.values())
        for skipped in self.on.values():
            skipped.zero_()


def can_skip_on_device(batches: Sequence[ParamBatch], rules: RuleSet) -> bool:
    """Whether kernels can skip a step by themselves: not the first one, which may not even make states."""
    return all(
        batch.device.type == "cuda" and rules.rule(batch.group).fused and None not in batch.states for batch in batches
    )
