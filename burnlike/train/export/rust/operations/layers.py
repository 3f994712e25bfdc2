"""Layers that a program calls as functions."""

import math
from collections.abc import Sequence
from typing import Any

import torch

from ..expressions import Expr, width_of
from ..printing import number
from ..values import kind_of, rank_of, value_of
from .op import OPERATIONS, Op, operation

OPERATIONS["adaptive_avg_pool1d"] = "tensor::module::adaptive_avg_pool1d({x}, {output_size})"


# Norms


@operation("layer_norm", "native_layer_norm")
def _layer_norm(o: Op, x: Any, normalized_shape: Sequence[int], weight: Any, bias: Any, eps: float) -> Expr:
    expr, rank = o.tensor(x), rank_of(x)
    if len(normalized_shape) == 1 and weight is not None:
        call = f"layer_norm({expr}, {o.tensor(weight)}, {o.optional(bias)}, {number(eps)})"
        return o.expr(f"tensor::module::{call}")
    return _scaled(o, _normalized(o, expr, [*range(rank - len(normalized_shape), rank)], eps), weight, bias)


@operation("rms_norm")
def _rms_norm(o: Op, x: Any, normalized_shape: Sequence[int], weight: Any, eps: float | None) -> Expr:
    if len(normalized_shape) != 1:
        raise o.refused("rms_norm over several dimensions")
    expr = o.named(o.tensor(x), "x")
    mean = o.let(expr.dot(f"square().mean_dim({rank_of(x) - 1})"), "mean_square")
    eps = torch.finfo(value_of(x).dtype).eps if eps is None else eps
    return _scaled(o, Expr(f"{expr} / ({mean} + {number(eps)}).sqrt()"), weight, None)


@operation("group_norm")
def _group_norm(o: Op, x: Any, num_groups: int, weight: Any, bias: Any, eps: float) -> Expr:
    batch, channels, *rest = value_of(x).shape
    grouped = o.let(o.tensor(x).dot(f"reshape([{o.w.size(batch)} as i64, {num_groups}, -1])"), "grouped")
    normalized = o.let(_normalized(o, grouped, [2], eps), "normalized").dot(
        f"reshape([{o.sizes([batch, channels, *rest])}])"
    )
    return _scaled(o, normalized, weight, bias, [1, channels] + [1] * len(rest))


@operation("batch_norm", "_native_batch_norm_legit_no_training")
def _batch_norm(
    o: Op, x: Any, weight: Any, bias: Any, running_mean: Any, running_var: Any, eps: float, training: bool = False
) -> Expr:
    arguments = [x, weight, bias, running_mean, running_var]
    if training or any(argument is None for argument in arguments):
        raise o.refused("batch_norm without its running statistics or its weights")
    return o.expr(f"tensor::module::batch_norm({', '.join(map(o.tensor, arguments))}, {number(eps)})")


@operation("_weight_norm")
def _weight_norm(o: Op, v: Any, g: Any, dim: int) -> Expr:
    direction = o.named(o.tensor(v), "direction")
    dims = [index for index in range(rank_of(v)) if index != o.place(dim)]
    norm = o.let(direction.dot(f"square().sum_dims(&{dims}).sqrt()"), "norm")
    return Expr(f"{direction} * ({o.tensor(g)} / {norm})")


def _normalized(o: Op, x: Expr, dims: Sequence[int], eps: float) -> Expr:
    x = o.named(x, "x")
    centered = o.let(f"{x} - {x.dot(f'mean_dims(&{dims})')}", "centered")
    variance = o.let(centered.dot(f"square().mean_dims(&{dims})"), "variance")
    return Expr(f"{centered} / ({variance} + {number(eps)}).sqrt()")


