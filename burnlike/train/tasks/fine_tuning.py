"""Fine-tuning with low-rank adapters."""

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from torch import nn

from ...module import apply_lora, materialize, valid
from ..learner.steps import StepOutput
from .configs import LoraFineTuningConfig
from .task import Task

if TYPE_CHECKING:
    from ..job.job import Job


class LoraFineTuning(Task):
    """Another task, of which only low-rank adapters are trained."""

    def __init__(self, config: LoraFineTuningConfig) -> None:
        self.config = config
        self.task: Task = config.task.init()
        self.unit = self.task.unit

    def prepare(self, model: nn.Module) -> nn.Module:
        return apply_lora(self.task.prepare(model), self.config.lora)

    def train_step(self, model: nn.Module, batch: Any) -> StepOutput:
        return self.task.train_step(model, batch)

    def valid_step(self, model: nn.Module, batch: Any) -> StepOutput:
        return self.task.valid_step(model, batch)

    def export(self, model: nn.Module) -> nn.Module:
        """The model with its adapters, or a view of it in which they are added to the weights."""
        return materialize(valid(model)) if self.config.merge else model

    def finish(self, job: "Job", model: nn.Module) -> Mapping[str, Any]:
        return self.task.finish(job, model)

    def describe(self, values: Mapping[str, Mapping[str, float]], said: Mapping[str, Any]) -> list[str]:
        return self.task.describe(values, said)
