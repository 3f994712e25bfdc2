"""Linear maps, lookups, normalization, the CTC loss, resizing of images, and attention."""

from typing import Any, Generic, NamedTuple, overload

import torch

from ...errors import TensorTypeError, TensorValueError
from ..core.base import B2, B, D, E, FloatLike, Tensor, like, wrap
from ..core.kinds import D1, D2, D3, D4, Bool, Float, Int
from ..core.operands import computed, float_spec, index_of, inner_as, inner_of, ranked_spec
from ..options import AttentionModuleOptions, InterpolateOptions
from ..options.base import Sizes, each, frozen_sizes

_ATTENTION_DEFAULTS = AttentionModuleOptions()


class BatchNormOutput(NamedTuple, Generic[B, D]):
    """The result of `batch_norm_train`.

    Attributes:
        output: the normalized batch.
        mean: of each channel, `[channels]`, without gradient.
        variance: of each channel, biased, `[channels]`, without gradient.
    """

    output: "Tensor[B, D, Float]"
    mean: "Tensor[B, D1, Float]"
    variance: "Tensor[B, D1, Float]"


def linear(
    x: "Tensor[B2, E, Float]", weight: "FloatLike[B2, D2]", bias: "FloatLike[B2, D1] | None" = None
) -> "Tensor[B2, E, Float]":
    """x @ weight + bias. `[.., d_in], [d_in, d_out], [d_out] -> [.., d_out]`. Torch: `F.linear(x, weight.T, bias)`.
    Differs: the weight is the transpose of torch's.
    """
    spec = float_spec("linear", x)
    matrix = inner_of("linear", weight, spec.ranks[2])
    vector = None if bias is None else inner_of("linear", bias, spec.ranks[1])
    d_in, d_out = matrix.shape
    if x.inner.shape[-1] != d_in or (vector is not None and vector.shape[0] != d_out):
        raise TensorValueError(
            "Linear",
            f"expected an input [.., {d_in}] and a bias [{d_out}] for a weight {[d_in, d_out]},"
            f" got {list(x.inner.shape)} and {None if vector is None else list(vector.shape)}",
        )
    return like(computed("linear", spec.module.linear, x.inner, matrix, vector), spec)


def embedding(
    weights: "Tensor[B2, D2, Float]", indices: "Tensor[B2, D2, Int] | torch.Tensor"
) -> "Tensor[B2, D3, Float]":
    """Rows by their indices. `[n, d], [batch, length] -> [batch, length, d]`. Torch: `F.embedding(indices, weights)`.
    Differs: the weights come first; no padding index and no largest norm.
    Raises TensorValueError: an index is outside of 0 .. n-1.
    """
    spec = ranked_spec("embedding", weights, 2)
    rows = index_of("embedding", indices, spec.index)
    return wrap(computed("embedding", spec.module.embedding, weights.inner, rows), spec.ranks[3])


def layer_norm(
    x: "Tensor[B2, E, Float]", gamma: "FloatLike[B2, D1]", beta: "FloatLike[B2, D1] | None", epsilon: float
) -> "Tensor[B2, E, Float]":
    """(x - mean) / sqrt(variance + epsilon) * gamma + beta along the last dimension. `[.., d], [d], [d] -> [.., d]`.
    Torch: `F.layer_norm(x, [d], gamma, beta, epsilon)`. Differs: the last dimension only.
    Raises TensorValueError: gamma or beta is not `[d]`.
    """
    spec = float_spec("layer_norm", x)
    scale = inner_of("layer_norm", gamma, spec.ranks[1])
    shift = None if beta is None else inner_of("layer_norm", beta, spec.ranks[1])
    size = x.inner.shape[-1]
    if scale.shape[0] != size or (shift is not None and shift.shape[0] != size):
        _check_sizes("Layer Norm", size, {"gamma": scale, "beta": shift})
    return like(computed("layer_norm", spec.module.layer_norm, x.inner, scale, shift, epsilon), spec)


def batch_norm(
    x: "Tensor[B2, E, Float]",
    gamma: "FloatLike[B2, D1]",
    beta: "FloatLike[B2, D1]",
    mean: "FloatLike[B2, D1]",
    variance: "FloatLike[B2, D1]",
    epsilon: float,
) -> "Tensor[B2, E, Float]":
    """(x - mean) / sqrt(variance + epsilon) * gamma + beta along dimension 1. `[batch, channels, ..] -> same`.
    Torch: `F.batch_norm(x, mean, variance, gamma, beta, training=False)`.
    Differs: has a gradient for mean and variance too. Raises TensorValueError: one of the others is not `[channels]`.
    """
    spec = _batch_spec("batch_norm", x)
    names = {"gamma": gamma, "beta": beta, "mean": mean, "variance": variance}
    inners = {name: inner_of("batch_norm", it, spec.ranks[1]) for name, it in names.items()}
    _check_sizes("Batch Norm", x.inner.shape[1], inners)
    return like(computed("batch_norm", spec.module.batch_norm, x.inner, *inners.values(), epsilon), spec)


