"""Operations by Burn's name: methods, static functions and the free functions of the API's modules."""

import asyncio
import importlib
import inspect
import operator
from collections.abc import Callable, Iterable
from types import ModuleType
from typing import Any

from burnlike import Backend, Tensor
from burnlike.tensor.quantization import QTensor

from .arguments import Options, converted, creation_options, kind_named
from .problems import UnknownError
from .values import VALUE_KEYS, tensor_of

NAMESPACES = ("activation", "module", "linalg", "signal", "grid", "loss", "quantization")
CALL_KEYS = {"op", "self", "args", "kwargs", "out", "kind"}
# Names that burnlike spells otherwise.
SPELLED = {"inner": "without_autodiff", "from": "from_data"}
# Names that are not methods.
TEXT_OF = "display"
OPERATORS: dict[str, Callable[..., Any]] = {
    "add": operator.add,
    "sub": operator.sub,
    "mul": operator.mul,
    "div": operator.truediv,
    "remainder": operator.mod,
    **{f"{name}_scalar": function for name, function in (
        ("add", operator.add),
        ("sub", operator.sub),
        ("mul", operator.mul),
        ("div", operator.truediv),
        ("remainder", operator.mod),
    )},
    "neg": operator.neg,
    "bool_not": operator.invert,
    "bool_and": operator.and_,
    "bool_or": operator.or_,
    "bool_xor": operator.xor,
}  # fmt: skip
# Arguments of quantization: tensors by name, in the order of the parameters.
RANGES_AND_SCALES = ({"min", "max"}, {"scales"})
FILLED_IN = ("backend", "kind", "dtype")


def namespace(name: str) -> ModuleType:
    """The module of free functions of this name."""
    try:
        return importlib.import_module(f"burnlike.tensor.{name}")
    except ModuleNotFoundError:
        raise UnknownError(f"burnlike has no tensor.{name}") from None


def function_named(op: str) -> Callable[..., Any]:
    """The public function or method of Burn's name, unbound."""
    owner: Any = Tensor
    name = op
    if "." in op:
        prefix, name = op.split(".", 1)
        if prefix not in NAMESPACES:
            raise UnknownError(f"unknown operation {op!r}")
        owner = namespace(prefix)
    name = SPELLED.get(op, name)
    found = None if name.startswith("_") else getattr(owner, name, None)
    if found is None or inspect.isclass(found) or inspect.ismodule(found):
        raise UnknownError(f"unknown operation {op!r}")
    return found


def is_static(op: str) -> bool:
    """Whether an operation is called on the class."""
    return isinstance(inspect.getattr_static(Tensor, SPELLED.get(op, op), None), staticmethod | classmethod)


def is_creation(op: str) -> bool:
    """Whether an operation makes a tensor from none."""
    return "backend" in inspect.signature(function_named(op)).parameters


def evaluate(node: Any, backend: Backend) -> Any:
    """The value of a tensor value or of a nested call."""
    if not isinstance(node, dict):
        raise UnknownError(f"expected a tensor value or a call, got {node!r}")
    if "op" not in node:
        return tensor_of(node, backend)
    unknown = node.keys() - CALL_KEYS
    if unknown:
        raise UnknownError(f"unknown key {sorted(unknown)[0]!r} in a call")
    result = perform(node, backend)
    if isinstance(result, QTensor):
        result = result.dequantize()  # what operations take
    if "out" not in node:
        return result
    if type(node["out"]) is not int or not isinstance(result, list | tuple) or not 0 <= node["out"] < len(result):
        raise UnknownError(f"'out': {node['out']!r} does not pick a result of {node['op']}")
    return result[node["out"]]


def operands(node: dict[str, Any], backend: Backend) -> tuple[Any, list[Any]]:
    """The receiver, None for a static call, and the arguments of a call."""
    receiver = None if node["self"] is None else evaluate(node["self"], backend)
    return receiver, flat(argument(item, backend) for item in node["args"])


class Several(list[Any]):
    """Arguments that a record gives as one."""


def flat(args: Iterable[Any]) -> list[Any]:
    """The arguments, one by one."""
    return [one for arg in args for one in (arg if isinstance(arg, Several) else [arg])]


def perform(node: dict[str, Any], backend: Backend) -> Any:
    """Run the operation of a call or of a whole record."""
    return apply(node, *operands(node, backend), backend)


def apply(node: dict[str, Any], receiver: Any, args: list[Any], backend: Backend) -> Any:
    """Run an operation on its operands."""
    op, kwargs = node["op"], node.get("kwargs") or {}
    if receiver is None:
        return call_static(op, args, kwargs, backend, node.get("kind"))
    if "kind" in node:
        raise UnknownError(f"'kind' of {op}, which is no creation")
    return call(op, receiver, args, kwargs)


