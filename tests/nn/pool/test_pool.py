"""Pools beside the table of cases: configs, memory formats, any windows, counterparts."""

from typing import Any

import pytest
import torch
from hypothesis import given, settings, strategies as st

from burnlike import nn
from burnlike.errors import ConfigError, NoCounterpartError, ShapeError
from burnlike.interop import from_torch, to_torch


def test_the_stride_is_the_kernel_size_if_it_is_left_out() -> None:
    assert nn.MaxPool1dConfig(kernel_size=3).stride == 3
    assert nn.AvgPool2dConfig(kernel_size=(1, 2)).strides == (1, 2)
    assert nn.MaxPool2dConfig.from_yaml("{kernel_size: 2, strides: 1}").strides == 1
    assert nn.MaxPool2dConfig.from_yaml("{kernel_size: 2, strides: null}").init().stride == (2, 2)
    assert nn.AvgPool1dConfig(kernel_size=3) == nn.AvgPool1dConfig(kernel_size=3, stride=3)


@pytest.mark.parametrize(
    ("made", "message"),
    [
        (lambda: nn.MaxPool1dConfig(kernel_size=0), "kernel_size: expected an int >= 1"),
        (lambda: nn.MaxPool2dConfig(kernel_size=2, strides=(0, 1)), "strides.0: expected an int >= 1"),
        (lambda: nn.AvgPool2dConfig(kernel_size=2, padding=(1, 1)), "padding: expected a list of 4 items"),
        (lambda: nn.AdaptiveAvgPool2dConfig(output_size=(2, 2, 2)), "output_size: expected a list of 2 items"),
    ],
)
def test_what_is_impossible_is_refused_by_the_config(made: Any, message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        made()


def test_the_message_names_the_sizes() -> None:
    layer = nn.MaxPool2dConfig(kernel_size=2, dilation=4, padding=(0, 1, 0, 1)).init()
    with pytest.raises(ShapeError, match=r"MaxPool2d: expected sizes of 5 x 5 .* got 4 x 6 from \[1, 1, 4, 4\]"):
        layer(torch.zeros(1, 1, 4, 4))


POOLS_2D = [
    nn.MaxPool2dConfig(kernel_size=2),
    nn.MaxPool2dConfig(kernel_size=3, strides=2, padding=(1, 0, 0, 1)),
    nn.AvgPool2dConfig(kernel_size=2, padding="Same"),
    nn.AvgPool2dConfig(kernel_size=3, strides=2, padding=(1, 0, 0, 1), count_include_pad=False),
    nn.AdaptiveAvgPool2dConfig(output_size=3),
]


@pytest.mark.parametrize("config", POOLS_2D)
def test_channels_last_stays(config: Any) -> None:
    layer = config.init()
    x = torch.randn(2, 8, 7, 6)
    found = layer(x.to(memory_format=torch.channels_last))
    assert found.is_contiguous(memory_format=torch.channels_last)
    torch.testing.assert_close(found, layer(x))


@settings(max_examples=40)
@given(
    size=st.integers(1, 9),
    kernel=st.integers(1, 4),
    stride=st.integers(1, 4),
    dilation=st.integers(1, 2),
    begin=st.integers(0, 3),
    end=st.integers(0, 3),
    ceil_mode=st.booleans(),
)
def test_any_window(size: int, kernel: int, stride: int, dilation: int, begin: int, end: int, ceil_mode: bool) -> None:
    covered = (kernel - 1) * dilation + 1
    config = nn.MaxPool1dConfig(
        kernel_size=kernel, stride=stride, dilation=dilation, padding=(begin, end), ceil_mode=ceil_mode
    )
    layer, x = config.init(), torch.randn(1, 1, size)
    if size + begin + end < covered:
        with pytest.raises(ShapeError, match="MaxPool1d"):
            layer(x)
        return
    values = [-torch.inf] * begin + x.flatten().tolist() + [-torch.inf] * end
    starts = [
        start
        for start in range(0, len(values) + stride, stride)
        if start + covered <= len(values) or (ceil_mode and start - stride + covered < len(values))
    ]
    if ceil_mode and starts[-1] >= begin + size:  # as torch: one that starts in the padding is left out
        starts.pop()
    expected = [max(values[start : start + covered : dilation], default=-torch.inf) for start in starts]
    assert layer(x).flatten().tolist() == expected
    assert layer(x.to("meta")).shape == (1, 1, len(expected))


@pytest.mark.parametrize(
    ("theirs", "message"),
    [
        (torch.nn.MaxPool1d(2, return_indices=True), "return_indices=True has no counterpart"),
        (torch.nn.AvgPool2d(2, divisor_override=3), "divisor_override=3 has no counterpart"),
        (torch.nn.AdaptiveAvgPool2d((None, 2)), "an output_size of None has no counterpart"),
    ],
)
def test_options_of_torch_without_counterpart(theirs: Any, message: str) -> None:
    with pytest.raises(NoCounterpartError, match=message):
        from_torch(theirs)


@pytest.mark.parametrize(
    ("config", "message"),
    [
        (nn.MaxPool1dConfig(kernel_size=3, padding="Same"), "padding Same has no counterpart"),
        (nn.AvgPool2dConfig(kernel_size=2, padding=(1, 0, 0, 1)), "the two ends differ"),
        (nn.MaxPool2dConfig(kernel_size=2, padding=2), "more than half of the window"),
    ],
)
def test_options_that_torch_does_not_have(config: Any, message: str) -> None:
    with pytest.raises(NoCounterpartError, match=message):
        to_torch(config.init())
