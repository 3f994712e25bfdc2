"""Structs of Rust from the functions of a model: their fields, what makes them, and which modules share one."""

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from torch import Tensor, fx, nn

from .expressions import lines_of, named, rolled, with_calls
from .functions import Function, Functions, is_number
from .layers import Field, Init, fields_of, text_of
from .printing import camel, head_of, identifier, number, snake, statement, unique
from .tracing import Trace, size_of
from .values import kind_of, rank_of, type_of

_RESERVED = {
    *("Tensor", "Param", "ParamId", "Module", "Device", "Int", "Bool", "Initializer", "Vec", "Self", "Option", "Model"),
    *("String", "Box", "Result"),
}
_UNNAMED = ("Sequential", "Module", "ModuleList", "ModuleDict", "Residual", "Repeat", "Graph")
"""Classes whose structs get the names of attributes."""


@dataclass
class Struct:
    """A struct of Rust, for one module or for several that are alike.

    Attributes:
        made_of: name of the class in Python.
        functions: the texts of its functions.
        fields: names, and what makes each, for each of the modules.
        docs: the shapes of each function, for each of the modules.
        arguments: of `new`: place of a field among all, and its name.
    """

    name: str
    made_of: str
    functions: list[str]
    fields: list[list[tuple[str, Init]]] = field(default_factory=list)
    docs: list[list[str]] = field(default_factory=list)
    arguments: dict[int, str] = field(default_factory=dict)

    def values(self, instance: int) -> list[Field]:
        return [it for _, init in self.fields[instance] for it in fields_of(init)]


@dataclass
class _Scope:
    """A module whose fields are being found.

    Attributes:
        rust: what the paths of its parts begin with in Rust.
        fields: what makes each.
        names: paths below the module -> fields.
        lengths: of lists, by path.
    """

    path: str
    rust: str
    fields: dict[str, Init] = field(default_factory=dict)
    names: dict[str, str] = field(default_factory=dict)
    lengths: dict[str, int] = field(default_factory=dict)

    def name(self, place: str, wanted: str) -> str:
        self.names[place] = unique(identifier(wanted), {*self.fields})
        return self.names[place]

    def part_name(self, path: str) -> str:
        """The expression for a part at a path below the module."""
        parts = path.split(".")
        end = next(index for index in range(1, len(parts) + 1) if ".".join(parts[:index]) in self.names)
        rest = "".join(f"[{part}]" if part.isdecimal() else f".{part}" for part in parts[end:])
        return f"self.{self.names['.'.join(parts[:end])]}{rest}"


