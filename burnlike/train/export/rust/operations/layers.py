"""Layers that a program calls as functions."""

import math
from collections.abc import Sequence
from typing import Any

import torch

from ..expressions import Expr
from ..printing import number
from ..values import kind_of, rank_of, value_of
from .table import operation, tensor_of


@operation("layer_norm", "native_layer_norm")
def _layer_norm(
    w: Any, x: Any, shape: Sequence[int], gamma: Any = None, beta: Any = None, epsilon: float = 1e-5, *_: Any
) -> Any:
    found, rank = w.argument(x), rank_of(x)
    dims = [*range(rank - len(shape), rank)]
    if len(shape) == 1 and gamma is not None:
        w.function.needs.add("burn::tensor::module::layer_norm")
        given = "None" if beta is None else f"Some({w.argument(beta).text})"
        return Expr(f"layer_norm({found.text}, {w.argument(gamma).text}, {given}, {number(epsilon)})")
    made = _normalized(w, found, dims, epsilon)
    return _scaled(w, made, gamma, beta, rank)


def _normalized(w: Any, x: Expr, dims: Sequence[int], epsilon: float) -> Expr:
    x = x if x.is_value else w.let(x, "x")
    listed = ", ".join(map(str, dims))
    centered = w.let(Expr(f"{x.text} - {x.dot(f'mean_dims(&[{listed}])').text}", 2), "centered")
    variance = w.let(centered.dot(f"square().mean_dims(&[{listed}])"), "variance")
    return Expr(f"{centered.text} / ({variance.text} + {number(epsilon)}).sqrt()", 1)


def _scaled(w: Any, x: Expr, gamma: Any, beta: Any, rank: int, shape: str = "") -> Expr:
    for it, sign, level in ((gamma, "*", 1), (beta, "+", 2)):
        if it is not None:
            other = w.argument(it)
            if shape:
                other = other.dot(f"reshape([{shape}])")
            elif rank_of(it) < rank:
                other = other.dot(f"unsqueeze::<{rank}>()")
            x = w.let(x, "normalized") if w.width(x) > 36 else x
            x = Expr(f"{x.within(level)} {sign} {other.text}", level)
    return x


@operation("rms_norm")
def _rms_norm(w: Any, x: Any, shape: Sequence[int], gamma: Any = None, epsilon: float | None = None) -> Expr:
    if len(shape) != 1:
        raise w.refused("rms_norm over several dimensions")
    found, rank = w.argument(x), rank_of(x)
    found = found if found.is_value else w.let(found, "x")
    epsilon = torch.finfo(value_of(x).dtype).eps if epsilon is None else epsilon
    mean = w.let(found.dot(f"square().mean_dim({rank - 1})"), "mean_square")
    made = Expr(f"{found.text} / ({mean.text} + {number(epsilon)}).sqrt()", 1)
    return _scaled(w, made, gamma, None, rank)


@operation("group_norm")
def _group_norm(
    w: Any, x: Any, groups: int, gamma: Any = None, beta: Any = None, epsilon: float = 1e-5, *_: Any
) -> Expr:
    shape = [*value_of(x).shape]
    sizes = ", ".join(map(w.size, shape))
    batch, channels = w.size(shape[0]), shape[1]
    grouped = w.let(w.argument(x).dot(f"reshape([{batch} as i64, {groups}, -1])"), "grouped")
    made = w.let(_normalized(w, grouped, [2], epsilon), "normalized").dot(f"reshape([{sizes}])")
    ones = ", ".join(["1", str(channels)] + ["1"] * (len(shape) - 2))
    return _scaled(w, made, gamma, beta, len(shape), ones)


@operation("batch_norm", "_native_batch_norm_legit_no_training", "native_batch_norm")
def _batch_norm(w: Any, x: Any, gamma: Any, beta: Any, mean: Any, variance: Any, *rest: Any) -> Expr:
    if "legit" in str(w.node.target) or mean is None or gamma is None:
        raise w.refused("batch_norm without its running statistics or its weights")
    w.function.needs.add("burn::tensor::module::batch_norm")
    given = ", ".join(w.argument(it).text for it in (x, gamma, beta, mean, variance))
    return Expr(f"batch_norm({given}, {number(rest[2])})")