def batch_norm_train(
    x: "Tensor[B2, E, Float]", gamma: "FloatLike[B2, D1]", beta: "FloatLike[B2, D1]", epsilon: float
) -> BatchNormOutput[B2, E]:
    """Normalize by the batch itself; also its mean and biased variance. `[batch, channels, ..], 2 x [channels]`.
    Torch: `F.batch_norm(x, None, None, gamma, beta, training=True)`. Differs: gives the statistics.
    Raises TensorValueError: gamma or beta is not `[channels]`, or the batch is empty.
    """
    spec = _batch_spec("batch_norm_train", x)
    scale, shift = inner_of("batch_norm_train", gamma, spec.ranks[1]), inner_of("batch_norm_train", beta, spec.ranks[1])
    _check_sizes("Batch Norm Train", x.inner.shape[1], {"gamma": scale, "beta": shift})
    if x.inner.numel() == 0:
        raise TensorValueError("Batch Norm Train", f"the batch is empty: shape {list(x.inner.shape)}")
    out, mean, variance = computed("batch_norm_train", spec.module.batch_norm_train, x.inner, scale, shift, epsilon)
    return BatchNormOutput(like(out, spec), like(mean, spec.ranks[1]), like(variance, spec.ranks[1]))


def ctc_loss(
    log_probs: "Tensor[B2, D3, Float]",
    targets: "Tensor[B2, D2, Int] | torch.Tensor",
    input_lengths: "Tensor[B2, D1, Int] | torch.Tensor",
    target_lengths: "Tensor[B2, D1, Int] | torch.Tensor",
    blank: int,
) -> "Tensor[B2, D1, Float]":
    """Connectionist temporal classification (Graves et al. 2006). `[t, n, classes], [n, s], [n], [n] -> [n]`.
    Torch: `F.ctc_loss(reduction="none")`. Differs: targets are padded to `[n, s]`; no reduction.
    Raises TensorValueError: the sizes do not fit, or `blank` is no class.
    """
    spec = ranked_spec("ctc_loss", log_probs, 3)
    labels = index_of("ctc_loss", targets, spec.index.ranks[2])
    lengths = index_of("ctc_loss", input_lengths, spec.index.ranks[1])
    label_lengths = index_of("ctc_loss", target_lengths, spec.index.ranks[1])
    _, samples, classes = log_probs.inner.shape
    reasons = [
        f"{name}: expected size {samples}, one for each sample, got {value.shape[0]}"
        for name, value in {"targets": labels, "input_lengths": lengths, "target_lengths": label_lengths}.items()
        if value.shape[0] != samples
    ]
    if not 0 <= blank < classes:
        reasons.append(f"blank: expected one of the {classes} classes, got {blank}")
    if reasons:
        raise TensorValueError("Ctc Loss", *reasons)
    out = computed("ctc_loss", spec.module.ctc_loss, log_probs.inner, labels, lengths, label_lengths, blank)
    return like(out, spec.ranks[1])


def _batch_spec(name: str, x: Any) -> Any:
    spec = float_spec(name, x)
    if spec.rank < 2:
        raise TensorTypeError("Batch Norm", "expected a tensor of rank 2 or more, [batch, channels, ..], got rank 1")
    return spec


def _check_sizes(operation: str, size: int, tensors: "dict[str, Any]") -> None:
    reasons = [
        f"{name}: expected shape [{size}], got {list(tensor.shape)}"
        for name, tensor in tensors.items()
        if tensor is not None and tensor.shape[0] != size
    ]
    if reasons:
        raise TensorValueError(operation, *reasons)


@overload
def interpolate(x: "Tensor[B2, D4, Float]", output_size: InterpolateOptions) -> "Tensor[B2, D4, Float]": ...
@overload
def interpolate(
    x: "Tensor[B2, D4, Float]", output_size: Sizes, options: InterpolateOptions
) -> "Tensor[B2, D4, Float]": ...
def interpolate(x: Any, output_size: Any, options: Any = None) -> Any:
    """Images of another size. `[batch, channels, h, w] -> [batch, channels, h_out, w_out]`.
    `output_size` is height and width of the result, or the options alone, which then have a size or a scale factor.
    Torch: `F.interpolate`. Differs: rank 4 only; corners are aligned by default; Lanczos3.
    Raises TensorValueError: no size is given, or the result would be empty.
    """
    spec = ranked_spec("interpolate", x, 4)
    explicit_size = None if options is None else output_size
    options = output_size if options is None else options
    if not isinstance(options, InterpolateOptions):
        raise TensorTypeError("Interpolate", f"expected InterpolateOptions, got {type(options).__name__}")
    size = _output_size(x.inner.shape, explicit_size, options)
    function = spec.module.interpolate
    return like(computed("interpolate", function, x.inner, size, options.mode, options.align_corners), spec)


