"""`torch.utils.flop_counter.FlopCounterMode` counts native ops as it does torch's own."""

import importlib
from collections.abc import Callable

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor
from torch.utils.flop_counter import FlopCounterMode, sdpa_backward_flop_count, sdpa_flop_count

from burnlike.ops import linear, linear_cross_entropy
from burnlike.ops.attention import attention_native


def counts(function: Callable[..., Tensor], *sizes: tuple[int, ...]) -> list[int]:
    """After the forward pass, and after the backward pass."""
    tensors = [torch.randn(it, requires_grad=True) for it in sizes]
    with FlopCounterMode(display=False) as counter:
        result = function(*tensors)
        forward = counter.get_total_flops()
        result.sum().backward()
    return [forward, counter.get_total_flops()]


def test_linear(monkeypatch: pytest.MonkeyPatch) -> None:
    module = importlib.import_module("burnlike.ops.linear")
    monkeypatch.setattr(module, "_MACHINE_GAINS", True)
    monkeypatch.setattr(module, "_FEWEST_PRODUCTS", 1)
    sizes = (4, 20, 32), (48, 32), (48,)
    assert counts(linear, *sizes) == counts(F.linear, *sizes) == [2 * 80 * 32 * 48, 6 * 80 * 32 * 48]


def test_linear_cross_entropy_counts_all_in_its_forward_pass() -> None:
    targets = torch.arange(40)
    _, both = counts(lambda x, weight: F.cross_entropy(F.linear(x, weight), targets), (40, 32), (48, 32))
    assert counts(lambda x, weight: linear_cross_entropy(x, weight, targets), (40, 32), (48, 32)) == [both, both]
    with FlopCounterMode(display=False) as counter:
        linear_cross_entropy(torch.randn(40, 32), torch.randn(48, 32), targets)
    assert counter.get_total_flops() == both // 3


def test_attention() -> None:
    query, key, of_each_head = (2, 4, 6, 8), (2, 2, 5, 8), (2, 4, 5, 8)
    forward = sdpa_flop_count(query, of_each_head, of_each_head)
    backward = sdpa_backward_flop_count(query, query, of_each_head, of_each_head)
    assert counts(attention_native, query, key, key) == [forward, forward + backward]
