"""A sum and its RMS normalization as one op: what the table of cases does not say."""

import pytest
import torch

from burnlike.ops import add_layer_norm, add_rms_norm


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_weights_have_no_gradient_where_the_sum_alone_is_used(dtype: torch.dtype) -> None:
    x, residual = (torch.randn(3, 8, dtype=dtype, requires_grad=True) for _ in range(2))
    gamma, beta = (torch.ones(8, dtype=dtype, requires_grad=True) for _ in range(2))
    for _, total in (add_rms_norm(x, residual, gamma), add_layer_norm(x, residual, gamma, beta)):
        grads = torch.autograd.grad(total.sum(), (x, residual, gamma, beta), allow_unused=True)
        assert grads[2:] == (None, None)
        assert grads[0] is not None
        assert torch.equal(grads[0], torch.ones_like(x))
