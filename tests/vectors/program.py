"""The programs of autodiff vectors: a small interpreter over Python's syntax tree with a list of what is allowed.

Nothing is handed to Python's own `eval`: names are the inputs and what statements assigned, calls are operations of the
API, and every other construct is refused.
"""

import ast
import operator
from collections.abc import Callable
from typing import Any

from burnlike import Backend, Float, Tensor

from .arguments import Options
from .calls import NAMESPACES, call, call_static, is_creation, is_static
from .problems import UnknownError

MAX_NODES = 10_000
DTYPE_FAMILIES = ("DType", "FloatDType", "IntDType")
BINARY: dict[type[ast.operator], Callable[[Any, Any], Any]] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.Div: operator.truediv,
    ast.Mod: operator.mod,
}
UNARY: dict[type[ast.unaryop], Callable[[Any], Any]] = {ast.USub: operator.neg, ast.UAdd: operator.pos}


class Program:
    """Statements over named values.

    Attributes:
        names: the inputs, and what the statements assigned so far.
        statements: what is to run, in order.
    """

    def __init__(self, text: str, inputs: dict[str, Any], backend: Backend) -> None:
        try:
            tree = ast.parse(text)
        except (SyntaxError, ValueError, RecursionError) as error:
            raise UnknownError(f"the program can't be read: {error}") from error
        if sum(1 for _ in ast.walk(tree)) > MAX_NODES:
            raise UnknownError("the program is too long")
        self.names = dict(inputs)
        self.statements = tree.body
        self._backend = backend
        if not self.statements:
            raise UnknownError("the program is empty")

    def run(self, statement: ast.stmt) -> None:
        """Run one statement: an assignment to names, or a call."""
        if isinstance(statement, ast.Assign):
            value = self._value(statement.value)
            for target in statement.targets:
                self._assign(target, value)
        elif isinstance(statement, ast.Expr):
            self._value(statement.value)
        else:
            raise UnknownError(f"unknown statement {ast.unparse(statement)!r}")

    def _assign(self, target: ast.expr, value: Any) -> None:
        if isinstance(target, ast.Name):
            self.names[target.id] = value
        elif isinstance(target, ast.Tuple | ast.List) and isinstance(value, list | tuple):
            if len(target.elts) != len(value):
                raise UnknownError(f"{len(value)} results for {ast.unparse(target)!r}")
            for one, part in zip(target.elts, value, strict=True):
                self._assign(one, part)
        else:
            raise UnknownError(f"can't assign to {ast.unparse(target)!r}")

    def _value(self, node: ast.expr) -> Any:
        match node:
            case ast.Constant(value=bool() | int() | float() | str() | None as value):
                return value
            case ast.Name(id=name):
                return self._named(name)
            case ast.List(elts=parts) | ast.Tuple(elts=parts):
                return [self._value(part) for part in parts]
            case ast.Dict(keys=keys, values=values):
                return {self._word(key): self._value(value) for key, value in zip(keys, values, strict=True)}
            case ast.Attribute(value=ast.Name(id=family), attr=name) if family in DTYPE_FAMILIES:
                return f"{family}.{name}"
            case ast.Call():
                return self._call(node)
            case ast.BinOp(left=left, op=op, right=right) if type(op) in BINARY:
                return BINARY[type(op)](self._value(left), self._value(right))
            case ast.UnaryOp(op=op, operand=inner) if type(op) in UNARY:
                return UNARY[type(op)](self._value(inner))
            case ast.Subscript(value=whole, slice=index):
                return self._part(self._value(whole), self._value(index))
        raise UnknownError(f"unknown expression {ast.unparse(node)!r}")

    def _named(self, name: str) -> Any:
        if name not in self.names:
            raise UnknownError(f"unknown name {name!r}")
        return self.names[name]

    def _part(self, whole: Any, index: Any) -> Any:
        """One of several results."""
        if isinstance(whole, list | tuple) and type(index) is int and -len(whole) <= index < len(whole):
            return whole[index]
        raise UnknownError(f"{index!r} does not pick one of several results")

    def _call(self, node: ast.Call) -> Any:
        if isinstance(node.func, ast.Name) and node.func.id == "dict":
            return self._options(node)
        if not isinstance(node.func, ast.Attribute):
            raise UnknownError(f"unknown function {ast.unparse(node.func)!r}")
        name = node.func.attr
        owner = node.func.value
        args = [self._value(arg) for arg in node.args]
        kwargs = {self._keyword(word): self._value(word.value) for word in node.keywords}
        if isinstance(owner, ast.Name) and owner.id not in self.names:
            return self._free(owner.id, name, args, kwargs)
        return call(name, self._receiver(owner), args, kwargs)

    def _free(self, owner: str, name: str, args: list[Any], kwargs: dict[str, Any]) -> Any:
        if owner == "Tensor":
            kind = Float.name.lower() if is_static(name) and is_creation(name) else None
            return call_static(name, args, kwargs, self._backend, kind)
        if owner not in NAMESPACES:
            raise UnknownError(f"unknown name {owner!r}")
        op = f"{owner}.{name}"
        if args and isinstance(args[0], Tensor):
            return call(op, args[0], args[1:], kwargs)
        return call_static(op, args, kwargs, self._backend, None)

    def _receiver(self, owner: ast.expr) -> Any:
        value = self._value(owner)
        if not isinstance(value, Tensor):
            raise UnknownError(f"{ast.unparse(owner)!r} is no tensor")
        return value

    def _options(self, node: ast.Call) -> Options:
        if node.args:
            raise UnknownError("dict(...) takes keywords only")
        return Options({self._keyword(word): self._value(word.value) for word in node.keywords})

    def _word(self, node: ast.expr | None) -> str:
        if isinstance(node, ast.Constant) and isinstance(node.value, str):
            return node.value
        raise UnknownError("the keys of a dict are words")

    def _keyword(self, word: ast.keyword) -> str:
        if word.arg is None:
            raise UnknownError("unknown argument form '**'")
        return word.arg
