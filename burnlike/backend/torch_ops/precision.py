"""Half precision, where torch has no function for it or only an inexact one."""

import torch
from torch import Tensor


def at_least_float32(tensor: Tensor) -> Tensor:
    """The tensor itself if float32 or float64, else in float32."""
    return tensor.float() if tensor.dtype in (torch.float16, torch.bfloat16) else tensor
