"""Functions of Rust from the graph of a model: one for each call of a module that is a struct."""

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, cast

from torch import Tensor, fx, nn

from ....errors import NoCounterpartError
from .calls import NotBurns, call_of
from .expressions import Expr, Statement, Value, call_mark, imported, numbers_in, part, part_in, width_of, words_of
from .operations import Several, expression_of
from .printing import WIDTH, identifier, unique
from .tracing import MODEL, Leaf, Trace, is_item, size_of
from .values import literal, name_of, source_line

_ROLES = {(0, 4): "batch", (2, 4): "height", (3, 4): "width", (0, 3): "batch", (1, 3): "length", (0, 2): "batch"}
_OPERATORS = {"Add": (" + ", 2), "Mul": (" * ", 1)} | dict.fromkeys(("FloorDiv", "CleanDiv"), (" / ", 1))
_OPERATORS |= dict.fromkeys(("Mod", "PythonMod"), (" % ", 1))
"""Operations on sizes: their signs, and 1 for those of products."""
_OPTIONS = frozenset({"bias", "beta", "forget_gate"})
"""Fields of Burn's layers that are an Option."""


@dataclass
class Group:
    """The nodes of one call of a module, with the calls within it as groups of their own."""

    call: str
    path: str
    items: "list[fx.Node | Group]" = field(default_factory=list)

    def nodes(self) -> list[fx.Node]:
        return [node for item in self.items for node in (item.nodes() if isinstance(item, Group) else [item])]


class Functions:
    """All functions of a model.

    Attributes:
        by_path: of each module that is a struct, what its calls do.
        paths: of modules, by id; a module that stands at several has the first.
        live: the nodes that the results are computed of.
    """

    def __init__(self, trace: Trace, model: nn.Module) -> None:
        self.trace, self.model, self.number = trace, model, 0
        self.by_path: dict[str, list[Function]] = {}
        self.paths: dict[int, str] = {}
        for path, module in model.named_modules():
            self.paths.setdefault(id(module), path)
        self._modules = dict(model.named_modules(remove_duplicate=False))
        held = [*trace.leaves, *(path for path, value in trace.values.values() if not is_number(value))]
        self._has_fields = {"", *(above for path in held for above in _above(path))}
        self._layers = {leaf.layer for leaf in trace.leaves.values()}
        self.live = set[fx.Node]()
        rest = [*trace.outputs]
        while rest:
            node = rest.pop()
            if node not in self.live:
                self.live.add(node)
                rest += [it for it in node.all_input_nodes if _is_computed(it)]

    def write(self) -> "Function":
        read = {it.name for node in self.live for it in (node, *node.all_input_nodes)}
        held = (path for name, (path, value) in self.trace.values.items() if name in read and not is_number(value))
        if needed := {leaf.path for leaf, place in map(self.place_of, held) if leaf is not None and place is None}:
            raise NotBurns(needed)
        return Function(self, self._grouped(), self.trace.outputs)

    def place_of(self, path: str) -> tuple[Leaf | None, tuple[str, bool] | None]:
        """The layer of Burn's that has a tensor, and the place in it from where it can be read."""
        leaf = next((it for it in self.trace.leaves.values() if path.startswith(f"{it.path}.")), None)
        place = None if leaf is None else leaf.places.get(path.removeprefix(f"{leaf.path}."))
        return leaf, None if place is None or not _OPTIONS.isdisjoint(place[0].split(".")) else place

    def arguments_of(self, group: Group) -> dict[str, fx.Node]:
        """The nodes that a call of a module is made with, by the names of its arguments; calls come in order."""
        path, _, number = group.call.partition("@")
        calls = [nodes for it, nodes in self.trace.arguments if it == path]
        return calls[int(number or 0)] if int(number or 0) < len(calls) else {}

    def _grouped(self) -> Group:
        stack = [Group("", "")]
        homes: dict[fx.Node, Group] = {}
        for node in self.trace.graph.nodes:
            if node.op != "call_function" or node not in self.live:
                continue
            if is_item(node):
                homes[node] = homes[node.args[0]]
                homes[node].items.append(node)
                continue
            calls = self._calls(node)
            shared = 0
            while shared < min(len(stack) - 1, len(calls)) and stack[shared + 1].call == calls[shared][0]:
                shared += 1
            del stack[shared + 1 :]
            for call, path in calls[shared:]:
                stack.append(Group(call, path))
                stack[-2].items.append(stack[-1])
            stack[-1].items.append(node)
            homes[node] = stack[-1]
        return stack[0]

    def _calls(self, node: fx.Node) -> list[tuple[str, str]]:
        """The calls of structs around a node, from the outside in: how torch.export counts them, and paths."""
        names: list[tuple[str, str]] = []
        for key, (call, _) in (node.meta.get("nn_module_stack") or {}).items():
            plain, number = call.removeprefix(MODEL), key.partition("@")[2]
            name, above = f"{plain}@{number}" if number else plain, names[-1][1] if names else ""
            module = self._modules.get(plain)
            if plain == call or module is None or module in self._layers:
                continue
            path = self.paths[id(module)]
            if path in self._has_fields and path.startswith(f"{above}." if above else "") and path != above:
                names.append((name, path))
        return names


