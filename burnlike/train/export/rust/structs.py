"""Structs of Rust for models of Burn's layers: their fields, `new`, and `forward` where the shapes are known."""

from collections.abc import Callable, Mapping, Sequence
from itertools import pairwise
from typing import Any

from ....config import ModuleConfig
from ....config.registry import tag_of
from ....errors import NoCounterpartError
from ....models.lstm_lm.configs import LstmLmConfig
from ....models.mlp.configs import MlpConfig
from ....nn.containers.configs import GraphConfig, RepeatConfig, ResidualConfig, SequentialConfig, named_parts
from ....nn.dropout.configs import DropoutConfig
from ....nn.embedding.configs import EmbeddingConfig
from ....nn.linear.configs import LinearConfig
from ....nn.recurrent.configs import LstmConfig
from .layers import rust_layer
from .operations import call_of, operation
from .parts import Flow, Flows, Kind, Part, Struct, camel, identifier, joined, snake, transposed


class Writer:
    """Writes the structs of a model.

    Attributes:
        structs: those that are done, the innermost first.
        imports: paths of Burn that they use.
        renames: path of a module -> its path in Rust, where that has other names.
    """

    def __init__(self, flows: Flows | None) -> None:
        self.structs: list[Struct] = []
        self.imports: set[str] = set()
        self.renames: dict[str, str] = {}
        self._flows = flows

    def model(self, config: ModuleConfig, name: str) -> None:
        """The struct of a whole model."""
        if isinstance(config, SequentialConfig | GraphConfig | ResidualConfig | MlpConfig | LstmLmConfig):
            self._part(config, "", "", name)
        else:  # a layer alone, or a list of them
            field = snake(tag_of(type(config)) or "layer")
            self.renames[""] = field
            part = self._part(config, "", field, f"{name}{camel(field)}")
            self._add(name, "", [(field, part)], lambda given: [part.call(f"self.{field}", given)])

    def renamed(self, name: str) -> str:
        """The name of a tensor in Rust."""
        parts = name.split(".")
        for count in range(len(parts), -1, -1):
            head = ".".join(parts[:count])
            if head in self.renames:
                return ".".join(it for it in (self.renames[head], *parts[count:]) if it)
        return name

    def _part(self, config: ModuleConfig, path: str, rust: str, name: str) -> Part:
        """A module at `path`, which is at `rust` there; a container is a struct `name`."""
        self.renames.setdefault(path, rust)
        match config:
            case SequentialConfig():
                return self._sequential(config, path, rust, name)
            case ResidualConfig():
                return self._residual(config, path, rust, name)
            case RepeatConfig():
                return self._repeat(config, path, rust, name)
            case GraphConfig():
                return self._graph(config, path, rust, name)
            case MlpConfig():
                return self._mlp(config, path, name)
            case LstmLmConfig():
                return self._lstm_lm(config, path, name)
            case _:
                return self._layer(config, path)

    def _layer(self, config: ModuleConfig, path: str) -> Part:
        tag = tag_of(type(config)) or type(config).__name__
        layer = rust_layer(config, path)
        if layer is not None:
            self.imports |= layer.imports
            return Part(layer.type, layer.init, lambda field, given: call_of(tag, field, given))
        made = operation(tag, config)
        if made is None:
            raise NoCounterpartError(f"{path or 'the model'}: Burn has no layer {tag}")

        def call(_: str, given: Sequence[str]) -> str:
            flow = self._flow(path)
            if not isinstance(flow.output, Kind):
                raise NoCounterpartError(f"{path}: {tag} gives no single tensor, as it would in Rust")
            return made(given, flow.inputs[0].rank, flow.output.rank)

        return Part("", "", call)

    def _sequential(self, config: SequentialConfig, path: str, rust: str, name: str) -> Part:
        parts = self._children(config, path, rust, name)

        def forward(given: Sequence[str]) -> list[str]:
            lines = [f"let x = {part.call(f'self.{field}', ['x'])};" for field, part in parts[:-1]]
            field, part = parts[-1]
            return [f"let x = {given[0]};"] * (given[0] != "x") + lines + [part.call(f"self.{field}", ["x"])]

        return self._add(name, path, parts, forward)

    def _children(self, config: SequentialConfig, path: str, rust: str, name: str) -> list[tuple[str, Part]]:
        found: list[tuple[str, Part]] = []
        for key, layer in named_parts(config.layers).items():
            field = f"{snake(tag_of(type(layer)) or 'layer')}_{key}" if key.isdecimal() else identifier(key)
            below = joined(path, key)
            self.renames[below] = joined(rust, field)
            found.append((field, self._part(layer, below, joined(rust, field), f"{name}{camel(field)}")))
        return found

    def _residual(self, config: ResidualConfig, path: str, rust: str, name: str) -> Part:
        inner = SequentialConfig(layers=config.layers)
        layers = self._part(inner, joined(path, "layers"), joined(rust, "layers"), f"{name}Layers")
        fields = [("layers", layers)]
        if config.shortcut is not None:
            below = self._part(config.shortcut, joined(path, "shortcut"), joined(rust, "shortcut"), f"{name}Shortcut")
            fields.append(("shortcut", below))

        def forward(given: Sequence[str]) -> list[str]:
            x = given[0]
            kept = x if config.shortcut is None else fields[1][1].call("self.shortcut", [x])
            return [f"{layers.call('self.layers', [f'{x}.clone()'])} + {kept}"]

        return self._add(name, path, fields, forward)

    def _repeat(self, config: RepeatConfig, path: str, rust: str, name: str) -> Part:
        layers = [config.layer_at(number) for number in range(config.times)]
        first = self._part(layers[0], joined(path, "0"), joined(rust, "0"), name)
        is_alike = all(layer == layers[0] for layer in layers)
        if not first.type or not (is_alike or rust_layer(layers[0], path)):
            raise NoCounterpartError(
                f"{path or 'the model'}: a Repeat is a Vec of one type in Rust, here its layers differ"
            )
        if is_alike:
            init = f"(0..{config.times}).map(|_| {first.init}).collect()"
        else:
            init = f"vec![{', '.join(self._layer(layer, path).init for layer in layers)}]"

        def call(field: str, given: Sequence[str]) -> str:
            others = [f"{it}.clone()" for it in given[1:]]
            return f"{field}.iter().fold({given[0]}, |x, layer| {first.call('layer', ['x', *others])})"

        return Part(f"Vec<{first.type}>", init, call)

    def _graph(self, config: GraphConfig, path: str, rust: str, name: str) -> Part:
        parts: dict[str, Part] = {}
        for key, node in config.nodes.items():
            if node.layer is not None:
                below, field = joined(path, key), identifier(key)
                self.renames[below] = joined(rust, field)
                parts[key] = self._part(node.layer, below, joined(rust, field), f"{name}{camel(field)}")
        fields = [(identifier(key), part) for key, part in parts.items()]

        def forward(given: Sequence[str]) -> list[str]:
            return _graph_lines(config, parts, given, lambda key: self._flow(joined(path, key)))

        return self._add(name, path, fields, forward, [identifier(it) for it in config.inputs])

    def _mlp(self, config: MlpConfig, path: str, name: str) -> Part:
        hidden = config.sizes[1:-1]
        options: dict[str, Any] = {"bias": config.bias, "initializer": config.initializer}
        linear = [LinearConfig(d_input=a, d_output=b, **options) for a, b in pairwise(config.sizes)]
        norms = [config.norm.with_num_features(size) for size in hidden]
        fields = [("layers", self._vec(linear, path))]
        if hidden:
            activations = self._vec([config.activation] * len(hidden), path)
            dropout = self._layer(DropoutConfig(prob=config.dropout), path)
            fields += [("norms", self._vec(norms, path)), ("activations", activations), ("dropout", dropout)]

        def forward(given: Sequence[str]) -> list[str]:
            if not hidden:
                return [f"self.layers[0].forward({given[0]})"]
            return [
                f"let mut x = {given[0]};",
                "for (index, layer) in self.layers.iter().enumerate() {",
                "    x = layer.forward(x);",
                "    if index + 1 < self.layers.len() {",
                "        x = self.norms[index].forward(x);",
                "        x = self.dropout.forward(self.activations[index].forward(x));",
                "    }",
                "}",
                "x",
            ]

        return self._add(name, path, fields, forward)

    def _lstm_lm(self, config: LstmLmConfig, path: str, name: str) -> Part:
        sizes = [config.d_model] + [config.d_hidden] * (config.n_layers - 1)
        layers = [LstmConfig(d_input=size, d_hidden=config.d_hidden, bias=True) for size in sizes]
        embedding = EmbeddingConfig(n_embedding=config.vocab_size, d_model=config.d_model)
        fields = [
            ("embedding", self._layer(embedding, path)),
            ("layers", self._vec(layers, path)),
            ("dropout", self._layer(DropoutConfig(prob=config.dropout), path)),
        ]
        if not config.tied_head:
            head = LinearConfig(d_input=config.d_hidden, d_output=config.vocab_size)
            fields.append(("head", self._layer(head, path)))
        last = transposed("self.embedding", "x", 3) if config.tied_head else "self.head.forward(x)"

        def forward(given: Sequence[str]) -> list[str]:
            return [
                f"let mut x = self.embedding.forward({given[0]});",
                "for layer in self.layers.iter() {",
                "    x = layer.forward(self.dropout.forward(x), None).0;",
                "}",
                "let x = self.dropout.forward(x);",
                last,
            ]

        return self._add(name, path, fields, forward)

    def _vec(self, configs: Sequence[ModuleConfig], path: str) -> Part:
        parts = [self._layer(it, path) for it in configs]
        return Part(f"Vec<{parts[0].type}>", f"vec![{', '.join(it.init for it in parts)}]", lambda *_: "")

    def _add(
        self,
        name: str,
        path: str,
        fields: Sequence[tuple[str, Part]],
        forward: Callable[[Sequence[str]], list[str]],
        names: Sequence[str] = ("x",),
    ) -> Part:
        """Add a struct, and give it as a part of another."""
        lines: list[str] = []
        if self._flows is not None:
            flow = self._flow(path)
            if flow.output is None:
                raise NoCounterpartError(
                    f"{path or 'the model'}: gives more than tensors; choose one of them by a Graph"
                )
            if len(names) != len(flow.inputs):
                names = [f"input_{number}" for number in range(len(flow.inputs))]
            given = ", ".join(f"{it}: {kind}" for it, kind in zip(names, flow.inputs, strict=True))
            output = flow.output if isinstance(flow.output, Kind) else f"({', '.join(map(str, flow.output))})"
            body = [f"    {line}" for line in forward(names)]
            lines = [f"pub fn forward(&self, {given}) -> {output} {{", *body, "}"]
        self.structs.append(Struct(name, [it for it in fields if it[1].type], lines))
        return Part(name, f"{name}::new(device)", lambda field, given: f"{field}.forward({', '.join(given)})")

    def _flow(self, path: str) -> Flow:
        flow = (self._flows or {}).get(path)
        if flow is None:
            raise NoCounterpartError(f"{path or 'the model'}: was not called in the forward pass that shows the shapes")
        return flow


