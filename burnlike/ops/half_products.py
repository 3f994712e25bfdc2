"""Products and convolutions in 16 bits on CPUs that multiply float32 only, as fast as in float32.

oneDNN, torch's library for them, multiplies bfloat16 where a CPU has AVX-512, and float16 where it has AMX or AVX-512
for it. Elsewhere torch has loops of its own that take 4 to 80 times as long as the float32 product. Here parts of both
sides are converted, multiplied in float32, and rounded once.
"""

import math
from collections.abc import Callable, Sequence
from functools import partial
from itertools import product
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional

from .._torch_compat import onednn
from ..errors import DTypeError, ShapeError
from ._arguments import autocast_dtype, check_same_device, check_storage, for_products
from ._function import is_recorded, is_transformed, second_derivative
from ._library import flops

SLOW = onednn.slow_halves()
"""The 16-bit dtypes that torch multiplies slowly on this machine's CPU."""
SLOW_RECURRENT = SLOW if onednn.has_amx(torch.float16) else SLOW | {torch.float16}
"""Those of recurrent kernels: oneDNN's LSTM in float16 takes AMX, which torch does not ask for (torch 2.13)."""

_TYPES = (Tensor, torch.nn.Parameter)
_FEWEST_PRODUCTS = 2**19
"""Below, the calls take longer than torch's loops: with 16 rows of 128 values by 128 x 128 twice as long."""
_FEWEST_ROWS = 16
"""Below, torch's products with rows of a weight are as fast, but for those of a backward pass."""
_SIDE = 1024
"""The largest size of a part that is converted: the three of a product take 12 MB."""


def are_slow(*tensors: Tensor | None) -> bool:
    """True if torch multiplies these slowly on this machine, in their dtype or that of autocast."""
    x = tensors[0]
    if x is None or (x.dtype not in SLOW and not torch.is_autocast_enabled("cpu")):
        return False
    dtype = autocast_dtype(x) or x.dtype
    if dtype not in SLOW or is_transformed() or is_recorded():
        return False
    return all(
        it is None or (type(it) in _TYPES and it.device.type == "cpu" and (autocast_dtype(it) or it.dtype) == dtype)
        for it in tensors
    )


def gains(x: Tensor, weight: Tensor) -> bool:
    """True if `linear` of these, if they `are_slow`, is faster than torch's."""
    if weight.dim() != 2 or x.dim() < 2 or x.shape[-1] != weight.shape[1]:
        return False
    if x.numel() * weight.shape[0] < _FEWEST_PRODUCTS:
        return False
    is_trained = torch.is_grad_enabled() and (x.requires_grad or weight.requires_grad)
    return is_trained or x.numel() // x.shape[-1] >= _FEWEST_ROWS or weight.stride(1) != 1


def linear(x: Tensor, weight: Tensor, bias: Tensor | None) -> Tensor:
    """`functional.linear` of tensors that `are_slow`."""
    x, weight, bias = _for_products(x, weight, bias)
    return _half_product(x.flatten(0, -2)[None], weight.mT[None], bias).view(*x.shape[:-1], weight.shape[0])


def matmul(x: Tensor, y: Tensor) -> Tensor:
    """`torch.matmul`; of matrices in 16 bits that this machine's CPU can't multiply, by products in float32.

    Differentiable any number of times. Memory: up to 12 MB for the parts that are converted.

    Args:
        x: `[..., m, k]`.
        y: `[..., k, n]`.

    Returns:
        `[..., m, n]`, the leading dimensions broadcast. The products are added in float32, and rounded once.
    """
    if min(x.dim(), y.dim()) < 2 or x.shape[-1] != y.shape[-2] or not are_slow(x, y):
        return torch.matmul(x, y)
    if max(x.numel() * y.shape[-1], y.numel() * x.shape[-2]) < _FEWEST_PRODUCTS:
        return torch.matmul(x, y)
    x, y, _ = _for_products(x, y, None)
    if y.dim() == 2:
        return _half_product(x.flatten(0, -2)[None], y[None], None).view(*x.shape[:-1], y.shape[1])
    batch = torch.broadcast_shapes(x.shape[:-2], y.shape[:-2])
    x, y = (it.expand(*batch, *it.shape[-2:]).reshape(math.prod(batch), *it.shape[-2:]) for it in (x, y))
    return _half_product(x, y, None).view(*batch, x.shape[1], y.shape[2])