class Function:
    """A call of a module as a function of Rust, and the functions that it calls.

    Attributes:
        inputs: tensors from outside, with their names; sizes that no tensor has follow them, as `size_arguments`.
        outputs: tensors that are used outside.
        statements: the last has the result.
        size_names: names of sizes within it.
        needs: paths to import.
        node: that is being written, for operations: its result and the source of its name.
    """

    def __init__(self, functions: Functions, group: Group, outputs: Sequence[fx.Node]) -> None:
        self.all, self.group, self.path, self.outputs = functions, group, group.path, [*outputs]
        self.inputs: list[tuple[Value, fx.Node]] = []
        self.statements: list[Statement] = []
        self.size_arguments, self.size_names, self.needs = list[Any](), dict[Any, str](), set[str]()
        self.expressions: dict[fx.Node, Expr] = {}
        self.inside, self.node, self._fits = {*group.nodes()}, None, True
        used = [node for item in group.items for node in _inputs_of(item)]
        self._uses = Counter([*used, *self.outputs, *self.outputs])  # a result has a name of its own
        self._take_inputs(used)
        self._reads: dict[fx.Node, dict[int, str]] = {}
        self._sources: dict[Any, tuple[fx.Node, int]] = {}
        for node in [*(it for _, it in self.inputs), *(it for it in group.nodes() if _is_tensor(it))]:
            for at, size in enumerate(map(size_of, node.meta["val"].shape)):
                if not isinstance(size, int):
                    self._sources.setdefault(size, (node, at))
        self._read = {node for node, _ in self._sources.values()}
        for item in group.items:
            if isinstance(item, Group):
                self._call(item)
            elif item not in self.expressions:
                self._write(item)
        self._declare()
        self._give_results()
        functions.by_path.setdefault(group.path, []).append(self)

    def _give_results(self) -> None:
        results = [self.expression(output) for output in self.outputs]
        last = self.statements[-1] if self.statements else Statement([], "")
        is_last = len(results) == 1 and [value.expr for value in last.values] == results and not last.head
        if is_last and last.values[0].number not in {it for one in self.statements[:-1] for it in numbers_in(one.text)}:
            self.statements[-1] = Statement([], last.text)
            return
        text = results[0] if len(results) == 1 else f"({', '.join(results)})"
        self.statements.append(Statement([], text))

    # What comes from outside

    def _take_inputs(self, used: Sequence[fx.Node]) -> None:
        nodes = {it.name: it for it in self.all.trace.graph.nodes if it.op == "placeholder"}
        noted = self.all.arguments_of(self.group)
        names = {node: name for name, node in reversed(noted.items())}
        wanted = [nodes[it] for it in self.all.trace.inputs if it in nodes] if not self.group.call else []
        from_outside = [*(it for it in noted.values() if it in {*used}), *used, *self.outputs]
        wanted += [it for it in from_outside if it not in self.inside and _is_computed(it) and not self._is_own(it)]
        for node in dict.fromkeys(wanted):
            if node in names:
                name = identifier(names[node])
            elif node.op != "placeholder":
                name = name_of(node)
            else:
                path = self.all.trace.values.get(node.name, (node.name, None))[0]
                name = identifier(path.rpartition(".")[2])
            value = self.value(name)
            self.inputs.append((value, node))
            self.expressions[node] = value.expr

    def _is_own(self, node: fx.Node) -> bool:
        """True for a parameter or a buffer of the module or of one below it, and for a number."""
        if node.op != "placeholder" or node.name not in self.all.trace.values:
            return False
        path, value = self.all.trace.values[node.name]
        return is_number(value) or not self.path or path.startswith(f"{self.path}.")

    def _own(self, node: fx.Node) -> Expr:
        path, value = self.all.trace.values[node.name]
        if is_number(value):
            return Expr(literal(value.item()))
        leaf, place = self.all.place_of(path)
        if leaf is None:
            return Expr(f"{self._part(path)}.val()")
        assert place is not None  # else `write` has refused the layer
        field_value = Expr(f"{self._part(leaf.path)}.{place[0]}.val()")
        return field_value.dot("transpose()") if place[1] and value.dim() > 1 else field_value

    def _part(self, path: str) -> str:
        return part(path.removeprefix(self.path).removeprefix("."))

    # Sizes

    def size(self, value: Any) -> str:
        """A size of the graph: a number, or an expression of the function's names of sizes."""
        value = size_of(value.meta["val"] if isinstance(value, fx.Node) else value)
        return str(value) if isinstance(value, int) else self._size(value, 2)

    def _size(self, size: Any, level: int) -> str:
        """The text of a size as an operand of an operator of the level."""
        if size.is_Integer or size in self.size_names:
            return self.size_names.get(size) or str(size)
        node, at = self._sources.get(size, (None, 0))
        if node is not None and (node not in self.inside or node in self.expressions):
            return self._read_from(node, at, size)
        if size.is_Symbol:
            self.size_names[size] = unique("size", {*self.size_names.values()})
            self.size_arguments.append(size)
            return self.size_names[size]
        kind, operands = type(size).__name__, [*size.args]
        if kind in ("Max", "Min"):
            first, *others = (self._size(operand, 0) for operand in operands)
            return first + "".join(f".{kind.lower()}({operand})" for operand in others)
        if kind not in _OPERATORS:
            raise self.refused(f"the size {size}")
        sign, precedence = _OPERATORS[kind]
        operands = (
            sorted(operands, key=lambda operand: operand.could_extract_minus_sign()) if kind == "Add" else operands
        )
        operands = sorted(operands, key=lambda operand: bool(operand.is_Integer)) if kind == "Mul" else operands
        text = ""
        for place, operand in enumerate(operands):
            is_less = kind == "Add" and operand.could_extract_minus_sign()
            is_divisor = sign in (" / ", " % ") and place > 0
            one = self._size(-operand if is_less else operand, precedence - (is_divisor or is_less))
            text += (" - " if is_less else sign if place else "") + one
        return text if precedence <= level else f"({text})"

    def _read_from(self, node: fx.Node, at: int, size: Any) -> str:
        """The name of a size that a tensor has, which is read where the tensor is made."""
        name = _ROLES.get((at, node.meta["val"].dim()), "batch" if at == 0 else "size")
        name = "length" if at == 1 and not node.meta["val"].is_floating_point() else name
        if not self.expressions[node].is_value:
            raise self.refused(f"the size {size} of a parameter")
        self.size_names[size] = unique(name, {*self.size_names.values()})
        self._reads.setdefault(node, {})[at] = self.size_names[size]
        return self.size_names[size]

    def _declare(self) -> None:
        """Put what reads the device and sizes after the values that have them."""
        dims = list[tuple[Expr, Statement]]()
        words = {word for statement in self.statements for word in words_of(statement.text)}
        for node, sizes in self._reads.items():
            used = {at: name for at, name in sizes.items() if name in words}  # a text may have been written anew
            if not used:
                continue
            names = ", ".join(used.get(at, "_") for at in range(node.meta["val"].dim()))
            expr = self.expressions[node]
            dims.append((expr, Statement([], expr.dot("dims()"), borrows=True, head=f"let [{names}] = ")))
        inputs, firsts = [value.expr for value, _ in self.inputs], list[Statement]()
        if any(".device" in statement.text or "&device" in statement.text for statement in self.statements):
            own_nodes = (
                statement
                for statement in self._uses
                if self._is_own(statement) and self.all.trace.values[statement.name][1].dim()
            )
            source = next(iter([*inputs, *map(self._own, own_nodes)]), None)
            if source is None:
                raise self.refused("a tensor on the device of no other")
            firsts.append(Statement([], source.dot("device()"), borrows=True, head="let device = "))
        firsts += [statement for expr, statement in dims if expr in inputs]
        for statement in self.statements:
            values = [value.expr for value in statement.values]
            firsts += [statement, *(one for expr, one in dims if expr in values)]
        self.statements = firsts

    # What is computed

    def _write(self, node: fx.Node) -> None:
        self.node = node
        result = self._fitted(node.all_input_nodes, lambda: self._result(node))
        if _is_tensor(node):
            self.expressions[node] = self.let(result, name_of(node)) if self._has_name(node, result) else result
            return
        items = [result] if isinstance(result, Expr) else result.items
        for item in filter(is_item, node.users):
            place: Any = item.args[1]
            if place < len(items) and self._uses.get(item, 0):
                has_name = self._has_name(item, items[place])
                self.expressions[item] = self.let(items[place], name_of(item)) if has_name else items[place]

    def _fitted(self, arguments: Sequence[fx.Node], make: Callable[[], Any]) -> Any:
        """The text of `make`: with its arguments within it, or, if that is too long, with names for them."""
        before, count = dict(self.expressions), len(self.statements)
        text = make()
        inner = [self.expressions[argument] for argument in arguments if argument in self.expressions]
        if isinstance(text, Expr) and width_of(text) > WIDTH and not all(it.is_value for it in inner):
            self.expressions, self._fits = before, False
            del self.statements[count:]
            text, self._fits = make(), True
        return text

    def _result(self, node: fx.Node) -> Any:
        if is_item(node):
            raise self.refused(f"result {node.args[1]} of {node.args[0]}")
        if not str(node.target).startswith("burnlike_rust.layer"):
            return expression_of(self, node)
        key, tensors = cast("tuple[str, list[fx.Node]]", node.args)
        call = self.all.trace.calls[key]
        if not call.leaf.path.startswith(f"{self.path}." if self.path else ""):
            raise NotBurns({call.leaf.path})
        self.needs |= call.leaf.init.imports
        return Several(call_of(self, self._part(call.leaf.path), call, tensors))

    def _has_name(self, node: fx.Node, expr: Expr) -> bool:
        is_item_of_list = part_in(expr).rpartition(".")[2].isdecimal()  # these are called in a loop, perhaps
        is_needed = self._uses.get(node, 0) != 1 or node in self._read or width_of(expr) > WIDTH
        return not expr.is_value and (is_item_of_list or is_needed)

    def _call(self, group: Group) -> None:
        """Write the function of a call within this one, and the call."""
        nodes, live = {*group.nodes()}, self.all.live
        outputs = [
            it
            for it in group.nodes()
            if _is_tensor(it) and (it in self.outputs or any(user not in nodes and user in live for user in it.users))
        ]
        function = Function(self.all, group, outputs)
        argument_nodes, head = (
            [node for _, node in function.inputs],
            f"{self._part(group.path)}.{call_mark(id(function))}",
        )

        def make() -> Expr:
            arguments = [*map(self.argument, argument_nodes), *(self._size(it, 2) for it in function.size_arguments)]
            return Expr(f"{head}({', '.join(arguments)})")

        expr = self._fitted(argument_nodes, make)
        if len(outputs) == 1:
            name = name_of(outputs[0])
            self.expressions[outputs[0]] = self.let(expr, name) if self._has_name(outputs[0], expr) else expr
            return
        values = [self.value(name_of(node)) for node in outputs]
        self.statements.append(Statement(values, expr, head=f"let ({', '.join(value.expr for value in values)}) = "))
        self.expressions |= {node: value.expr for node, value in zip(outputs, values, strict=True)}

    # For operations and calls of layers

    def expression(self, node: fx.Node) -> Expr:
        return self.expressions.get(node) or self._own(node)

    def argument(self, node: fx.Node) -> Expr:
        """A tensor as an argument; one that is long, or that does not fit here, gets a name first."""
        expr = self.expression(node)
        is_long = (not self._fits and node in self.inside) or width_of(expr) > WIDTH - 12
        if is_long and node in self.expressions and not expr.is_value:
            expr = self.expressions[node] = self.let(expr, name_of(node))
        return expr

    def value(self, name: str, *, is_parts: bool = False) -> Value:
        self.all.number += 1
        return Value(self.all.number, name, is_parts)

    def expr(self, text: str) -> Expr:
        """An expression in which functions and types of Burn have their paths, such as `tensor::activation::relu`."""
        return Expr(imported(text, self.needs))

    def let(self, expr: Expr, name: str) -> Expr:
        """Give an expression a name."""
        value = self.value(name)
        self.statements.append(Statement([value], expr))
        return value.expr

    def short(self, expr: Expr, name: str) -> Expr:
        """The expression as an operand; a long one gets a name."""
        return self.let(expr, name) if width_of(expr) > WIDTH - 20 else expr

    def refused(self, what: str) -> NoCounterpartError:
        """The error of something that Burn has not, with the module and the line of its source."""
        where = source_line(self.node) if self.node is not None else ""
        calls = [*(self.node.meta.get("nn_module_stack") or {}).values()] if self.node is not None else []
        path, kind = calls[-1] if calls else ("", "")
        name = str(kind).rpartition(".")[2]
        place = f"{path.removeprefix(MODEL)} ({name})" if path.startswith(MODEL) else "the model"
        return NoCounterpartError(
            f"{place}: Burn has no counterpart of {what}{where}; `--to onnx` and burn-onnx, Burn's importer, may have"
        )