def _graph_lines(
    config: GraphConfig, parts: Mapping[str, Part], given: Sequence[str], flow: Callable[[str], Flow]
) -> list[str]:
    names = dict(zip(config.inputs, given, strict=True)) | {key: identifier(key) for key in config.nodes}
    outputs = config.output_names()
    last = [outputs] if isinstance(outputs, str) else [*outputs]
    steps = [(key, [source for _, source in config.node_sources(key)]) for key in config.nodes]
    uses = [source.partition(".")[0] for _, sources in steps for source in sources]
    uses += [source.partition(".")[0] for source in last]

    def taken(source: str) -> str:
        name, *items = source.split(".")
        uses.remove(name)
        return ".".join([names[name], *items]) + (".clone()" if name in uses else "")

    lines: list[str] = []
    for key, sources in steps:
        node = config.nodes[key]
        owner = node.use or key
        arguments = [taken(source) for source in sources]
        if node.transposed:
            kind = flow(owner).output
            assert isinstance(kind, Kind)
            call = transposed(f"self.{identifier(owner)}", arguments[0], kind.rank)
        else:
            call = parts[owner].call(f"self.{identifier(owner)}", arguments)
        lines.append(f"let {names[key]} = {call};")
    results = [taken(source) for source in last]
    return [*lines, results[0] if isinstance(outputs, str) else f"({', '.join(results)})"]
