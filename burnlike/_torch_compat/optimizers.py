"""The hooks that torch's `Optimizer.load_state_dict` calls, for those that load in another way.

torch has functions that add such hooks and none that calls them. Without the names, a load by `TorchOptimizer` would
not run them.
"""

import copy
from collections.abc import Mapping
from typing import Any

from torch.optim import Optimizer


def after_pre_hooks(optimizer: Optimizer, state_dict: Mapping[str, Any]) -> Any:
    """`state_dict` after the hooks that run before a load; the argument is not changed."""
    current: Any = copy.copy(state_dict)
    for hook in optimizer._optimizer_load_state_dict_pre_hooks.values():
        changed = hook(optimizer, current)
        current = current if changed is None else changed
    return current


def run_post_hooks(optimizer: Optimizer) -> None:
    """Call the hooks that run after a load."""
    for hook in optimizer._optimizer_load_state_dict_post_hooks.values():
        hook(optimizer)
