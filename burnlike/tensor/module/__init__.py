"""Functions for layers: convolutions, pools, attention, normalization, lookups."""

from .convolutions import (
    conv1d as conv1d,
    conv2d as conv2d,
    conv2d_weight_backward as conv2d_weight_backward,
    conv3d as conv3d,
    conv_transpose1d as conv_transpose1d,
    conv_transpose2d as conv_transpose2d,
    conv_transpose3d as conv_transpose3d,
    deform_conv2d as deform_conv2d,
    fold4d as fold4d,
    unfold4d as unfold4d,
)
from .layers import (
    BatchNormOutput as BatchNormOutput,
    attention as attention,
    attention_fallback as attention_fallback,
    batch_norm as batch_norm,
    batch_norm_train as batch_norm_train,
    ctc_loss as ctc_loss,
    embedding as embedding,
    interpolate as interpolate,
    layer_norm as layer_norm,
    linear as linear,
)
from .pools import (
    adaptive_avg_pool1d as adaptive_avg_pool1d,
    adaptive_avg_pool2d as adaptive_avg_pool2d,
    adaptive_avg_pool3d as adaptive_avg_pool3d,
    avg_pool1d as avg_pool1d,
    avg_pool2d as avg_pool2d,
    avg_pool2d_backward as avg_pool2d_backward,
    max_pool1d as max_pool1d,
    max_pool1d_with_indices as max_pool1d_with_indices,
    max_pool2d as max_pool2d,
    max_pool2d_with_indices as max_pool2d_with_indices,
    max_pool2d_with_indices_backward as max_pool2d_with_indices_backward,
)
