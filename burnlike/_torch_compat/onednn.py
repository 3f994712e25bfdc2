"""oneDNN's product of matrices, which torch has for compiled code; without it, float32 products on CPUs are MKL's."""

import torch
from torch import Tensor


def has_product() -> bool:
    """Whether this torch has it."""
    return torch.backends.mkldnn.is_available() and hasattr(torch.ops.mkldnn, "_linear_pointwise")


def product(x: Tensor, y: Tensor, bias: Tensor | None) -> Tensor:
    """x @ y.T + bias of two float32 matrices of any strides."""
    return torch.ops.mkldnn._linear_pointwise(x, y, bias, "none", [], "")
