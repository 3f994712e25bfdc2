"""Optimizer: the interface of everything that trains a module."""

import warnings
from abc import ABC, abstractmethod
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Self, TypeVar

from torch import nn

from ..errors import ArgumentError
from ..record.methods import RecordMethods
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


class WarnsOfMissingGradients:
    """Warns once if a step finds no gradient for any parameter."""

    _has_warned = False

    def _without_gradients(self, module: Module) -> Module:
        """`module` after a step that found no gradient at all, which is said once."""
        if self._has_warned:
            return module
        self._has_warned = True
        if any(parameter.requires_grad for parameter in module.parameters()):
            causes = (
                "Is there a loss.backward() before step(), of a loss that this very module computed, not a copy of it?"
                " Note that zero_grad(), from_module() and from_grads() take gradients away, and"
                " backward(create_graph=True) leaves none in .grad"
            )
        else:
            causes = "All are frozen"
        warnings.warn(
            f"step: no parameter of the {type(module).__name__} that is to be trained has a gradient, so nothing has"
            f" changed. {causes}.",
            # The line of the program that called step(): past this function, the optimizer's step and torch's no_grad.
            stacklevel=4,
        )
        return module


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
        """Put the weights to evaluate with into `module`, where they differ from those to train with; True if so.

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
