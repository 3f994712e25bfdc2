"""Mistakes in a graph: names, sources, the number of inputs, nodes that nothing needs. Imports no torch."""

import re
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Annotated, TypeAlias

from ...config import Meta
from ...config.registry import tag_of
from ...errors import nearest
from ..configs import EmbeddingConfig, LinearConfig
from .layer_facts import MASK, Sizes, input_counts, name_problem, sizes_after

if TYPE_CHECKING:
    from .configs import GraphConfig, NodeConfig

_ITEM = re.compile(r"[0-9]{1,9}|[A-Za-z][A-Za-z0-9_]*")

Problems = Iterable[tuple[str, str]]
"""Pairs of a path in the graph's config and what is wrong there."""


def graph_problems(graph: "GraphConfig") -> Problems:
    """Everything that is wrong with a graph and needs no torch to be found."""
    wrong_names = [*_wrong_names(graph)]
    return wrong_names or [*_unused(graph), *_sizes(graph)]  # where a name is wrong, what it means seems to be unused


def _wrong_names(graph: "GraphConfig") -> Problems:
    for place, name in enumerate(graph.inputs):
        if message := name_problem(name):
            yield f"inputs.{place}", message
        elif name == "self":
            yield f"inputs.{place}", "an input called 'self' can't be given by name, as Python calls the model so"
        elif name in graph.inputs[:place]:
            yield f"inputs.{place}", f"'{name}' stands here twice; give each input a name of its own"
    names = [*graph.inputs]
    for name, node in graph.nodes.items():
        yield from _node_problems(graph, name, node, names)
        names.append(name)
    for path, source in places_of("outputs", graph.output_names()):
        yield from _source_problems(graph, path, source, names)


def _sizes(graph: "GraphConfig") -> Problems:
    """The sizes of nodes that take the output of one other."""
    problems: list[tuple[str, str]] = []
    sizes: dict[str, Sizes] = {}
    for name, node in graph.nodes.items():
        layer = node.layer or graph.used_layer(node)
        sources = [source for source in graph.node_sources(name) if source != (MASK, MASK)]
        if layer is not None and len(sources) == 1 and not node.transposed:
            sizes[name] = sizes_after(layer, sizes.get(sources[0][1], {}), f"nodes.{name}", problems)
    return problems


def _unused(graph: "GraphConfig") -> Problems:
    sources = [source for name in graph.nodes for _, source in graph.node_sources(name)]
    sources += [source for _, source in places_of("", graph.output_names())]
    used = {item_path(source)[0] for source in sources}
    for place, name in enumerate((*graph.inputs, *graph.nodes)):
        if name not in used:
            path = f"inputs.{place}" if place < len(graph.inputs) else f"nodes.{name}"
            remedy = "; leave it out of `inputs`: a task gives a model what it takes" if name == MASK else ""
            yield path, f"'{name}' is not used: no node takes it, and it is no output{remedy}"


def _node_problems(graph: "GraphConfig", name: str, node: "NodeConfig", names: list[str]) -> Problems:
    path = f"nodes.{name}"
    if message := name_problem(name):
        yield path, message
    if name in graph.inputs:
        yield path, f"'{name}' is the name of an input; give the node another"
    if node.sources is None and len(names) > 1 and names == [*graph.inputs]:
        yield path, f"expected `from:` with the inputs that it gets; the graph has {', '.join(graph.inputs)}"
    for place, source in places_of(f"{path}.from", node.sources):
        yield from _source_problems(graph, place, source, names)
    if node.use is not None:
        yield from _use_problems(graph, f"{path}.use", node.use, names)
    layer = node.layer or graph.used_layer(node)
    if node.transposed:
        yield from _transposed_problems(graph, f"{path}.transposed", node)
    elif layer is not None:
        count, (least, most) = len(graph.node_sources(name)), input_counts(layer)
        if count < least or (most is not None and count > most):
            expected = f"{least} or more" if most is None else str(least) if least == most else f"{least} to {most}"
            yield path, f"expected {expected} input{'s' * (expected != '1')}, got {count}; `from:` lists them"


def _source_problems(graph: "GraphConfig", path: str, source: str, names: list[str]) -> Problems:
    """The problem with the name in `source`, if it is none of those that may stand there."""
    name, items = item_path(source)
    if name in names:
        if not all(_ITEM.fullmatch(item) for item in items):
            yield path, f"expected `{name}`, or `{name}.ITEM` with the number of an item or the name of a field"
        return
    if name in graph.nodes:
        yield path, f"'{name}' does not come before this; nodes are computed in the order in which they are written"
    else:
        remedy = nearest(name, names) or f"; there are {', '.join(names)}"
        yield path, f"no input and no node before this is called '{name}'{remedy}"


def _use_problems(graph: "GraphConfig", path: str, name: str, names: list[str]) -> Problems:
    layers = [it for it in names if it in graph.nodes and graph.nodes[it].layer is not None]
    if name in layers:
        return
    if name in names and name in graph.nodes:
        yield path, f"'{name}' has no layer of its own; write `use: {graph.nodes[name].use}`"
    elif name in names:
        yield path, f"'{name}' is an input; expected a node before this, whose layer is used again"
    elif layers:
        yield from _source_problems(graph, path, name, layers)
    else:
        yield path, "no node with a layer is before this"


def _transposed_problems(graph: "GraphConfig", path: str, node: "NodeConfig") -> Problems:
    used = graph.used_layer(node)
    if node.use is None:
        yield path, "expected `use:` beside it, with the name of a node whose weight it takes"
    elif used is not None and not isinstance(used, EmbeddingConfig | LinearConfig):
        yield path, f"expected `use:` of an Embedding or a Linear, got one of {tag_of(type(used))}"
    elif isinstance(node.sources, tuple | dict):
        yield path, "expected one name in `from:`, as it takes one input"


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
