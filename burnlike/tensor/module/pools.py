"""Pools. Windows are given by options, or one by one as in Burn 0.21."""

from typing import Any, overload

import torch

from ...errors import TensorTypeError
from ..core.base import B2, FloatLike, Tensor, like, wrap
from ..core.kinds import D3, D4, D5, Float, Int
from ..core.operands import computed, index_of, inner_as, ranked_spec
from ..core.spec import title
from ..options import AvgPoolOptions, MaxPoolOptions
from ..options.base import Sizes, both_ends, each, expanded, frozen_sizes

# What Burn 0.21 takes one by one, in its order.
_NAMES: dict[Any, tuple[str, ...]] = {
    MaxPoolOptions: ("stride", "padding", "dilation", "ceil_mode"),
    AvgPoolOptions: ("stride", "padding", "count_include_pad", "ceil_mode"),
}


@overload
def max_pool1d(x: "Tensor[B2, D3, Float]", kernel_size: MaxPoolOptions) -> "Tensor[B2, D3, Float]": ...
@overload
def max_pool1d(
    x: "Tensor[B2, D3, Float]", kernel_size: Sizes, stride: Sizes, padding: Sizes, dilation: Sizes, ceil_mode: bool
) -> "Tensor[B2, D3, Float]": ...
def max_pool1d(x: Any, kernel_size: Any, *window: Any, **named: Any) -> Any:
    """The largest element of each window. `[batch, channels, l] -> [batch, channels, l_out]`. Torch: `F.max_pool1d`.
    Differs: padding of any size, also a pair of two ends.
    """
    return _max_pool("max_pool1d", 1, x, kernel_size, window, named)


@overload
def max_pool2d(x: "Tensor[B2, D4, Float]", kernel_size: MaxPoolOptions) -> "Tensor[B2, D4, Float]": ...
@overload
def max_pool2d(
    x: "Tensor[B2, D4, Float]", kernel_size: Sizes, stride: Sizes, padding: Sizes, dilation: Sizes, ceil_mode: bool
) -> "Tensor[B2, D4, Float]": ...
def max_pool2d(x: Any, kernel_size: Any, *window: Any, **named: Any) -> Any:
    """The largest element of each window. `[batch, channels, h, w] -> [batch, channels, h_out, w_out]`.
    Torch: `F.max_pool2d`. Differs: padding of any size, also a pair of two ends for each dimension.
    """
    return _max_pool("max_pool2d", 2, x, kernel_size, window, named)


@overload
def max_pool1d_with_indices(
    x: "Tensor[B2, D3, Float]", kernel_size: MaxPoolOptions
) -> "tuple[Tensor[B2, D3, Float], Tensor[B2, D3, Int]]": ...
@overload
def max_pool1d_with_indices(
    x: "Tensor[B2, D3, Float]", kernel_size: Sizes, stride: Sizes, padding: Sizes, dilation: Sizes, ceil_mode: bool
) -> "tuple[Tensor[B2, D3, Float], Tensor[B2, D3, Int]]": ...
def max_pool1d_with_indices(x: Any, kernel_size: Any, *window: Any, **named: Any) -> Any:
    """The largest element of each window, and its index in the input. `[batch, channels, l] -> 2 tensors`.
    Torch: `F.max_pool1d(return_indices=True)`. Differs: padding of any size; indices in the backend's int type.
    """
    return _max_pool_with_indices("max_pool1d_with_indices", 1, x, kernel_size, window, named)


@overload
def max_pool2d_with_indices(
    x: "Tensor[B2, D4, Float]", kernel_size: MaxPoolOptions
) -> "tuple[Tensor[B2, D4, Float], Tensor[B2, D4, Int]]": ...
@overload
def max_pool2d_with_indices(
    x: "Tensor[B2, D4, Float]", kernel_size: Sizes, stride: Sizes, padding: Sizes, dilation: Sizes, ceil_mode: bool
) -> "tuple[Tensor[B2, D4, Float], Tensor[B2, D4, Int]]": ...
def max_pool2d_with_indices(x: Any, kernel_size: Any, *window: Any, **named: Any) -> Any:
    """The largest element of each window, and its index in the flat h * w. `[batch, channels, h, w] -> 2 tensors`.
    Torch: `F.max_pool2d(return_indices=True)`. Differs: padding of any size; indices in the backend's int type.
    """
    return _max_pool_with_indices("max_pool2d_with_indices", 2, x, kernel_size, window, named)


