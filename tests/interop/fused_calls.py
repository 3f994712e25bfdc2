"""What the tests of fused functions share: dtypes, tolerances and tensors."""

import torch
from torch import Tensor

FLOATS = (torch.float32, torch.float64, torch.bfloat16, torch.float16)
# Of results that were computed in other orders, or rounded once more or less. Gradients of torch's attention in float16
# are off by some 5e-3 from those in float64, ours by a third of that.
TOLERANCE = {torch.float64: 1e-10, torch.float32: 2e-5, torch.bfloat16: 3e-2, torch.float16: 8e-3}


def leaf(*sizes: int, dtype: torch.dtype = torch.float32, seed: int = 0) -> Tensor:
    values = torch.randn(sizes, generator=torch.Generator().manual_seed(seed)) * 2
    return values.to(dtype).requires_grad_()
