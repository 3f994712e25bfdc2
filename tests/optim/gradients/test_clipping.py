"""Clipping: thresholds hold, and below them nothing changes a bit."""

import pytest
import torch

from burnlike.optim import ClipByGlobalNorm, ClipByNorm, ClipByValue, clip


def grads() -> list[torch.Tensor]:
    return [torch.randn(4, 3), torch.randn(7) * 3, torch.zeros(2)]


def test_by_value() -> None:
    given = grads()
    kept = [grad.clone() for grad in given]
    clipped = clip(ClipByValue(threshold=0.5), given)
    for before, after in zip(given, clipped, strict=True):
        assert torch.equal(after, before.clamp(-0.5, 0.5))
    assert all(torch.equal(a, b) for a, b in zip(given, kept, strict=True))


def test_by_norm_of_each_tensor() -> None:
    given = grads()
    clipped = clip(ClipByNorm(threshold=1.0), given)
    for before, after in zip(given, clipped, strict=True):
        norm = before.double().norm()
        torch.testing.assert_close(after.double(), before.double() * min(1.0, 1.0 / max(norm.item(), 1e-30)))


def test_by_global_norm_is_torchs() -> None:
    given = grads()
    leaves = [torch.nn.Parameter(torch.zeros_like(grad)) for grad in given]
    for leaf, grad in zip(leaves, given, strict=True):
        leaf.grad = grad.clone()
    torch.nn.utils.clip_grad_norm_(leaves, 0.7)
    for leaf, after in zip(leaves, clip(ClipByGlobalNorm(threshold=0.7), given), strict=True):
        torch.testing.assert_close(after, leaf.grad)
    assert clip(ClipByGlobalNorm(threshold=0.7), []) == []


@pytest.mark.parametrize(
    "rule", [ClipByNorm(threshold=1e6), ClipByGlobalNorm(threshold=1e6), ClipByValue(threshold=1e6)]
)
def test_below_the_threshold_no_bit_changes(rule: ClipByNorm) -> None:
    given = grads()
    assert all(torch.equal(a, b) for a, b in zip(clip(rule, given), given, strict=True))


def test_half_gradients_take_their_norm_in_float32() -> None:
    # burn 0.22.1: f16 [300, 400] clipped to norm 1 gives [0.6001, 0.7998]; the squares overflow float16.
    (clipped,) = clip(ClipByNorm(threshold=1.0), [torch.tensor([300.0, 400.0], dtype=torch.float16)])
    assert clipped.dtype == torch.float16
    torch.testing.assert_close(clipped, torch.tensor([0.6001, 0.7998], dtype=torch.float16))
