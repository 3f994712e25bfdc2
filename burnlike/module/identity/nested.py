"""Replaces items in nested lists, tuples and dicts."""

from collections.abc import Callable
from typing import Any

DEEPEST = 8
"""How deep to look, so that a list which holds itself comes to an end."""


def with_items(value: Any, function: Callable[[Any], Any]) -> Any:
    """A list, tuple or dict like `value`, with `function(item)` in place of each item.

    It is `value` itself if each item stays the same object; so is anything else, subclasses included.
    """
    kind = type(value)
    if kind is not list and kind is not tuple and kind is not dict:
        return value
    before = list(value.values()) if kind is dict else value
    items, changed = [], False
    for item in before:
        items.append(new := function(item))
        changed = changed or new is not item
    if not changed:
        return value
    return dict(zip(value, items, strict=True)) if kind is dict else kind(items)
