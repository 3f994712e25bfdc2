"""The plain attributes of a module, apart from what torch and burnlike keep on it for themselves."""

from typing import Any

from torch import nn

from ..._torch_compat.modules import COMPILED_CALL
from .field_metadata import KEPT

_TORCHS = tuple(nn.Module().__dict__)
# The walk is in pickles of older versions.
_OURS = frozenset({*KEPT, "_burnlike_walk", "_burnlike_constants", "_burnlike_stack_members", COMPILED_CALL})


def plain_names(parts: dict[str, Any]) -> list[str]:
    """The names in `parts`, the `__dict__` of a module, under which neither tensors nor modules are registered.

    What containers note about themselves is among them, and so are references to other modules.
    """
    names = list(parts)
    if names[len(_TORCHS) - 1] == _TORCHS[-1]:  # all before it are torch's too, as `nn.Module.__init__` makes them
        return [name for name in names[len(_TORCHS) :] if name not in _OURS]
    return [name for name in names if name not in _TORCHS and name not in _OURS]
