"""Optimizer: the interface of everything that trains a module."""

from abc import ABC, abstractmethod
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Self, TypeVar

from torch import nn

from ..errors import ArgumentError
from ..record.methods import RecordMethods
from .core.gradient_transform import WarnsOfMissingGradients
from .gradients.gradients import GradientsParams

if TYPE_CHECKING:
    from ..record import Record
    from .schedules.learning_rates import ModuleLearningRate

Module = TypeVar("Module", bound=nn.Module)


def step_arguments_error(module: Any, grads: Any) -> ArgumentError:
    """The error of a `step` that got something else than a module and gradients, or both in the other order."""
    swapped = isinstance(module, GradientsParams) and isinstance(grads, nn.Module)
    advice = "they are in the other order" if swapped else "GradientsParams.from_module(module) gives the gradients"
    return ArgumentError(
        f"expected step(lr, module, grads) with a module and a GradientsParams, got {type(module).__name__} and"
        f" {type(grads).__name__}; {advice}"
    )


class Optimizer(RecordMethods, WarnsOfMissingGradients, ABC):
    """Updates a module with gradients, and has a state that is saved as a record."""

    @abstractmethod
    def step(self, lr: "float | ModuleLearningRate", module: Module, grads: GradientsParams) -> Module:
        """Update `module` in place with its gradients and return it; a parameter without a gradient is left as it is.

        `lr` is the learning rate, of all parameters or by groups of them.
        """

    @abstractmethod
    def into_record(self) -> "Record": ...

    def to_record(self) -> "Record":
        """`into_record`, by the name that it has in Burn's optimizers."""
        return self.into_record()

    @abstractmethod
    def load_record(self, record: "Record", module: nn.Module | None = None) -> Self:
        """Replace the state by that of `record`; returns the optimizer."""

    def use_eval_weights(self, module: nn.Module) -> bool:
        """Put the weights to evaluate with into `module`, where they are others than those to train with; whether they
        are.

        Optimizers that average weights, such as `ScheduleFreeAdamW`, have such. The weights to train with go into the
        state, as they are: what is saved now is a module to be used, and a state to go on from.
        """
        return False

    def use_training_weights(self, module: nn.Module) -> bool:
        """Put the weights to train with back into `module`, bit for bit; see `use_eval_weights`."""
        return False

    @contextmanager
    def eval_weights(self, module: nn.Module) -> Iterator[None]:
        """Within it, `module` has the weights to evaluate with; afterwards, those that it had."""
        changed = self.use_eval_weights(module)
        try:
            yield
        finally:
            if changed:
                self.use_training_weights(module)
