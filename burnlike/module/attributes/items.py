"""Fields of a module that are not tensors but are saved: objects of types with `into_item` and `from_item`.

They are entries of the module's `state_dict()`, and so of its record: a map of what `into_item` gives.
"""

from collections.abc import MutableMapping
from typing import Any

from torch import nn

from ..._lazy import resolve
from ...errors import BurnlikeError
from ..identity.field_metadata import fields_with

_ITEM_TREE = "burnlike.record.pytree.flatten:item_tree"
_ITEM_OF_TREE = "burnlike.record.pytree.unflatten:item_of_tree"


def is_item(value: Any) -> bool:
    return hasattr(type(value), "into_item") and hasattr(type(value), "from_item")


def save_items(module: nn.Module, destination: MutableMapping[str, Any], prefix: str) -> None:
    for name in fields_with(module, "holds", "item"):
        destination[prefix + name] = resolve(_ITEM_TREE)(getattr(module, name), name)


def load_items(
    module: nn.Module,
    state_dict: MutableMapping[str, Any],
    prefix: str,
    local_metadata: Any,
    strict: bool,
    missing_keys: list[str],
    unexpected_keys: list[str],
    error_msgs: list[str],
) -> None:
    """Take the fields out of a state dict, as `nn.Module._load_from_state_dict` does its tensors."""
    for name in fields_with(module, "holds", "item"):
        key = prefix + name
        if key not in state_dict:
            missing_keys.append(key)
            continue
        try:
            value = resolve(_ITEM_OF_TREE)(type(getattr(module, name)), state_dict.pop(key), name)
        except (BurnlikeError, LookupError, ValueError, TypeError) as error:
            error_msgs.append(f"{prefix and f'in {prefix[:-1]}: '}{error}")
            continue
        setattr(module, name, value)
