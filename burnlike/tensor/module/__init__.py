"""Functions for layers: convolutions, pools, attention, normalization, lookups."""

from .convolutions import (
    conv1d,
    conv2d,
    conv2d_weight_backward,
    conv3d,
    conv_transpose1d,
    conv_transpose2d,
    conv_transpose3d,
    deform_conv2d,
)
from .interpolation import interpolate
from .layers import BatchNormOutput, batch_norm, batch_norm_train, ctc_loss, embedding, layer_norm, linear
from .pools import (
    adaptive_avg_pool1d,
    adaptive_avg_pool2d,
    adaptive_avg_pool3d,
    avg_pool1d,
    avg_pool2d,
    avg_pool2d_backward,
    max_pool1d,
    max_pool1d_with_indices,
    max_pool2d,
    max_pool2d_with_indices,
    max_pool2d_with_indices_backward,
)
from .scaled_attention import attention, attention_fallback
from .unfolding import fold4d, unfold4d

__all__ = [
    "BatchNormOutput",
    "adaptive_avg_pool1d",
    "adaptive_avg_pool2d",
    "adaptive_avg_pool3d",
    "attention",
    "attention_fallback",
    "avg_pool1d",
    "avg_pool2d",
    "avg_pool2d_backward",
    "batch_norm",
    "batch_norm_train",
    "conv1d",
    "conv2d",
    "conv2d_weight_backward",
    "conv3d",
    "conv_transpose1d",
    "conv_transpose2d",
    "conv_transpose3d",
    "ctc_loss",
    "deform_conv2d",
    "embedding",
    "fold4d",
    "interpolate",
    "layer_norm",
    "linear",
    "max_pool1d",
    "max_pool1d_with_indices",
    "max_pool2d",
    "max_pool2d_with_indices",
    "max_pool2d_with_indices_backward",
    "unfold4d",
]
