"""What autocast does to the inputs of matrix products."""

import torch
from torch import Tensor


def autocast_dtype(x: Tensor) -> torch.dtype | None:
    """The dtype to which torch's matrix products convert `x` within autocast; None where they don't.

    None outside of autocast, on a device without it (`meta`), for float64 and for what is no float.
    """
    device = x.device.type
    if x.dtype not in (torch.float32, torch.float16, torch.bfloat16):
        return None
    if not torch.amp.autocast_mode.is_autocast_available(device) or not torch.is_autocast_enabled(device):
        return None
    return torch.get_autocast_dtype(device)


def for_products(x: Tensor) -> Tensor:
    """`x` as torch's matrix products and attention take it: of several that would each convert it within autocast, none
    does."""
    dtype = autocast_dtype(x)
    return x if dtype is None else x.to(dtype)
