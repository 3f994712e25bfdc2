"""Shapes: views, joins, slices, padding."""

from collections.abc import Sequence
from typing import Any

import torch

from ..expressions import Expr
from ..printing import number
from ..values import kind_of, name_of, rank_of, value_of
from .table import Several, has_shape_of, operation, place_of, range_of, scalar_of, sizes_of, tensor_of


@operation("view", "reshape", "_unsafe_view", "unflatten", "view_as", "reshape_as", "flatten", "_reshape_alias")
def _view(w: Any, x: Any, *_: Any, **__: Any) -> Expr:
    shape = w.node.meta["val"].shape
    if w.node.target is torch.ops.aten.flatten.using_ints:
        first, last = (
            place_of(it, x)
            for it in ([*w.node.args[1:], 0, -1] if len(w.node.args) == 1 else [*w.node.args[1:], -1])[:2]
        )
        if first < last and value_of(x).dim():
            return w.argument(x).dot(f"flatten::<{rank_of(w.node)}>({first}, {last})")
        return w.argument(x)
    if not len(shape):
        return w.argument(x) if rank_of(x) == 1 else w.argument(x).dot("reshape([1])")
    return w.argument(x).dot(f"reshape([{', '.join(map(w.size, shape))}])")


@operation("transpose", "swapaxes", "swapdims", "transpose_")
def _transpose(w: Any, x: Any, a: int, b: int) -> Expr:
    return w.argument(x).dot(f"swap_dims({place_of(a, x)}, {place_of(b, x)})")


@operation("t", "numpy_T", "mT", "adjoint")
def _t(w: Any, x: Any) -> Expr:
    return w.argument(x).dot("transpose()") if rank_of(x) > 1 else w.argument(x)


@operation("permute", "movedim")
def _permute(w: Any, x: Any, *dims: Any) -> Expr:
    if "movedim" in str(w.node.target):
        order = torch.empty([1] * 0 + [*range(1, rank_of(x) + 1)]).movedim(*dims).shape
        return w.argument(x).dot(f"permute([{', '.join(str(it - 1) for it in order)}])")
    return w.argument(x).dot(f"permute([{', '.join(str(place_of(it, x)) for it in dims[0])}])")


@operation("unsqueeze", "unsqueeze_")
def _unsqueeze(w: Any, x: Any, dim: int) -> Expr:
    if not value_of(x).dim():
        return w.argument(x)
    rank = rank_of(x) + 1
    return w.argument(x).dot(f"unsqueeze_dim::<{rank}>({dim % rank})")


@operation("squeeze", "squeeze_")
def _squeeze(w: Any, x: Any, dim: Any = None) -> Expr:
    dims = [dim] if isinstance(dim, int) else [*range(rank_of(x))] if dim is None else dim
    dims = sorted({place_of(it, x) for it in dims if value_of(x).shape[place_of(it, x)] == 1})
    if not dims or rank_of(x) == 1:
        return w.argument(x)
    if len(dims) == rank_of(x):
        return w.argument(x).dot("reshape([1])")
    if len(dims) == 1:
        return w.argument(x).dot(f"squeeze_dim::<{rank_of(x) - 1}>({dims[0]})")
    return w.argument(x).dot(f"squeeze_dims::<{rank_of(x) - len(dims)}>(&[{', '.join(map(str, dims))}])")


@operation("expand", "expand_as", "broadcast_to", "expand_copy")
def _expand(w: Any, x: Any, *_: Any, **__: Any) -> Expr:
    if has_shape_of(x, w.node):
        return w.argument(x)
    return w.argument(x).dot(f"expand([{sizes_of(w)}])")


@operation("broadcast_tensors")
def _broadcast(w: Any, tensors: Sequence[Any]) -> Several:
    rank, shape = max(map(rank_of, tensors)), ", ".join(map(w.size, w.node.meta["val"][0].shape))
    items: list[Expr] = []
    for tensor, made in zip(tensors, w.node.meta["val"], strict=True):
        is_same = value_of(tensor).shape == made.shape
        whole = tensor_of(w, tensor, kind_of(tensor), rank)
        items.append(w.argument(tensor) if is_same else whole.dot(f"expand([{shape}])"))
    return Several(items)


@operation("repeat", "tile")
def _repeat(w: Any, x: Any, counts: Sequence[Any]) -> Expr:
    rank = rank_of(w.node)
    found = tensor_of(w, x, kind_of(x), rank)
    counts = [1] * (rank - len(counts)) + [*counts]
    return found.dot(f"repeat(&[{', '.join(map(w.size, counts))}])")


