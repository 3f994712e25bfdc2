"""Functions of Rust from the graph of a model: one for each call of a module that is a struct."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor, fx, nn

from ....errors import NoCounterpartError
from .calls import call_of
from .expressions import CLOSE, OPEN, PART_CLOSE, PART_OPEN, Expr, Statement, Value, imported, numbers_in, part
from .operations import Several, expression_of
from .printing import WIDTH, identifier, unique
from .tracing import MODEL, Trace, is_item, size_of
from .values import literal, name_of, source_line

_ROLES = {(0, 4): "batch", (2, 4): "height", (3, 4): "width", (0, 3): "batch", (1, 3): "length", (0, 2): "batch"}


@dataclass
class Group:
    """The nodes of one call of a module, with the calls within it as groups of their own."""

    call: str
    path: str
    items: "list[fx.Node | Group]" = field(default_factory=list)

    def nodes(self) -> list[fx.Node]:
        return [node for it in self.items for node in (it.nodes() if isinstance(it, Group) else [it])]


@dataclass
class Function:
    """What a call of a module does.

    Attributes:
        inputs: tensors from outside, with their names; sizes that no tensor has follow them.
        outputs: tensors that are used outside.
        statements: the last has the result.
        size_names: names of sizes within it, and `size_arguments` those that are given.
        needs: paths to import.
    """

    path: str
    inputs: list[tuple[Value, fx.Node]] = field(default_factory=list)
    size_arguments: list[Any] = field(default_factory=list)
    outputs: list[fx.Node] = field(default_factory=list)
    statements: list[Statement] = field(default_factory=list)
    size_names: dict[Any, str] = field(default_factory=dict)
    needs: set[str] = field(default_factory=set)


class Functions:
    """Writes all functions of a model.

    Attributes:
        by_path: of each module that is a struct, what its calls do.
    """

    def __init__(self, trace: Trace, model: nn.Module) -> None:
        self.trace, self.model = trace, model
        self.by_path: dict[str, list[Function]] = {}
        self.paths: dict[int, str] = {}
        for path, module in model.named_modules():
            self.paths.setdefault(id(module), path)
        fields = [path for path, value in trace.values.values() if not is_number(value)]
        self.has_fields = {"", *(it for path in fields for it in _above(path))}
        self.has_fields |= {it for leaf in trace.leaves for it in _above(leaf)}
        self.owner = {leaf.layer: leaf for leaf in trace.leaves.values()}
        self.live = self._live()
        self.root = self._grouped()
        self.number = 0
        self.widths: dict[str, int] = {}

    def arguments_of(self, group: "Group") -> dict[str, fx.Node]:
        """The nodes that a call of a module is made with, by the names of its arguments; calls come in order."""
        calls = [nodes for path, nodes in self.trace.arguments if path == group.call.partition("@")[0]]
        at = int(group.call.partition("@")[2] or 0)
        return calls[at] if at < len(calls) else {}

    def write(self) -> Function:
        return Writer(self, self.root, None).function

    def _live(self) -> set[fx.Node]:
        """The nodes that the results are computed of."""
        found, rest = set[fx.Node](), [*self.trace.outputs]
        while rest:
            node = rest.pop()
            if node not in found:
                found.add(node)
                rest += [it for it in node.all_input_nodes if _is_computed(it)]
        return found

    def _grouped(self) -> Group:
        root = Group("", "")
        stack = [root]
        homes: dict[fx.Node, Group] = {}
        for node in self.trace.graph.nodes:
            if node.op != "call_function" or node not in self.live:
                continue
            if is_item(node):
                homes[node.args[0]].items.append(node)
                homes[node] = homes[node.args[0]]
                continue
            calls = self._calls(node)
            shared = 1
            while shared < len(stack) and shared <= len(calls) and stack[shared].call == calls[shared - 1][0]:
                shared += 1
            del stack[shared:]
            for call, path in calls[shared - 1 :]:
                group = Group(call, path)
                stack[-1].items.append(group)
                stack.append(group)
            stack[-1].items.append(node)
            homes[node] = stack[-1]
        return root

    def _calls(self, node: fx.Node) -> list[tuple[str, str]]:
        """The calls of structs around a node, from the outside in."""
        found: list[tuple[str, str]] = []
        call: Any
        for call, _ in (node.meta.get("nn_module_stack") or {}).values():
            name = call.removeprefix(MODEL[:-1]).removeprefix(".")
            if not call.startswith(MODEL[:-1]):
                continue
            plain = name.partition("@")[0]
            try:
                module = self.model.get_submodule(plain)
            except AttributeError:
                continue
            path: str = self.paths.get(id(module)) or plain
            above = found[-1][1] if found else ""
            is_below = path.startswith(f"{above}.") if above else bool(path)
            if path in self.has_fields and module not in self.owner and is_below:
                found.append((name, path))
        return found


def _above(path: str) -> list[str]:
    """The paths of the modules that hold something at a path."""
    parts = path.split(".")[:-1]
    return [".".join(parts[:end]) for end in range(1, len(parts) + 1)]


def _is_computed(node: fx.Node) -> bool:
    """True for what is written down: tensors, which sizes and checks of these are not."""
    if str(node.target).startswith("burnlike_rust.argument"):
        return False
    value = node.meta.get("val")
    return isinstance(value, Tensor) or (
        isinstance(value, list | tuple) and any(isinstance(it, Tensor) for it in value)
    )


class Writer:
    """Writes one function, and those that it calls.

    Attributes:
        node: that is being written, for operations: its result and the source of its name.
    """

    def __init__(self, functions: Functions, group: Group, outputs: Sequence[fx.Node] | None) -> None:
        self.all, self.group = functions, group
        self.function = Function(group.path)
        self.expressions: dict[fx.Node, Expr] = {}
        self.uses: dict[fx.Node, int] = {}
        self.inside = {*group.nodes()}
        if outputs is None:
            outputs = functions.trace.outputs
        self.function.outputs = [*outputs]
        for item in group.items:
            for node in _inputs_of(item):
                self.uses[node] = self.uses.get(node, 0) + 1
        for node in outputs:
            self.uses[node] = self.uses.get(node, 0) + 2  # so that it has a name of its own
        self._take_inputs()
        self._take_sizes()
        self.node: Any = None
        self.fits = True
        self._items()
        results = [self.expression(it) for it in outputs]
        if len(results) == 1 and self._is_last(results[0]):
            statement = self.function.statements.pop()
            self.function.statements.append(Statement([], statement.text))
        else:
            texts = results
            text = texts[0] if len(texts) == 1 else f"({', '.join(texts)})"
            self.function.statements.append(Statement([], text))
        functions.by_path.setdefault(group.path, []).append(self.function)

    def _is_last(self, result: Expr) -> bool:
        """True if the result is the value of the last statement alone, which needs no name then."""
        last = self.function.statements[-1] if self.function.statements else None
        if last is None or len(last.values) != 1 or last.head or result != last.values[0].expr:
            return False
        return last.values[0].number not in {it for one in self.function.statements[:-1] for it in numbers_in(one.text)}

    # What comes from outside

    def _take_inputs(self) -> None:
        placeholders = {it for it in self.all.trace.graph.nodes if it.op == "placeholder"}
        wanted: dict[fx.Node, None] = {}
        if not self.group.call:
            order = {it.name: it for it in placeholders}
            wanted = dict.fromkeys(order[name] for name in self.all.trace.inputs if name in order)
        used = [it for item in self.group.items for it in _inputs_of(item)]
        noted = self.all.arguments_of(self.group)
        used = [*(it for it in noted.values() if it in {*used}), *used]
        for node in used:
            if node not in self.inside and _is_computed(node) and not self._is_own(node):
                wanted[node] = None
        for node in self.function.outputs:
            if node not in self.inside and not self._is_own(node):
                wanted[node] = None
        for node in wanted:
            name = identifier(node.name) if node in placeholders else name_of(node)
            if node in placeholders and node.name in self.all.trace.values:
                name = identifier(self.all.trace.values[node.name][0].rpartition(".")[2])
            name = next((identifier(it) for it, noted_node in noted.items() if noted_node is node), name)
            value = self.value(name)
            self.function.inputs.append((value, node))
            self.expressions[node] = value.expr

    def _is_own(self, node: fx.Node) -> bool:
        """True for a parameter or a buffer of the module or of one below it."""
        if node.op != "placeholder" or node.name not in self.all.trace.values:
            return False
        path, value = self.all.trace.values[node.name]
        if is_number(value) or not self.group.path:
            return True
        return path.startswith(f"{self.group.path}.")

    def _own(self, node: fx.Node) -> Expr:
        path, value = self.all.trace.values[node.name]
        if is_number(value):
            return Expr(literal(value.item()))
        for leaf in self.all.trace.leaves.values():
            if path.startswith(f"{leaf.path}."):
                place = leaf.places.get(path.removeprefix(f"{leaf.path}."))
                if place is None or place[0] in ("bias", "beta"):  # it is an Option in Burn's
                    raise NeedsTensor(leaf.path)
                relative = leaf.path.removeprefix(self.group.path).removeprefix(".")
                found = Expr(f"{part(relative)}.{place[0]}.val()")
                return found.dot("transpose()") if place[1] and value.dim() > 1 else found
        return Expr(f"{part(path.removeprefix(self.group.path).removeprefix('.'))}.val()")

    def _take_sizes(self) -> None:
        """Name the sizes that the function needs, by the tensors that have them."""
        self.reads: dict[fx.Node, dict[int, str]] = {}
        self.sources: dict[Any, tuple[fx.Node, int]] = {}
        nodes = [node for _, node in self.function.inputs]
        nodes += [it for it in self.group.nodes() if isinstance(it.meta.get("val"), Tensor)]
        for node in nodes:
            for at, size in enumerate(node.meta["val"].shape):
                if not isinstance(expression := size_of(size), int):
                    self.sources.setdefault(expression, (node, at))
        for node, _ in self.sources.values():
            if node in self.inside:
                self.uses[node] = self.uses.get(node, 0)

    def size(self, value: Any) -> str:
        """A size of the graph: a number, or an expression of the function's names of sizes."""
        if isinstance(value, fx.Node):
            value = value.meta["val"]
        if isinstance(value, torch.SymInt):
            value = size_of(value)
            return str(value) if isinstance(value, int) else self._written(value, 2)
        return str(value)

    def _written(self, size: Any, level: int) -> str:
        if size.is_Integer:
            return str(size)
        names = self.function.size_names
        if size in names:
            return names[size]
        if size in self.sources:
            node, at = self.sources[size]
            if node not in self.inside or node in self.expressions:
                return self._read(size, node, at)
        if size.is_Symbol:
            names[size] = self._size_name("size")
            self.function.size_arguments.append(size)
            return names[size]
        kind = type(size).__name__
        operators = {
            "Add": (" + ", 2),
            "Mul": (" * ", 1),
            "FloorDiv": (" / ", 1),
            "Mod": (" % ", 1),
            "PythonMod": (" % ", 1),
            "CleanDiv": (" / ", 1),
        }
        if kind in operators:
            sign, own = operators[kind]
            parts = sorted(size.args, key=lambda it: it.could_extract_minus_sign()) if kind == "Add" else [*size.args]
            if kind == "Mul":
                parts = [it for it in parts if not it.is_Integer] + [it for it in parts if it.is_Integer]
            text = ""
            for place, it in enumerate(parts):
                negative = kind == "Add" and it.could_extract_minus_sign()
                one = self._written(
                    -it if negative else it, own - (kind in ("FloorDiv", "Mod") and place > 0) - negative
                )
                text += (" - " if negative else sign if place else "") + one
            return text if own <= level else f"({text})"
        if kind in ("Max", "Min"):
            first, *others = (self._written(it, 0) for it in size.args)
            return first + "".join(f".{kind.lower()}({it})" for it in others)
        if kind == "Pow" and size.args[1].is_Integer:
            return f"{self._written(size.args[0], 0)}.pow({size.args[1]})"
        raise self.refused(f"the size {size}")

    def _read(self, size: Any, node: fx.Node, at: int) -> str:
        """The name of a size that a tensor has, which is read where the tensor is made."""
        rank = node.meta["val"].dim()
        name = _ROLES.get((at, rank), "batch" if at == 0 else "size")
        if not node.meta["val"].is_floating_point() and at == 1:
            name = "length"
        name = self._size_name(name)
        self.function.size_names[size] = name
        if not self.expressions[node].is_value:
            raise self.refused(f"the size {size} of a parameter")
        self.reads.setdefault(node, {})[at] = name
        return name

    def _size_name(self, name: str) -> str:
        return unique(name, {*self.function.size_names.values()})

    # What is computed

    def _items(self) -> None:
        for item in self.group.items:
            if isinstance(item, Group):
                self._call(item)
            elif not is_item(item) or item not in self.expressions:
                self._node(item)
        statements = self.function.statements
        firsts: list[Statement] = []
        if any(".device" in it.text or "&device" in it.text for it in statements):
            held = [value.expr for value, _ in self.function.inputs] + [
                self._own(it) for it in self.uses if self._is_own(it) and self.all.trace.values[it.name][1].dim()
            ]
            if not held:
                raise self.refused("a tensor on the device of no other")
            firsts.append(Statement([], held[0].dot("device()"), True, "let device = "))
        done: list[Statement] = []
        known = {node: value for value, node in self.function.inputs}
        for node, sizes in self.reads.items():
            if node in known:
                firsts.append(self._dims(known[node].expr, node, sizes))
        for it in statements:
            done.append(it)
            for node, sizes in self.reads.items():
                if node not in known and any(value.expr == self.expressions[node] for value in it.values):
                    done.append(self._dims(self.expressions[node], node, sizes))
        self.function.statements = firsts + done

    def _dims(self, expr: Expr, node: fx.Node, sizes: Mapping[int, str]) -> Statement:
        names = [sizes.get(at, "_") for at in range(node.meta["val"].dim())]
        return Statement([], expr.dot("dims()"), True, f"let [{', '.join(names)}] = ")

    def value(self, name: str, *, is_parts: bool = False) -> Value:
        self.all.number += 1
        self.all.widths[str(self.all.number)] = len(name)
        return Value(self.all.number, name, is_parts)

    def width(self, found: Expr) -> int:
        """Columns of an expression, with a clone of each value."""
        text = re.sub(f"{OPEN}(\\d+){CLOSE}", lambda value: "x" * (self.all.widths.get(value[1], 1) + 8), found)
        text = re.sub(f"{PART_OPEN}([^{PART_CLOSE}]*){PART_CLOSE}", "self.\\1", text)
        return len(re.sub(f"{OPEN}F\\d+{CLOSE}", "forward", text))

    def expr(self, text: str) -> Expr:
        """An expression in which functions and types of Burn have their paths, such as `tensor::activation::relu`."""
        return Expr(imported(text, self.function.needs))

    def let(self, expr: Expr, name: str) -> Expr:
        """Give an expression a name."""
        value = self.value(name)
        self.function.statements.append(Statement([value], expr))
        return value.expr

    def short(self, expr: Expr, name: str) -> Expr:
        """The expression as an operand; a long one gets a name."""
        return self.let(expr, name) if self.width(expr) > WIDTH - 20 else expr

    def _node(self, node: fx.Node) -> None:
        self.node = node
        for fits in (True, False):
            self.fits = fits
            before = dict(self.expressions)
            count = len(self.function.statements)
            found = self._result(node)
            width = self.width(found) if isinstance(found, Expr) else 0
            if (
                not fits
                or width <= WIDTH
                or all(it not in self.expressions or self.expressions[it].is_value for it in node.all_input_nodes)
            ):
                break
            self.expressions = before
            del self.function.statements[count:]
        if not isinstance(node.meta["val"], Tensor) and isinstance(found, Expr):
            found = Several([found])
        if isinstance(found, Several):
            for item in node.users:
                place: Any = item.args[1] if is_item(item) else len(found.items)
                if place < len(found.items):
                    self.expressions[item] = found.items[place]
            return
        if isinstance(node.meta["val"], Tensor) and self._has_name(node, found):
            found = self.let(found, name_of(node))
        self.expressions[node] = found

    def _has_name(self, node: fx.Node, found: Expr) -> bool:
        if found.is_value:
            return False
        called = re.match(f"{PART_OPEN}([^{PART_CLOSE}]*){PART_CLOSE}", found)
        if called is not None and called[1].rpartition(".")[2].isdecimal():
            return True  # items of lists are called in a loop, perhaps
        return (
            self.uses.get(node, 0) != 1
            or any(node is it for it, _ in self.sources.values())
            or self.width(found) > WIDTH
        )

    def _result(self, node: fx.Node) -> Any:
        if is_item(node):
            raise self.refused(f"result {node.args[1]} of {node.args[0]}")
        if str(node.target).startswith("burnlike_rust.layer"):
            return self._layer(*node.args)
        return expression_of(self, node)

    def _layer(self, key: str, tensors: list[fx.Node]) -> Several:
        call = self.all.trace.calls[key]
        path = call.leaf.path
        prefix = f"{self.group.path}." if self.group.path else ""
        if not path.startswith(prefix):
            raise NeedsTensor(path)
        self.function.needs |= call.leaf.init.imports
        return Several(call_of(self, part(path.removeprefix(prefix)), call, tensors))

    def _call(self, group: Group) -> None:
        nodes = {*group.nodes()}
        used = {*self.function.outputs}
        outputs = [
            it
            for it in group.nodes()
            if isinstance(it.meta.get("val"), Tensor)
            and (it in used or any(user not in nodes and user in self.all.live for user in it.users))
        ]
        function = Writer(self.all, group, outputs).function
        relative = group.path.removeprefix(self.group.path).removeprefix(".")
        arguments = [self.argument(node) for _, node in function.inputs]
        arguments += [self._written(it, 2) for it in function.size_arguments]
        expr = Expr(f"{part(relative)}.{OPEN}F{id(function)}{CLOSE}({', '.join(arguments)})")
        if len(outputs) == 1:
            (node,) = outputs
            self.expressions[node] = expr
            if self._has_name(node, expr):
                self.expressions[node] = self.let(expr, name_of(node))
            return
        values = [self.value(name_of(node)) for node in outputs]
        head = f"let ({', '.join(it.expr for it in values)}) = "
        self.function.statements.append(Statement(values, expr, head=head))
        for node, value in zip(outputs, values, strict=True):
            self.expressions[node] = value.expr

    # For operations

    def expression(self, node: fx.Node) -> Expr:
        if node in self.expressions:
            return self.expressions[node]
        return self._own(node)

    def argument(self, node: fx.Node) -> Expr:
        """A tensor as an argument; one that is long, or that does not fit here, gets a name first."""
        found = self.expression(node)
        is_long = (not self.fits and node in self.inside) or self.width(found) > WIDTH - 12
        if is_long and node in self.expressions and not found.is_value:
            found = self.expressions[node] = self.let(found, name_of(node))
        return found

    def refused(self, what: str) -> NoCounterpartError:
        """The error of something that Burn has not, with the module and the line of its source."""
        where = source_line(self.node) if self.node is not None else ""
        path = self.group.path or "the model"
        return NoCounterpartError(
            f"{path}: Burn has no counterpart of {what}{where}; `--to onnx` and burn-onnx, Burn's importer, may have"
        )


class NeedsTensor(Exception):
    """A layer whose tensor another module reads, so that it can't be one of Burn's."""

    def __init__(self, path: str) -> None:
        super().__init__(path)
        self.path = path


def is_number(value: Tensor) -> bool:
    """True for a tensor that is written as a number, which a parameter is not."""
    return value.dim() == 0 and not isinstance(value, nn.Parameter)


def _inputs_of(item: "fx.Node | Group") -> list[fx.Node]:
    """The nodes that a node or a group takes from outside it, each as often as it does; a group takes each once."""
    if isinstance(item, fx.Node):
        found: list[fx.Node] = []
        fx.map_arg((item.args, item.kwargs), lambda it: found.append(it))
        return found
    inside = {*item.nodes()}
    return [*dict.fromkeys(it for node in item.nodes() for it in _inputs_of(node) if it not in inside)]
