"""Native operations: one file each, with its function, its fake, its derivative and its plain-torch reference.

Each raises ShapeError, DTypeError or DeviceError for a tensor that is not as its `Args` say.
Importing this package loads the native libraries; where one is missing, one warning says so and the references
are used.
"""

from ._library import LibraryStatus, NativeStatus, force_cpu_isa, native_status
from ._step import StepOptions
from .adamw_step import adamw_step_, adamw_step_reference
from .add_layer_norm import add_layer_norm, add_layer_norm_reference
from .add_rms_norm import add_rms_norm, add_rms_norm_reference
from .attention import attention, attention_reference
from .batch_moments import batch_moments, batch_moments_reference
from .batch_norm import batch_norm, batch_norm_reference
from .bernoulli_noise import bernoulli_noise_
from .bias_gelu import bias_gelu, bias_gelu_reference
from .blockwise import BLOCK, dequantize_blockwise, quantize_blockwise, scale_count
from .convert import convert_, convert_reference
from .convolution_3x3 import convolution_3x3, convolution_3x3_reference
from .crc32 import crc32
from .cross_entropy import cross_entropy, cross_entropy_reference
from .decode_step import decode_step
from .depthwise_convolution import depthwise_convolution, depthwise_convolution_reference
from .dropout_add import dropout_add, dropout_add_reference
from .geglu import geglu, geglu_reference
from .gradient_squares import gradient_squares_, gradient_squares_reference
from .half_products import convolution, matmul
from .int8_linear import int8_linear, int8_linear_reference
from .join_gates import join_gates
from .layer_norm import layer_norm, layer_norm_reference
from .linear import linear
from .linear_cross_entropy import linear_cross_entropy, linear_cross_entropy_reference
from .lion_step import lion_step_, lion_step_reference
from .lora_linear import lora_linear, lora_linear_reference
from .lstm import lstm, lstm_, lstm_gains, lstm_reference
from .masked_softmax import masked_softmax, masked_softmax_reference
from .read_values import can_read_values, read_values_, read_values_reference
from .rms_norm import rms_norm, rms_norm_reference
from .rotary import rotary, rotary_reference
from .sgd_step import sgd_step_, sgd_step_reference
from .swiglu import swiglu, swiglu_reference

__all__ = [
    "BLOCK",
    "LibraryStatus",
    "NativeStatus",
    "StepOptions",
    "adamw_step_",
    "adamw_step_reference",
    "add_layer_norm",
    "add_layer_norm_reference",
    "add_rms_norm",
    "add_rms_norm_reference",
    "attention",
    "attention_reference",
    "batch_moments",
    "batch_moments_reference",
    "batch_norm",
    "batch_norm_reference",
    "bernoulli_noise_",
    "bias_gelu",
    "bias_gelu_reference",
    "can_read_values",
    "convert_",
    "convert_reference",
    "convolution",
    "convolution_3x3",
    "convolution_3x3_reference",
    "crc32",
    "cross_entropy",
    "cross_entropy_reference",
    "decode_step",
    "depthwise_convolution",
    "depthwise_convolution_reference",
    "dequantize_blockwise",
    "dropout_add",
    "dropout_add_reference",
    "force_cpu_isa",
    "geglu",
    "geglu_reference",
    "gradient_squares_",
    "gradient_squares_reference",
    "int8_linear",
    "int8_linear_reference",
    "join_gates",
    "layer_norm",
    "layer_norm_reference",
    "linear",
    "linear_cross_entropy",
    "linear_cross_entropy_reference",
    "lion_step_",
    "lion_step_reference",
    "lora_linear",
    "lora_linear_reference",
    "lstm",
    "lstm_",
    "lstm_gains",
    "lstm_reference",
    "masked_softmax",
    "masked_softmax_reference",
    "matmul",
    "native_status",
    "quantize_blockwise",
    "read_values_",
    "read_values_reference",
    "rms_norm",
    "rms_norm_reference",
    "rotary",
    "rotary_reference",
    "scale_count",
    "sgd_step_",
    "sgd_step_reference",
    "swiglu",
    "swiglu_reference",
]
