"""Functions of torch and transformers with native ops, for a fused model's code, and which arguments these take.

Each has the signature of the stock function, and calls it for arguments that the op does not take. One predicate for
each op lists what it takes, so that anything unknown, such as a subclass of Tensor, goes to the stock function. The
tests compare both over a grid of arguments, errors included.
"""

import importlib
from collections.abc import Callable, Sequence
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from ... import ops
from ..._torch_compat.fake_tensors import is_fake
from ..._torch_compat.wrappers import without_overrides
from ...ops import half_products
from ...ops._arguments import autocast_dtype, for_products
from ...ops._function import is_recorded
from ...ops._library import cpu_isa
from ...ops.attention import attention_noise
from ...ops.bernoulli_noise import dropout as native_dropout
from ...ops.bias_gelu import approximate_gelu
from ...ops.cross_entropy import Reduction, loss_dtype, unrounded_loss
from ...ops.linear import multiplies_faster
from .image_layouts import is_channels_last, rows_of
from .images import drawn, in_channels_last
from .lazy_logits import LazyLogits, loss_of
from .lazy_norm import lazy_norm
from .recurrent import lstm as native_lstm

_HAS_AVX512 = cpu_isa() in ("avx512", "avx512_bf16")


def linear(input: Tensor, weight: Tensor, bias: Tensor | None = None) -> Tensor:
    return ops.linear(input, weight, bias) if takes_linear(input, weight, bias) else F.linear(input, weight, bias)


def takes_linear(x: Any, weight: Any, bias: Any) -> bool:
    """True if `ops.linear` may multiply these faster than torch, and takes them."""
    return isinstance(weight, Tensor) and multiplies_faster(weight.dtype) and takes(x, weight, bias)


def gelu(input: Tensor, *, approximate: str = "none") -> Tensor:
    """`F.gelu`: its approximation by tanh; exact, torch's is the faster one."""
    is_native = approximate == "tanh" and takes(input)
    return approximate_gelu(input, "tanh") if is_native else F.gelu(input, approximate=approximate)


def layer_norm(
    input: Tensor, normalized_shape: Any, weight: Tensor | None = None, bias: Tensor | None = None, eps: float = 1e-5
) -> Tensor:
    is_native = not are_few(input) and takes_norm(input, normalized_shape, weight, bias)
    # Without AVX-512 torch takes 0.75 to 0.9 of the op's time.
    if not is_native or (input.dtype == torch.float32 and input.is_cpu and not _HAS_AVX512):
        return F.layer_norm(input, normalized_shape, weight, bias, eps)
    return ops.layer_norm(input, weight, bias, eps)  # pyright: ignore[reportArgumentType]


def rms_norm(input: Tensor, normalized_shape: Any, weight: Tensor | None = None, eps: float | None = None) -> Tensor:
    if weight is None or not takes_norm(input, normalized_shape, weight):
        return F.rms_norm(input, normalized_shape, weight, eps)
    if eps is None:  # that of the type that torch computes in
        eps = torch.finfo(torch.promote_types(input.dtype, torch.float32)).eps
    return ops.rms_norm(input, weight, eps)


def batch_norm(
    input: Tensor,
    running_mean: Tensor | None,
    running_var: Tensor | None,
    weight: Tensor | None = None,
    bias: Tensor | None = None,
    training: bool = False,
    momentum: float = 0.1,
    eps: float = 1e-5,
) -> Tensor:
    """`F.batch_norm` of images in channels_last, within a part that computes so; see `images.py`."""
    if in_channels_last():
        with without_overrides():
            if _takes_batch_norm(input, running_mean, running_var, weight, bias, training, momentum):
                return _lazy_batch_norm(input, (weight, bias, running_mean, running_var), training, momentum, eps)
    return F.batch_norm(input, running_mean, running_var, weight, bias, training, momentum, eps)


def _lazy_batch_norm(x: Tensor, columns: Any, training: bool, momentum: float, eps: float) -> Tensor:
    weight, bias, *running = columns
    wide = torch.promote_types(x.dtype, torch.float32)
    if not training:
        # Copies where backward reads them: a batch in training writes to the running ones.
        moments = (it.to(wide, copy=torch.is_grad_enabled()) for it in running)
        return lazy_norm(x, (weight, bias, *moments), eps, False)
    mean, variance = ops.batch_moments(rows_of(x))
    if running[0] is not None:
        count = x.numel() // x.shape[1]
        for old, new in zip(running, (mean, variance * (count / (count - 1))), strict=True):
            if old.dtype == wide:
                old.lerp_(new, momentum)
            else:
                old.copy_(old.to(wide).lerp(new, momentum))
    return lazy_norm(x, (weight, bias, mean, variance), eps, True)


