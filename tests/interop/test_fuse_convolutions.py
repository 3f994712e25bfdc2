"""Convolutions of 3 x 3 in parts that compute images in channels_last: by fewer products, and which are torch's own."""

from typing import Any

import pytest
import torch
from torch import nn

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


def test_channels_that_do_not_fit_are_the_stock_error() -> None:
    _, fused = pair(nn.Sequential(nn.Conv2d(3, 16, 1), nn.Conv2d(16, 16, 3, padding=1)))
    fused[1].weight = nn.Parameter(torch.ones(16, 32, 3, 3))
    with pytest.raises(RuntimeError, match="expected input"):
        fused(torch.randn(SIZE))
