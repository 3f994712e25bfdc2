"""The configs of layers that are made of layers. Imports no torch."""

from collections.abc import Iterable
from typing import TYPE_CHECKING, Annotated, Any, ClassVar

from ...config import Config, Meta, ModuleConfig, field
from ...config.bounds import Layers
from ...config.node import KeyPathError, joined, steps_of
from ...config.registry import tag_of
from ...config.roles import Built
from ...errors import ConfigError, Problem
from .graph_problems import Sources, graph_problems, places_of, sources_of
from .layer_facts import MASK, NAMED, chain_sizes, facts_of, input_counts, name_problem, sizes_after, takes_tensors

if TYPE_CHECKING:
    from . import containers

Parts = Annotated[tuple[ModuleConfig, ...], Meta(min_length=1)] | Annotated[dict[str, ModuleConfig], NAMED]
"""Layers in a row: a list, or a mapping that gives each a name."""


def named_parts(layers: Parts) -> dict[str, ModuleConfig]:
    """The layers by name; those of a list are called 0, 1, 2."""
    return layers if isinstance(layers, dict) else {str(number): layer for number, layer in enumerate(layers)}


def first_example(layer: ModuleConfig, name: str) -> dict[str, tuple[str, tuple[int, ...]]]:
    """The example of a layer's only input, under another name; nothing where it has several or does not say."""
    examples = [*layer.example_inputs().values()]
    return {name: examples[0]} if len(examples) == 1 else {}


class _RowConfig(ModuleConfig[Built]):
    """Layers of which each gets the output of the one before.

    Attributes:
        layers: a list of layers in a row, or a mapping that gives each a name.
    """

    layers: Parts

    @property
    def input_counts(self) -> tuple[int, int | None]:
        return 1, 1

    def example_inputs(self) -> dict[str, tuple[str, tuple[int, ...]]]:
        return first_example(next(iter(named_parts(self.layers).values())), "x")

    def validate(self) -> Iterable[tuple[str, str]]:
        before = None
        for name, layer in named_parts(self.layers).items():
            if before is not None and facts_of(before).gives_several and takes_tensors(layer):
                several = f"gets several values from {tag_of(type(before))}, but takes one tensor"
                yield f"layers.{name}", f"{several}; use a Graph, whose `from:` names one, such as NODE.0"
            before = layer
            if isinstance(self.layers, dict) and (message := name_problem(name)):
                yield f"layers.{name}", message
            if (least := input_counts(layer)[0]) > 1:
                yield f"layers.{name}", f"takes {least} inputs or more, but gets only what comes before it; use a Graph"
        yield from chain_sizes(self.layers)


class SequentialConfig(_RowConfig["containers.Sequential"], tag="Sequential"):
    """Layers in a row: each gets the output of the one before."""

    def part(self, name: str) -> tuple[str, ModuleConfig] | None:
        layer = named_parts(self.layers).get(name)
        return None if layer is None else (f"layers.{name}", layer)


class ResidualConfig(_RowConfig["containers.Residual"], tag="Residual"):
    """layers(x) + x (He et al. 2016, eq. 1), or layers(x) + shortcut(x) where the shapes differ (eq. 2).

    Attributes:
        shortcut: from x to the shape of what the layers give; None where that is the shape of x.
    """

    shortcut: ModuleConfig | None = None

    def part(self, name: str) -> tuple[str, ModuleConfig] | None:
        if name == "layers":
            return "", SequentialConfig(layers=self.layers)
        return ("shortcut", self.shortcut) if name == "shortcut" and self.shortcut is not None else None

    def validate(self) -> Iterable[tuple[str, str]]:
        yield from super().validate()
        name, last = [*named_parts(self.layers).items()][-1]
        if facts_of(last).gives_several:
            yield f"layers.{name}", f"{tag_of(type(last))} gives several values, to which x can't be added; use a Graph"


class RepeatConfig(ModuleConfig["containers.Repeat"], tag="Repeat"):
    """One layer several times in a row, each with parameters of its own.

    Attributes:
        times: how many layers.
        layer: each of them. It gets the output of the one before; inputs after the first go to all of them.
        each: path of a field in the layer, as `--set` takes it -> its value in each layer, in order.
    """

    times: Layers
    layer: ModuleConfig
    each: dict[str, tuple[Any, ...]] = field(default_factory=dict)

    @property
    def input_counts(self) -> tuple[int, int | None]:
        return input_counts(self.layer)

    def example_inputs(self) -> dict[str, tuple[str, tuple[int, ...]]]:
        return self.layer.example_inputs()

    def part(self, name: str) -> tuple[str, ModuleConfig] | None:
        return ("layer", self.layer_at(int(name))) if name.isdecimal() and int(name) < self.times else None

    def layer_at(self, number: int) -> ModuleConfig:
        """The layer of that number, from 0, with its values of `each`.

        Raises ConfigError if the layer has no such field, or can't have such a value.
        """
        if not self.each:
            return self.layer
        plain = self.layer.to_dict()
        for path, values in self.each.items():
            _put(plain, path, values[number])
        return type(self.layer).from_dict(plain)

    def validate(self) -> Iterable[tuple[str, str]]:
        for path, values in self.each.items():
            if len(values) != self.times:
                yield f"each.{path}", f"expected {self.times} values, one for each layer, got {len(values)}"
                return
        for number in range(self.times if self.each else 0):
            try:
                self.layer_at(number)
            except ConfigError as error:
                yield from ((_place_in_each(self.each, it.path, number), it.message) for it in error.problems)
                return
        if self.times > 1 and not self.each:
            problems: list[tuple[str, str]] = []
            sizes_after(self.layer, sizes_after(self.layer, {}, "layer", []), "layer", problems)
            yield from problems