@operation("scaled_dot_product_attention")
def _attention(
    w: Any, query: Any, key: Any, value: Any, mask: Any = None, dropout: float = 0.0, is_causal: bool = False,
    *, scale: float | None = None, enable_gqa: bool = False,
) -> Expr:  # fmt: skip
    rank = rank_of(query)
    q, k, v = (w.argument(it) for it in (query, key, value))
    if enable_gqa and value_of(query).shape[-3] != value_of(key).shape[-3]:
        count = int(value_of(query).shape[-3]) // int(value_of(key).shape[-3])
        sizes = [*value_of(key).shape[:-3], value_of(query).shape[-3], *value_of(key).shape[-2:]]
        tail = f"repeat_dim({rank - 2}, {count}).reshape([{', '.join(map(w.size, sizes))}])"
        k, v = (
            w.let(it.dot(f"unsqueeze_dim::<{rank + 1}>({rank - 2}).{tail}"), name)
            for it, name in ((k, "key"), (v, "value"))
        )
    size = value_of(query).shape[-1]
    factor = 1 / math.sqrt(int(size)) if scale is None else scale
    product = w.short(q.dot(f"matmul({k.dot(f'swap_dims({rank - 2}, {rank - 1})').text})"), "scores")
    scores = Expr(f"{product.text} * {number(factor)}", 1)
    rows, columns = value_of(query).shape[-2], value_of(key).shape[-2]
    full = ", ".join(map(w.size, [*value_of(query).shape[:-2], rows, columns]))
    hidden: Any = None
    if is_causal:
        scores = w.let(scores, "scores")
        square = w.let(Expr(f"Tensor::<2, Bool>::tril_mask([{w.size(rows)}, {w.size(columns)}], 0, &device)"), "hidden")
        hidden = square.dot(f"unsqueeze::<{rank}>().expand([{full}])")
        scores = scores.dot(f"mask_fill({hidden.text}, f64::NEG_INFINITY)")
    elif mask is not None and kind_of(mask) == "Bool":
        scores = w.let(scores, "scores")
        shown = tensor_of(w, mask, "Bool", rank)
        hidden = w.let(shown.dot(f"bool_not().expand([{full}])"), "hidden")
        scores = scores.dot(f"mask_fill({hidden.text}, f64::NEG_INFINITY)")
    elif mask is not None:
        mask = w.let(tensor_of(w, mask, "Float", rank), "mask")
        hidden = mask.dot(f"equal_elem(f64::NEG_INFINITY).expand([{full}])")
        scores = Expr(f"{scores.text} + {mask.text}", 2)
    w.function.needs.add("burn::tensor::activation::softmax")
    weights = w.let(Expr(f"softmax({w.let(scores, 'scores').text}, {rank - 1})"), "weights")
    if hidden is not None and not is_causal:  # where all is hidden, torch's weights are zeros, and a softmax has none
        weights = w.let(weights.dot(f"mask_fill({hidden.text}, 0.0)"), "weights")
    return weights.dot(f"matmul({v.text})")


def _windows(values: Any, count: int) -> list[Any]:
    listed = [values] if isinstance(values, int) else [*values]
    return listed * count if len(listed) == 1 else listed