class Structs:
    """All structs of a model, the innermost first.

    Attributes:
        paths: of parameters, buffers and layers in Python -> in Rust.
        needs: paths to import.
    """

    def __init__(self, functions: Functions, trace: Trace, model: nn.Module) -> None:
        self._functions, self._trace, self._model = functions, trace, model
        self.structs: dict[object, Struct] = {}
        self.paths: dict[str, str] = {}
        self.needs = {"burn::module::Param", "burn::module::ParamId", "burn::nn::Initializer"}
        self._names = {*_RESERVED, *(leaf.init.type for leaf in trace.leaves.values())}
        self._learns = any(parameter.requires_grad for parameter in model.parameters())
        self._method_names: dict[int, str] = {}
        held = {id(parameter) for leaf in trace.leaves.values() for parameter in leaf.layer.parameters()}
        tensors = {path: value for path, value in trace.values.values() if not is_number(value)}
        tensors |= {path: parameter for path, parameter in model.named_parameters() if id(parameter) not in held}
        within = tuple(f"{leaf}." for leaf in trace.leaves)
        self._tensors = {path: tensor for path, tensor in tensors.items() if not path.startswith(within)}
        self._struct(model, "", "")
        self._share()

    def _children(self, path: str) -> Iterator[tuple[str, nn.Module]]:
        held = (*self._trace.leaves, *self._tensors)
        for name, child in self._model.get_submodule(path).named_children():
            below = f"{path}.{name}".strip(".")
            if self._functions.paths[id(child)] == below and any(f"{it}.".startswith(f"{below}.") for it in held):
                yield name, child

    def _struct(self, module: nn.Module, path: str, rust: str) -> Init:
        """The struct of a module that is no layer of Burn's, and what makes it."""
        scope, kind = _Scope(path, rust), type(module).__name__
        for name, tensor in self._own_tensors(path):
            field_name = scope.name(name, name)
            scope.fields[field_name] = self._parameter(field_name, tensor)
            self.paths[f"{path}.{name}".strip(".")] = f"{rust}{field_name}"
        self._parts(scope, "", "")
        texts, docs = self._texts(scope)
        key = (kind, tuple((name, init.type, _shape(init)) for name, init in scope.fields.items()), tuple(texts))
        if key not in self.structs:
            words = [it for it in path.split(".") if not it.isdecimal()]
            wanted = snake(words[-1]) if kind in _UNNAMED and words else kind
            self.structs[key] = Struct(unique(camel(wanted), self._names) if path else "Model", kind, texts)
        struct = self.structs[key]
        struct.fields.append([*scope.fields.items()])
        struct.docs.append(docs)
        instance = Field("", "", str(len(struct.fields) - 1))
        return Init(struct.name, f"{struct.name}::new", (instance,), takes_device=True)

    def _parts(self, scope: _Scope, below: str, prefix: str) -> None:
        """Add the fields for the children of a module; those of lists and dicts that are not called are its own."""
        full = f"{scope.path}.{below}".strip(".")
        for name, child in self._children(full):
            place, path = f"{below}.{name}".strip("."), f"{full}.{name}".strip(".")
            plain = f"{snake(type(child).__name__)}_{name}" if name.isdecimal() and not prefix else name
            field_name = identifier(f"{prefix}{plain}")
            if self._is_part(path):
                field_name = scope.name(place, field_name)
                scope.fields[field_name] = self._part(child, path, f"{scope.rust}{field_name}")
            elif (init := self._list(path, f"{scope.rust}{unique(field_name, {*scope.fields})}")) is not None:
                scope.lengths[place] = len(init.items)
                scope.fields[scope.name(place, field_name)] = init
            else:
                self._parts(scope, place, f"{field_name}_")

    def _own_tensors(self, path: str) -> list[tuple[str, Tensor]]:
        """The tensors that the module itself has."""
        return [(it.rpartition(".")[2], value) for it, value in self._tensors.items() if it.rpartition(".")[0] == path]

    def _is_part(self, path: str) -> bool:
        return path in self._trace.leaves or path in self._functions.by_path or bool(self._own_tensors(path))

    def _list(self, path: str, rust: str) -> Init | None:
        """A `Vec` for the items of a list, if they have one type."""
        children = [*self._children(path)]
        are_numbered = [name for name, _ in children] == [str(index) for index in range(len(children))]
        if not children or not are_numbered or not all(self._is_part(f"{path}.{name}") for name, _ in children):
            return None
        before = {key: len(struct.fields) for key, struct in self.structs.items()}
        names, paths = set(self._names), dict(self.paths)
        inits = [self._part(child, f"{path}.{name}", f"{rust}.{name}") for name, child in children]
        if len({init.type for init in inits}) == 1:
            return Init(f"Vec<{inits[0].type}>", "vec", items=tuple(inits))
        self.structs = {key: struct for key, struct in self.structs.items() if key in before}
        for key, count in before.items():
            del self.structs[key].fields[count:], self.structs[key].docs[count:]
        self._names, self.paths = names, paths
        return None

    def _part(self, child: nn.Module, path: str, rust: str) -> Init:
        if path not in self._trace.leaves:
            return self._struct(child, path, f"{rust}.")
        init = self._trace.leaves[path].init
        self.needs |= init.imports
        self.paths[path] = rust
        learning = [parameter.requires_grad for parameter in child.parameters()]
        is_frozen = self._learns and learning and not any(learning)
        return init._replace(tail=f"{init.tail}.no_grad()") if is_frozen else init

    def _parameter(self, name: str, tensor: Tensor) -> Init:
        """A parameter or a buffer; its values come from the file."""
        rank, kind, type_name = rank_of(tensor), kind_of(tensor), f"Param<{type_of(tensor)}>"
        shape = Field("shape", f"[usize; {rank}]", f"[{', '.join(map(str, tensor.shape)) or '1'}]")
        if isinstance(tensor, nn.Parameter) and kind == "Float":
            tail = ".set_require_grad(false)" if self._learns and not tensor.requires_grad else ""
            return Init(type_name, f"{_initializer(name, tensor)}.init", (shape,), (), tail, takes_device=True)
        zeros = f"Tensor::<{rank}, Int>::zeros" if kind == "Bool" else "Tensor::zeros"
        tail = {"Float": ").set_require_grad(false)", "Int": ")", "Bool": ".bool())"}[kind]
        head = f"Param::initialized(ParamId::new(), {zeros}"
        return Init(type_name, head, (shape,), (), tail, takes_device=True)

    # Functions

    def _texts(self, scope: _Scope) -> tuple[list[str], list[str]]:
        """The functions of a module and their shapes, each text once; calls of the same text have the same name."""
        types = dict[str, str]()
        for function in self._functions.by_path.get(scope.path, []):
            text, doc = self._text(function, scope)
            types.setdefault(text, doc)
            at = [*types].index(text)
            self._method_names[id(function)] = f"forward_{at + 1}" if at else "forward"
        texts = [it.replace("fn forward(", f"fn forward_{at + 1}(", 1) if at else it for at, it in enumerate(types)]
        return [head_of(it) for it in texts], [*types.values()]

    def _text(self, function: Function, scope: _Scope) -> tuple[str, str]:
        self.needs |= function.needs
        sizes = {*function.size_names.values(), *(written.rpartition(":")[2] for written in function.needs)}
        used = set(sizes)
        taken = {value.number: unique(value.name, used) for value, _ in function.inputs}
        arguments = [f"{taken[value.number]}: {type_of(node)}" for value, node in function.inputs]
        arguments += [f"{function.size_names[node]}: usize" for node in function.size_arguments]
        results = [type_of(node) for node in function.outputs]
        output = results[0] if len(results) == 1 else f"({', '.join(results)})"
        for line in function.statements:
            line.text = with_calls(line.text, self._method_names)
        statements = named(rolled(function.statements, scope.lengths), taken, sizes)
        body = [text for line in statements for text in lines_of(line, 8, scope.part_name)]
        head = f"    pub fn forward({', '.join(['&self', *arguments])}) -> {output} {{"

        def shape(node: fx.Node) -> str:
            sizes = map(size_of, node.meta["val"].shape)
            listed = [
                str(written) if isinstance(written, int) else function.size_names.get(written, "..")
                for written in sizes
            ]
            return f"`[{', '.join(listed)}]`"

        inputs = ", ".join(f"`{taken[value.number]}` {shape(node)}" for value, node in function.inputs)
        doc = f"    /// {inputs or 'nothing'} -> {', '.join(map(shape, function.outputs))}"
        return "\n".join([head, *body, "    }"]), doc

    # Arguments of `new`

    def _share(self) -> None:
        """Make what differs between the modules of a struct arguments of its `new`, the innermost structs first."""
        for struct in self.structs.values():
            struct.fields = [[(name, self._complete(init)) for name, init in it] for it in struct.fields]
            rows = [struct.values(at) for at in range(len(struct.fields))]
            differing = [at for at in range(len(rows[0])) if len({row[at].value for row in rows}) > 1]
            homes = [name for name, init in struct.fields[0] for _ in fields_of(init)]
            hints = [rows[0][at].name for at in differing]
            same: dict[tuple[str, ...], str] = {}
            for at in differing:
                column = (*(row[at].value for row in rows), rows[0][at].type)
                if column not in same:
                    name = rows[0][at].name if hints.count(rows[0][at].name) == 1 else f"{homes[at]}_{rows[0][at].name}"
                    same[column] = unique(identifier(name), {*same.values()})
                struct.arguments[at] = same[column]

    def _complete(self, init: Init) -> Init:
        """The expression that makes a part, with the arguments that its struct has in place of its number."""
        if init.items:
            return init._replace(items=tuple(map(self._complete, init.items)))
        struct = next((it for it in self.structs.values() if init.head == f"{it.name}::new"), None)
        if struct is None:
            return init
        values = struct.values(int(init.arguments[0].value))
        places = {name: at for at, name in reversed(struct.arguments.items())}
        names = dict.fromkeys(struct.arguments.values())
        arguments = (values[places[name]]._replace(name=name, is_default=False) for name in names)
        return init._replace(arguments=tuple(arguments))