@overload
def max_pool2d_with_indices_backward(
    x: "Tensor[B2, D4, Float]",
    options: MaxPoolOptions,
    output_grad: "FloatLike[B2, D4]",
    indices: "Tensor[B2, D4, Int] | torch.Tensor",
    /,
) -> "Tensor[B2, D4, Float]": ...
@overload
def max_pool2d_with_indices_backward(
    x: "Tensor[B2, D4, Float]",
    kernel_size: Sizes,
    stride: Sizes,
    padding: Sizes,
    dilation: Sizes,
    ceil_mode: bool,
    output_grad: "FloatLike[B2, D4]",
    indices: "Tensor[B2, D4, Int] | torch.Tensor",
    /,
) -> "Tensor[B2, D4, Float]": ...
def max_pool2d_with_indices_backward(x: Any, *rest: Any) -> Any:
    """The gradient of the input of `max_pool2d_with_indices`. `-> [batch, channels, h, w]`.
    `rest` is the window (options, or kernel size, stride, padding, dilation and ceil mode), the gradient of the result
    and the indices.
    Torch: none.
    """
    name = "max_pool2d_with_indices_backward"
    spec = ranked_spec(name, x, 4)
    if len(rest) not in (3, 7):
        raise TensorTypeError(title(name), "expected (x, options, output_grad, indices)")
    _window(name, MaxPoolOptions, 2, rest[0], rest[1:-2], {})
    grad, indices = inner_as(name, rest[-2], spec), index_of(name, rest[-1], spec.index)
    return wrap(computed(name, spec.module.max_pool2d_backward, grad, indices, tuple(x.inner.shape[2:])), spec)


@overload
def avg_pool1d(x: "Tensor[B2, D3, Float]", kernel_size: AvgPoolOptions) -> "Tensor[B2, D3, Float]": ...
@overload
def avg_pool1d(
    x: "Tensor[B2, D3, Float]",
    kernel_size: Sizes,
    stride: Sizes,
    padding: Sizes,
    count_include_pad: bool,
    ceil_mode: bool,
) -> "Tensor[B2, D3, Float]": ...
def avg_pool1d(x: Any, kernel_size: Any, *window: Any, **named: Any) -> Any:
    """The average of each window. `[batch, channels, l] -> [batch, channels, l_out]`. Torch: `F.avg_pool1d`.
    Differs: padding of any size; `count_include_pad` comes before `ceil_mode`.
    """
    return _avg_pool("avg_pool1d", 1, x, kernel_size, window, named)


@overload
def avg_pool2d(x: "Tensor[B2, D4, Float]", kernel_size: AvgPoolOptions) -> "Tensor[B2, D4, Float]": ...
@overload
def avg_pool2d(
    x: "Tensor[B2, D4, Float]",
    kernel_size: Sizes,
    stride: Sizes,
    padding: Sizes,
    count_include_pad: bool,
    ceil_mode: bool,
) -> "Tensor[B2, D4, Float]": ...
def avg_pool2d(x: Any, kernel_size: Any, *window: Any, **named: Any) -> Any:
    """The average of each window. `[batch, channels, h, w] -> [batch, channels, h_out, w_out]`. Torch: `F.avg_pool2d`.
    Differs: padding of any size; `count_include_pad` comes before `ceil_mode`; no `divisor_override`.
    """
    return _avg_pool("avg_pool2d", 2, x, kernel_size, window, named)


@overload
def avg_pool2d_backward(
    x: "Tensor[B2, D4, Float]", output_grad: "FloatLike[B2, D4]", kernel_size: AvgPoolOptions
) -> "Tensor[B2, D4, Float]": ...
@overload
def avg_pool2d_backward(
    x: "Tensor[B2, D4, Float]",
    output_grad: "FloatLike[B2, D4]",
    kernel_size: Sizes,
    stride: Sizes,
    padding: Sizes,
    count_include_pad: bool,
    ceil_mode: bool,
) -> "Tensor[B2, D4, Float]": ...
def avg_pool2d_backward(x: Any, output_grad: Any, kernel_size: Any, *window: Any, **named: Any) -> Any:
    """The gradient of the input of `avg_pool2d`; the window as there. `-> [batch, channels, h, w]`. Torch: none."""
    name = "avg_pool2d_backward"
    spec = ranked_spec(name, x, 4)
    grad = inner_as(name, output_grad, spec)
    *sizes, _ceil_mode = _window(name, AvgPoolOptions, 2, kernel_size, window, named)
    return like(computed(name, spec.module.avg_pool2d_backward, grad, *sizes, tuple(x.inner.shape[2:])), spec)