def convolution(
    x: Tensor,
    weight: Tensor,
    bias: Tensor | None,
    stride: Sequence[int],
    padding: Sequence[int],
    dilation: Sequence[int],
    groups: int,
    output_padding: Sequence[int] | None = None,
) -> Tensor:
    """Torch's convolution; in 16 bits that this machine's CPU can't multiply, of parts of the batch in float32.

    Differentiable any number of times. Memory: float32 copies of the weight, and of some images and their results.

    Args:
        x: `[batch, channels_in, *sizes]` of one to three sizes.
        weight: `[channels_out, channels_in / groups, *kernel_size]`.
        bias: `[channels_out]` or None.
        stride, padding, dilation: of each size, as those of `functional.conv2d`.
        groups: of channels.
        output_padding: of each size, for a transposed convolution, whose weight is `[channels_in, channels_out /
            groups, *kernel_size]`; None for a usual one.

    Returns:
        `[batch, channels_out, *sizes_out]`, in x's order of memory (`channels_last` or not).
    """
    dims = weight.dim() - 2
    if not 0 < dims < 4 or x.dim() != dims + 2 or x.numel() == 0 or not are_slow(x, weight, bias):
        if output_padding is None:
            return _CONVOLUTIONS[dims](x, weight, bias, stride, padding, dilation, groups)
        return _TRANSPOSED[dims](x, weight, bias, stride, padding, output_padding, groups, dilation)
    x, weight, bias = _for_products(x, weight, bias)
    options = (list(stride), list(padding), list(dilation), output_padding is not None)
    return _half_convolution(x, weight, bias, *options, list(output_padding or [0] * dims), groups)


def is_unsafe(kernel: Sequence[int], stride: Sequence[int]) -> bool:
    """True for a convolution of which oneDNN may write beyond a gradient.

    In channels_last it does so for a kernel of 1 with larger strides and some counts of channels (torch 2.13).
    """
    return {*kernel} == {1} != {*stride}


def recurrent(
    kernel: Callable[..., tuple[Tensor, ...]], x: Tensor, *arguments: Any, keeps_state_dtype: bool = False
) -> tuple[Tensor, ...]:
    """`kernel(x, *arguments)`, one of torch's recurrent kernels; where 16 bits are slow, in float32.

    Where oneDNN has no LSTM in 16 bits, `torch.lstm` fails within autocast (torch 2.13), and its own loops take up to
    16 times as long. Here states stay in float32 between steps; the results are rounded once.

    Args:
        kernel: `torch.lstm`, `torch.gru`, `torch.rnn_tanh` or `torch.rnn_relu`, or a function that calls it.
        x: the input.
        arguments: of the kernel: states and weights, also in tuples and lists, and options.
        keeps_state_dtype: True for a GRU, which within autocast adds its products to a state of x's dtype.

    Returns:
        The output and the last states, in x's dtype or that of autocast.
    """
    dtype = autocast_dtype(x) or x.dtype
    if not x.is_cpu or dtype not in SLOW_RECURRENT:
        return kernel(x, *arguments)
    with torch.autocast("cpu", enabled=False):
        results = kernel(x.float(), *map(_wide, arguments))
    return tuple(result.to(x.dtype if keeps_state_dtype else dtype) for result in results)


def _wide(argument: Any) -> Any:
    """The tensors of floats in an argument, as float32."""
    if isinstance(argument, list | tuple):
        return [_wide(it) for it in argument]
    return argument.float() if isinstance(argument, Tensor) and argument.is_floating_point() else argument


_CONVOLUTIONS: dict[int, Any] = {1: functional.conv1d, 2: functional.conv2d, 3: functional.conv3d}
_TRANSPOSED: dict[int, Any] = {
    1: functional.conv_transpose1d,
    2: functional.conv_transpose2d,
    3: functional.conv_transpose3d,
}


def _for_products(*tensors: Any) -> tuple[Any, ...]:
    return tuple(None if tensor is None else for_products(tensor) for tensor in tensors)


_library = torch.library.Library("burnlike", "FRAGMENT")
_library.define("half_product(Tensor x, Tensor y, Tensor? bias) -> Tensor")
_OPTIONS = "int[] stride, int[] padding, int[] dilation, bool transposed, int[] output_padding, int groups"
_library.define(f"half_convolution(Tensor x, Tensor weight, Tensor? bias, {_OPTIONS}) -> Tensor")
_library.define(
    f"half_convolution_backward(Tensor grad, Tensor x, Tensor weight, {_OPTIONS}, bool[] needed)"
    " -> (Tensor, Tensor, Tensor)"
)
_half_product = torch.ops.burnlike.half_product.default
_half_convolution = torch.ops.burnlike.half_convolution.default
_half_convolution_backward = torch.ops.burnlike.half_convolution_backward.default