def _scaled(o: Op, x: Expr, weight: Any, bias: Any, shape: Sequence[Any] = ()) -> Expr:
    for factor, sign, level in ((weight, "*", 1), (bias, "+", 2)):
        if factor is not None:
            rank = rank_of(o.arguments["x"])
            other = o.tensor(factor).dot(f"reshape([{o.sizes(shape)}])") if shape else o.tensor(factor, rank=rank)
            x = o.let(x, "normalized") if width_of(x) > 36 else x
            x = Expr(f"{x.within(level)} {sign} {other}")
    return x


@operation("cosine_similarity")
def _cosine(o: Op, x: Any, y: Any, dim: int, eps: float) -> Expr:
    if rank_of(x) != 2:
        raise o.refused("cosine_similarity of other than two dimensions")
    similarity = o.expr(f"nn::CosineSimilarityConfig::new().with_dim({dim}).with_eps({number(eps)}).init()")
    return o.let(similarity, "similarity").dot(f"forward({o.tensor(x)}, {o.tensor(y)})")


# Attention


@operation("scaled_dot_product_attention")
def _attention(
    o: Op, query: Any, key: Any, value: Any, attn_mask: Any, is_causal: bool, scale: float | None, enable_gqa: bool
) -> Expr:
    rank, shape, keys = rank_of(query), value_of(query).shape, value_of(key).shape
    q, k, v = (o.tensor(it) for it in (query, key, value))
    if enable_gqa and shape[-3] != keys[-3]:
        sizes = o.sizes([*keys[:-3], shape[-3], *keys[-2:]])
        repeated = f"repeat_dim({rank - 2}, {int(shape[-3]) // int(keys[-3])}).reshape([{sizes}])"
        k, v = (
            o.let(it.dot(f"unsqueeze_dim::<{rank + 1}>({rank - 2}).{repeated}"), name)
            for it, name in ((k, "key"), (v, "value"))
        )
    product = o.w.short(q.dot(f"matmul({k.dot(f'swap_dims({rank - 2}, {rank - 1})')})"), "scores")
    scores = Expr(f"{product} * {number(1 / math.sqrt(int(shape[-1])) if scale is None else scale)}")
    full, hidden = o.sizes([*shape[:-1], keys[-2]]), None
    if is_causal:
        scores = o.let(scores, "scores")
        square = o.let(f"Tensor::<2, Bool>::tril_mask([{o.sizes([shape[-2], keys[-2]])}], 0, &device)", "hidden")
        hidden = square.dot(f"unsqueeze::<{rank}>().expand([{full}])")
        scores = scores.dot(f"mask_fill({hidden}, f64::NEG_INFINITY)")
    elif attn_mask is not None and kind_of(attn_mask) == "Bool":
        scores = o.let(scores, "scores")
        hidden = o.let(o.tensor(attn_mask, "Bool", rank).dot(f"bool_not().expand([{full}])"), "hidden")
        scores = scores.dot(f"mask_fill({hidden}, f64::NEG_INFINITY)")
    elif attn_mask is not None:
        mask = o.named(o.tensor(attn_mask, "Float", rank), "mask")
        hidden = mask.dot(f"equal_elem(f64::NEG_INFINITY).expand([{full}])")
        scores = Expr(f"{scores} + {mask}")
    weights = o.let(o.expr(f"tensor::activation::softmax({o.let(scores, 'scores')}, {rank - 1})"), "weights")
    if hidden is not None and not is_causal:  # where all is hidden, torch's weights are zeros, and a softmax has none
        weights = o.let(weights.dot(f"mask_fill({hidden}, 0.0)"), "weights")
    return weights.dot(f"matmul({v})")


# Windows


def _each(o: Op, value: Any) -> list[Any]:
    """An option of each dimension of windows, from one number or several."""
    count = rank_of(o.arguments["x"]) - 2
    listed = [value] if isinstance(value, int) else [*value]
    return listed * count if len(listed) == 1 else listed


