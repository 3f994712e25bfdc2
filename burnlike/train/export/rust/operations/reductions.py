"""Reductions, orders, and tensors that are made from nothing."""

import math
from collections.abc import Callable
from typing import Any

import torch

from ..expressions import Expr, Statement
from ..printing import number
from ..values import kind_of, rank_of, value_of
from .table import (
    OPERATIONS,
    Operation,
    Several,
    number_of,
    operation,
    place_of,
    places_of,
    sizes_of,
    squeezed,
    tensor_of,
)


def _reduce(method: str) -> Operation:
    def write(w: Any, x: Any, dims: Any = None, keepdim: bool = False, **keywords: Any) -> Expr:
        dims, keepdim = keywords.get("dim", dims), keywords.get("keepdim", keepdim)
        kind = kind_of(w.node) if method in ("sum", "prod") else "Float" if method == "mean" else kind_of(x)
        found, places = tensor_of(w, x, kind, 1), places_of(dims, x)
        if len(places) == rank_of(x) and not keepdim:
            return found.dot(f"{method}()")
        if len(places) == 1:
            found = found.dot(f"{method}_dim({places[0]})")
        else:
            found = found.dot(f"{method}_dims(&[{', '.join(map(str, places))}])")
        return found if keepdim else squeezed(found, places, rank_of(x))

    return write


OPERATIONS |= {
    "aten.sum": _reduce("sum"), "aten.mean": _reduce("mean"), "aten.prod": _reduce("prod"), "aten.amax": _reduce("max"),
    "aten.amin": _reduce("min"), "aten.max": _reduce("max"), "aten.min": _reduce("min"),
}  # fmt: skip


@operation("any", "all")
def _any(w: Any, x: Any, dim: Any = None, keepdim: bool = False) -> Expr:
    name = "any" if "any" in str(w.node.target) else "all"
    found = tensor_of(w, x, "Bool", 1)
    if dim is None:
        return found.dot(f"{name}()")
    dims = places_of(dim, x)
    for it in dims:
        found = found.dot(f"{name}_dim({it})")
    return found if keepdim else squeezed(found, dims, rank_of(x))


@operation("max.dim", "min.dim", "topk", "sort", "median.dim")
def _with_indices(w: Any, x: Any, *arguments: Any, **keywords: Any) -> Several:
    name = str(w.node.target).removeprefix("aten.").partition(".")[0]
    found, rank = w.argument(x), rank_of(x)
    users = {it.args[1] for it in w.node.users if it in w.all.live}
    if name in ("topk", "sort"):
        if name == "topk":
            k, rest = arguments[0], arguments[1:]
            dim, largest = (
                rest[0] if rest else keywords.get("dim", -1),
                keywords.get("largest", rest[1] if len(rest) > 1 else True),
            )
            if not largest:
                raise w.refused("topk of the smallest")
            call = f"topk_with_indices({k}, {place_of(dim, x)})"
        else:
            arguments = tuple(it for it in arguments if it is not None and not isinstance(it, bool)) + tuple(
                it for it in arguments if isinstance(it, bool)
            )
            dim = next((it for it in arguments if type(it) is int), keywords.get("dim", -1))
            descending = keywords.get("descending", any(it is True for it in arguments))
            call = f"sort_{'descending_' * bool(descending)}with_indices({place_of(dim, x)})"
        finish: Callable[[Expr], Expr] = lambda it: it  # noqa: E731
    else:
        at, keepdim = (
            place_of(arguments[0], x),
            (arguments[1] if len(arguments) > 1 else keywords.get("keepdim", False)),
        )
        call = f"{name}_dim_with_indices({at})" if name != "median" else f"median_with_indices({at})"
        finish = lambda it: it if keepdim else squeezed(it, [at], rank)  # noqa: E731
        if users == {0}:
            return Several([finish(found.dot(f"{name}_dim({at})" if name != "median" else f"median({at})")), found])

    values, indices = w.value("values"), w.value("indices")
    head = f"let ({values.expr.text}, {indices.expr.text}) = "
    w.function.statements.append(Statement([values, indices], found.dot(call).text, head=head))
    places = indices.expr if kind_of(x) == "Float" else indices.expr.dot(f"cast({values.expr.text}.dtype())")
    return Several([finish(values.expr), finish(places)])


@operation("argmax", "argmin")
def _arg(w: Any, x: Any, dim: Any = None, keepdim: bool = False) -> Expr:
    name, found = str(w.node.target).removeprefix("aten.").partition(".")[0], w.argument(x)
    if dim is None:
        found = found.dot("reshape([-1])") if rank_of(x) > 1 else found
        return _in_dtype(w, x, found, lambda it: it.dot(f"{name}(0)"))
    made = _in_dtype(w, x, found, lambda it: it.dot(f"{name}({place_of(dim, x)})"))
    return made if keepdim else squeezed(made, [place_of(dim, x)], rank_of(x))


@operation("argsort")
def _argsort(w: Any, x: Any, *arguments: Any, dim: int = -1, descending: bool = False, **_: Any) -> Expr:
    dim = next((it for it in arguments if type(it) is int), dim)
    call = "argsort_descending" if descending or True in arguments[-1:] else "argsort"
    return _in_dtype(w, x, w.argument(x), lambda it: it.dot(f"{call}({place_of(dim, x)})"))


def _in_dtype(w: Any, x: Any, found: Expr, made: Callable[[Expr], Expr]) -> Expr:
    """Indices in the dtype of the device's integers, which Burn gives for floats only."""
    if kind_of(x) == "Float":
        return made(found)
    found = found if found.is_value else w.let(found, "x")
    return made(found).dot(f"cast({found.text}.dtype())")


