"""Convolutions in parts that compute images in channels_last: which are native, and which are torch's own."""

import copy
from typing import Any

import pytest
import torch
from torch import nn
from torch.nn.utils.parametrizations import spectral_norm
from torch.nn.utils.parametrize import register_parametrization

from burnlike import ops
from burnlike.interop import fuse
from burnlike.interop.fused import images, native_convolution
from burnlike.ops import half_products, native_status
from burnlike.ops._library import cpu_isa

from .test_fuse_images import SIZE, assert_same, pair, step


@pytest.fixture(autouse=True)
def gains(monkeypatch: pytest.MonkeyPatch) -> None:
    """As on machines where channels_last is faster, which is tried once in a process."""
    monkeypatch.setattr(images, "gains", lambda: True)


@pytest.fixture(params=[frozenset[torch.dtype](), frozenset((torch.bfloat16, torch.float16))], ids=["", "slow halves"])
def _on_both_kinds_of_cpu(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """As on CPUs whose products of 16 bits are fast, and slow: there convolutions have a rule outside of parts, too."""
    monkeypatch.setattr(half_products, "SLOW", request.param)


on_both_kinds_of_cpu = pytest.mark.usefixtures("_on_both_kinds_of_cpu")


@on_both_kinds_of_cpu
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


IN_BFLOAT16: dict[str, tuple[dict[str, Any], int, tuple[int, int]]] = {
    "tiles": ({}, 16, (2, 1)),
    "with a bias": ({"bias": True}, 16, (0, 1)),
    "few pixels": ({}, 8, (0, 1)),
    "few pixels of a large weight": ({}, 4, (0, 1)),
    "few pixels beside the weight": ({"out_channels": 64}, 1, (0, 0)),
    "a stride": ({"stride": 2, "out_channels": 64, "bias": True}, 5, (0, 0)),
    "another kernel": ({"kernel_size": (5, 2), "padding": 0, "out_channels": 128}, 6, (0, 0)),
    "few weights": ({"stride": 2}, 16, (0, 0)),
}
"""Options of a convolution, the size of its image, and calls of `convolution_3x3` and for the gradient of a weight."""


@pytest.mark.skipif("avx512_bf16" not in native_status().isas, reason="products of bfloat16 are oneDNN's")
@pytest.mark.parametrize("name", IN_BFLOAT16)
def test_convolutions_in_bfloat16_are_as_near_to_float64_as_the_stock_ones(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(native_convolution, "_HAS_AMX", False)
    change, size, calls = IN_BFLOAT16[name]
    options = {"in_channels": 32, "out_channels": 32, "kernel_size": 3, "padding": 1, "bias": False, **change}
    stock, fused = pair(nn.Sequential(nn.Conv2d(3, 32, 1), nn.Conv2d(**options)).bfloat16())
    x = torch.randn(2, 3, size, size).bfloat16()
    counts = native_status().calls
    results, others = step(fused, x), step(stock, x)
    after = native_status().calls
    names = ("convolution_3x3", "convolution_3x3_backward")
    assert tuple(after[it] - counts[it] for it in names) == calls
    for one, other, exact in zip(results, others, step(stock.double(), x.double()), strict=True):
        assert one.dtype == torch.bfloat16
        distance, of_stock = ((it.double() - exact).norm() for it in (one, other))
        assert distance <= 1.2 * of_stock + 4e-3 * exact.norm()


@pytest.mark.skipif("avx512_bf16" not in native_status().isas, reason="products of bfloat16 are oneDNN's")
@pytest.mark.parametrize("stride", [1, 2])
def test_second_derivatives_of_convolutions_in_bfloat16_are_those_of_the_stock_one(
    stride: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(native_convolution, "_HAS_AMX", False)
    x, weight = torch.randn(2, 32, 6, 6).bfloat16(), torch.randn(64, 32, 3, 3).bfloat16() / 17
    x = x.contiguous(memory_format=torch.channels_last)

    def second(convolve: Any) -> tuple[torch.Tensor, ...]:
        leaves = x.clone().requires_grad_(), weight.clone().requires_grad_()
        y = convolve(*leaves)
        first = torch.autograd.grad(y.float().square().sum(), leaves, create_graph=True)
        return torch.autograd.grad(sum(it.float().square().sum() for it in first), leaves)

    options = ((stride, stride), (1, 1), (1, 1), 1)
    way = native_convolution.way_of(x.shape, weight.shape, x.dtype, options, cpu_isa())
    assert way is not None
    native = second(lambda *leaves: way(*leaves, None))
    stock = second(lambda *leaves: nn.functional.conv2d(*leaves, None, stride, 1))
    for one, other in zip(native, stock, strict=True):
        assert (one - other).float().norm() < 0.02 * other.float().norm()


@on_both_kinds_of_cpu
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


@on_both_kinds_of_cpu
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


@pytest.mark.parametrize("kernel", [1, 3])
@pytest.mark.parametrize("options", [{"stride": 2}, {"stride": (2,)}, {"padding": 1}, {"dilation": 1, "padding": (1,)}])
def test_options_that_were_set_as_numbers(kernel: int, options: dict[str, Any]) -> None:
    stock, fused = pair(nn.Sequential(nn.Conv2d(3, 16, 1), nn.Conv2d(16, 1024, kernel)))
    vars(stock[1]).update(options)
    vars(fused[1]).update(options)
    x = torch.randn(1, 3, 4, 4)
    assert_same(step(fused, x), step(stock, x))


@pytest.mark.parametrize("options", [{"padding": (-1, -1)}, {"stride": (1, 1, 1)}, {"padding": (1, 1, 1)}])
def test_options_that_torch_refuses_are_the_stock_error(options: dict[str, Any]) -> None:
    _, fused = pair(nn.Sequential(nn.Conv2d(3, 16, 1), nn.Conv2d(16, 1024, 1)))
    vars(fused[1]).update(options)
    with pytest.raises(RuntimeError, match=r"negative padding|to match the convolution dimensions"):
        fused(torch.randn(1, 3, 4, 4))


def test_convolutions_in_16_bits_are_by_float32_where_a_cpu_has_no_others(monkeypatch: pytest.MonkeyPatch) -> None:
    """Also behind a normalization that waits, and with a number for a pair, set later, as torch takes it."""
    monkeypatch.setattr(half_products, "SLOW", frozenset((torch.bfloat16, torch.float16)))
    stock, fused = pair(
        nn.Sequential(nn.Conv2d(3, 16, 1), nn.BatchNorm2d(16), nn.Conv2d(16, 16, 5), nn.Conv2d(16, 16, 5)).bfloat16()
    )
    for model in (stock, fused):
        model[3].padding = 2
    calls: list[torch.Size] = []
    compute = half_products.convolution
    monkeypatch.setattr(ops, "convolution", lambda x, *rest: calls.append(x.shape) or compute(x, *rest))
    x = torch.randn(SIZE).bfloat16()
    torch.testing.assert_close(fused(x), stock(x), rtol=0.05, atol=0.05)
    assert len(calls) == 2


@on_both_kinds_of_cpu
@pytest.mark.parametrize("fused_first", [True, False])
@pytest.mark.parametrize(
    "parametrized", [spectral_norm, lambda it: register_parametrization(it, "weight", nn.Dropout())]
)
def test_parametrized_weights_are_read_once_in_each_call(parametrized: Any, fused_first: bool) -> None:
    model, x = (
        nn.Sequential(nn.Conv2d(3, 16, 1), nn.Conv2d(16, 16, 3, padding=1), nn.Conv2d(16, 16, 1)),
        torch.randn(SIZE),
    )
    others = [model, copy.deepcopy(model)]
    if fused_first:
        fuse(others[1])
    for it in others:
        torch.manual_seed(1)
        parametrized(it[1])
    if not fused_first:
        fuse(others[1])
    expected, found = ([*step(it, x), torch.rand(1)] for it in others)
    assert_same(found, expected)