@operation("conv1d", "conv2d", "conv3d", "conv_transpose1d", "conv_transpose2d")
def _conv(
    o: Op, x: Any, weight: Any, bias: Any, stride: Any, padding: Any, dilation: Any, groups: int,
    output_padding: Any = None,
) -> Expr:  # fmt: skip
    if isinstance(padding, str):
        raise o.refused(f"padding {padding!r} of a function; take a layer, or numbers")
    further = [] if output_padding is None else [_each(o, output_padding)]
    lists = ", ".join(map(str, [_each(o, stride), _each(o, padding), *further, _each(o, dilation)]))
    kind = "Conv" if output_padding is None else "ConvTranspose"
    options = o.let(o.expr(f"tensor::ops::{kind}Options::new({lists}, {groups})"), "options")
    last = o.optional(bias)
    return o.expr(f"tensor::module::{o.name}({o.tensor(x)}, {o.tensor(weight)}, {last}, {options})")


@operation("adaptive_avg_pool2d", "adaptive_avg_pool3d", "_adaptive_avg_pool2d")
def _adaptive(o: Op, x: Any, output_size: Any) -> Expr:
    sizes = o.sizes(_each(o, output_size))
    return o.expr(f"tensor::module::{o.name.removeprefix('_')}({o.tensor(x)}, [{sizes}])")


@operation("max_pool1d", "max_pool2d", "avg_pool1d", "avg_pool2d", "max_pool2d_with_indices")
def _pool(
    o: Op, x: Any, kernel_size: Any, stride: Any, padding: Any, ceil_mode: bool, dilation: Any = 1,
    count_include_pad: bool = True, divisor_override: int | None = None,
) -> Expr:  # fmt: skip
    name = o.name.removesuffix("_with_indices")
    if rank_of(x) != int(name[-2]) + 2 or divisor_override:
        raise o.refused("a pool without a batch, or with divisor_override")
    options = f"tensor::ops::{'Max' if name.startswith('max') else 'Avg'}PoolOptions"
    kernel, sides, apart = (_each(o, it) for it in (kernel_size, padding, dilation))
    pool_options = f"{options}::new({kernel}).with_stride({_each(o, stride) if stride else kernel})"
    pool_options += f".with_padding({sides})" * any(sides) + f".with_dilation({apart})" * any(it != 1 for it in apart)
    pool_options += ".with_ceil_mode(true)" * ceil_mode + ".with_count_include_pad(false)" * (not count_include_pad)
    return o.expr(f"tensor::module::{name}({o.tensor(x)}, {o.let(o.expr(pool_options), 'options')})")


_MODES = {"nearest": "Nearest", "linear": "Linear", "bilinear": "Linear", "bicubic": "Cubic"}


@operation("upsample_nearest1d", "upsample_linear1d", "upsample_nearest2d", "upsample_bilinear2d", "upsample_bicubic2d")
def _upsample(o: Op, x: Any, scale_factors: Any = None, align_corners: bool = False) -> Expr:
    before, after = value_of(x).shape[2:], o.shape[2:]
    if scale_factors and any(int(a) * it != int(b) for a, it, b in zip(before, scale_factors, after, strict=True)):
        raise o.refused(f"{o.name} by {scale_factors}, which sizes are no multiples of")
    mode = f"nn::interpolate::InterpolateMode::{_MODES[o.name.removeprefix('upsample_')[:-2]]}"  # layers have no other
    resize_options = f"tensor::ops::InterpolateOptions::new({mode}.into())"
    sizes = o.sizes([*([1] * (len(after) == 1)), *after])
    resize_options += f".with_align_corners({str(bool(align_corners)).lower()}).with_output_size([{sizes}])"
    options = o.let(o.expr(resize_options), "options")
    image = o.tensor(x) if len(after) == 2 else o.tensor(x).dot("unsqueeze_dim::<4>(2)")
    resized = o.expr(f"tensor::module::interpolate({image}, {options})")
    return resized if len(after) == 2 else resized.dot("squeeze_dim::<3>(2)")