def _takes_batch_norm(
    x: Any, running_mean: Any, running_var: Any, weight: Any, bias: Any, training: Any, momentum: Any
) -> bool:
    if type(x) is not Tensor or not is_channels_last(x) or weight is None or bias is None:
        return False
    if x.dtype not in _DTYPES or (running_mean is None) != (running_var is None):
        return False
    dtype, width = weight.dtype, x.shape[1:2]
    for column in (weight, bias) if running_mean is None else (weight, bias, running_mean, running_var):
        is_plain = type(column) in _TYPES and column.layout is torch.strided and column.is_cpu
        if not is_plain or column.dtype != dtype or column.shape != width:
            return False
    if dtype not in (x.dtype, torch.float32) or (x.dtype == torch.float64 and dtype != x.dtype):
        return False  # which torch refuses
    if not training:
        return running_mean is not None and x.numel() > 0
    is_written = running_mean is not None and (running_mean.requires_grad or running_var.requires_grad)
    return isinstance(momentum, float) and x.numel() > x.shape[1] and not is_written


def cross_entropy(
    input: Tensor,
    target: Tensor,
    weight: Tensor | None = None,
    size_average: bool | None = None,
    ignore_index: int = -100,
    reduce: bool | None = None,
    reduction: Any = "mean",
    label_smoothing: float = 0.0,
) -> Tensor:
    is_usual = weight is None and size_average is None and reduce is None
    if isinstance(input, LazyLogits):
        loss = loss_of(input, target, ignore_index, label_smoothing, reduction) if is_usual else None
        if loss is not None:
            return loss.to(loss_dtype(input))
        input = input.recipe.read()
    if not is_usual or not takes_cross_entropy(input, target, reduction, label_smoothing):
        return F.cross_entropy(input, target, weight, size_average, ignore_index, reduce, reduction, label_smoothing)
    return ops.cross_entropy(
        input, target, ignore_index=ignore_index, label_smoothing=label_smoothing, reduction=reduction
    )


def attention(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    attn_mask: Tensor | None = None,
    dropout_p: float = 0.0,
    is_causal: bool = False,
    scale: float | None = None,
    enable_gqa: bool = False,
) -> Tensor:
    """`F.scaled_dot_product_attention`, also with dropout."""
    options = (attn_mask, is_causal, scale)
    if not are_few(query) and takes_attention(query, key, value, *options, enable_gqa, any_dtype=bool(dropout_p)):
        noise = attention_noise(query, key, is_causal, dropout_p) if dropout_p else None
        if not dropout_p or noise is not None:
            return ops.attention(query, key, value, *options, noise=noise)
    return F.scaled_dot_product_attention(
        query, key, value, attn_mask, dropout_p, is_causal, scale=scale, enable_gqa=enable_gqa
    )


def recurrent(kernel: Callable[..., tuple[Tensor, ...]], x: Tensor, *arguments: Any) -> tuple[Tensor, ...]:
    """A recurrent kernel of torch's, on a CPU where 16 bits are slow."""
    if not takes(x):
        return kernel(x, *arguments)
    # A GRU, and an LSTM over packed sequences, add products to a state of x's dtype; oneDNN's LSTM rounds both.
    is_packed = isinstance(arguments[0], Tensor)
    keeps_state_dtype = kernel is torch.gru or (kernel is torch.lstm and is_packed)
    return half_products.recurrent(kernel, x, *arguments, keeps_state_dtype=keeps_state_dtype)


def lstm(x: Tensor, *arguments: Any, **keywords: Any) -> tuple[Tensor, ...]:
    """`torch.lstm` of sequences, and of packed ones."""
    is_usual = len(arguments) == 8 and not keywords and takes(x) and not isinstance(arguments[0], Tensor)
    results = native_lstm(x, *arguments) if is_usual else None
    if results is not None:
        return results
    # With projections torch has loops of its own, which within autocast leave the cells in the type of their state.
    states: Any = next((it for it in arguments if isinstance(it, list | tuple)), ())
    is_slow = half_products.SLOW_RECURRENT and not keywords and len({it.shape[-1:] for it in states}) < 2
    return recurrent(torch.lstm, x, *arguments) if is_slow else torch.lstm(x, *arguments, **keywords)


