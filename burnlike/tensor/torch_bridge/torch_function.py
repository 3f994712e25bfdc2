"""torch's functions on typed tensors: unwrapped, run with torch's meaning, and wrapped again.

Operators with a torch tensor on the left arrive here too. They keep the typed meaning: equal ranks, no promotion.
"""

from typing import Any

import torch

from ..._torch_compat.dispatch import PACKS_SEQUENCES, assume_constant, schema_of
from ...errors import TensorTypeError, TensorValueError
from ..core.base import TensorBase, like
from ..core.kinds import MAX_RANK
from ..core.operands import different_backends, operand
from ..core.spec import Spec, title
from .writes import refuse_writes_by_argument

# The operators by the name of torch's method. `w op x` with a torch tensor `w` on the left arrives as the method: ours
# is called on the lifted `w`. Under torch.compile `x op w` arrives too, as the reflected method of `w`: ours is called
# on `x`.
_SAME = ("add", "sub", "mul", "pow", "matmul", "lt", "le", "gt", "ge", "eq", "ne")
_METHODS = {
    **{name: f"__{name}__" for name in _SAME},
    **{f"__{name}__": f"__{name}__" for name in (*_SAME, "truediv", "mod", "and", "or", "xor")},
    "__div__": "__truediv__",
    "div": "__truediv__",
    "true_divide": "__truediv__",
    "remainder": "__mod__",
}
_REFLECTED = {
    **{f"__r{name}__": f"__{name}__" for name in ("add", "sub", "mul", "pow", "matmul", "truediv", "mod")},
    **{f"__r{name}__": f"__{name}__" for name in ("and", "or", "xor")},
    "__rdiv__": "__truediv__",
}


def dispatch(func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """Run `func` of torch on arguments that hold typed tensors.

    Raises:
        TensorTypeError: a function that writes into its arguments, or tensors of different backends.
        TensorValueError: a result that has no typed form.
    """
    name = _name(func)
    if len(args) == 2 and not kwargs and is_typed(args[1]) and not _is_function(func):
        tensor, typed = args
        if name in _REFLECTED:
            return getattr(typed, _REFLECTED[name])(tensor)
        if name in _METHODS and not is_typed(tensor):
            if name == "matmul" and torch.compiler.is_compiling():
                raise TensorTypeError("Matmul", _EITHER_ORDER)
            lifted = like(operand(name, typed.spec, tensor), typed.spec)
            return getattr(lifted, _METHODS[name])(typed)
    if _writes(func):
        where = _HINT if name.endswith("_") and args and is_typed(args[0]) else "give it x.inner, or a clone of that"
        raise TensorTypeError(title(name), f"torch's {name} writes into a tensor, and a Tensor never changes; {where}")
    refuse_writes_by_argument(name, _is_functional(func), args, kwargs)
    return call_plain(func, name, args, kwargs)


def call_plain(func: Any, name: str, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """Run `func` on the torch tensors inside of the typed ones, untracked if their backend is, and type the results.

    Raises:
        TensorTypeError: tensors of different backends.
        TensorValueError: a result that has no typed form.
    """
    specs: list[Spec] = []
    plain_args = [_unwrap(value, specs) for value in args]
    plain_kwargs = {key: _unwrap(value, specs) for key, value in kwargs.items()}
    spec = specs[0]
    for other in specs:
        if other.backend != spec.backend:
            raise TensorTypeError(title(name), different_backends(spec, other))
    if spec.tracks:
        return _rewrap(func(*plain_args, **plain_kwargs), spec, name)
    with torch.no_grad():
        return _rewrap(func(*plain_args, **plain_kwargs), spec, name)


# Dynamo (torch 2.13) hands both over as `w.matmul(x)`.
_EITHER_ORDER = (
    "under torch.compile `x @ w` and `w @ x` with a typed x and a torch tensor w can't be told apart;"
    " write x.matmul(w), or torch.matmul(w, x) for the other order"
)


def is_typed(value: Any) -> bool:
    """Whether `value` is a Tensor."""
    return isinstance(value, TensorBase)


# torch.compile can't read a builtin's name by itself.
@assume_constant
def _name(func: Any) -> str:
    return getattr(func, "__name__", str(func))


@assume_constant
def _is_function(func: Any) -> bool:
    return getattr(torch, _name(func), None) is func


@assume_constant
def _is_functional(func: Any) -> bool:
    return getattr(func, "__module__", None) == "torch.nn.functional"


@assume_constant
def _writes(func: Any) -> bool:
    name, schema = _name(func), schema_of(func)
    if schema is not None:
        return schema.is_mutable
    if getattr(func, "__module__", None) == "torch.distributed.distributed_c10d":
        return name not in ("send", "isend")
    in_place = name.startswith("__i") and name[3:-2] in _IN_PLACE
    return in_place or name in ("__setitem__", "__set__") or (name.endswith("_") and not name.endswith("__"))


_IN_PLACE = {"add", "sub", "mul", "div", "truediv", "floordiv", "mod", "pow", "and", "or", "xor", "lshift", "rshift"}
_HINT = "use the function without the underscore, or write to x.inner if that is what you want"


def _unwrap(value: Any, specs: list[Spec]) -> Any:
    if is_typed(value):
        specs.append(value.spec)
        return value.inner
    if isinstance(value, list | tuple) and not isinstance(value, torch.Size):
        found = [_unwrap(item, specs) for item in value]
        return type(value)(*found) if hasattr(value, "_fields") else type(value)(found)
    if isinstance(value, dict):
        return {key: _unwrap(item, specs) for key, item in value.items()}
    return value


def _rewrap(value: Any, spec: Spec, name: str) -> Any:
    if isinstance(value, torch.Tensor):
        if value.ndim == 0:
            value = value.reshape(1)
        ranks = spec.family.get(value.dtype)
        if ranks is None or value.ndim > MAX_RANK:
            what = f"rank {value.ndim}" if ranks else f"{value.dtype}"
            raise TensorValueError(title(name), f"the result has {what}, which has no typed form; call it on x.inner")
        return spec.tensor(value, spec.backend)
    if isinstance(value, list | tuple) and not isinstance(value, torch.Size):
        # What packs sequences keeps the number of rows of each step on the host, as a torch tensor.
        kept = 1 if name == PACKS_SEQUENCES else len(value)
        found = [*(_rewrap(item, spec, name) for item in value[:kept]), *value[kept:]]
        return type(value)(*found) if hasattr(value, "_fields") else type(value)(found)
    return value
