"""Reductions, orders, and tensors that are made from nothing."""

import math
from typing import Any

import torch

from ..expressions import Expr, Statement
from ..printing import number
from ..values import kind_of, rank_of, value_of
from .op import OPERATIONS, Op, Several, operation

OPERATIONS |= dict.fromkeys(("cumsum", "cumprod"), "{x:=}.{op}({dim})")
OPERATIONS["eye"] = "Tensor::<2>::eye({n}, &device)"


@operation("sum", "mean", "prod", "amax", "amin", "max", "min")
def _reduce(o: Op, x: Any, dim: Any = None, keepdim: bool = False) -> Expr:
    method, places = o.name.removeprefix("a"), o.places(dim)
    expr = o.tensor(x, o.kind)
    if len(places) == rank_of(x) and not keepdim:
        return expr.dot(f"{method}()")
    call = f"{method}_dim({places[0]})" if len(places) == 1 else f"{method}_dims(&{places})"
    return o.squeezed(expr.dot(call), places, keepdim)


@operation("any", "all")
def _any(o: Op, x: Any, dim: Any = None, keepdim: bool = False) -> Expr:
    expr = o.tensor(x, "Bool")
    if dim is None:
        return expr.dot(f"{o.name}()")
    for place in o.places(dim):
        expr = expr.dot(f"{o.name}_dim({place})")
    return o.squeezed(expr, o.places(dim), keepdim)


@operation("var", "std")
def _var(o: Op, x: Any, dim: Any = None, correction: Any = None, unbiased: bool = True, keepdim: bool = False) -> Expr:
    places, expr = o.places(dim), o.tensor(x)
    sizes = [value_of(x).shape[place] for place in places]
    correction = int(unbiased) if correction is None else correction
    if len(places) == 1 and correction in (0, 1):
        expr = expr.dot(f"{'var' if correction else 'var_bias'}({places[0]})")
    elif correction and not all(isinstance(size, int) for size in sizes):
        raise o.refused("a variance over sizes that vary")
    else:
        mean = expr.dot(f"mean_dims(&{places})")
        expr = Expr(f"{expr.within(2)} - {mean.within(1)}").dot(f"square().mean_dims(&{places})")
        count = math.prod(int(size) for size in sizes) if correction else 0
        expr = expr.dot(f"mul_scalar({number(count / (count - correction))})") if correction else expr
    return o.squeezed(expr.dot("sqrt()") if o.name == "std" else expr, places, keepdim)


@operation("linalg_vector_norm", "norm")
def _norm(o: Op, x: Any, y: Any, dim: Any = None, keepdim: bool = False) -> Expr:
    places = o.places(dim)
    calls = {1: "abs().sum_dims(&{})", 2: "square().sum_dims(&{}).sqrt()", math.inf: "abs().max_dims(&{})"}
    call = calls.get(2 if y is None else y)
    if call is None:
        raise o.refused(f"the norm of order {y}")
    return o.squeezed(o.tensor(x).dot(call.format(places)), places, keepdim)


@operation("logsumexp")
def _logsumexp(o: Op, x: Any, dim: Any, keepdim: bool) -> Expr:
    places = o.places(dim)
    if len(places) != 1:
        raise o.refused("logsumexp over several dimensions")
    scores = o.named(o.tensor(x), "scores")
    largest = o.let(scores.dot(f"max_dim({places[0]})"), "largest")
    total = Expr(f"{scores} - {largest}").dot(f"exp().sum_dim({places[0]}).log()")
    return o.squeezed(Expr(f"{total} + {largest}"), places, keepdim)


# Orders


@operation("max.dim", "min.dim", "median.dim")
def _with_index(o: Op, x: Any, dim: int, keepdim: bool) -> Several:
    at = o.place(dim)
    if all(user.args[1] == 0 for user in o.node.users if user in o.w.all.live):
        expr = o.tensor(x).dot(f"median({at})" if o.name == "median" else f"{o.name}_dim({at})")
        return Several([o.squeezed(expr, [at], keepdim)])
    call = f"median_with_indices({at})" if o.name == "median" else f"{o.name}_dim_with_indices({at})"
    return Several([o.squeezed(it, [at], keepdim) for it in _pair(o, x, call)])


