"""The config of a graph of layers. Imports no torch."""

from collections.abc import Iterable
from typing import TYPE_CHECKING, Annotated, ClassVar

from ...config import Config, Meta, ModuleConfig, field
from .configs import first_example
from .graph_problems import graph_problems
from .names import NAMED
from .sources import Sources, sources_of

if TYPE_CHECKING:
    from .graph import Graph


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


class GraphConfig(ModuleConfig["Graph"], tag="Graph", builds=".graph"):
    """Layers with named inputs and outputs, in the order in which they are computed.

    Attributes:
        inputs: the names of what the model is called with.
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
        found = {}
        for name, node in self.nodes.items():
            sources = [source for _, source in self.node_sources(name)]
            if node.layer is not None and len(sources) == 1 and sources[0] in self.inputs:
                found |= first_example(node.layer, sources[0])
        return found if len(found) == len(self.inputs) else {}

    def part(self, name: str) -> tuple[str, ModuleConfig] | None:
        node = self.nodes.get(name)
        return None if node is None or node.layer is None else (f"nodes.{name}", node.layer)

    def validate(self) -> Iterable[tuple[str, str]]:
        yield from graph_problems(self)

    def node_sources(self, name: str) -> list[tuple[str, str]]:
        """Where each input of a node comes from: its argument, empty for one by its order, and the source."""
        names = [*self.nodes]
        place = names.index(name)
        before = names[place - 1] if place else self.inputs[0]
        return sources_of(self.nodes[name].sources, before)

    def output_names(self) -> str | tuple[str, ...]:
        """`outputs`, or the last node where there are none."""
        return self.outputs or [*self.nodes][-1]

    def used_layer(self, node: NodeConfig) -> ModuleConfig | None:
        """The layer of another node that this one uses."""
        found = self.nodes.get(node.use or "")
        return None if found is None else found.layer
