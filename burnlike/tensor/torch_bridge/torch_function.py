"""Functions of torch on typed tensors: unwrapped, run with torch's meaning, and wrapped again.

Operators with a torch tensor on the left arrive here too. They keep the typed meaning: equal ranks, no promotion.
`lift` does the same for a function of one's own, `checkpoint` recomputes one in the backward pass.
"""

from collections.abc import Callable
from functools import wraps
from typing import Any, ParamSpec, TypeVar

import torch
from torch.utils.checkpoint import checkpoint as torch_checkpoint

from ..._torch_compat.compiler import new
from ..._torch_compat.dispatch import PACKS_SEQUENCES, WRITES_TO_ARGUMENTS, assume_constant, schema_of
from ...backend.torch_calls import through
from ...errors import TensorTypeError, TensorValueError
from ..core.base import TensorBase, like
from ..core.kinds import MAX_RANK
from ..core.operands import different_backends, operand
from ..core.spec import Spec, title

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

    Raises TensorTypeError: a function that writes into its arguments, or tensors of different backends.
    Raises TensorValueError: a result that has no typed form.
    """
    name = _name(func)
    if len(args) == 2 and not kwargs and isinstance(args[1], TensorBase) and not _is_function(func):
        tensor, typed = args
        if name in _REFLECTED:
            return getattr(typed, _REFLECTED[name])(tensor)
        if name in _METHODS and not isinstance(tensor, TensorBase):
            if name == "matmul" and torch.compiler.is_compiling():
                raise TensorTypeError("Matmul", _EITHER_ORDER)
            lifted = like(operand(name, typed.spec, tensor), typed.spec)
            return getattr(lifted, _METHODS[name])(typed)
    if _writes(func):
        where = (
            _HINT
            if name.endswith("_") and args and isinstance(args[0], TensorBase)
            else "give it x.inner, or a clone of that"
        )
        raise TensorTypeError(title(name), f"torch's {name} writes into a tensor, and a Tensor never changes; {where}")
    _refuse_writes_by_argument(name, _is_functional(func), args, kwargs)
    return call_plain(func, name, args, kwargs)


def call_plain(func: Any, name: str, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """Run `func` on the torch tensors inside of the typed ones, untracked if their backend is, and type the results."""
    specs: list[Spec] = []
    plain_args: list[Any] = []
    # The usual argument is a tensor: a call of `_unwrap` for each would take as long as a small operation.
    for value in args:
        if isinstance(value, TensorBase):
            specs.append(value.spec)
            plain_args.append(value.inner)
        else:
            plain_args.append(_unwrap(value, specs) if isinstance(value, list | tuple | dict) else value)
    plain_kwargs = {key: _unwrap(value, specs) for key, value in kwargs.items()} if kwargs else kwargs
    spec = specs[0]
    for other in specs:
        if other.backend != spec.backend:
            raise TensorTypeError(title(name), different_backends(spec, other))
    if not spec.torchs:
        with through(spec.backend), torch.set_grad_enabled(spec.tracks and torch.is_grad_enabled()):
            return _rewrap(func(*plain_args, **plain_kwargs), spec, name)
    if spec.tracks:
        return _rewrap(func(*plain_args, **plain_kwargs), spec, name)
    with torch.no_grad():
        return _rewrap(func(*plain_args, **plain_kwargs), spec, name)


# Dynamo (torch 2.13) hands both over as `w.matmul(x)`.
_EITHER_ORDER = (
    "under torch.compile `x @ w` and `w @ x` with a typed x and a torch tensor w can't be told apart;"
    " write x.matmul(w), or torch.matmul(w, x) for the other order"
)


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
    if isinstance(value, TensorBase):
        specs.append(value.spec)
        return value.inner
    if isinstance(value, list | tuple) and not isinstance(value, torch.Size):
        items = [_unwrap(item, specs) for item in value]
        return type(value)(*items) if hasattr(value, "_fields") else type(value)(items)
    if isinstance(value, dict):
        return {key: _unwrap(item, specs) for key, item in value.items()}
    return value


def _rewrap(value: Any, spec: Spec, name: str) -> Any:
    if isinstance(value, torch.Tensor):
        rank = value.ndim
        if rank == 0:
            value, rank = value.reshape(1), 1
        ranks = spec.family.get(value.dtype)
        if ranks is None or rank > MAX_RANK:
            what = f"rank {rank}" if ranks else f"{value.dtype}"
            raise TensorValueError(title(name), f"the result has {what}, which has no typed form; call it on x.inner")
        is_plain = value.device == spec.backend.device and value.layout is torch.strided and not value.is_nested
        if not is_plain or (value.requires_grad and not spec.tracks):
            return spec.tensor(value, spec.backend)  # which refuses it, or detaches
        out = new(spec.tensor)
        out.inner, out.spec = value, ranks[rank]
        return out
    if isinstance(value, list | tuple) and not isinstance(value, torch.Size):
        # What packs sequences keeps the number of rows of each step on the host, as a torch tensor.
        kept = 1 if name == PACKS_SEQUENCES else len(value)
        items = [*(_rewrap(item, spec, name) for item in value[:kept]), *value[kept:]]
        return type(value)(*items) if hasattr(value, "_fields") else type(value)(items)
    return value


_SCRATCH = {*WRITES_TO_ARGUMENTS, "fused_moving_avg_obs_fake_quant", "rrelu_with_noise"}


def _refuse_writes_by_argument(name: str, functional: bool, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
    """Refuse `out=` and `inplace=`, and typed tensors where torch writes: running statistics, renormalized tables.

    `functional` says whether the function is of `torch.nn.functional`, whose arguments have another order.
    """
    for key in ("out", "inplace"):
        value = kwargs.get(key)
        if value is not None and value is not False:
            raise TensorTypeError(title(name), f"{key}= writes into a tensor, and a Tensor never changes; leave it out")
    if "batch_norm" in name or "instance_norm" in name:
        first = 1 if functional or name == "batch_norm_update_stats" else 3
        statistics = [*args[first : first + 2], kwargs.get("running_mean"), kwargs.get("running_var")]
        if any(isinstance(value, TensorBase) for value in statistics):
            raise TensorTypeError(title(name), "torch's running statistics are written to; pass torch tensors for them")
    elif functional and name in ("embedding", "embedding_bag") and kwargs.get("max_norm") is not None:
        if any(isinstance(value, TensorBase) for value in (*args[1:2], kwargs.get("weight"))):
            raise TensorTypeError(title(name), "max_norm= writes into the weight; pass a torch tensor for it")
    elif name in _SCRATCH:
        raise TensorTypeError(title(name), f"torch's {name} writes into its arguments; pass torch tensors to it")


P = ParamSpec("P")
R = TypeVar("R")


def lift(function: Callable[P, R]) -> Callable[P, R]:
    """Let `function`, written for torch tensors, take typed tensors as well; then its results are typed too.

    Inside it sees torch tensors. On a backend that does not track nothing it computes is tracked, also not with
    parameters that require grad. The layers of `burnlike.nn` are made so.

    It may be a layer: torch's that call methods of their input, such as `MultiheadAttention`, need it, and so do layers
    with backward hooks. Lift a layer where it is called, `lift(self.attention)(x)`, so that it stays its module's.

    Example:
        >>> import torch
        >>> from burnlike import Cpu, Tensor
        >>> from burnlike.tensor import lift
        >>> double = lift(lambda x: x + x)
        >>> double(Tensor(torch.ones(2), Cpu())).inner, double(torch.ones(2))
        (tensor([2., 2.]), tensor([2., 2.]))
    """

    name: str = getattr(function, "__name__", type(function).__name__)

    def lifted(*args: P.args, **kwargs: P.kwargs) -> R:
        for value in args:
            if isinstance(value, TensorBase):
                return call_plain(function, name, args, kwargs)
        for value in kwargs.values():
            if isinstance(value, TensorBase):
                return call_plain(function, name, args, kwargs)
        return function(*args, **kwargs)

    # What a layer has in its __dict__ are its parameters and hooks, not what a function would have there.
    return lifted if isinstance(function, torch.nn.Module) else wraps(function)(lifted)


def checkpoint(function: Callable[P, R], *args: P.args, **kwargs: P.kwargs) -> R:
    """`function(*args, **kwargs)`, computed again in the backward pass: less memory for more time.

    Typed tensors, torch tensors and modules all work; random numbers are drawn again as they were. It is torch's
    non-reentrant checkpointing (the reentrant one can't see typed tensors, and raises on them).

    Example:
        >>> import torch
        >>> from burnlike import Autodiff, Cpu, Tensor
        >>> from burnlike.tensor import checkpoint
        >>> x = Tensor(torch.tensor([2.0, 3.0]), Autodiff(Cpu())).require_grad()
        >>> loss = checkpoint(lambda t: t.mul(t).sum(), x)
        >>> gradient = x.grad(loss.backward())
        >>> gradient.inner
        tensor([4., 6.])
    """
    run: Any = torch_checkpoint
    return run(function, *args, use_reentrant=False, **kwargs)