def operate(node: dict[str, Any], backend: Backend) -> Any:
    """Run an operation by Python's operator for it."""
    op = node["op"]
    if op not in OPERATORS or node.get("kwargs"):
        raise UnknownError(f"no operator for {op!r}")
    receiver, args = operands(node, backend)
    return OPERATORS[op](receiver, *converted(op, args))


def argument(item: Any, backend: Backend) -> Any:
    """An argument with its tensors and options read; all else as it came."""
    if isinstance(item, list):
        return [argument(one, backend) for one in item]
    if isinstance(item, dict):
        if item.keys() == {"tensor"}:
            return evaluate(item["tensor"], backend)
        if item.keys() == {"options", "type"}:
            return Options(item["options"], item["type"])
        if item.keys() in RANGES_AND_SCALES:
            return Several([evaluate(one, backend) for one in item.values()])
        if item.keys() & (VALUE_KEYS | CALL_KEYS | {"tensor", "options", "type"}):
            raise UnknownError(f"unknown form of argument with keys {sorted(item)}")
    return item


def call(op: str, receiver: Any, args: list[Any], kwargs: dict[str, Any]) -> Any:
    """A method, a free function with the receiver first, or a property."""
    check_kwargs(op, kwargs)
    if op == TEXT_OF:
        return text_of(receiver, args)
    if is_static(op):
        raise UnknownError(f"{op} has a receiver, but is static")
    function = function_named(op)
    if not callable(function):
        if args:
            raise UnknownError(f"{op} takes no arguments")
        return resolved(getattr(receiver, SPELLED.get(op, op)))
    if op == "unsqueeze_dim" and kwargs and args[1:] == [kwargs["rank"]]:
        args = args[:1]  # the rank of the result comes twice in this form
    args = without_absent(function, args)
    rank = kwargs.get("rank")
    if rank is not None and "rank" not in inspect.signature(function).parameters:
        kwargs = {}
    result = resolved(function(receiver, *converted(op, args), **kwargs))
    if rank is not None and isinstance(result, Tensor) and result.rank() != rank:
        raise UnknownError(f"the result of {op} has rank {result.rank()}, not {rank}")
    return result


def text_of(receiver: Any, args: list[Any]) -> str:
    """The displayed text, in a Rust format such as `{:.3}` if one is given."""
    if not args:
        return str(receiver)
    form = args[0]
    if args == ["{}"]:
        return str(receiver)
    if len(args) > 1 or not isinstance(form, str) or not (form.startswith("{:") and form.endswith("}")):
        raise UnknownError(f"unknown format {args!r}")
    return format(receiver, form[2:-1])


def call_static(op: str, args: list[Any], kwargs: dict[str, Any], backend: Backend, kind: Any) -> Any:
    """A creation, a function of a list of tensors, or a window."""
    check_kwargs(op, kwargs)
    if "." not in op and not is_static(op):
        raise UnknownError(f"{op!r} is not static")
    function = function_named(op)
    names = inspect.signature(function).parameters
    more: dict[str, Any] = dict(kwargs)
    if op in ("from", "from_data", "from_floats", "from_ints", "from_bool"):
        args[:1] = [data_of(it) for it in args[:1]]
    own = [name for name in names if name not in FILLED_IN]
    if op in ("arange", "arange_step"):
        args[:1] = args[0]  # the two ends come as one list
    if "backend" in names:
        more["backend"] = backend
        if len(args) > len(own):
            more.update(creation_options(op, args.pop(len(own))))
    if kind is not None:
        if "kind" in names:
            more["kind"] = kind_named(kind)
        elif "backend" not in names:
            raise UnknownError(f"'kind' of {op}, which is no creation")
    if len(args) > len(own):
        raise UnknownError(f"too many arguments of {op}")
    positional = converted(op, args)
    return resolved(function(**dict(zip(own, positional, strict=False)), **more))


def without_absent(function: Callable[..., Any], args: list[Any]) -> list[Any]:
    """The arguments after the receiver, less trailing nulls for parameters that have a default."""
    parameters = list(inspect.signature(function).parameters.values())[1:]
    while args and args[-1] is None and len(args) <= len(parameters):
        if parameters[len(args) - 1].default is inspect.Parameter.empty:
            break
        args = args[:-1]
    return args


def data_of(value: Any) -> Any:
    """The data of a tensor, for the creations that take data."""
    return value.to_data() if isinstance(value, Tensor) else value


def check_kwargs(op: str, kwargs: dict[str, Any]) -> None:
    """The only keyword of the vectors is the rank of the result."""
    if not isinstance(kwargs, dict) or kwargs.keys() - {"rank"}:
        raise UnknownError(f"unknown keyword of {op}: {kwargs!r}")
    if kwargs and type(kwargs["rank"]) is not int:
        raise UnknownError(f"the rank {kwargs['rank']!r} of {op} is no int")


def resolved(result: Any) -> Any:
    """A result: iterators as lists, coroutines run."""
    if inspect.iscoroutine(result):
        return asyncio.run(result)
    return list(result) if hasattr(result, "__next__") else result
