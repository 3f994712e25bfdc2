"""Convolutions beside the table of cases: configs, initializers, memory formats, any sizes."""

from typing import Any

import pytest
import torch
from hypothesis import given, settings, strategies as st
from torch.utils._python_dispatch import TorchDispatchMode

from burnlike import nn
from burnlike.errors import ConfigError, NoCounterpartError, ShapeError
from burnlike.interop import from_torch, to_torch
from burnlike.nn import KaimingUniform, XavierUniform


@pytest.mark.parametrize(
    ("made", "message"),
    [
        (lambda: nn.Conv1dConfig(channels_in=4, channels_out=6, kernel_size=1, groups=4), "groups: expected a divisor"),
        (lambda: nn.Conv2dConfig(channels=(1, 4), kernel_size=1, groups=4), "groups: expected a divisor of both"),
        (lambda: nn.Conv2dConfig(channels=(0, 4), kernel_size=1), "channels.0: expected an int >= 1"),
        (lambda: nn.Conv2dConfig(channels=(1, 4), kernel_size=(3, 0)), "kernel_size.1: expected an int >= 1"),
        (lambda: nn.Conv2dConfig(channels=(1, 4), kernel_size=(3, 3, 3)), "expected a list of 2 items"),
        (lambda: nn.Conv2dConfig(channels=(1, 4), kernel_size=3, padding=(1, 1)), "padding: expected a list of 4"),
        (lambda: nn.Conv2dConfig(channels=(1, 4), kernel_size=3, padding=-1), "padding: expected"),
        (lambda: nn.Conv3dConfig(channels=(1, 4), kernel_size=2, padding="Same"), "padding: expected odd kernel sizes"),
        (lambda: nn.ConvTranspose2dConfig(channels=(3, 4), kernel_size=2, groups=2), "groups: expected a divisor"),
        (lambda: nn.DeformConv2dConfig(channels=(4, 4), kernel_size=(3, 2), padding="Same"), "expected odd kernel"),
        (lambda: nn.DeformConv2dConfig(channels=(1, 4), kernel_size=1, weight_groups=4), "weight_groups: expected"),
        (lambda: nn.DeformConv2dConfig(channels=(4, 4), kernel_size=1, offset_groups=3), "offset_groups: expected"),
        (lambda: nn.DeformConv2dConfig(channels=(4, 4), kernel_size=1, padding=(1, 0, 0, 0)), "expected the same at"),
        (lambda: nn.Fold4dConfig(output_size=(4, 3), kernel_size=4), "output_size: expected 4 or more"),
        (lambda: nn.PixelShuffleConfig(upscale_factor=0), "upscale_factor: expected an int >= 1"),
    ],
)
def test_what_is_impossible_is_refused_by_the_config(made: Any, message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        made()


@pytest.mark.parametrize(
    ("config", "shape", "message"),
    [
        (
            nn.Conv2dConfig(channels=(2, 3), kernel_size=3, dilation=2, padding=(0, 1, 0, 1)),
            (1, 2, 4, 9),
            r"Conv2d: expected sizes of 5 x 5 or more after padding, .* got 4 x 11 from \[1, 2, 4, 9\]",
        ),
        (
            nn.Conv3dConfig(channels=(2, 3), kernel_size=3, stride=2, padding="Same"),
            (1, 2, 8, 7, 7),
            "Conv3d: expected the same padding at both ends",
        ),
        (
            nn.ConvTranspose1dConfig(channels=(2, 3), kernel_size=3, padding=2),
            (1, 2, 2),
            r"ConvTranspose1d: expected sizes of which something is left when padding 2 .* got \[1, 2, 2\]",
        ),
    ],
)
def test_messages_name_the_sizes(config: Any, shape: tuple[int, ...], message: str) -> None:
    with pytest.raises(ShapeError, match=message):
        config.init()(torch.zeros(shape))


def test_offsets_and_masks_that_do_not_fit_are_refused() -> None:
    layer = nn.DeformConv2dConfig(channels=(2, 2), kernel_size=2).init()
    x, offset, mask = torch.zeros(1, 2, 4, 4), torch.zeros(1, 8, 3, 3), torch.zeros(1, 4, 3, 3)
    with pytest.raises(ShapeError, match=r"DeformConv2d: offset: expected \[1, 8, 3, 3\], got \[1, 4, 3, 3\]"):
        layer(x, mask, offset)
    with pytest.raises(ShapeError, match=r"DeformConv2d: mask: expected \[1, 4, 3, 3\], got \[1, 4, 3, 2\]"):
        layer(x, offset, mask[..., :2])


@pytest.mark.parametrize(
    ("config", "fan_in", "fan_out"),
    [
        (nn.Conv1dConfig(channels_in=8, channels_out=400, kernel_size=5, groups=2), 4 * 5, 200 * 5),
        (nn.Conv2dConfig(channels=(8, 400), kernel_size=(2, 3), groups=4), 2 * 6, 100 * 6),
        (nn.Conv3dConfig(channels=(2, 200), kernel_size=2), 2 * 8, 200 * 8),
        (nn.ConvTranspose1dConfig(channels=(8, 400), kernel_size=5, groups=2), 200 * 5, 4 * 5),
        (nn.ConvTranspose2dConfig(channels=(8, 400), kernel_size=(2, 3), groups=4), 100 * 6, 2 * 6),
        (nn.ConvTranspose3dConfig(channels=(2, 200), kernel_size=2), 200 * 8, 2 * 8),
        (nn.DeformConv2dConfig(channels=(8, 400), kernel_size=(2, 3), weight_groups=4), 2 * 6, 100 * 6),
    ],
)
def test_fans_are_burns(config: Any, fan_in: int, fan_out: int) -> None:
    torch.manual_seed(0)
    rules = {
        KaimingUniform(): fan_in**-0.5,
        KaimingUniform(fan_out_only=True): fan_out**-0.5,
        XavierUniform(): (6 / (fan_in + fan_out)) ** 0.5,
    }
    for rule, bound in rules.items():
        layer = config.replace(initializer=rule).init()
        assert layer.weight.abs().max().item() == pytest.approx(bound, rel=0.01)
        assert layer.bias.abs().max().item() == pytest.approx(bound, rel=0.05)
        assert max(layer.weight.abs().max(), layer.bias.abs().max()) <= bound


@pytest.mark.parametrize(
    "config",
    [
        nn.Conv2dConfig(channels=(8, 8), kernel_size=3, padding="Same"),
        nn.Conv2dConfig(channels=(8, 8), kernel_size=3, padding=(1, 0, 0, 2)),
        nn.ConvTranspose2dConfig(channels=(8, 8), kernel_size=3, stride=2, padding_out=1),
    ],
)
def test_channels_last_stays(config: Any) -> None:
    layer = config.init()
    x = torch.randn(2, 8, 6, 5)
    expected = layer(x)
    found = layer.to(memory_format=torch.channels_last)(x.to(memory_format=torch.channels_last))
    assert found.is_contiguous(memory_format=torch.channels_last)
    torch.testing.assert_close(found, expected)


class Calls(TorchDispatchMode):
    """Notes the operations of torch that run."""

    def __init__(self) -> None:
        super().__init__()
        self.names: list[str] = []

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        self.names.append(str(func))
        return func(*args, **kwargs or {})


@pytest.mark.parametrize(
    ("config", "expected"),
    [
        (nn.Conv2dConfig(channels=(4, 4), kernel_size=3, padding="Same"), ["aten.convolution.default"]),
        (nn.ConvTranspose2dConfig(channels=(4, 4), kernel_size=3, padding=1), ["aten.convolution.default"]),
        (nn.MaxPool2dConfig(kernel_size=2, padding=1), ["aten.max_pool2d_with_indices.default"]),
        (nn.AvgPool2dConfig(kernel_size=3, padding="Same", strides=1), ["aten.avg_pool2d.default"]),
        (nn.Interpolate2dConfig(output_size=3), ["aten.upsample_nearest2d.default"]),
    ],
)
def test_one_operation_runs(config: Any, expected: list[str]) -> None:
    layer = config.init()
    for memory_format in (torch.contiguous_format, torch.channels_last):
        x = torch.randn(1, 4, 8, 8).to(memory_format=memory_format)
        with torch.no_grad(), Calls() as calls:
            layer(x)
        assert calls.names == expected


def test_a_stride_that_is_changed_later_counts() -> None:
    layer = nn.Conv2dConfig(channels=(1, 1), kernel_size=3, padding="Same").init()
    layer.stride = (2, 2)
    assert layer(torch.zeros(1, 1, 8, 8)).shape == (1, 1, 4, 4)


@settings(max_examples=30)
@given(data=st.data(), dims=st.integers(1, 3))
def test_any_config_gives_the_sizes_of_the_formula(data: st.DataObject, dims: int) -> None:
    def each(least: int, most: int) -> tuple[int, ...]:
        return tuple(data.draw(st.integers(least, most)) for _ in range(dims))

    groups = data.draw(st.integers(1, 2))
    kernel, stride, dilation, begin, end = each(1, 3), each(1, 3), each(1, 2), each(0, 2), each(0, 2)
    end = begin if dims == 3 else end
    sizes = tuple((k - 1) * d + 1 + n for k, d, n in zip(kernel, dilation, each(0, 4), strict=True))
    fields: dict[str, Any] = {"groups": groups, "padding": begin if dims == 3 else begin + end}
    if dims == 1:
        config: Any = nn.Conv1dConfig(
            channels_in=2, channels_out=4, kernel_size=kernel[0], stride=stride[0], dilation=dilation[0], **fields
        )
    else:
        made: Any = nn.Conv2dConfig if dims == 2 else nn.Conv3dConfig
        config = made(channels=(2, 4), kernel_size=kernel, stride=stride, dilation=dilation, **fields)
    expected = [
        (n + b + e - d * (k - 1) - 1) // s + 1
        for n, b, e, d, k, s in zip(sizes, begin, end, dilation, kernel, stride, strict=True)
    ]
    for device in ("meta", "cpu"):
        assert list(config.init(device)(torch.zeros(2, 2, *sizes, device=device)).shape) == [2, 4, *expected]
    back = nn.ConvTranspose1dConfig(channels=(4, 2), kernel_size=kernel[0], stride=stride[0], dilation=dilation[0])
    length = (expected[0] - 1) * stride[0] + dilation[0] * (kernel[0] - 1) + 1
    for device in ("meta", "cpu"):
        assert list(back.init(device)(torch.zeros(2, 4, expected[0], device=device)).shape) == [2, 2, length]


def test_gradients_of_deform_conv2d_are_those_of_differences() -> None:
    layer = nn.DeformConv2dConfig(channels=(1, 2), kernel_size=2).init().double()
    torch.manual_seed(0)
    inputs = [torch.rand(1, *shape, dtype=torch.float64) for shape in ((1, 3, 3), (8, 2, 2), (4, 2, 2))]
    assert torch.autograd.gradcheck(layer, [it.requires_grad_() for it in inputs])


@pytest.mark.parametrize(
    ("theirs", "padding"),
    [
        (torch.nn.Conv1d(1, 2, 4, padding="same"), "Same"),
        (torch.nn.Conv1d(1, 2, 4, padding="same", dilation=3), (4, 5)),
        (torch.nn.Conv2d(1, 2, (3, 2), padding=(1, 0)), (1, 0, 1, 0)),
        (torch.nn.Conv3d(1, 2, 3, padding="same"), (1, 1, 1)),
        (torch.nn.Conv3d(1, 2, 3, padding="valid"), "Valid"),
    ],
)
@pytest.mark.filterwarnings("ignore:Using padding='same' with even kernel")
def test_padding_of_torch(theirs: Any, padding: Any) -> None:
    layer = from_torch(theirs)
    assert layer.padding == padding
    x = torch.randn(2, 1, *[12] * len(theirs.kernel_size))
    torch.testing.assert_close(layer(x), theirs(x))


@pytest.mark.parametrize(
    ("theirs", "message"),
    [
        (torch.nn.Conv1d(1, 1, 3, padding=1, padding_mode="reflect"), "padding_mode='reflect' has no counterpart"),
        (torch.nn.Conv3d(1, 1, 2, padding="same"), "padding='same' of an even kernel has no counterpart"),
    ],
)
def test_options_of_torch_without_counterpart(theirs: Any, message: str) -> None:
    with pytest.raises(NoCounterpartError, match=message):
        from_torch(theirs)


@pytest.mark.parametrize(
    ("config", "message"),
    [
        (nn.Conv1dConfig(channels_in=1, channels_out=1, kernel_size=3, padding=(1, 0)), "the two ends differ"),
        (nn.Conv2dConfig(channels=(1, 1), kernel_size=3, stride=2, padding="Same"), "padding Same with a stride"),
        (nn.ConvTranspose1dConfig(channels=(1, 1), kernel_size=3, padding_out=1), "padding_out 1 has no counterpart"),
        (nn.DeformConv2dConfig(channels=(1, 1), kernel_size=3), "DeformConv2d"),
    ],
)
def test_options_that_torch_does_not_have(config: Any, message: str) -> None:
    with pytest.raises(NoCounterpartError, match=message):
        to_torch(config.init())
