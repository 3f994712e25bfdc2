"""16-bit products and convolutions by parts in float32, on machines whose CPU multiplies no such numbers."""

import importlib
import os
import subprocess
import sys
from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional

from burnlike import Cpu, Tensor as Typed, ops
from burnlike.interop import fuse
from burnlike.nn import Conv2dConfig, LinearConfig

MODULE = importlib.import_module("burnlike.ops.half_products")
HALVES = (torch.bfloat16, torch.float16)


@pytest.fixture(autouse=True)
def _slow_machine(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(MODULE, "SLOW", frozenset(HALVES))
    monkeypatch.setattr(MODULE, "_SIDE", 16)  # of several parts along each side
    monkeypatch.setattr(MODULE, "_FEWEST_PRODUCTS", 1)


def values(*sizes: int, dtype: torch.dtype = torch.bfloat16) -> Tensor:
    return torch.randn(sizes).to(dtype).requires_grad_()


def calls(function: Callable[[], Any]) -> set[str]:
    """Which of the ops of parts a call takes."""
    with torch.profiler.profile(acc_events=True) as found:
        function()
    return {it.key for it in found.key_averages() if "half_" in it.key and it.key.startswith("burnlike::")}


def expect_exact(ours: Callable[..., Tensor], stock: Callable[..., Tensor], *given: Tensor | None) -> None:
    """Compare the result, the gradients and theirs with float64: each is one rounding away, of sums in float32."""
    exact = [None if it is None else it.detach().double().requires_grad_() for it in given]
    results: list[list[Tensor]] = []
    for function, inputs in ((ours, given), (stock, exact)):
        leaves = [it for it in inputs if it is not None]
        result = function(*inputs)
        grad = torch.linspace(-1, 1, result.numel()).view(result.shape).bfloat16().to(result.dtype)
        first = torch.autograd.grad(result, leaves, grad, create_graph=True)
        # Rounded gradients are multiplied again, those of float64 are as exact as may be.
        second = torch.autograd.grad(sum(it.sum() for it in first[:2]), leaves[:2])  # type: ignore[arg-type]
        results.append([result, *first, *second])
    epsilon = torch.finfo(given[0].dtype).eps  # type: ignore[union-attr]
    for place, (found, expected) in enumerate(zip(*results, strict=True)):
        assert found.dtype == given[0].dtype  # type: ignore[union-attr]
        assert found.shape == expected.shape
        allowed = (0.51 if place < 1 + len(exact) and place != 3 else 4) * epsilon * expected.abs().max()
        assert (found.double() - expected).abs().max() <= allowed, place


@pytest.mark.parametrize("dtype", HALVES)
@pytest.mark.parametrize("transposed", [True, False])
@pytest.mark.parametrize("has_bias", [True, False])
def test_linear_layers(dtype: torch.dtype, transposed: bool, has_bias: bool) -> None:
    x, bias = values(2, 17, 35, dtype=dtype), values(33, dtype=dtype) if has_bias else None
    weight = values(35, 33, dtype=dtype).detach().mT if transposed else values(33, 35, dtype=dtype).detach()
    weight.requires_grad_()
    expect_exact(ops.linear, functional.linear, x, weight, bias)
    assert calls(lambda: ops.linear(x, weight, bias)) == {"burnlike::half_product"}


@pytest.mark.parametrize("sizes", [((35, 7), (7, 20)), ((3, 5, 7), (3, 7, 4)), ((3, 5, 7), (7, 4))])
def test_products_of_matrices(sizes: tuple[tuple[int, ...], tuple[int, ...]]) -> None:
    x, y = (values(*it) for it in sizes)
    expect_exact(ops.matmul, torch.matmul, x, y)
    assert calls(lambda: ops.matmul(x, y)) == {"burnlike::half_product"}


def test_sizes_before_matrices_are_repeated() -> None:
    x, y = values(2, 1, 5, 7), values(3, 7, 4)
    found, expected = ops.matmul(x, y), x.double() @ y.double()
    assert found.shape == expected.shape
    torch.testing.assert_close(found.double(), expected, rtol=2**-8, atol=1e-6)
    grads = torch.autograd.grad(found.sum(), (x, y))
    torch.testing.assert_close(grads, torch.autograd.grad(expected.sum(), (x, y)), rtol=2**-6, atol=2**-6)


CONVOLUTIONS = {
    "one size": ((3, 4, 9), (6, 4, 3), ((2,), (1,), (1,), 1)),
    "groups": ((3, 4, 9, 8), (6, 2, 3, 3), ((2, 1), (1, 0), (1, 2), 2)),
    "three sizes": ((2, 2, 4, 5, 6), (3, 2, 2, 3, 1), ((1, 1, 2), (0, 1, 0), (1, 1, 1), 1)),
    "transposed": ((3, 4, 5, 6), (4, 3, 3, 2), ((2, 1), (1, 0), (1, 1), 2, (1, 0))),
}


@pytest.mark.parametrize("dtype", HALVES)
@pytest.mark.parametrize("name", CONVOLUTIONS)
def test_convolutions(name: str, dtype: torch.dtype) -> None:
    *sizes, options = CONVOLUTIONS[name]
    x, weight = (values(*it, dtype=dtype) for it in sizes)
    bias = values(6 if name in ("groups", "transposed", "one size") else 3, dtype=dtype)
    stride, padding, dilation, groups, *out = options

    def stock(x: Tensor, weight: Tensor, bias: Tensor) -> Tensor:
        transposed = bool(out)
        added = out[0] if transposed else [0] * len(stride)
        return torch.convolution(x, weight, bias, stride, padding, dilation, transposed, added, groups)

    expect_exact(lambda *given: ops.convolution(*given, *options), stock, x, weight, bias)


def test_channels_last_stay_so() -> None:
    x = values(2, 4, 6, 6).detach().to(memory_format=torch.channels_last)
    y = ops.convolution(x, values(5, 4, 3, 3), None, (1, 1), (1, 1), (1, 1), 1)
    assert y.is_contiguous(memory_format=torch.channels_last)


def test_compilers_see_what_runs() -> None:
    checks = ("test_schema", "test_faketensor", "test_aot_dispatch_dynamic")
    product, convolution = torch.ops.burnlike.half_product.default, torch.ops.burnlike.half_convolution.default
    torch.library.opcheck(product, (values(2, 3, 4), values(2, 4, 5), values(5)), test_utils=checks)
    options = ([1, 1], [1, 1], [1, 1], False, [0, 0], 1)
    torch.library.opcheck(convolution, (values(2, 3, 4, 4), values(5, 3, 3, 3), None, *options), test_utils=checks)


@pytest.mark.parametrize("sizes", [((0, 3), (3, 4)), ((3, 0), (0, 4))])
def test_products_of_nothing(sizes: tuple[tuple[int, ...], tuple[int, ...]]) -> None:
    x, y = (values(*it) for it in sizes)
    assert torch.equal(ops.matmul(x, y), torch.matmul(x, y))


def test_layers_take_them_within_autocast_too() -> None:
    layers: list[Any] = [
        LinearConfig(d_input=8, d_output=9).init(),
        Conv2dConfig(channels=(2, 3), kernel_size=3).init(),
    ]
    inputs = [torch.randn(20, 8), torch.randn(2, 2, 8, 8)]
    for layer, x, op in zip(layers, inputs, ("half_product", "half_convolution"), strict=True):
        assert calls(lambda layer=layer, x=x: layer(x)) == set()
        with torch.autocast("cpu", torch.bfloat16):
            assert calls(lambda layer=layer, x=x: layer(x)) == {f"burnlike::{op}"}
            assert layer(x).dtype == torch.bfloat16
    typed = Typed(torch.randn(20, 8, dtype=torch.float16), Cpu())
    assert calls(lambda: typed.matmul(typed.transpose())) == {"burnlike::half_product"}


@pytest.mark.parametrize("dtype", HALVES)
def test_a_fused_model_takes_them(dtype: torch.dtype) -> None:
    model = nn.Sequential(nn.Conv2d(3, 4, 3), nn.Flatten(), nn.Linear(64, 17)).to(dtype)
    x = torch.randn(20, 3, 6, 6).to(dtype)
    before, exact = model(x), model.double()(x.double())
    model.to(dtype)
    fuse(model)
    assert calls(lambda: model(x)) == {"burnlike::half_product", "burnlike::half_convolution"}
    error = (before - exact).abs().mean()
    assert (model(x) - exact).abs().mean() <= 1.1 * error


class Doubled(nn.Conv2d):
    def _conv_forward(self, input: Tensor, weight: Tensor, bias: Tensor | None) -> Tensor:
        return 2 * super()._conv_forward(input, weight, bias)


@pytest.mark.parametrize("layer", [Doubled(2, 2, 1), nn.Conv2d(2, 2, 3, padding=1, padding_mode="circular")])
def test_other_convolutions_are_kept(layer: nn.Module) -> None:
    x = torch.randn(2, 2, 4, 4)
    expected = layer(x)
    fuse(layer)
    assert torch.equal(layer(x), expected)
    x = x.bfloat16()
    assert calls(lambda: layer.to(torch.bfloat16)(x)) == set()


def test_what_is_not_taken_is_torchs() -> None:
    x, y = torch.randn(20, 20), torch.randn(20, 20)
    for given in ((x, y), (x.double(), y.double()), (x.bfloat16()[0], y.bfloat16())):
        assert calls(lambda given=given: ops.matmul(*given)) == set()
    assert calls(lambda: torch.func.vmap(ops.matmul)(x.bfloat16()[None], y.bfloat16()[None])) == set()
    few, weight = x.bfloat16()[:2], y.bfloat16()
    assert calls(lambda: ops.linear(few, weight)) == set()
    assert calls(lambda: ops.linear(few, weight.mT)) == {"burnlike::half_product"}  # of such weights torch is slow
    with pytest.raises(RuntimeError, match="dtype"):
        ops.matmul(x.bfloat16(), y)


def test_a_machine_with_avx2_alone_multiplies_neither() -> None:
    program = "from burnlike.ops.half_products import SLOW; print(*sorted(map(str, SLOW)))"
    limited = {"ATEN_CPU_CAPABILITY": "avx2", "ONEDNN_MAX_CPU_ISA": "AVX2"}
    command = [sys.executable, "-c", program]
    found = subprocess.run(command, check=True, capture_output=True, text=True, env={**os.environ, **limited})
    assert found.stdout.split() == ["torch.bfloat16", "torch.float16"]


def test_products_of_few_rows_are_torchs_where_no_backward_pass_follows() -> None:
    x, weight = values(4, 32), values(8, 32)
    assert calls(lambda: ops.linear(x, weight)) == {"burnlike::half_product"}
    expect_exact(ops.linear, functional.linear, x, weight, None)
    with torch.no_grad():
        assert calls(lambda: ops.linear(x, weight)) == set()


@pytest.mark.parametrize(("rows", "op"), [(31, set()), (32, {"burnlike::half_product"})])
def test_small_products_are_torchs(rows: int, op: set[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(MODULE, "_FEWEST_PRODUCTS", 2**19)  # 32 x 128 x 128
    x, weight = values(rows, 128), values(128, 128)
    assert calls(lambda: ops.linear(x, weight)) == op
    assert calls(lambda: ops.matmul(x, weight)) == op
    assert calls(lambda: ops.matmul(x.expand(1, *x.shape), weight)) == op