def _put(plain: Any, path: str, value: Any) -> None:
    """Put a value into plain data of a config. Raises ConfigError if there is no such path."""
    try:
        *way, last = steps_of(path)
        for step in way:
            plain = plain[_key(plain, step)]
        key = _key(plain, last)
        plain[key]  # an unknown field is no new one
    except KeyPathError as error:
        raise ConfigError.of([Problem(str(error), path)]) from error
    except (KeyError, IndexError, TypeError, ValueError) as error:
        raise ConfigError.of([Problem(f"the layer has nothing at '{path}'", path)]) from error
    plain[key] = value


def _key(plain: Any, step: str | int) -> str | int:
    return int(step) if isinstance(plain, list) else step


def _place_in_each(each: dict[str, tuple[Any, ...]], path: str, number: int) -> str:
    """The place in `each` of the value that a problem at `path` of a layer is about."""
    for field_path in each:
        if path == field_path or joined(steps_of(field_path)) == path:
            return f"each.{field_path}.{number}"
    return "each"


class NodeConfig(Config):
    """A node of a graph: the keys of a layer, and where its inputs come from.

    Attributes:
        layer: of the node. In YAML its keys stand beside `from`.
        use: the name of a node before whose layer is used again, with the same parameters, in place of a layer.
        sources: `from` in YAML: what the layer gets. The name of an input or of a node before, a list of names, or a
            mapping of the layer's arguments to names. `name.0` and `name.hidden` are an item and a field of what a node
            gives. Left out: the node before.
        transposed: with `use` of an Embedding or Linear, whether it computes x @ transpose(weight), without bias: the
            output head of a language model that shares its weight with the embedding (Press & Wolf 2017).
    """

    inlined: ClassVar[str] = "layer"

    layer: ModuleConfig | None = None
    use: str | None = None
    sources: Sources = field(name="from", default=None)
    transposed: bool = False

    def validate(self) -> Iterable[tuple[str, str]]:
        if (self.layer is None) == (self.use is None):
            yield "use", "expected either a layer (`type:`) or `use:` with the name of a node whose layer is used again"


class GraphConfig(ModuleConfig["containers.Graph"], tag="Graph"):
    """Layers with named inputs and outputs, in the order in which they are computed.

    Attributes:
        inputs: the names of what the model is called with. An `attention_mask` that no `from` names goes to all layers
            that take one, such as `BiLstm`, which then stop at the padding of a text.
        nodes: layers by name. Each gets the node before, or what `from` says.
        outputs: the name of the node that the model gives, or a list of names for a tuple; None is the last node.
    """

    inputs: Annotated[tuple[str, ...], Meta(min_length=1)] = ("x",)
    nodes: Annotated[dict[str, NodeConfig], NAMED]
    outputs: str | Annotated[tuple[str, ...], Meta(min_length=1)] | None = None

    @property
    def input_counts(self) -> tuple[int, int | None]:
        return len(self.inputs), len(self.inputs)

    def example_inputs(self) -> dict[str, tuple[str, tuple[int, ...]]]:
        examples = {}
        for name, node in self.nodes.items():
            sources = [source for _, source in self.node_sources(name)]
            if node.layer is not None and len(sources) == 1 and sources[0] in self.inputs:
                examples |= first_example(node.layer, sources[0])
        return examples if len(examples) == len(self.inputs) else {}

    def part(self, name: str) -> tuple[str, ModuleConfig] | None:
        node = self.nodes.get(name)
        return None if node is None or node.layer is None else (f"nodes.{name}", node.layer)

    def validate(self) -> Iterable[tuple[str, str]]:
        yield from graph_problems(self)

    def node_sources(self, name: str) -> list[tuple[str, str]]:
        """The source of each input of a node: its argument, empty for one by its order, and the source."""
        names = [*self.nodes]
        place = names.index(name)
        before = names[place - 1] if place else self.inputs[0]
        sources, layer = sources_of(self.nodes[name].sources, before), self.nodes[name].layer
        layer = layer or self.used_layer(self.nodes[name])
        is_masked = layer is not None and not self.nodes[name].transposed and facts_of(layer).masked
        if is_masked and MASK in self.inputs and not self._names_mask():
            sources.append((MASK, MASK))
        return sources

    def _names_mask(self) -> bool:
        """True if the graph says itself what becomes of its `attention_mask`."""
        places = [("", node.sources) for node in self.nodes.values()] + [("", self.outputs)]
        return any(source == MASK for path, sources in places for _, source in places_of(path, sources))

    def output_names(self) -> str | tuple[str, ...]:
        """`outputs`, or the last node where there are none."""
        return self.outputs or [*self.nodes][-1]

    def used_layer(self, node: NodeConfig) -> ModuleConfig | None:
        """The layer of another node that this one uses."""
        used = self.nodes.get(node.use or "")
        return None if used is None else used.layer