def _shape(init: Init) -> object:
    """The common form of structs of one kind in an expression: all but its values."""
    is_struct = init.takes_device and init.head.endswith("::new")
    counts = None if is_struct else (len(init.arguments), tuple(map(_shape, init.items)))
    return (init.head, init.tail, init.type, counts)


def _initializer(name: str, tensor: Tensor) -> str:
    values = tensor.detach().float().flatten()
    if bool((values == values[:1]).all()):
        first = float(f"{float(values[0]):.7g}") if len(values) else 0.0
        constant = f"Initializer::Constant {{ value: {number(first)} }}"
        return {0.0: "Initializer::Zeros", 1.0: "Initializer::Ones"}.get(first, constant)
    if tensor.dim() < 2:  # the same for all modules, as the values come later
        return f"Initializer::{'Zeros' if 'bias' in name or 'beta' in name else 'Ones'}"
    return "Initializer::Normal { mean: 0.0, std: 0.02 }"


def text_of_struct(struct: Struct, load: str) -> str:
    """The struct, and its `impl`, with a further function in that of the model."""
    fields = "".join(f"    pub {name}: {init.type},\n" for name, init in struct.fields[0])
    values, rows, start = struct.values(0), list[str](), 0
    for name, init in struct.fields[0]:
        count = len(fields_of(init))
        text = text_of(init, [struct.arguments.get(at) for at in range(start, start + count)])
        start += count
        rows += statement("" if text == name else f"{name}: ", text, ",", 12)
    device = "device" if any("device" in row for row in rows) else "_device"
    types = {name: values[at].type for at, name in struct.arguments.items()}
    arguments = [*(f"{name}: {kind}" for name, kind in types.items()), f"{device}: &Device"]
    inside = " ".join(row.strip() for row in rows).removesuffix(",")
    rust_lines = ["        Self {", *rows, "        }"]
    if len(inside) <= 18:
        rust_lines = [f"        Self {{ {inside} }}" if inside else "        Self {}"]
    lines = [f"/// `{struct.made_of}` of the exported model.", "#[derive(Module, Debug)]"]
    lines += [f"pub struct {struct.name} {{{fields and chr(10)}{fields}}}", "", f"impl {struct.name} {{"]
    lines += ["    /// The module with initial weights."]
    lines += ["    #[allow(clippy::too_many_arguments)]"] * (len(arguments) > 7)
    lines += [head_of("\n".join([f"    pub fn new({', '.join(arguments)}) -> Self {{", *rust_lines, "    }"]))]
    lines += [load] if struct.name == "Model" else []
    for at, text in enumerate(struct.functions):
        lines += ["", _merged([docs[at] for docs in struct.docs]), text]
    return "\n".join([*lines, "}\n"])


def _merged(docs: Sequence[str]) -> str:
    """The shapes of several modules as one text: what differs is `..`."""
    words = [re.split(r"([\[\], ]+)", doc) for doc in docs]
    if len({len(word) for word in words}) > 1:
        return docs[0]
    return "".join(column[0] if len({*column}) == 1 else ".." for column in zip(*words, strict=True))