def is_number(value: Tensor) -> bool:
    """True for a tensor that is written as a number, which a parameter is not."""
    return value.dim() == 0 and not isinstance(value, nn.Parameter)


def _is_tensor(node: fx.Node) -> bool:
    return isinstance(node.meta.get("val"), Tensor)


def _is_computed(node: fx.Node) -> bool:
    """True for what is written down: tensors, which sizes and checks of these are not."""
    values = node.meta.get("val")
    values = values if isinstance(values, list | tuple) else [values]
    return any(isinstance(it, Tensor) for it in values) and not str(node.target).startswith("burnlike_rust.argument")


def _above(path: str) -> list[str]:
    """The paths of the modules that hold something at a path."""
    parts = path.split(".")[:-1]
    return [".".join(parts[:end]) for end in range(1, len(parts) + 1)]


def _inputs_of(item: "fx.Node | Group") -> list[fx.Node]:
    """The nodes that a node or a group takes from outside it, each as often as it does; a group takes each once."""
    if isinstance(item, fx.Node):
        nodes: list[fx.Node] = []
        fx.map_arg((item.args, item.kwargs), lambda it: nodes.append(it))
        return nodes
    inside = {*item.nodes()}
    return [*dict.fromkeys(it for node in item.nodes() for it in _inputs_of(node) if it not in inside)]
