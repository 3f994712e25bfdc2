"""The plain attributes of a module, apart from what torch and burnlike keep on it for themselves."""

from typing import Any

from torch import nn

from .slots import KEPT

_NOT_PLAIN = frozenset(nn.Module().__dict__) | {
    *KEPT,
    *("_burnlike_walk", "_burnlike_constants", "_burnlike_stack_members", "_compiled_call_impl"),
}


def plain_names(parts: dict[str, Any]) -> list[str]:
    """The names in `parts`, the `__dict__` of a module, under which neither tensors nor modules are registered.

    What containers note about themselves is among them, and so are references to other modules.
    """
    return [name for name in parts if name not in _NOT_PLAIN]