@operation("repeat_interleave.self_int")
def _repeat_interleave(w: Any, x: Any, repeats: Any, dim: int | None = None, **_: Any) -> Expr:
    if dim is None:
        raise w.refused("repeat_interleave of all elements")
    at, rank = place_of(dim, x), rank_of(x)
    shape = w.node.meta["val"].shape
    tail = f"repeat_dim({at + 1}, {w.size(repeats)}).reshape([{', '.join(map(w.size, shape))}])"
    return w.argument(x).dot(f"unsqueeze_dim::<{rank + 1}>({at + 1}).{tail}")


@operation("cat", "concat", "stack", "hstack", "vstack")
def _cat(w: Any, tensors: Sequence[Any], dim: int = 0) -> Expr:
    kind, rank = kind_of(w.node), rank_of(w.node)
    kept = [it for it in tensors if value_of(it).dim() != 1 or value_of(it).shape[0] != 0]
    is_stack = "stack" in str(w.node.target)
    texts = ", ".join(tensor_of(w, it, kind, 1).text for it in kept)
    if is_stack and not value_of(tensors[0]).dim():
        return Expr(f"Tensor::cat(vec![{texts}], 0)")
    name = f"Tensor::stack::<{rank}>" if is_stack else "Tensor::cat"
    return Expr(f"{name}(vec![{texts}], {dim % rank})")


@operation("split", "split_with_sizes", "chunk", "unbind", "tensor_split", "unsafe_split", "unsafe_chunk")
def _split(w: Any, x: Any, *arguments: Any, **keywords: Any) -> Several:
    values = w.node.meta["val"]
    name = str(w.node.target)
    given = (
        arguments[0]
        if "unbind" in name and arguments
        else arguments[1]
        if len(arguments) > 1
        else keywords.get("dim", 0)
    )
    dim = place_of(given, x)
    found, items, start = w.argument(x), list[Expr](), "0"
    total: Any = 0
    if len(values) > 1 and not found.is_value:
        found = w.let(found, name_of(x))
    for at, it in enumerate(values):
        if "unbind" in name:
            part = found.dot(f"slice_dim({dim}, {at}..{at + 1})")
            items.append(part.dot(f"squeeze_dim::<{rank_of(it)}>({dim})") if rank_of(x) > 1 else part)
            continue
        total = total + it.shape[dim]
        end = w.size(total)
        items.append(found.dot(f"slice_dim({dim}, {start}..{end})"))
        start = end
    return Several(items)


@operation("slice", "narrow")
def _slice(w: Any, x: Any, dim: int = 0, start: Any = None, end: Any = None, step: int = 1) -> Expr:
    if "narrow" in str(w.node.target):
        end = start + end
    at = place_of(dim, x)
    text = range_of(w, start, end, value_of(x).shape[at])
    if text == ".." and step == 1:
        return w.argument(x)
    if isinstance(value_of(end), int) and isinstance(value_of(x).shape[at], int) and text.partition("..")[2]:
        last = value_of(x).shape[at]
        stop = min(value_of(end) if value_of(end) >= 0 else value_of(end) + last, last)
        text = f"{text.partition('..')[0] or 0}..{stop}"
    if step != 1:
        w.function.needs.add("burn::tensor::s")
        return w.argument(x).dot(f"slice_dim({at}, s![{text};{step}])")
    return w.argument(x).dot(f"slice_dim({at}, {text})")


@operation("select")
def _select(w: Any, x: Any, dim: int, index: Any) -> Expr:
    at = place_of(dim, x)
    if isinstance(value_of(index), int):
        text = f"{index}.." if index == -1 else f"{index}..{index + 1}"
    else:
        text = f"{w.size(index)}..{w.size(index)} + 1"
    found = w.argument(x).dot(f"slice_dim({at}, {text})")
    return found if rank_of(x) == 1 else found.dot(f"squeeze_dim::<{rank_of(x) - 1}>({at})")


@operation("diff")
def _diff(w: Any, x: Any, n: int = 1, dim: int = -1, prepend: Any = None, append: Any = None) -> Expr:
    at, kind = place_of(dim, x), kind_of(x)
    if n != 1 or kind == "Bool":
        raise w.refused("diff of a higher order, or of bools")
    texts = [tensor_of(w, it, kind, 1).text for it in (prepend, x, append) if it is not None]
    joined = w.let(Expr(texts[0] if len(texts) == 1 else f"Tensor::cat(vec![{', '.join(texts)}], {at})"), "joined")
    return Expr(f"{joined.text}.slice_dim({at}, 1..) - {joined.text}.slice_dim({at}, ..-1)", 2)


@operation("_weight_norm")
def _weight_norm(w: Any, direction: Any, length: Any, dim: int = 0) -> Expr:
    v = w.let(w.argument(direction), "direction")
    dims = [it for it in range(rank_of(direction)) if it != dim % rank_of(direction)]
    norm = w.let(v.dot(f"square().sum_dims(&{dims}).sqrt()"), "norm")
    return Expr(f"{v.text} * ({w.argument(length).text} / {norm.text})", 1)