def causal_lm_loss(
    logits: Tensor,
    labels: Tensor | None,
    vocab_size: int,
    num_items_in_batch: Tensor | int | None = None,
    ignore_index: int = -100,
    shift_labels: Tensor | None = None,
    **keywords: Any,
) -> Tensor:
    """transformers' loss of causal language models, without a float32 copy of the logits.

    The `labels` `[batch, sequence]` are compared with the logits of the token before each, `shift_labels` with those at
    their places. The sum of losses is divided by `num_items_in_batch`, or the number of labels that count.
    """
    if not _takes_lm_loss(logits, labels if shift_labels is None else shift_labels, vocab_size):
        stock = _stock_loss("ForCausalLMLoss")
        return stock(logits, labels, vocab_size, num_items_in_batch, ignore_index, shift_labels, **keywords)
    if shift_labels is None:
        shift_labels = F.pad(labels, (0, 1), value=ignore_index)[..., 1:]  # pyright: ignore[reportArgumentType]
    return _lm_loss(logits, shift_labels, vocab_size, num_items_in_batch, ignore_index)


def masked_lm_loss(
    logits: Tensor,
    labels: Tensor,
    vocab_size: int,
    num_items_in_batch: Tensor | int | None = None,
    ignore_index: int = -100,
    **keywords: Any,
) -> Tensor:
    """transformers' loss of masked language models; as `causal_lm_loss` with labels at their places."""
    if not _takes_lm_loss(logits, labels, vocab_size):
        stock = _stock_loss("ForMaskedLMLoss")
        return stock(logits, labels, vocab_size, num_items_in_batch, ignore_index, **keywords)
    return _lm_loss(logits, labels, vocab_size, num_items_in_batch, ignore_index)


# By the name of a loss in transformers.loss.loss_utils.
LOSSES: dict[str, Callable[..., Tensor]] = {"ForCausalLMLoss": causal_lm_loss, "ForMaskedLMLoss": masked_lm_loss}


def _takes_lm_loss(logits: Any, labels: Any, vocab_size: Any) -> bool:
    if not isinstance(labels, Tensor) or not isinstance(logits, Tensor) or logits.dtype == torch.float64:
        return False
    if logits.dim() == 0 or logits.shape[-1] != vocab_size or labels.shape != logits.shape[:-1]:
        return False
    if isinstance(logits, LazyLogits):
        return True
    return logits.device == labels.device and takes_cross_entropy(
        logits.reshape(-1, vocab_size), labels.reshape(-1), "mean", 0.0
    )


def _stock_loss(name: str) -> Callable[..., Tensor]:
    return getattr(importlib.import_module("transformers.loss.loss_utils"), name)


def _lm_loss(
    logits: Tensor, labels: Tensor, vocab_size: int, num_items_in_batch: Tensor | int | None, ignore_index: int
) -> Tensor:
    reduction: Reduction = "mean" if num_items_in_batch is None else "sum"
    loss = unrounded_loss_of(logits.reshape(-1, vocab_size), labels.reshape(-1), ignore_index, reduction)
    if isinstance(num_items_in_batch, Tensor):
        num_items_in_batch = num_items_in_batch.to(loss.device)
    return loss if num_items_in_batch is None else loss / num_items_in_batch


def unrounded_loss_of(logits: Tensor, labels: Tensor, ignore_index: int, reduction: Reduction) -> Tensor:
    """The cross-entropy of logits `[n, classes]`, lazy or not, in the type that it is computed in."""
    if isinstance(logits, LazyLogits):
        loss = loss_of(logits, labels, ignore_index, 0.0, reduction)
        if loss is not None:
            return loss
        logits = logits.recipe.read()
    return unrounded_loss(logits, labels, ignore_index=ignore_index, reduction=reduction)


_FEWEST_VALUES = 2**16
"""Below, without a derivative, questions and call of `layer_norm` or `attention` take longer than the op saves."""


def are_few(x: Any) -> bool:
    """True for a tensor of so few values on a CPU that torch's function is faster; compiled code has no such calls."""
    if torch.is_grad_enabled() or not isinstance(x, Tensor) or not x.is_cpu:
        return False
    return not torch.compiler.is_compiling() and x.numel() < _FEWEST_VALUES


