"""torch's functions on typed tensors: unwrapped, run with torch's meaning, and wrapped again.

Operators with a torch tensor on the left arrive here too. They, and the methods of the same names, keep the typed
meaning: equal ranks, no promotion.
"""

from typing import Any

import torch

from ..errors import TensorTypeError, TensorValueError
from .kinds import MAX_RANK
from .operands import operand
from .spec import Spec, title

# What `w op x` with a torch tensor `w` on the left arrives as -> our method, called on the lifted `w`. Under
# torch.compile `x op w` arrives too, as the reflected method of `w`: -> our method, called on `x`.
_T = torch.Tensor
_FORWARD: dict[Any, str] = {
    _T.add: "__add__",
    _T.__add__: "__add__",
    _T.sub: "__sub__",
    _T.__sub__: "__sub__",
    _T.mul: "__mul__",
    _T.__mul__: "__mul__",
    _T.div: "__truediv__",
    _T.true_divide: "__truediv__",
    _T.__truediv__: "__truediv__",
    _T.__div__: "__truediv__",  # pyright: ignore[reportAttributeAccessIssue]
    _T.remainder: "__mod__",
    _T.__mod__: "__mod__",
    _T.pow: "__pow__",
    _T.__pow__: "__pow__",
    _T.matmul: "__matmul__",
    _T.__matmul__: "__matmul__",
    _T.__and__: "__and__",
    _T.__or__: "__or__",
    _T.__xor__: "__xor__",
    _T.lt: "__lt__",
    _T.__lt__: "__lt__",
    _T.le: "__le__",
    _T.__le__: "__le__",
    _T.gt: "__gt__",
    _T.__gt__: "__gt__",
    _T.ge: "__ge__",
    _T.__ge__: "__ge__",
    _T.eq: "__eq__",
    _T.__eq__: "__eq__",
    _T.ne: "__ne__",
    _T.__ne__: "__ne__",
}
_REFLECTED: dict[Any, str] = {
    _T.__radd__: "__add__",
    _T.__rsub__: "__sub__",
    _T.__rmul__: "__mul__",
    _T.__rdiv__: "__truediv__",
    _T.__rtruediv__: "__truediv__",
    _T.__rmod__: "__mod__",
    _T.__rpow__: "__pow__",
    _T.__rmatmul__: "__matmul__",
    _T.__rand__: "__and__",
    _T.__ror__: "__or__",
    _T.__rxor__: "__xor__",
}


def dispatch(func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """Run `func` of torch on arguments that hold typed tensors.

    Raises:
        TensorTypeError: a function that writes into its arguments, tensors of different backends, or a result that has
            no typed form.
    """
    if len(args) == 2 and not kwargs and isinstance(args[0], torch.Tensor) and _is_typed(args[1]):
        if func in _FORWARD:
            tensor, typed = args
            lifted = type(typed)(operand(_FORWARD[func], typed.spec, tensor), typed.spec.backend)
            return getattr(lifted, _FORWARD[func])(typed)
        if func in _REFLECTED:
            return getattr(args[1], _REFLECTED[func])(args[0])
    name = getattr(func, "__name__", str(func))
    _refuse_writes(func, name, args, kwargs)
    specs: list[Spec] = []
    plain_args = [_unwrap(value, specs) for value in args]
    plain_kwargs = {key: _unwrap(value, specs) for key, value in kwargs.items()}
    spec = specs[0]
    for other in specs:
        if other.backend != spec.backend:
            raise TensorTypeError(title(name), f"on different backends: {spec.backend!r} and {other.backend!r}")
    if spec.tracks:
        return _rewrap(func(*plain_args, **plain_kwargs), spec, name)
    with torch.no_grad():
        return _rewrap(func(*plain_args, **plain_kwargs), spec, name)


def _is_typed(value: Any) -> bool:
    return isinstance(getattr(value, "spec", None), Spec)


def _refuse_writes(func: Any, name: str, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
    schema = getattr(func, "_schema", None)
    writes = (name.endswith("_") and not name.endswith("__")) or (schema is not None and schema.is_mutable)
    if writes or name in ("__setitem__", "__set__") or (name.startswith("__i") and name[3:-2] in _IN_PLACE):
        raise TensorTypeError(title(name), f"torch's {name} writes into a tensor, and a Tensor never changes; {_HINT}")
    for key in ("out", "inplace"):
        value = kwargs.get(key)
        if value is not None and value is not False:
            raise TensorTypeError(title(name), f"{key}= writes into a tensor, and a Tensor never changes; leave it out")
    if name in ("batch_norm", "instance_norm"):
        statistics = [*args[1:3], kwargs.get("running_mean"), kwargs.get("running_var")]
        if any(_is_typed(value) for value in statistics):
            raise TensorTypeError(title(name), "torch's running statistics are written to; pass torch tensors for them")


_IN_PLACE = {"add", "sub", "mul", "div", "truediv", "floordiv", "mod", "pow", "and", "or", "xor", "lshift", "rshift"}
_HINT = "use the function without the underscore, or write to x.inner if that is what you want"


def _unwrap(value: Any, specs: list[Spec]) -> Any:
    if _is_typed(value):
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
        found = [_rewrap(item, spec, name) for item in value]
        return type(value)(found) if type(value) in (list, tuple) else tuple(found)
    return value