@operation("slice_scatter", "select_scatter")
def _slice_scatter(
    w: Any, x: Any, source: Any, dim: int = 0, start: Any = None, end: Any = None, step: int = 1
) -> Expr:
    at, rank = place_of(dim, x), rank_of(x)
    values = w.argument(source)
    if "select" in str(w.node.target):
        text = f"{start}.." if start == -1 else f"{start}..{start + 1}"
        values = values.dot(f"unsqueeze_dim::<{rank}>({at})") if rank > 1 else values
    else:
        text = range_of(w, start, end, value_of(x).shape[at])
        if text == ".." and step == 1:
            return values
        text = text if step == 1 else f"{text};{step}"
    w.function.needs.add("burn::tensor::s")
    slices = ", ".join([".."] * at + [text] + [".."] * (rank - at - 1))
    return w.argument(x).dot(f"slice_assign(s![{slices}], {values.text})")


@operation("copy", "copy_")
def _copy(w: Any, x: Any, source: Any, non_blocking: bool = False) -> Expr:
    return _expand(w, source)


@operation("fill")
def _fill(w: Any, x: Any, value: Any) -> Expr:
    scalar = scalar_of(w, value, kind_of(w.node))
    if scalar is None:
        raise w.refused("fill with a tensor")
    return w.argument(x).dot(f"full_like({scalar})")


@operation("flip")
def _flip(w: Any, x: Any, dims: Sequence[int]) -> Expr:
    return w.argument(x).dot(f"flip([{', '.join(str(place_of(it, x)) for it in dims)}])")


@operation("roll")
def _roll(w: Any, x: Any, shifts: Any, dims: Any = ()) -> Expr:
    shifts, dims = ([it] if isinstance(it, int) else it for it in (shifts, dims))
    if not dims:
        raise w.refused("roll without dimensions")
    places = ", ".join(str(place_of(it, x)) for it in dims)
    return w.argument(x).dot(f"roll(&[{', '.join(map(w.size, shifts))}], &[{places}])")


@operation("constant_pad_nd", "pad")
def _pad(w: Any, x: Any, widths: Sequence[Any], *rest: Any, **keywords: Any) -> Expr:
    mode = rest[0] if rest and isinstance(rest[0], str) else keywords.get("mode", "constant")
    value = (rest[-1] if rest and not isinstance(rest[-1], str) else keywords.get("value", 0)) or 0
    pairs = [(widths[at], widths[at + 1]) for at in range(0, len(widths), 2)]
    if any(isinstance(it, int) and it < 0 for pair in pairs for it in pair):
        found = w.argument(x)
        if any(it > 0 for pair in pairs for it in pair):
            raise w.refused("padding of negative width")
        for at, (before, after) in enumerate(pairs):
            if before or after:
                found = found.dot(f"slice_dim({rank_of(x) - 1 - at}, {-before}..{after if after else ''})")
        return found
    if mode == "circular":
        raise w.refused("circular padding")
    kinds = {"constant": "Constant", "reflect": "Reflect", "replicate": "Edge"}
    w.function.needs.add("burn::tensor::ops::PadMode")
    filled = f"PadMode::Constant({number(float(value))})" if mode == "constant" else f"PadMode::{kinds[mode]}"
    listed = ", ".join(f"({w.size(a)}, {w.size(b)})" for a, b in pairs[::-1])
    if kind_of(x) == "Bool":
        raise w.refused("padding of bools")
    return w.argument(x).dot(f"pad([{listed}], {filled})")


@operation("reflection_pad1d", "reflection_pad2d", "replication_pad1d", "replication_pad2d")
def _named_pad(w: Any, x: Any, widths: Sequence[Any]) -> Expr:
    return _pad(w, x, widths, "reflect" if "reflection" in str(w.node.target) else "replicate")


@operation("unfold")
def _unfold(w: Any, x: Any, dim: int, size: int, step: int) -> Expr:
    return w.argument(x).dot(f"unfold::<{rank_of(x) + 1}, _>({place_of(dim, x)}, {size}, {step})")


@operation("tril", "triu")
def _triangle(w: Any, x: Any, diagonal: int = 0) -> Expr:
    name = "tril" if "tril" in str(w.node.target) else "triu"
    if kind_of(x) == "Bool":
        return w.argument(x).dot(f"int().{name}({diagonal}).bool()")
    return w.argument(x).dot(f"{name}({diagonal})")


@operation("pixel_shuffle")
def _pixel_shuffle(w: Any, x: Any, factor: int) -> Expr:
    batch, channels, height, width = value_of(x).shape
    sizes = [batch, channels // factor**2, factor, factor, height, width]
    first = f"reshape([{', '.join(map(w.size, sizes))}]).permute([0, 1, 4, 2, 5, 3])"
    return w.argument(x).dot(f"{first}.reshape([{sizes_of(w)}])")
