"""Gradients behind the activations of `batch_norm` where the reference's tensors of random numbers never are."""

import pytest
import torch

from burnlike.ops import batch_moments, batch_norm, batch_norm_reference
from burnlike.ops.batch_norm import BatchActivation

from .op_case import FLOATS, TOLERANCE


@pytest.mark.parametrize("of_batch", [True, False])
@pytest.mark.parametrize("dtype", FLOATS, ids=str)
@pytest.mark.parametrize(("activation", "has_residual"), [("relu", False), ("relu", True), ("hardswish", False)])
@pytest.mark.parametrize("again", [False, True])
def test_an_infinite_gradient_ends_at_a_closed_activation(
    activation: BatchActivation, has_residual: bool, dtype: torch.dtype, of_batch: bool, again: bool
) -> None:
    """As that of a root of what a ReLU gives, which is infinite at 0."""
    torch.manual_seed(1)
    x, gamma, beta = torch.randn(33, 19, dtype=dtype), torch.ones(19, dtype=dtype), torch.zeros(19, dtype=dtype)
    x[::7] = -20
    residual = torch.zeros_like(x) if has_residual else None
    wide = torch.promote_types(dtype, torch.float32)
    moments = batch_moments(x) if of_batch else (torch.zeros(19, dtype=wide), torch.ones(19, dtype=wide))
    if of_batch and activation == "hardswish":
        gamma *= 8  # closed at -3
    inputs = [it.requires_grad_() for it in (x, gamma, beta, residual) if it is not None]
    columns = inputs[:3]
    grad = torch.randn_like(x, requires_grad=again)
    with torch.no_grad():
        grad[::7] = torch.inf

    found = batch_norm(*columns, *moments, residual, activation=activation, of_batch=of_batch)
    expected = batch_norm_reference(*columns, *moments, residual, 1e-5, activation, of_batch)
    assert (expected[::7] == 0).all()
    relative, absolute = TOLERANCE[dtype]
    pairs = zip(*(torch.autograd.grad(it, inputs, grad, create_graph=again) for it in (found, expected)), strict=True)
    for ours, references in pairs:
        assert references.isfinite().all()
        torch.testing.assert_close(ours, references, rtol=4 * relative, atol=40 * absolute)