_TYPES = (Tensor, nn.Parameter)
_DTYPES = (torch.float32, torch.float64, torch.bfloat16, torch.float16)


def takes(x: Any, *weights: Any) -> bool:
    """True if a native op computes with `x` and these weights; else the stock function is to be called.

    Tensors are torch's own, also those without values, not subclasses (DTensor, nested and quantized ones) or of other
    layouts, and on one device.
    Programs that are exported or traced get stock functions, which every tool knows.
    """
    if not _is_ordinary(x) or x.dtype not in _DTYPES or not (x.is_cpu or x.is_cuda or x.is_meta):
        return False
    for weight in weights:
        if weight is None:
            continue
        if not _is_ordinary(weight) or weight.dtype not in (x.dtype, torch.float32) or weight.device != x.device:
            return False
    return not is_recorded()


def _is_ordinary(tensor: Any) -> bool:
    return (type(tensor) in _TYPES or is_fake(tensor)) and tensor.layout is torch.strided and not tensor.is_nested


def takes_norm(x: Any, normalized_shape: Any, weight: Any, bias: Any = None) -> bool:
    """True if `ops.layer_norm` and `ops.rms_norm` compute what torch's functions do."""
    if not isinstance(normalized_shape, Sequence) or len(normalized_shape) != 1 or weight is None:
        return False
    if not takes(x, weight, bias) or x.dim() == 0 or x.shape[-1] != normalized_shape[0]:
        return False
    # Weights in float32 beside 16 bits are for torch's CPU kernels alone; on a GPU autocast changes the result's dtype.
    if weight.dtype != x.dtype and (x.dtype == torch.float64 or not x.is_cpu):
        return False
    changed_by_autocast = not x.is_cpu and x.dtype.itemsize == 2 and autocast_dtype(x) is not None
    if weight.shape != (x.shape[-1],) or changed_by_autocast:
        return False
    return bias is None or (bias.dtype == weight.dtype and bias.shape == weight.shape)


def takes_cross_entropy(logits: Any, targets: Any, reduction: Any, label_smoothing: Any) -> bool:
    """True if `ops.cross_entropy` computes the loss of these, without weights of classes."""
    return (
        takes(logits)
        and _is_ordinary(targets)
        and targets.dtype == torch.int64
        and targets.device == logits.device
        and logits.dim() == 2
        and targets.shape == logits.shape[:1]
        and logits.shape[1] > 0
        and reduction in ("none", "mean", "sum")
        and 0.0 <= label_smoothing <= 1.0
    )


def takes_attention(
    query: Any,
    key: Any,
    value: Any,
    mask: Any,
    causal: bool,
    scale: float | None,
    grouped: bool,
    any_dtype: bool = False,
) -> bool:
    """True if `ops.attention` computes what torch's does, in 16 bits on a CPU; for all else it would call torch's."""
    if not takes(query) or not query.is_cpu:
        return False
    if not all(_is_ordinary(it) and it.device == query.device and it.dim() == 4 for it in (query, key, value)):
        return False
    query, key, value = for_products(query), for_products(key), for_products(value)
    if (query.dtype.itemsize != 2 and not any_dtype) or not query.dtype == key.dtype == value.dtype:
        return False
    (batch, heads, queries, width), of_keys = query.shape, key.shape
    has_heads = of_keys[1] == heads or (grouped and of_keys[1] > 0 and heads % of_keys[1] == 0)
    if of_keys != value.shape or (of_keys[0], of_keys[3]) != (batch, width) or not has_heads:
        return False
    if scale is not None and not 0.0 < scale < float("inf"):
        return False
    if mask is None:
        return True
    if causal or not _is_ordinary(mask) or not mask.is_cpu or not 2 <= mask.dim() <= 4:
        return False
    sizes = zip(reversed(mask.shape), (key.shape[2], queries, heads, batch), strict=False)
    return for_products(mask).dtype in (query.dtype, torch.bool) and all(size in (1, full) for size, full in sizes)


def dropout(input: Tensor, p: float = 0.5, training: bool = True, inplace: bool = False) -> Tensor:
    """`F.dropout`."""
    draws = training and p != 0.0
    if draws and (result := drawn(input, lambda it: F.dropout(it, p, training), in_place=inplace)) is not None:
        return result
    return native_dropout(input, p, training) if draws and not inplace else F.dropout(input, p, training, inplace)
