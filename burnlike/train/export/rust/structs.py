"""Structs of Rust from the functions of a model: their fields, what makes them, and which modules share one."""

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from torch import Tensor, nn

from .expressions import lines_of, named, rolled
from .functions import Function, Functions
from .layers import Field, Init, fields_of, text_of
from .printing import camel, identifier, number, parts_of, snake, statement, unique
from .tracing import Trace, size_of
from .values import kind_of, rank_of, type_of

_RESERVED = {
    "Tensor",
    "Param",
    "ParamId",
    "Module",
    "Device",
    "Int",
    "Bool",
    "Initializer",
    "Vec",
    "Self",
    "Option",
    "String",
    "Box",
    "Result",
}


@dataclass
class Struct:
    """A struct of Rust, for one module or for several that are alike.

    Attributes:
        made_of: name of the class in Python.
        fields: names, and what makes each, for each of the modules.
        functions: the texts of its functions, and `docs` the shapes of each, for each of the modules.
        arguments: of `new`: place of a field among all, and its name.
    """

    name: str
    made_of: str
    fields: list[list[tuple[str, Init]]]
    functions: list[str]
    docs: list[list[str]]
    arguments: dict[int, str] = field(default_factory=dict)

    def values(self, instance: int) -> list[Field]:
        return [it for _, init in self.fields[instance] for it in fields_of(init)]


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
        self.needs: set[str] = set()
        self._names = {*_RESERVED, "Model"}
        self._names |= {it.init.type for it in trace.leaves.values()}
        self._tensors = {
            path: value for path, value in trace.values.values() if value.dim() or isinstance(value, nn.Parameter)
        }
        self._learns = any(it.requires_grad for it in model.parameters())
        tied = {id(it) for leaf in trace.leaves.values() for it in leaf.layer.parameters()}
        self._tensors |= {path: it for path, it in model.named_parameters() if id(it) not in tied}
        owned = tuple(f"{it}." for it in trace.leaves)
        self._tensors = {path: it for path, it in self._tensors.items() if not path.startswith(owned)}
        self._method_names: dict[int, str] = {}
        self._struct(model, "", "")
        self._share()

    def _children(self, path: str) -> Iterator[tuple[str, nn.Module]]:
        prefix = f"{path}." if path else ""
        for name, child in self._model.get_submodule(path).named_children():
            below = prefix + name
            if self._functions.paths[id(child)] == below and self._has_parts(below):
                yield name, child

    def _has_parts(self, path: str) -> bool:
        return path in self._trace.leaves or any(
            it.startswith(f"{path}.") for it in (*self._trace.leaves, *self._tensors)
        )

    def _struct(self, module: nn.Module, path: str, rust: str) -> Init:
        """The struct of a module that is no layer of Burn's, and what makes it."""
        fields: dict[str, Init] = {}
        names: dict[str, str] = {}
        lengths: dict[str, int] = {}
        taken = set[str]()
        prefix = f"{path}." if path else ""
        for name, tensor in self._tensors.items():
            if name.startswith(prefix) and "." not in name.removeprefix(prefix):
                own = unique(identifier(name.removeprefix(prefix)), taken)
                names[name.removeprefix(prefix)] = own
                fields[own] = self._parameter(own, tensor)
                self.paths[name] = f"{rust}{own}"
        for name, init in self._parts(path, rust, "", "", taken, lengths, names):
            fields[name] = init
        texts, docs = self._texts(path, names, lengths)
        key = (
            type(module).__name__,
            tuple((name, init.type, _shape(init)) for name, init in fields.items()),
            tuple(texts),
        )
        if key not in self.structs:
            wanted = "Model" if not path else self._wanted(type(module).__name__, path)
            title = "Model" if not path else unique(wanted, self._names)
            self.structs[key] = Struct(title, type(module).__name__, [], texts, [])
        struct = self.structs[key]
        struct.fields.append([*fields.items()])
        struct.docs.append(docs)
        return Init(
            struct.name, f"{struct.name}::new", (Field("", "", str(len(struct.fields) - 1)),), takes_device=True
        )

    def _wanted(self, kind: str, path: str) -> str:
        if kind in ("Sequential", "Module", "ModuleList", "ModuleDict", "Residual", "Repeat", "Graph"):
            names = [it for it in path.split(".") if not it.isdecimal()]
            return camel(snake(names[-1])) if names else camel(kind)
        return camel(kind)

    def _parts(
        self,
        path: str,
        rust: str,
        below: str,
        prefix: str,
        taken: set[str],
        lengths: dict[str, int],
        names: dict[str, str],
    ) -> Iterator[tuple[str, Init]]:
        """The fields for the children of a module; those of lists and dicts that are not called are its own."""
        full = f"{path}.{below}".strip(".")
        for name, child in self._children(full):
            place = f"{below}.{name}" if below else name
            child_path = f"{full}.{name}" if full else name
            kind = snake(type(child).__name__)
            plain = f"{kind}_{name}" if name.isdecimal() and not prefix else name
            own = identifier(f"{prefix}{plain}")
            if not self._is_part(child_path):
                if (made := self._list(child_path, rust, own, taken)) is not None:
                    field_name, init = made
                    lengths[place] = len(init.items)
                    names[place] = field_name
                    yield field_name, init
                else:
                    yield from self._parts(path, rust, place, f"{own}_", taken, lengths, names)
                continue
            own = unique(own, taken)
            names[place] = own
            yield own, self._part(child, child_path, f"{rust}{own}")

    def _owns(self, path: str) -> bool:
        return any(it.startswith(f"{path}.") and "." not in it.removeprefix(f"{path}.") for it in self._tensors)

    def _list(self, path: str, rust: str, own: str, taken: set[str]) -> tuple[str, Init] | None:
        """A `Vec` for the items of a list, if they have one type."""
        children = [*self._children(path)]
        if not children or [name for name, _ in children] != [str(it) for it in range(len(children))]:
            return None
        if not all(self._is_part(f"{path}.{name}") for name, _ in children):
            return None
        before = {key: len(it.fields) for key, it in self.structs.items()}
        names, paths = set(self._names), dict(self.paths)
        field_name = own if own not in taken else unique(own, set(taken))
        inits = [self._part(child, f"{path}.{name}", f"{rust}{field_name}.{name}") for name, child in children]
        if len({it.type for it in inits}) > 1:
            for key in [*self.structs]:
                if key in before:
                    del self.structs[key].fields[before[key] :]
                else:
                    del self.structs[key]
            self._names, self.paths = names, paths
            return None
        taken.add(field_name)
        return field_name, Init(f"Vec<{inits[0].type}>", "vec", items=tuple(inits))

    def _is_part(self, path: str) -> bool:
        return path in self._trace.leaves or path in self._functions.by_path or self._owns(path)

    def _part(self, child: nn.Module, path: str, rust: str) -> Init:
        if path in self._trace.leaves:
            init = self._trace.leaves[path].init
            self.needs |= init.imports
            self.paths[path] = rust
            frozen = [not it.requires_grad for it in child.parameters()]
            return init._replace(tail=f"{init.tail}.no_grad()") if self._learns and frozen and all(frozen) else init
        return self._struct(child, path, f"{rust}.")

    def _parameter(self, name: str, tensor: Tensor) -> Init:
        """A parameter or a buffer; its values come from the file."""
        self.needs.add("burn::module::Param")
        rank, kind = rank_of(tensor), kind_of(tensor)
        shape = f"[{', '.join(map(str, tensor.shape)) or '1'}]"
        sizes = Field("shape", f"[usize; {rank}]", shape)
        kind_text = f"Param<{type_of(tensor)}>"
        if isinstance(tensor, nn.Parameter) and kind == "Float":
            self.needs.add("burn::nn::Initializer")
            values = tensor.detach().float()
            if bool((values == values.reshape(-1)[0]).all()) if values.numel() else True:
                first = float(f"{float(values.reshape(-1)[0]):.7g}") if values.numel() else 0.0
                known = {0.0: "Initializer::Zeros", 1.0: "Initializer::Ones"}.get(first)
                made = known or f"Initializer::Constant {{ value: {number(first)} }}"
            else:
                made = "Initializer::Normal { mean: 0.0, std: 0.02 }"  # the same for all, as the values come later
                if tensor.dim() < 2:
                    made = f"Initializer::{'Zeros' if 'bias' in name or 'beta' in name else 'Ones'}"
            tail = ".set_require_grad(false)" if self._learns and not tensor.requires_grad else ""
            return Init(kind_text, f"{made}.init", (sizes,), (), tail, takes_device=True)
        self.needs.add("burn::module::ParamId")
        call = f"Tensor::zeros({{}}, device){'.bool()' * (kind == 'Bool')}"
        if kind == "Bool":
            call = call.replace("Tensor", f"Tensor::<{rank}, Int>")
        tail = ").set_require_grad(false)" if kind == "Float" else ")"
        head, _, rest = call.partition("({}")
        return Init(
            kind_text,
            f"Param::initialized(ParamId::new(), {head}",
            (sizes,),
            (),
            rest.replace(", device)", "") + tail,
            takes_device=True,
        )

    def _texts(self, path: str, names: dict[str, str], lengths: dict[str, int]) -> tuple[list[str], list[str]]:
        """The functions of a module and their shapes, each text once; calls of the same text have the same name."""
        found, docs = list[str](), list[str]()
        for function in self._functions.by_path.get(path, []):
            text, doc = self._text(function, names, lengths)
            if text not in found:
                found.append(text)
                docs.append(doc)
            self._method_names[id(function)] = f"forward_{at + 1}" if (at := found.index(text)) else "forward"
        texts = [it.replace("fn forward(", f"fn forward_{at + 1}(", 1) if at else it for at, it in enumerate(found)]
        return [_head(it) for it in texts], docs

    def _text(self, function: Function, names: dict[str, str], lengths: dict[str, int]) -> tuple[str, str]:
        self.needs |= function.needs

        def part_name(path: str) -> str:
            if path in names:
                return f"self.{names[path]}"
            base, _, at = path.rpartition(".")
            if base in lengths:
                return f"self.{names[base]}[{at}]"
            head, _, rest = path.partition(".")
            while head not in names and rest:
                more, _, rest = rest.partition(".")
                head = f"{head}.{more}"
            return f"self.{names[head]}" + "".join(
                f"[{it}]" if it.isdecimal() else f".{it}" for it in rest.split(".") if it
            )

        taken = {value.number: value.name for value, _ in function.inputs}
        functions = {it.rpartition(":")[2] for it in function.needs}
        used: set[str] = {*function.size_names.values(), *functions}
        taken = {number: unique(name, used) for number, name in taken.items()}
        arguments = [f"{taken[value.number]}: {type_of(node.meta['val'])}" for value, node in function.inputs]
        arguments += [f"{function.size_names[it]}: usize" for it in function.size_arguments]
        results = [type_of(it.meta["val"]) for it in function.outputs]
        output = results[0] if len(results) == 1 else f"({', '.join(results)})"
        for it in function.statements:
            it.text = re.sub("\ue000F(\\d+)\ue001", lambda found: self._method_names[int(found[1])], it.text)
        statements = [*named(rolled(function.statements, lengths), taken, {*function.size_names.values(), *functions})]
        body = [line for it in statements for line in lines_of(it, 8, part_name)]
        head = f"    pub fn forward({', '.join(['&self', *arguments])}) -> {output} {{"
        return "\n".join([head, *body, "    }"]), self._doc(function, taken)

    def _doc(self, function: Function, taken: dict[int, str]) -> str:
        symbols = function.size_names

        def shape(node: object) -> str:
            sizes = node.meta["val"].shape  # type: ignore[attr-defined]
            found = map(size_of, sizes)
            return f"[{', '.join(str(it) if isinstance(it, int) else symbols.get(it, '..') for it in found)}]"

        inputs = ", ".join(f"`{taken[value.number]}` {shape(node)}" for value, node in function.inputs)
        outputs = ", ".join(shape(it) for it in function.outputs)
        return f"    /// {inputs or 'nothing'} -> {outputs}".replace("[", "`[").replace("]", "]`")

    def _share(self) -> None:
        """Make what differs between the modules of a struct arguments of its `new`, the innermost structs first."""
        by_name = {it.name: it for it in self.structs.values()}

        def complete(init: Init) -> Init:
            if init.items:
                return init._replace(items=tuple(map(complete, init.items)))
            struct = by_name.get(init.type)
            if struct is None or init.head != f"{init.type}::new":
                return init
            values = struct.values(int(init.arguments[0].value))
            places = {name: at for at, name in reversed(struct.arguments.items())}
            given = (
                values[places[name]]._replace(name=name, is_default=False)
                for name in dict.fromkeys(struct.arguments.values())
            )
            return init._replace(arguments=tuple(given))

        for struct in self.structs.values():
            struct.fields = [[(name, complete(init)) for name, init in fields] for fields in struct.fields]
            rows = [struct.values(at) for at in range(len(struct.fields))]
            differing = [at for at in range(len(rows[0])) if len({row[at].value for row in rows}) > 1]
            homes = [name for name, init in struct.fields[0] for _ in fields_of(init)]
            same: dict[tuple[str, ...], int] = {}
            hints = [rows[0][at].name for at in differing]
            for at in differing:
                column = (*(row[at].value for row in rows), rows[0][at].type)
                if column in same:
                    struct.arguments[at] = struct.arguments[same[column]]
                    continue
                same[column] = at
                name = rows[0][at].name
                name = name if hints.count(name) == 1 else f"{homes[at]}_{name}"
                struct.arguments[at] = unique(identifier(name), {*struct.arguments.values()})


