"""Shapes: views, joins, slices, padding, and choices by indices."""

from collections.abc import Sequence
from typing import Any

import torch
from torch import fx

from ..expressions import Expr
from ..printing import number
from ..tracing import torch_name
from ..values import kind_of, name_of, rank_of, value_of
from .op import OPERATIONS, Op, Several, is_number, operation, same_shape

_ROWS = {
    "transpose": "{x}.swap_dims({dim0}, {dim1})",
    "swapaxes": "{x}.swap_dims({axis0}, {axis1})",
    "swapdims": "{x}.swap_dims({dim0}, {dim1})",
    "mT": "{x}.transpose()",
    "flip": "{x}.flip([{dims}])",
    "unfold": "{x}.unfold::<{rank}, _>({dimension}, {size}, {step})",
    "gather": "{x}.gather({dim}, {index})",
    "index_select": "{x}.select({dim}, {index})",
}
OPERATIONS.update({name: template for names, template in _ROWS.items() for name in names.split()})


@operation("view", "reshape", "_unsafe_view", "unflatten", "view_as", "reshape_as", "_reshape_alias")
def _view(o: Op, x: Any) -> Expr:
    expr = o.tensor(x)
    if len(o.shape):
        return expr.dot(f"reshape([{o.sizes()}])")
    return expr if rank_of(x) == 1 else expr.dot("reshape([1])")


@operation("flatten")
def _flatten(o: Op, x: Any, start_dim: int, end_dim: int) -> Expr:
    first, last = o.place(start_dim), o.place(end_dim)
    return o.tensor(x).dot(f"flatten::<{o.rank}>({first}, {last})") if first < last else o.tensor(x)


@operation("t", "numpy_T", "adjoint")
def _t(o: Op, x: Any) -> Expr:
    if rank_of(x) > 2:
        raise o.refused(f"{o.name} of more than two dimensions")
    return o.tensor(x).dot("transpose()") if rank_of(x) > 1 else o.tensor(x)


@operation("permute", "movedim")
def _permute(o: Op, x: Any, dims: Any = None, source: Any = None, destination: Any = None) -> Expr:
    if dims is None:
        sizes = torch.empty([*range(1, rank_of(x) + 1)], device="meta").movedim(source, destination).shape
        dims = [size - 1 for size in sizes]
    return o.tensor(x).dot(f"permute({[o.place(dim) for dim in dims]})")


@operation("unsqueeze")
def _unsqueeze(o: Op, x: Any, dim: int) -> Expr:
    return o.tensor(x).dot(f"unsqueeze_dim::<{o.rank}>({dim % o.rank})") if value_of(x).dim() else o.tensor(x)


@operation("squeeze")
def _squeeze(o: Op, x: Any, dim: Any = None) -> Expr:
    places = [place for place in o.places(dim) if value_of(x).dim() and value_of(x).shape[place] == 1]
    return o.squeezed(o.tensor(x), places, keepdim=not places)


@operation("expand", "expand_as", "broadcast_to", "expand_copy")
def _expand(o: Op, x: Any) -> Expr:
    return o.tensor(x) if same_shape(x, o.node) else o.tensor(x).dot(f"expand([{o.sizes()}])")


@operation("copy")
def _copy(o: Op, src: Any) -> Expr:
    return _expand(o, src)


@operation("broadcast_tensors")
def _broadcast(o: Op, tensors: Sequence[Any]) -> Several:
    shape = value_of(o.node)[0].shape
    wide = [o.tensor(tensor, rank=len(shape)).dot(f"expand([{o.sizes(shape)}])") for tensor in tensors]
    return Several(
        [o.tensor(it) if value_of(it).shape == shape else widened for it, widened in zip(tensors, wide, strict=True)]
    )


@operation("repeat", "tile")
def _repeat(o: Op, x: Any, y: Sequence[Any]) -> Expr:
    return o.tensor(x, rank=o.rank).dot(f"repeat(&[{o.sizes([1] * (o.rank - len(y)) + [*y])}])")