def _output_size(shape: torch.Size, explicit_size: Any, options: InterpolateOptions) -> tuple[int, ...]:
    factors: Any = options.scale_factor
    if explicit_size is not None:
        size: Any = frozen_sizes("Interpolate", "output_size", explicit_size, 1)
    elif options.output_size is not None:
        size = options.output_size
    elif factors is not None:
        size = frozen_sizes(
            "Interpolate", "output_size", [int(length * by) for length, by in zip(shape[2:], factors, strict=True)], 1
        )
    else:
        raise TensorValueError("Interpolate", "expected a size; use with_output_size or with_scale_factor")
    return each("Interpolate", "output_size", size, 2)


def attention(
    query: "Tensor[B2, D4, Float]",
    key: "FloatLike[B2, D4]",
    value: "FloatLike[B2, D4]",
    mask: "Tensor[B2, D4, Bool] | torch.Tensor | None" = None,
    attn_bias: "FloatLike[B2, D4] | None" = None,
    options: AttentionModuleOptions = _ATTENTION_DEFAULTS,
) -> "Tensor[B2, D4, Float]":
    """softmax(query key^T * scale) value. `[batch, heads, q, d], [.., k, d], [.., k, dv] -> [batch, heads, q, dv]`.

    Scores are scaled, capped, hidden by the mask and by causality, and then the bias is added. A query that sees no
    key gives 0. Mask, True where a query does not see a key, and bias are `[batch, heads, q, k]`; sizes may be 1.

    Torch: `F.scaled_dot_product_attention`.
    Differs: mask True hides; a cap of the scores; with fewer queries than keys the last query is at the last key.
    """
    return _attention("attention", query, key, value, mask, attn_bias, options)


def attention_fallback(
    query: "Tensor[B2, D4, Float]",
    key: "FloatLike[B2, D4]",
    value: "FloatLike[B2, D4]",
    mask: "Tensor[B2, D4, Bool] | torch.Tensor | None" = None,
    attn_bias: "FloatLike[B2, D4] | None" = None,
    options: AttentionModuleOptions = _ATTENTION_DEFAULTS,
) -> "Tensor[B2, D4, Float]":
    """The same as `attention` by the formula, never by a fused kernel: slower, and differentiable twice.
    Torch: none.
    """
    return _attention("attention_fallback", query, key, value, mask, attn_bias, options)


def _attention(
    name: str, query: Any, key: Any, value: Any, mask: Any, attn_bias: Any, options: AttentionModuleOptions
) -> Any:
    spec = ranked_spec(name, query, 4)
    keys, values = inner_as(name, key, spec), inner_as(name, value, spec)
    hidden = None if mask is None else inner_of(name, mask, spec.bool)
    bias = None if attn_bias is None else inner_as(name, attn_bias, spec)
    if not (hidden is None and bias is None and query.inner.shape == keys.shape == values.shape):
        _check_attention_shapes(query.inner.shape, keys.shape, values.shape, {"mask": hidden, "attn_bias": bias})
    scale = query.inner.shape[3] ** -0.5 if options.scale is None else options.scale
    function, choices = getattr(spec.module, name), (scale, options.softcap, options.is_causal)
    return like(computed(name, function, query.inner, keys, values, hidden, bias, *choices), spec)


def _check_attention_shapes(
    query: torch.Size, key: torch.Size, value: torch.Size, scores: dict[str, torch.Tensor | None]
) -> None:
    reasons: list[str] = []
    batch, heads, rows, size = query
    if tuple(key[:2]) != (batch, heads) or key[3] != size:
        reasons.append(f"key: expected shape [{batch}, {heads}, k, {size}] as of the query, got {list(key)}")
    if value[:3] != key[:3]:
        reasons.append(f"value: expected shape {[*key[:3], 'dv']} as of the key, got {list(value)}")
    wanted = (batch, heads, rows, key[2])
    # No `in (1, size)`: it would not find the sizes that torch.compile traces.
    for name, tensor in scores.items():
        if tensor is not None and any(it != 1 and it != size for it, size in zip(tensor.shape, wanted, strict=True)):
            reasons.append(f"{name}: expected shape {list(wanted)}, or 1 for a size, got {list(tensor.shape)}")
    if reasons:
        raise TensorValueError("Attention", *reasons)
