"""The warning of a step that finds no gradient."""

import warnings
from typing import TypeVar

from torch import nn

Module = TypeVar("Module", bound=nn.Module)


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
            stacklevel=4,
        )
        return module