@operation("repeat_interleave.self_int")
def _repeat_interleave(o: Op, x: Any, repeats: Any, dim: int | None) -> Expr:
    if dim is None:
        raise o.refused("repeat_interleave of all elements")
    at = o.place(dim) + 1
    apart = o.tensor(x).dot(f"unsqueeze_dim::<{rank_of(x) + 1}>({at})")
    return apart.dot(f"repeat_dim({at}, {o.w.size(repeats)}).reshape([{o.sizes()}])")


@operation("cat", "concat", "stack")
def _cat(o: Op, tensors: Sequence[Any], dim: int) -> Expr:
    texts = ", ".join(o.tensor(it, o.kind) for it in tensors)
    is_stack = o.name == "stack" and value_of(tensors[0]).dim()
    return Expr(f"{f'Tensor::stack::<{o.rank}>' if is_stack else 'Tensor::cat'}(vec![{texts}], {dim % o.rank})")


@operation("split", "split_with_sizes", "chunk", "unbind", "tensor_split", "unsafe_split", "unsafe_chunk")
def _split(o: Op, x: Any, dim: int) -> Several:
    values, at, expr = value_of(o.node), o.place(dim), o.tensor(x)
    if len(values) > 1:
        expr = o.named(expr, name_of(x))
    if o.name == "unbind":
        ends = [*range(1, len(values)), ""]  # of a longer dimension more than one is left, which a squeeze refuses
        rows = [expr.dot(f"slice_dim({at}, {part}..{end})") for part, end in enumerate(ends)]
        return Several([o.squeezed(part, [at]) for part in rows])
    parts, start, total = list[Expr](), "0", 0
    for part in values:
        total = total + part.shape[at]
        end = o.w.size(total)
        parts.append(expr.dot(f"slice_dim({at}, {start}..{end})"))
        start = end
    return Several(parts)


@operation("slice", "narrow")
def _slice(o: Op, x: Any, dim: int, start: Any, end: Any = None, step: int = 1, length: Any = None) -> Expr:
    at = o.place(dim)
    size, end = value_of(x).shape[at], end if length is None else start + length
    text, stop = o.range(start, end, size), value_of(end)
    if text == ".." and step == 1:
        return o.tensor(x)
    if isinstance(stop, int) and isinstance(size, int) and not text.endswith(".."):
        text = f"{text.partition('..')[0] or 0}..{min(stop if stop >= 0 else stop + size, size)}"
    return o.tensor(x).dot(
        f"slice_dim({at}, {text})" if step == 1 else o.expr(f"slice_dim({at}, tensor::s![{text};{step}])")
    )


@operation("select")
def _select(o: Op, x: Any, dim: int, index: Any) -> Expr:
    at, is_known = o.place(dim), isinstance(value_of(index), int)
    place = o.w.size(index)
    text = f"{place}.." if index == -1 else f"{place}..{index + 1 if is_known else f'{place} + 1'}"
    expr = o.tensor(x).dot(f"slice_dim({at}, {text})")
    return expr if rank_of(x) == 1 else o.squeezed(expr, [at])


@operation("slice_scatter", "select_scatter")
def _slice_scatter(
    o: Op, x: Any, src: Any, dim: int, start: Any = None, end: Any = None, step: int = 1, index: int | None = None
) -> Expr:
    at, rank, values = o.place(dim), rank_of(x), o.tensor(src)
    if index is not None:
        text = f"{index}.." if index == -1 else f"{index}..{index + 1}"
        values = values.dot(f"unsqueeze_dim::<{rank}>({at})") if rank > 1 else values
    else:
        text = o.range(start, end, value_of(x).shape[at])
        if text == ".." and step == 1:
            return values
        text = text if step == 1 else f"{text};{step}"
    slices = ", ".join([".."] * at + [text] + [".."] * (rank - at - 1))
    return o.tensor(x).dot(o.expr(f"slice_assign(tensor::s![{slices}], {values})"))


