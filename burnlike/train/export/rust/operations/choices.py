"""Choices by masks and indices."""

from collections.abc import Sequence
from typing import Any

import torch
from torch import fx

from ..expressions import Expr
from ..values import kind_of, rank_of, value_of
from .table import filled_out, is_number, literal_of, number_of, operation, place_of, scalar_of, sizes_of, tensor_of


@operation("masked_fill", "masked_fill_")
def _masked_fill(w: Any, x: Any, mask: Any, value: Any) -> Expr:
    kind = kind_of(w.node)
    scalar = scalar_of(w, value, kind)
    if scalar is None:
        raise w.refused("masked_fill with a tensor")
    return filled_out(w, x, kind).dot(f"mask_fill({filled_out(w, mask, 'Bool').text}, {scalar})")


@operation("where")
def _where(w: Any, condition: Any, a: Any, b: Any) -> Expr:
    kind = kind_of(w.node)
    mask = filled_out(w, condition, "Bool")
    for chosen, other, turned in ((a, b, mask), (b, a, None)):
        scalar = scalar_of(w, chosen, kind)
        if scalar is not None and (not is_number(other) and literal_of(w, other) is None):
            hidden = turned or mask.dot("bool_not()")
            return filled_out(w, other, kind).dot(f"mask_fill({hidden.text}, {scalar})")
    values = [scalar_of(w, it, kind) for it in (a, b)]
    if None not in values:
        like = mask.dot("float()" if kind == "Float" else "int()")
        return like.dot(f"full_like({values[1]}).mask_fill({mask.text}, {values[0]})")
    return filled_out(w, b, kind).dot(f"mask_where({mask.text}, {filled_out(w, a, kind).text})")


@operation("gather")
def _gather(w: Any, x: Any, dim: int, index: Any, **_: Any) -> Expr:
    return w.argument(x).dot(f"gather({place_of(dim, x)}, {w.argument(index).text})")


@operation("scatter_add", "scatter")
def _scatter(w: Any, x: Any, dim: int, index: Any, source: Any, **_: Any) -> Expr:
    kind, is_bool = "Add" if "add" in str(w.node.target) else "Assign", kind_of(x) == "Bool"
    w.function.needs.add("burn::tensor::IndexingUpdateOp")
    target, indices = w.argument(x), w.let(w.argument(index), "indices")
    if is_number(source):
        values = indices.dot(f"full_like({number_of(w, int(source), 'Int')})")
        values = values.dot("float()") if kind_of(x) == "Float" else values
        if not float(source).is_integer():
            raise w.refused(f"scatter of {source}")
    else:
        values = w.argument(source).dot("int()") if is_bool else w.argument(source)
    target = w.let(target.dot("int()") if is_bool else target, "target")
    found = target.dot(f"scatter({place_of(dim, x)}, {indices.text}, {values.text}, IndexingUpdateOp::{kind})")
    return found.dot("bool()") if is_bool else found


@operation("index_select")
def _index_select(w: Any, x: Any, dim: int, index: Any) -> Expr:
    return w.argument(x).dot(f"select({place_of(dim, x)}, {w.argument(index).text})")


@operation("embedding")
def _embedding(w: Any, weight: Any, indices: Any, *_: Any, **__: Any) -> Expr:
    rank = rank_of(indices)
    if value_of(indices).dim() == 1:
        return w.argument(weight).dot(f"select(0, {w.argument(indices).text})")
    shape = sizes_of(w)
    flat = w.argument(indices).dot(f"flatten::<1>(0, {rank - 1})")
    return w.argument(weight).dot(f"select(0, {flat.text}).reshape([{shape}])")


