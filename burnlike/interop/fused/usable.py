"""Which tensors native ops compute with as stock code does."""

import torch
from torch import Tensor

_DEVICES = ("cpu", "cuda", "meta")
_DTYPES = (torch.float32, torch.float64, torch.bfloat16, torch.float16)


def takes(x: Tensor, *weights: Tensor | None) -> bool:
    """Whether a native op computes with `x` and these weights; else the stock function is to be called."""
    return (
        x.device.type in _DEVICES
        and x.dtype in _DTYPES
        and all(weight is None or weight.dtype in (x.dtype, torch.float32) for weight in weights)
    )