@operation("diff")
def _diff(o: Op, x: Any, n: int, dim: int, prepend: Any, append: Any) -> Expr:
    if n != 1 or o.kind == "Bool":
        raise o.refused("diff of a higher order, or of bools")
    at, texts = o.place(dim), [o.tensor(it, o.kind) for it in (prepend, x, append) if it is not None]
    joined = o.let(texts[0] if len(texts) == 1 else f"Tensor::cat(vec![{', '.join(texts)}], {at})", "joined")
    return Expr(f"{joined}.slice_dim({at}, 1..) - {joined}.slice_dim({at}, ..-1)")


@operation("roll")
def _roll(o: Op, x: Any, shifts: Any, dims: Any) -> Expr:
    shifts, dims = ([it] if isinstance(it, int) else it for it in (shifts, dims))
    if not dims:
        raise o.refused("roll without dimensions")
    return o.tensor(x).dot(f"roll(&[{o.sizes(shifts)}], &{[o.place(dim) for dim in dims]})")


@operation("tril", "triu")
def _triangle(o: Op, x: Any, diagonal: int) -> Expr:
    call = f"{o.name}({diagonal})"
    return o.tensor(x).dot(f"int().{call}.bool()" if o.kind == "Bool" else call)


@operation("pixel_shuffle")
def _pixel_shuffle(o: Op, x: Any, upscale_factor: int) -> Expr:
    batch, channels, height, width = value_of(x).shape
    apart = o.sizes([batch, channels // upscale_factor**2, upscale_factor, upscale_factor, height, width])
    return o.tensor(x).dot(f"reshape([{apart}]).permute([0, 1, 4, 2, 5, 3]).reshape([{o.sizes()}])")


# Padding


@operation("constant_pad_nd", "pad", "reflection_pad1d", "reflection_pad2d", "replication_pad1d", "replication_pad2d")
def _pad(o: Op, x: Any, y: Sequence[Any], mode: str = "constant", value: Any = 0) -> Expr:
    mode = {"reflection": "reflect", "replication": "replicate"}.get(o.name.partition("_")[0], mode)
    pairs = [(y[at], y[at + 1]) for at in range(0, len(y), 2)]
    if any(isinstance(it, int) and it < 0 for it in y):
        raise o.refused("padding of negative width")
    if mode == "circular" or o.kind == "Bool":
        raise o.refused("circular padding, or padding of bools")
    fill = {"reflect": "Reflect", "replicate": "Edge"}.get(mode) or f"Constant({number(float(value or 0))})"
    widths = ", ".join(f"({o.sizes(pair)})" for pair in pairs[::-1])
    return o.tensor(x).dot(o.expr(f"pad([{widths}], tensor::ops::PadMode::{fill})"))


# Indices


@operation("embedding")
def _embedding(o: Op, x: Any, indices: Any) -> Expr:
    if value_of(indices).dim() == 1:
        return o.filled("{x}.select(0, {indices})")
    flat = o.tensor(indices).dot(f"flatten::<1>(0, {rank_of(indices) - 1})")
    return o.tensor(x).dot(f"select(0, {flat}).reshape([{o.sizes()}])")


@operation("scatter_add", "scatter")
def _scatter(o: Op, x: Any, dim: int, index: Any, src: Any = None, value: Any = 0, reduce: str = "") -> Expr:
    if reduce or not float(value).is_integer():
        raise o.refused(f"scatter of {reduce or value}")
    target, indices = o.tensor(x), o.named(o.tensor(index), "indices")
    if src is None:
        values = indices.dot(f"full_like({o.number(int(value), 'Int')})")
        values = values.dot("float()") if o.kind == "Float" else values
    else:
        values = o.tensor(src, "Int" if o.kind == "Bool" else None)
    target = o.named(target.dot("int()") if o.kind == "Bool" else target, "target")
    update = f"tensor::IndexingUpdateOp::{'Add' if o.name == 'scatter_add' else 'Assign'}"
    expr = target.dot(o.expr(f"scatter({o.place(dim)}, {indices}, {values}, {update})"))
    return expr.dot("bool()") if o.kind == "Bool" else expr


@operation("index")
def _index(o: Op, x: Any, indices: Sequence[Any]) -> Expr:
    places = [at for at, index_node in enumerate(indices) if index_node is not None]
    index_nodes, shape = [indices[at] for at in places], value_of(x).shape
    if any(kind_of(index_node) != "Int" for index_node in index_nodes) or places != [*range(places[0], places[-1] + 1)]:
        raise o.refused("an index of bools, or of dimensions that are apart")
    first, rank = places[0], max(map(rank_of, index_nodes))
    if _is_grid(index_nodes, shape[first : places[-1] + 1]):  # as `x[arange(n)[:, None], arange(m)]`
        return o.tensor(x).dot(f"reshape([{o.sizes()}])")
    flat = _from_start(o, index_nodes[0], shape[first], rank)
    for at, index_node in zip(places[1:], index_nodes[1:], strict=True):
        flat = Expr(
            f"{flat.within(1)} * {o.number(shape[at], 'Int')} + {_from_start(o, index_node, shape[at], rank).within(1)}"
        )
    flat = flat.dot(f"flatten::<1>(0, {rank - 1})") if rank > 1 else flat
    expr = o.tensor(x, "Int" if o.kind == "Bool" else None)  # Burn's select of bools has another dtype
    expr = expr.dot(f"flatten::<{rank_of(x) - len(places) + 1}>({first}, {places[-1]})") if len(places) > 1 else expr
    expr = expr.dot(f"select({first}, {flat}){'.bool()' if o.kind == 'Bool' else ''}")
    return expr if rank == 1 or not len(o.shape) else expr.dot(f"reshape([{o.sizes()}])")


def _is_grid(indices: Sequence[Any], sizes: Sequence[Any]) -> bool:
    """True if indices are all those of their dimensions, each along an axis of its own, in the order of dimensions."""
    axes, rank = list[int](), max(map(rank_of, indices))
    for index, size in zip(indices, sizes, strict=True):
        source: Any = index
        while isinstance(source, fx.Node) and torch_name(source) == "unsqueeze":
            source = source.args[0]
        wide = [(at, it) for at, it in enumerate(value_of(index).shape, rank - rank_of(index)) if str(it) != "1"]
        if torch_name(source) != "arange" or len(source.args) > 1 or len(wide) != 1:
            return False
        ((axis, count),) = wide
        # The batch of another input has a symbol of its own. Where it is another size, the reshape panics.
        are_symbols = isinstance(count, torch.SymInt) and isinstance(size, torch.SymInt)
        if str(count) != str(size) and not (are_symbols and count.node.hint == size.node.hint):
            return False
        axes.append(axis)
    return axes == sorted(set(axes)) and len(axes) > 1


def _from_start(o: Op, index: Any, size: Any, rank: int) -> Expr:
    """An index in which negative numbers, where there may be some, are counted from the end."""
    expr = o.tensor(index, "Int", rank)
    return expr if _is_natural(o, index) else expr.dot(f"remainder_scalar({o.number(size, 'Int')})")


_KEEP_SIGN = {
    *("add", "mul", "unsqueeze", "squeeze", "view", "reshape", "expand", "repeat", "slice", "select", "cumsum", "to"),
    *("_to_copy", "flatten"),
}


def _is_natural(o: Op, x: Any) -> bool:
    """True for integers that the program has, and that are not negative; those of inputs are taken for such."""
    if not isinstance(x, fx.Node) or is_number(x):
        return not isinstance(x, int) or x >= 0
    if x.op == "placeholder":
        held = o.w.all.trace.values.get(x.name)
        return held is None or not bool((held[1] < 0).any())
    name = torch_name(x)
    if name in ("ne", "eq", "arange", "argmax", "argmin") or kind_of(x) == "Bool":
        return name != "arange" or all(_is_natural(o, argument) for argument in x.args)
    operands = [it for it in x.args if isinstance(it, fx.Node)] + ([x.args[1]] if name in ("add", "mul") else [])
    return name in _KEEP_SIGN and all(_is_natural(o, operand) for operand in operands)
