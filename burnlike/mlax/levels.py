"""One level of a pytree: the items of a list, tuple, dict, namedtuple or any registered class, by name."""

from collections.abc import Callable
from typing import Any, NamedTuple

from torch import Tensor, nn

from .._torch_compat import pytree


class Level(NamedTuple):
    """The outermost level of some data.

    Attributes:
        type: of the data.
        names: of what it holds.
        items: what it holds.
        node: what torch's tree functions know it by, and what else there is to it; None for lists, tuples and dicts.
    """

    type: type
    names: tuple[str, ...]
    items: tuple[Any, ...]
    node: tuple[Any, Any] | None = None

    def holding(self, items: Any) -> Any:
        """The same with other items."""
        if self.node is not None:
            kind, context = self.node
            return pytree.SUPPORTED_NODES[kind].unflatten_fn(items, context)
        return dict(zip(self.names, items, strict=True)) if self.type is dict else self.type(items)


def level_of(data: Any) -> Level | None:
    """The outermost level of `data`; None for what is no pytree, and for modules and tensors."""
    kind = type(data)
    if kind is dict:
        return Level(kind, tuple(data), tuple(data.values()))
    if kind is list or kind is tuple:
        return Level(kind, tuple(map(str, range(len(data)))), tuple(data))
    if isinstance(data, Tensor | nn.Module):
        return None
    items, spec = pytree.tree_flatten(data, is_leaf=lambda value: value is not data)
    if len(items) == 1 and items[0] is data:
        return None
    return Level(kind, _names(data, len(items)), tuple(items), (spec.type, spec.context))


def _names(data: Any, count: int) -> tuple[str, ...]:
    """Names that torch takes for parameters: those of fields and keys where they are texts, else numbers."""
    numbers = tuple(map(str, range(count)))
    try:
        paths, _ = pytree.tree_flatten_with_path(data, is_leaf=lambda value: value is not data)
    except ValueError:  # the class was registered without them
        return numbers
    names = tuple(getattr(path[0], "name", getattr(path[0], "key", None)) for path, _ in paths)
    are_texts = all(isinstance(name, str) and name and "." not in name for name in names)
    return names if are_texts and len(set(names)) == count else numbers  # pyright: ignore[reportReturnType]


def map_items(data: Any, function: Callable[[Any], Any]) -> Any:
    """`data` with what `function` makes of each of its leaves."""
    level = level_of(data)
    return function(data) if level is None else level.holding([map_items(item, function) for item in level.items])
