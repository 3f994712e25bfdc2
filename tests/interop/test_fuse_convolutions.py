"""Convolutions in parts that compute images in channels_last: which are native, and which are torch's own."""

from typing import Any

import pytest
import torch
from torch import nn

from burnlike import ops
from burnlike.interop.fused import images
from burnlike.ops import native_status

from .test_fuse_images import SIZE, assert_same, pair, step


@pytest.fixture(autouse=True)
def gains(monkeypatch: pytest.MonkeyPatch) -> None:
    """As on machines where channels_last is faster, which is tried once in a process."""
    monkeypatch.setattr(images, "gains", lambda: True)


@pytest.mark.parametrize(
    ("change", "calls"),
    [
        ({}, 2),  # with that of its gradient
        ({"padding": "same", "bias": True}, 2),
        ({"stride": 2}, 0),
        ({"dilation": 2, "padding": 2}, 0),
        ({"padding_mode": "reflect"}, 0),
        ({"out_channels": 24}, 0),
        ({"in_channels": 16, "groups": 16}, 0),
    ],
    ids=str,
)
def test_convolutions_of_3_x_3_have_fewer_products(change: dict[str, Any], calls: int) -> None:
    options = {"in_channels": 16, "out_channels": 16, "kernel_size": 3, "padding": 1, "bias": False, **change}
    stock, fused = pair(nn.Sequential(nn.Conv2d(3, 16, 1), nn.Conv2d(**options), nn.ReLU()))
    x = torch.randn(SIZE)
    expected = step(stock, x)
    before = native_status().calls["convolution_3x3"]
    assert_same(step(fused, x), expected)
    assert native_status().calls["convolution_3x3"] - before == calls
    with torch.autocast("cpu"):
        fused(x)
    assert native_status().calls["convolution_3x3"] - before == calls


@pytest.mark.parametrize(
    ("change", "calls"),
    [
        ({}, 1),
        ({"kernel_size": 5, "padding": 2, "stride": 2, "bias": False}, 1),
        ({"kernel_size": (3, 5), "padding": 0}, 1),
        ({"padding": "same"}, 1),
        ({"padding": "valid"}, 1),
        ({"out_channels": 40, "in_channels": 40, "groups": 10, "stride": 2}, 1),
        ({"out_channels": 48, "in_channels": 48, "groups": 2}, 1),
        ({"out_channels": 21, "in_channels": 21, "groups": 7}, 0),
        ({"kernel_size": (3, 5), "padding": "same"}, 0),
        ({"padding": (1, 0)}, 0),
        ({"stride": (1, 2)}, 0),
        ({"dilation": 2}, 0),
        ({"padding_mode": "circular"}, 0),
        ({"out_channels": 40}, 0),
        ({"in_channels": 8, "out_channels": 8, "groups": 8}, 0),
    ],
    ids=str,
)
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float64], ids=str)
def test_convolutions_in_groups_are_native(change: dict[str, Any], calls: int, dtype: torch.dtype) -> None:
    options = {"in_channels": 20, "out_channels": 20, "kernel_size": 3, "padding": 1, "groups": 20, **change}
    first = nn.Conv2d(3, options["in_channels"], 1)
    stock, fused = pair(nn.Sequential(first, nn.Conv2d(**options), nn.ReLU()).to(dtype))
    x = torch.randn(SIZE).to(dtype)
    expected = step(stock, x)
    before = native_status().calls["grouped_convolution"]
    assert_same(step(fused, x), expected)
    assert native_status().calls["grouped_convolution"] - before == (calls if dtype != torch.float64 else 0)
    with torch.autocast("cpu"):
        torch.testing.assert_close(fused(x), stock(x), rtol=0.05, atol=0.05)


@pytest.mark.parametrize(
    ("change", "calls"),
    [
        ({}, 1),
        ({"stride": 2, "bias": False}, 1),
        ({"padding": "same"}, 1),
        ({"padding": 1}, 1),
        ({"out_channels": 4}, 0),  # a small weight
        ({"kernel_size": 3, "padding": 1, "stride": 2}, 1),
        ({"kernel_size": (2, 3), "padding": "valid", "stride": (1, 2)}, 1),
        ({"kernel_size": 3, "padding": (1, 0)}, 0),
        ({"kernel_size": 3, "padding": 2, "dilation": 2}, 0),
    ],
    ids=str,
)
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float64], ids=str)
def test_convolutions_with_large_weights_are_products(
    change: dict[str, Any], calls: int, dtype: torch.dtype, monkeypatch: pytest.MonkeyPatch
) -> None:
    options = {"in_channels": 64, "out_channels": 256, "kernel_size": 1, **change}
    stock, fused = pair(
        nn.Sequential(nn.Conv2d(3, 64, 1, padding_mode="reflect"), nn.Conv2d(**options), nn.ReLU()).to(dtype)
    )
    x, counted, linear = torch.randn(1, 3, 3, 4).to(dtype), [], ops.linear
    monkeypatch.setattr(ops, "linear", lambda *given: counted.append(1) or linear(*given))
    expected = step(stock, x)
    assert_same(step(fused, x), expected)
    assert len(counted) == calls
    with torch.autocast("cpu"):
        torch.testing.assert_close(fused(x), stock(x), rtol=0.05, atol=0.05)
    assert len(counted) == calls


@pytest.mark.parametrize("size", [1, 3])
def test_channels_that_do_not_fit_are_the_stock_error(size: int) -> None:
    _, fused = pair(nn.Sequential(nn.Conv2d(3, 16, 1), nn.Conv2d(16, 16, size, padding=size // 2)))
    fused[1].weight = nn.Parameter(torch.ones(4096 if size == 1 else 16, 32, size, size))
    with pytest.raises(RuntimeError, match="expected input"):
        fused(torch.randn(SIZE))
