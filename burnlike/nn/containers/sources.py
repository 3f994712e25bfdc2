"""Where the inputs of a graph's node come from. Imports no torch."""

from collections.abc import Iterator
from typing import Annotated, TypeAlias

from ...config import Meta

Sources: TypeAlias = (
    str | Annotated[tuple[str, ...], Meta(min_length=1)] | Annotated[dict[str, str], Meta(min_length=1)] | None
)
"""One source, several in order, or several by the names of the layer's arguments; None is the node before."""


def item_path(source: str) -> tuple[str, tuple[str, ...]]:
    """The name in a source and the items after it: `lstm.1.hidden` is `("lstm", ("1", "hidden"))`."""
    name, *items = source.split(".")
    return name, tuple(items)


def sources_of(sources: Sources, before: str) -> list[tuple[str, str]]:
    """Pairs of an argument, empty for one that is given by its order, and the source of its value."""
    match sources:
        case None:
            return [("", before)]
        case str():
            return [("", sources)]
        case dict():
            return [*sources.items()]
    return [("", source) for source in sources]


def places_of(path: str, sources: Sources) -> Iterator[tuple[str, str]]:
    """Each source with its path in the config, where the whole stands at `path`."""
    match sources:
        case None:
            return
        case str():
            yield path, sources
        case dict():
            yield from ((f"{path}.{name}", source) for name, source in sources.items())
        case _:
            yield from ((f"{path}.{place}", source) for place, source in enumerate(sources))