def _shape(init: Init) -> object:
    """What structs of one kind have in common in an expression: all but its values."""
    struct = init.takes_device and init.head.endswith("::new")
    return (init.head, init.tail, init.type, None if struct else (len(init.arguments), tuple(map(_shape, init.items))))


def _head(text: str) -> str:
    """A function whose first line is divided if it is too long."""
    head, _, body = text.partition("\n")
    if len(head) <= 100:
        return text
    name, _, rest = head.partition("(")
    arguments, _, result = rest.partition(") -> ")
    return "\n".join([f"{name}(", *(f"        {it}," for it in parts_of(arguments)), f"    ) -> {result}", body])


def text_of_struct(struct: Struct) -> str:
    """The struct, and its `impl`."""
    first = struct.fields[0]
    fields = "".join(f"    pub {name}: {init.type},\n" for name, init in first)
    unique_arguments = dict.fromkeys(struct.arguments.values())
    values = struct.values(0)
    types = {name: values[at].type for at, name in struct.arguments.items()}
    names: list[str | None] = [struct.arguments.get(at) for at in range(len(values))]
    rows: list[str] = []
    start = 0
    for name, init in first:
        count = len(fields_of(init))
        text = text_of(init, names[start : start + count])
        start += count
        rows += statement("" if text == name else f"{name}: ", text, ",", 12)
    device = "device" if any("device" in it for it in rows) else "_device"
    arguments = [*(f"{it}: {types[it]}" for it in unique_arguments), f"{device}: &Device"]
    head = f"    pub fn new({', '.join(arguments)}) -> Self {{"
    heads = (
        [head] if len(head) <= 100 else ["    pub fn new(", *(f"        {it}," for it in arguments), "    ) -> Self {"]
    )
    inside = " ".join(it.strip() for it in rows).removesuffix(",")
    made = ["        Self {", *rows, "        }"]
    if len(inside) <= 18:
        made = [f"        Self {{ {inside} }}" if inside else "        Self {}"]
    many = ["    #[allow(clippy::too_many_arguments)]"] * (len(arguments) > 7)
    new = ["    /// The module with initial weights.", *many, *heads, *made, "    }"]
    doc = f"/// `{struct.made_of}` of the exported model."
    text = f"{doc}\n#[derive(Module, Debug)]\npub struct {struct.name} {{{fields and chr(10)}{fields}}}\n"
    text += f"\nimpl {struct.name} {{\n"
    return (
        text
        + "\n".join(new)
        + "\n"
        + "".join(f"\n{_merged([docs[at] for docs in struct.docs])}\n{it}\n" for at, it in enumerate(struct.functions))
        + "}\n"
    )


def _merged(docs: Sequence[str]) -> str:
    """The shapes of several modules as one text: what differs is `..`."""
    words = [re.split(r"([\[\], ]+)", it) for it in docs]
    if len({len(it) for it in words}) > 1:
        return docs[0]
    return "".join(column[0] if len({*column}) == 1 else ".." for column in zip(*words, strict=True))