@operation("topk")
def _topk(o: Op, x: Any, k: Any, dim: int, largest: bool) -> Several:
    if not largest:
        raise o.refused("topk of the smallest")
    return Several(_pair(o, x, f"topk_with_indices({k}, {o.place(dim)})"))


@operation("sort")
def _sort(o: Op, x: Any, dim: int, descending: bool) -> Several:
    return Several(_pair(o, x, f"sort_{'descending_' * descending}with_indices({o.place(dim)})"))


def _pair(o: Op, x: Any, call: str) -> list[Expr]:
    """Values and indices of a call, with names of their own."""
    expr = o.tensor(x)
    values, indices = o.w.value("values"), o.w.value("indices")
    head = f"let ({values.expr}, {indices.expr}) = "
    o.w.statements.append(Statement([values, indices], expr.dot(call), head=head))
    cast = indices.expr if kind_of(x) == "Float" else indices.expr.dot(f"cast({values.expr}.dtype())")
    return [values.expr, cast]


@operation("argmax", "argmin", "argsort")
def _arg(o: Op, x: Any, dim: int | None, keepdim: bool = True, descending: bool = False) -> Expr:
    expr, at = o.tensor(x), 0 if dim is None else o.place(dim)
    if dim is None and rank_of(x) > 1:
        expr = expr.dot("reshape([-1])")
    call = f"{o.name}{'_descending' * descending}({at})"
    if kind_of(x) == "Float":
        reduced = expr.dot(call)
    else:  # Burn gives indices of integers in the dtype of these
        expr = o.named(expr, "x")
        reduced = expr.dot(f"{call}.cast({expr}.dtype())")
    return o.squeezed(reduced, [at], keepdim or dim is None)


# Tensors from nothing


@operation(*(it.format(name) for name in ("zeros", "ones", "empty", "full") for it in ("{}", "new_{}", "{}_like")))
def _made(o: Op, fill_value: Any = None) -> Expr:
    call = o.name.removeprefix("new_").removesuffix("_like").replace("empty", "zeros")
    value = "" if fill_value is None else f", {o.number(fill_value, 'Int' if o.kind == 'Bool' else o.kind)}"
    tensor = f"Tensor::<{o.rank}{'' if o.kind == 'Float' else ', Int'}>"
    expr = Expr(f"{tensor}::{call}([{o.sizes() or 1}]{value}, &device)")
    return expr.dot("bool()") if o.kind == "Bool" else expr


@operation("scalar_tensor")
def _scalar_tensor(o: Op, x: Any) -> Expr:
    o.name = "full"
    return _made(o, x)


@operation("eye.m")
def _eye(o: Op, n: Any, m: Any) -> Expr:
    raise o.refused(f"an eye of {n} rows and {m} columns")


@operation("arange")
def _arange(o: Op, end: Any, start: Any = 0, step: Any = 1) -> Expr:
    if not all(isinstance(value_of(it), int | torch.SymInt) for it in (start, end, step)):
        raise o.refused("arange of floats")
    ends = f"{o.number(start, 'Int')}..{o.number(end, 'Int')}"
    call = f"arange({ends}, &device)" if step == 1 else f"arange_step({ends}, {o.number(step, 'Int')}, &device)"
    expr = Expr(f"Tensor::<1, Int>::{call}")
    return expr.dot("float()") if o.kind == "Float" else expr


@operation("one_hot")
def _one_hot(o: Op, x: Any, num_classes: int) -> Expr:
    if num_classes < 0:
        raise o.refused("one_hot without the number of classes")
    return o.tensor(x).dot(f"one_hot::<{o.rank}>({num_classes})")