@operation("var", "std")
def _var(
    w: Any, x: Any, dims: Any = None, *rest: Any, correction: Any = 1, keepdim: bool = False, unbiased: bool = True
) -> Expr:
    places = places_of(None if isinstance(dims, bool) else dims, x)
    if rest:
        correction, keepdim = (1 if rest[0] else 0), (rest[1] if len(rest) > 1 else keepdim)
    correction = 1 if correction is None else correction if unbiased else 0
    found, rank = w.argument(x), rank_of(x)
    if len(places) == 1 and correction in (0, 1):
        found = found.dot(f"{'var' if correction else 'var_bias'}({places[0]})")
    elif not all(isinstance(value_of(x).shape[it], int) for it in places) and correction:
        raise w.refused("a variance over sizes that vary")
    else:
        listed = ", ".join(map(str, places))
        count = math.prod(int(value_of(x).shape[it]) for it in places) if correction else 0
        mean = found.dot(f"mean_dims(&[{listed}])")
        centered = Expr(f"({found.within(2)} - {mean.within(1)})").dot(f"square().mean_dims(&[{listed}])")
        found = centered.dot(f"mul_scalar({number(count / (count - correction))})") if correction else centered
    found = found.dot("sqrt()") if "std" in str(w.node.target) else found
    return found if keepdim else squeezed(found, places, rank)


@operation("linalg_vector_norm", "norm")
def _norm(w: Any, x: Any, p: Any = 2, dims: Any = None, keepdim: bool = False, **_: Any) -> Expr:
    places, found = places_of(dims, x), w.argument(x)
    listed = ", ".join(map(str, places))
    p = 2 if p is None else p
    if p == 1:
        found = found.dot(f"abs().sum_dims(&[{listed}])")
    elif p == 2:
        found = found.dot(f"square().sum_dims(&[{listed}]).sqrt()")
    elif p == math.inf:
        found = found.dot(f"abs().max_dims(&[{listed}])")
    else:
        raise w.refused(f"the norm of order {p}")
    return found if keepdim else squeezed(found, places, rank_of(x))


OPERATIONS["aten.cumsum"] = lambda w, x, dim, **_: tensor_of(w, x, kind_of(w.node), 1).dot(
    f"cumsum({place_of(dim, x)})"
)
OPERATIONS["aten.cumprod"] = lambda w, x, dim, **_: tensor_of(w, x, kind_of(w.node), 1).dot(
    f"cumprod({place_of(dim, x)})"
)


@operation("logsumexp")
def _logsumexp(w: Any, x: Any, dims: Any, keepdim: bool = False) -> Expr:
    places, found = places_of(dims, x), w.argument(x)
    if len(places) != 1:
        raise w.refused("logsumexp over several dimensions")
    found = found if found.is_value else w.let(found, "scores")
    largest = w.let(found.dot(f"max_dim({places[0]})"), "largest")
    total = Expr(f"({found.text} - {largest.text})").dot(f"exp().sum_dim({places[0]}).log()")
    made = Expr(f"{total.text} + {largest.text}", 2)
    return made if keepdim else squeezed(Expr(f"({made.text})"), places, rank_of(x))


def _made(call: str, *, takes_value: bool = False) -> Operation:
    def write(w: Any, shape: Any, *arguments: Any, **keywords: Any) -> Expr:
        kind = kind_of(w.node)
        sizes = sizes_of(w) or "1"
        rank = rank_of(w.node)
        given = ""
        if takes_value:
            value = arguments[-1] if arguments else keywords["fill_value"]
            given = f", {number_of(w, value, 'Int' if kind == 'Bool' else kind)}"
        tensor = f"Tensor::<{rank}{'' if kind == 'Float' else ', Int'}>"
        found = Expr(f"{tensor}::{call}([{sizes}]{given}, &device)")
        return found.dot("bool()") if kind == "Bool" else found

    return write


OPERATIONS |= {
    f"aten.{prefix}{name}{suffix}": _made(call, takes_value=call == "full")
    for name, call in {
        "zeros": "zeros",
        "ones": "ones",
        "empty": "zeros",
        "full": "full",
        "scalar_tensor": "full",
    }.items()
    for prefix in ("", "new_")
    for suffix in ("", "_like")
}


@operation("scalar_tensor")
def _scalar_tensor(w: Any, value: Any, **_: Any) -> Expr:
    return _made("full", takes_value=True)(w, [], value)  # type: ignore[return-value]


@operation("arange")
def _arange(w: Any, *arguments: Any, **_: Any) -> Expr:
    start, end, step = (0, arguments[0], 1) if len(arguments) == 1 else (*arguments, 1)[:3]
    if not all(isinstance(value_of(it), int | torch.SymInt) for it in (start, end, step)):
        raise w.refused("arange of floats")

    def text(value: Any) -> str:
        found = w.size(value)
        is_size = isinstance(value_of(value), torch.SymInt)
        return (f"{found} as i64" if found.isidentifier() else f"({found}) as i64") if is_size else found

    if step == 1:
        found = Expr(f"Tensor::<1, Int>::arange({text(start)}..{text(end)}, &device)")
    else:
        found = Expr(f"Tensor::<1, Int>::arange_step({text(start)}..{text(end)}, {step}, &device)")
    return found.dot("float()") if kind_of(w.node) == "Float" else found


@operation("eye")
def _eye(w: Any, size: Any, *rest: Any, **_: Any) -> Expr:
    return Expr(f"Tensor::<2>::eye({w.size(size)}, &device)")


@operation("one_hot")
def _one_hot(w: Any, x: Any, count: int = -1) -> Expr:
    if count < 0:
        raise w.refused("one_hot without the number of classes")
    return w.argument(x).dot(f"one_hot::<{rank_of(x) + 1}>({count})")