@operation("index")
def _index(w: Any, x: Any, indices: Sequence[Any]) -> Expr:
    places = [at for at, it in enumerate(indices) if it is not None]
    given, shape = [indices[at] for at in places], value_of(x).shape
    if any(kind_of(it) != "Int" for it in given) or places != [*range(places[0], places[-1] + 1)]:
        raise w.refused("an index of bools, or of dimensions that are apart")
    first, rank, out = places[0], max(map(rank_of, given)), w.node.meta["val"].shape
    if _is_grid(given, shape[first : places[-1] + 1]):  # as `x[arange(n)[:, None], arange(m)]`
        return w.argument(x).dot(f"reshape([{', '.join(map(w.size, out))}])")
    flat = _of_end(w, given[0], shape[first], rank)
    for at, it in zip(places[1:], given[1:], strict=True):
        flat = Expr(
            f"{flat.within(1)} * {number_of(w, shape[at], 'Int')} + {_of_end(w, it, shape[at], rank).within(1)}", 2
        )
    flat = flat.dot(f"flatten::<1>(0, {rank - 1})") if rank > 1 else flat
    found = (
        w.argument(x).dot("int()") if kind_of(x) == "Bool" else w.argument(x)
    )  # Burn's select of bools has another dtype
    found = found.dot(f"flatten::<{rank_of(x) - len(places) + 1}>({first}, {places[-1]})") if len(places) > 1 else found
    found = found.dot(f"select({first}, {flat.text}){'.bool()' if kind_of(x) == 'Bool' else ''}")
    return found if rank == 1 or not len(out) else found.dot(f"reshape([{', '.join(map(w.size, out))}])")


def _is_grid(indices: Sequence[Any], sizes: Sequence[Any]) -> bool:
    """True if indices are all those of their dimensions, each along an axis of its own, in the order of dimensions."""
    axes = list[int]()
    for index in indices:
        rank = max(rank_of(it) for it in indices)
        source: Any = index
        while isinstance(source, fx.Node) and str(source.target).startswith("aten.unsqueeze"):
            source = source.args[0]
        wide = [at for at, it in enumerate(value_of(index).shape, rank - rank_of(index)) if str(it) != "1"]
        if not str(source.target).startswith("aten.arange") or len(source.args) > 1 or len(wide) != 1:
            return False
        axes += wide
    # The batch of another input has a symbol of its own. Where it is another size, the reshape panics.
    counts = [next(it for it in value_of(index).shape if str(it) != "1") for index in indices]
    is_all = all(
        str(a) == str(b) or (isinstance(a, torch.SymInt) and isinstance(b, torch.SymInt) and a.node.hint == b.node.hint)
        for a, b in zip(counts, sizes, strict=True)
    )
    return is_all and axes == sorted(set(axes)) and len(axes) > 1


def _of_end(w: Any, index: Any, size: Any, rank: int) -> Expr:
    """An index in which negative numbers, where there may be some, are counted from the end."""
    found = tensor_of(w, index, "Int", rank)
    return found if _is_natural(w, index) else found.dot(f"remainder_scalar({number_of(w, size, 'Int')})")


_KEEP_SIGN = {
    "add",
    "mul",
    "unsqueeze",
    "squeeze",
    "view",
    "reshape",
    "expand",
    "repeat",
    "slice",
    "select",
    "cumsum",
    "to",
    "_to_copy",
    "flatten",
}


def _is_natural(w: Any, x: Any) -> bool:
    """True for integers that the program has, and that are not negative; those of inputs are taken for such."""
    if not isinstance(x, fx.Node) or isinstance(value_of(x), torch.SymInt):
        return not isinstance(x, int) or x >= 0
    if x.op == "placeholder":
        held = w.all.trace.values.get(x.name)
        return held is None or not bool((held[1] < 0).any())
    name = str(x.target).removeprefix("aten.").partition(".")[0]
    if name in ("ne", "eq", "arange", "argmax", "argmin") or kind_of(x) == "Bool":
        return name != "arange" or all(_is_natural(w, it) for it in x.args)
    tensors = [it for it in x.args if isinstance(it, fx.Node)] + ([x.args[1]] if name in ("add", "mul") else [])
    return name in _KEEP_SIGN and all(_is_natural(w, it) for it in tensors)