@operation("conv1d", "conv2d", "conv3d", "conv_transpose1d", "conv_transpose2d", "convolution")
def _conv(
    w: Any, x: Any, weight: Any, bias: Any = None, stride: Any = 1, padding: Any = 0, *rest: Any, **keywords: Any
) -> Expr:
    name = str(w.node.target).removeprefix("aten.").partition(".")[0]
    count = rank_of(x) - 2
    if name == "convolution":
        raise w.refused("a convolution that another operation was made of")
    is_transposed = "transpose" in name
    names = ["output_padding", "groups", "dilation"] if is_transposed else ["dilation", "groups"]
    given = dict(zip(names, rest, strict=False)) | keywords
    dilation = _windows(given.get("dilation", 1), count)
    if isinstance(padding, str):
        kernel = value_of(weight).shape[2:]
        total = [d * (int(k) - 1) for d, k in zip(dilation, kernel, strict=True)] if padding == "same" else [0] * count
        if any(it % 2 for it in total):
            raise w.refused("padding of unequal ends")
        padding = [it // 2 for it in total]
    lists = [_windows(it, count) for it in (stride, padding)]
    if is_transposed:
        lists.append(_windows(given.get("output_padding", 0), count))
    lists.append(dilation)
    options = "ConvTransposeOptions" if is_transposed else "ConvOptions"
    function = f"{'conv_transpose' if is_transposed else 'conv'}{count}d"
    w.function.needs |= {f"burn::tensor::module::{function}", f"burn::tensor::ops::{options}"}
    texts = [f"[{', '.join(map(str, it))}]" for it in lists]
    made = w.let(Expr(f"{options}::new({', '.join(texts)}, {given.get('groups', 1)})"), "options")
    last = "None" if bias is None else f"Some({w.argument(bias).text})"
    return Expr(f"{function}({w.argument(x).text}, {w.argument(weight).text}, {last}, {made.text})")


@operation("adaptive_avg_pool1d", "adaptive_avg_pool2d", "adaptive_avg_pool3d", "_adaptive_avg_pool2d")
def _adaptive(w: Any, x: Any, sizes: Any) -> Expr:
    count = rank_of(x) - 2
    name = f"adaptive_avg_pool{count}d"
    if not count:
        raise w.refused("a pool without a batch")
    w.function.needs.add(f"burn::tensor::module::{name}")
    listed = _windows(sizes, count)
    text = w.size(listed[0]) if count == 1 else f"[{', '.join(map(w.size, listed))}]"
    return Expr(f"{name}({w.argument(x).text}, {text})")


@operation("max_pool1d", "max_pool2d", "avg_pool1d", "avg_pool2d", "max_pool2d_with_indices")
def _pool(w: Any, x: Any, kernel: Any, stride: Any = (), padding: Any = 0, *rest: Any, **keywords: Any) -> Any:
    name = str(w.node.target).removeprefix("aten.").partition(".")[0].removesuffix("_with_indices")
    count, is_max = int(name[-2]), name.startswith("max")
    if rank_of(x) != count + 2:
        raise w.refused("a pool without a batch")
    names = ["dilation", "ceil_mode"] if is_max else ["ceil_mode", "count_include_pad", "divisor_override"]
    given = dict(zip(names, rest, strict=False)) | keywords
    if given.get("divisor_override"):
        raise w.refused("divisor_override")
    kernel = _windows(kernel, count)
    options = f"{'Max' if is_max else 'Avg'}PoolOptions"
    w.function.needs |= {f"burn::tensor::module::{name}", f"burn::tensor::ops::{options}"}
    made = f"{options}::new({kernel}).with_stride({_windows(stride, count) if stride else kernel})"
    sides = _windows(padding, count)
    if any(sides):
        made += f".with_padding({sides})"
    dilation = _windows(given.get("dilation", 1), count)
    if any(it != 1 for it in dilation):
        made += f".with_dilation({dilation})"
    if given.get("ceil_mode"):
        made += ".with_ceil_mode(true)"
    if not is_max and given.get("count_include_pad") is False:
        made += ".with_count_include_pad(false)"
    return Expr(f"{name}({w.argument(x).text}, {w.let(Expr(made), 'options').text})")


@operation("upsample_nearest2d", "upsample_bilinear2d", "upsample_bicubic2d", "upsample_nearest1d", "upsample_linear1d")
def _upsample(w: Any, x: Any, sizes: Any = None, *rest: Any, **keywords: Any) -> Expr:
    name = str(w.node.target).partition(".")[2]
    if rank_of(x) != 4:
        raise w.refused(name)
    mode = {"nearest": "Nearest", "bilinear": "Bilinear", "bicubic": "Bicubic"}[
        name.partition("_")[2].partition("2")[0]
    ]
    corners = bool(rest[0]) if rest and mode != "Nearest" else False
    height, width = w.node.meta["val"].shape[2:]
    w.function.needs |= {
        f"burn::tensor::{it}" for it in ("module::interpolate", "ops::InterpolateMode", "ops::InterpolateOptions")
    }
    made = f"InterpolateOptions::new(InterpolateMode::{mode}).with_align_corners({str(corners).lower()})"
    options = w.let(Expr(f"{made}.with_output_size([{w.size(height)}, {w.size(width)}])"), "options")
    return Expr(f"interpolate({w.argument(x).text}, {options.text})")


@operation("cosine_similarity")
def _cosine(w: Any, a: Any, b: Any, dim: int = 1, eps: float = 1e-8) -> Expr:
    w.function.needs.add("burn::nn::CosineSimilarityConfig")
    rank = rank_of(w.node)
    made = w.let(Expr(f"CosineSimilarityConfig::new().with_dim({dim}).with_eps({number(eps)}).init()"), "similarity")
    del rank
    return Expr(f"{made.text}.forward({w.argument(a).text}, {w.argument(b).text})")