def adaptive_avg_pool1d(x: "Tensor[B2, D3, Float]", output_size: Sizes) -> "Tensor[B2, D3, Float]":
    """Averages of windows that share the input evenly. `[.., l] -> [.., size]`. Torch: `F.adaptive_avg_pool1d`."""
    return _adaptive("adaptive_avg_pool1d", 1, x, output_size)


def adaptive_avg_pool2d(x: "Tensor[B2, D4, Float]", output_size: Sizes) -> "Tensor[B2, D4, Float]":
    """Averages over windows that share the input evenly. `[batch, channels, h, w] -> [batch, channels, *size]`.
    Torch: `F.adaptive_avg_pool2d`. Differs: both sizes are given.
    """
    return _adaptive("adaptive_avg_pool2d", 2, x, output_size)


def adaptive_avg_pool3d(x: "Tensor[B2, D5, Float]", output_size: Sizes) -> "Tensor[B2, D5, Float]":
    """Averages over windows that share the input evenly. `[batch, channels, d, h, w] -> [batch, channels, *size]`.
    Torch: `F.adaptive_avg_pool3d`. Differs: all sizes are given.
    """
    return _adaptive("adaptive_avg_pool3d", 3, x, output_size)


def _max_pool(name: str, dims: int, x: Any, kernel_size: Any, window: Any, named: Any) -> Any:
    spec = ranked_spec(name, x, dims + 2)
    sizes = _window(name, MaxPoolOptions, dims, kernel_size, window, named)
    return wrap(computed(name, spec.module.max_pool, x.inner, *sizes), spec)


def _max_pool_with_indices(name: str, dims: int, x: Any, kernel_size: Any, window: Any, named: Any) -> Any:
    spec = ranked_spec(name, x, dims + 2)
    sizes = _window(name, MaxPoolOptions, dims, kernel_size, window, named)
    values, indices = computed(name, spec.module.max_pool_with_indices, x.inner, *sizes, spec.int.dtype)
    return wrap(values, spec), wrap(indices, spec.int)


def _avg_pool(name: str, dims: int, x: Any, kernel_size: Any, window: Any, named: Any) -> Any:
    spec = ranked_spec(name, x, dims + 2)
    sizes = _window(name, AvgPoolOptions, dims, kernel_size, window, named)
    return like(computed(name, spec.module.avg_pool, x.inner, *sizes), spec)


def _window(name: str, kind: Any, dims: int, kernel_size: Any, window: Any, named: Any) -> tuple[Any, ...]:
    """Kernel, stride, begin, end, of a max pool the dilation, of another whether padding counts, and ceil mode; from
    options of this kind or one by one.
    """
    options = kernel_size
    if window or named or type(options) is not kind:
        options = _pool_options(name, kind, kernel_size, window, named)
    kernel, stride, padding, *dilation = expanded(name, options, dims)
    begin, end = both_ends(padding)
    return kernel, stride, begin, end, *(dilation or (options.count_include_pad,)), options.ceil_mode


def _pool_options(name: str, kind: Any, kernel_size: Any, window: Any, named: Any) -> Any:
    names = _NAMES[kind]
    sizes = {**dict(zip(names, window, strict=False)), **named}
    if isinstance(kernel_size, MaxPoolOptions | AvgPoolOptions) or {*sizes} != {*names} or len(window) > len(names):
        raise TensorTypeError(title(name), f"expected {kind.__name__}(..), or kernel_size, {', '.join(names)}")
    return kind(kernel_size, **sizes)


def _adaptive(name: str, dims: int, x: Any, output_size: Any) -> Any:
    spec = ranked_spec(name, x, dims + 2)
    size = each(name, "output_size", frozen_sizes(title(name), "output_size", output_size, 1), dims)
    return like(computed(name, getattr(spec.module, name), x.inner, size), spec)