def _check(x: Tensor, y: Tensor, bias: Tensor | None) -> None:
    if y.dtype != x.dtype or (bias is not None and bias.dtype != x.dtype):
        raise DTypeError(f"products in 16 bits: expected tensors of {x.dtype}, got others")
    named = {"the left side": x, "the right side": y, "bias": bias}
    check_storage("products in 16 bits", {name: value for name, value in named.items() if value is not None})


def _parts(size: int, most: int) -> list[slice]:
    return [slice(start, min(start + most, size)) for start in range(0, size, most)]


def _compute_product(x: Tensor, y: Tensor, bias: Tensor | None) -> Tensor:
    _check(x, y, bias)
    if x.dim() != 3 or y.dim() != 3:
        raise ShapeError(f"products in 16 bits: expected two stacks of matrices, got {list(x.shape)}, {list(y.shape)}")
    (batch, rows, depth), columns = x.shape, y.shape[2]
    result = x.new_empty(batch, rows, columns)
    # Several small matrices at a time, or parts of a large one, of up to `_SIDE` squared values.
    matrices = max(1, _SIDE * _SIDE // max(rows * depth, depth * columns, rows * columns, 1))
    wide_bias = None if bias is None else bias.float()
    with torch.autocast("cpu", enabled=False):
        for some, across in product(_parts(batch, matrices), _parts(rows, _SIDE)):
            left = [x[some, across, inner].float() for inner in _parts(depth, _SIDE)]
            for down in _parts(columns, _SIDE):
                total = result.new_zeros((), dtype=torch.float32) if wide_bias is None else wide_bias[down]
                for part, inner in zip(left, _parts(depth, _SIDE), strict=True):
                    total = _float_product(part, y[some, inner, down].float(), total)
                result[some, across, down] = total
    return result


def _float_product(x: Tensor, y: Tensor, total: Tensor) -> Tensor:
    """x y + total of float32 matrices, by the faster of torch's two libraries."""
    if len(x) == 1 and onednn.is_faster():
        sums = onednn.product(x[0], y[0].mT, total if total.dim() == 1 else None)[None]
        return sums.add_(total) if total.dim() == 3 else sums
    return torch.bmm(x, y) if total.dim() == 0 else torch.baddbmm(total, x, y)


def _images(x: Tensor, per_image: int) -> list[slice]:
    """Parts of a batch of which about as many values are converted as of a product's parts."""
    return _parts(len(x), max(1, _SIDE * _SIDE // max(per_image, 1)))


def _compute_convolution(x: Tensor, weight: Tensor, bias: Tensor | None, *options: Any) -> Tensor:
    _check(x, weight, bias)
    wide_weight, wide_bias = weight.float(), None if bias is None else bias.float()
    result = None
    with torch.autocast("cpu", enabled=False):
        for some in _images(x, math.prod(x.shape[1:])):
            part = torch.ops.aten.convolution(x[some].float(), wide_weight, wide_bias, *options)
            if result is None:
                result = _as_long(part, len(x), x.dtype)
            result[some] = part
    return torch.ops.aten.convolution(x, weight, bias, *options) if result is None else result  # of no images


def _as_long(part: Tensor, count: int, dtype: torch.dtype) -> Tensor:
    """A tensor for `count` images, in the order of memory of some."""
    order = {4: torch.channels_last, 5: torch.channels_last_3d}.get(part.dim(), torch.contiguous_format)
    order = order if not part.is_contiguous() and part.is_contiguous(memory_format=order) else torch.contiguous_format
    return torch.empty(count, *part.shape[1:], dtype=dtype, memory_format=order)


def _compute_gradients(grad: Tensor, x: Tensor, weight: Tensor, *options: Any) -> tuple[Tensor, Tensor, Tensor]:
    _check(x, weight, None)
    *how, needed = options
    x_needed, weight_needed, bias_needed = needed
    wide_weight, channels = weight.float(), grad.shape[1]
    grad_x = torch.empty_like(x) if x_needed else x.new_empty(0)
    # In float32 to the end: rounded after each part of the batch, the errors would add up.
    grad_weight = torch.zeros_like(wide_weight) if weight_needed else wide_weight.new_empty(0)
    grad_bias = wide_weight.new_zeros(channels if bias_needed else 0)
    with torch.autocast("cpu", enabled=False):
        for some in _images(x, math.prod(x.shape[1:])):
            wide = (grad[some].float(), x[some].float(), wide_weight)
            # In channels_last oneDNN may write beyond the gradient.
            if is_unsafe(weight.shape[2:], how[0]):
                wide = tuple(it.contiguous() for it in wide)
            of_x, of_weight, of_bias = torch.ops.aten.convolution_backward(*wide, [channels], *how, needed)
            if x_needed:
                grad_x[some] = of_x
            if weight_needed:
                grad_weight += of_weight
            if bias_needed:
                grad_bias += of_bias
    return grad_x, grad_weight.to(x.dtype), grad_bias.to(x.dtype)


_library.impl("half_product", _compute_product, "CompositeExplicitAutograd")
_library.impl("half_convolution", _compute_convolution, "CompositeExplicitAutograd")
_library.impl("half_convolution_backward", _compute_gradients, "CompositeExplicitAutograd")


@torch.library.register_fake("burnlike::half_product", lib=_library)
def _(x: Tensor, y: Tensor, bias: Tensor | None) -> Tensor:
    check_same_device("products in 16 bits", x, (y, bias))
    return x.new_empty(x.shape[0], x.shape[1], y.shape[2])


@torch.library.register_fake("burnlike::half_convolution", lib=_library)
def _(x: Tensor, weight: Tensor, bias: Tensor | None, *options: Any) -> Tensor:
    check_same_device("products in 16 bits", x, (weight, bias))
    return torch.ops.aten.convolution(x, weight, bias, *options)


@torch.library.register_fake("burnlike::half_convolution_backward", lib=_library)
def _(grad: Tensor, x: Tensor, weight: Tensor, *options: Any) -> tuple[Tensor, Tensor, Tensor]:
    shapes = (x, weight, grad.new_empty(grad.shape[1]))
    grads = [torch.empty_like(it) if on else it.new_empty(0) for it, on in zip(shapes, options[-1], strict=True)]
    return grads[0], grads[1], grads[2]


@flops("half_product")
def _(x: Sequence[int], y: Sequence[int], *_: object, **__: object) -> int:
    return 2 * math.prod(x) * y[2]


def save_factors(ctx: Any, inputs: tuple[Tensor, Tensor, Tensor | None], output: Tensor) -> None:
    """Keep the two factors of a product for its backward pass."""
    ctx.save_for_backward(*inputs[:2])


def _product_backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
    x, y = ctx.saved_tensors
    x_needed, y_needed, bias_needed = ctx.needs_input_grad
    grad_y = None
    if y_needed:  # in y's order of memory: a weight's is transposed
        is_transposed = y.stride(1) == 1
        grad_y = _half_product(grad.mT, x, None).mT if is_transposed else _half_product(x.mT, grad, None)
    return (
        _half_product(grad, y.mT, None) if x_needed else None,
        grad_y,
        grad.sum((0, 1)) if bias_needed else None,
    )


def _save_convolution(ctx: Any, inputs: tuple[Any, ...], output: Tensor) -> None:
    x, weight, _, *ctx.options = inputs
    ctx.save_for_backward(x, weight)


def _convolution_backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
    needed = [*ctx.needs_input_grad[:3]]
    grads = _half_convolution_backward(grad, *ctx.saved_tensors, *ctx.options, needed)
    return *(it if on else None for it, on in zip(grads, needed, strict=True)), *(None for _ in ctx.options)


def _gradients(grad: Tensor, x: Tensor, weight: Tensor, *options: Any) -> tuple[Tensor, ...]:
    """The gradients that `half_convolution_backward` computes, in plain torch."""
    *how, needed = options
    bias = grad.new_zeros(grad.shape[1], requires_grad=True)
    result = torch.ops.aten.convolution(x, weight, bias, *how)
    gradient_of = partial(torch.autograd.grad, result, grad_outputs=grad, create_graph=True)
    return tuple(
        gradient_of([it])[0] if on else it.flatten()[:0] for it, on in zip((x, weight, bias), needed, strict=True)
    )


def _register(name: str, backward: Any, save: Any) -> None:
    torch.library.register_autograd(f"burnlike::{name}", backward, setup_context=save, lib=_library)


_register("half_product", _product_backward, save_factors)
_register("half_convolution", _convolution_backward, _save_convolution)
_register("half_convolution_backward", *second_derivative(_gradients))
