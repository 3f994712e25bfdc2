import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor
from torch.profiler import ProfilerActivity, profile

from burnlike.errors import ArgumentError, AutodiffError, DeviceError, DTypeError, ShapeError, TargetError
from burnlike.ops import linear_cross_entropy, linear_cross_entropy_reference, native_status

from ..marks import slow

DTYPES = [torch.float32, torch.bfloat16, torch.float16]
OPTIONS: dict[str, Any] = {"ignore_index": 3, "label_smoothing": 0.1, "z_loss": 0.01, "soft_cap": 3.0}


def inputs(n: int, classes: int, d: int, dtype: torch.dtype, weight_dtype: torch.dtype | None = None) -> list[Tensor]:
    torch.manual_seed(0)
    weight_dtype = weight_dtype or dtype
    hidden, weight = torch.randn(n, d).to(dtype), (torch.randn(classes, d) / d**0.5).to(weight_dtype)
    return [hidden, weight, torch.randint(classes, (n,)), torch.randn(classes).to(weight_dtype)]


def both_passes(function: Any, tensors: list[Tensor], slope: float = 1.0, **options: Any) -> list[Tensor]:
    hidden, weight, targets, bias = tensors
    leaves = [it.detach().requires_grad_() for it in (hidden, weight, bias)]
    loss = function(leaves[0], leaves[1], targets, leaves[2], **options)
    return [loss.detach(), *torch.autograd.grad(loss, leaves, torch.full_like(loss, slope))]


def in_torch(hidden: Tensor, weight: Tensor, targets: Tensor, bias: Tensor | None = None, **options: Any) -> Tensor:
    return F.cross_entropy(F.linear(hidden, weight, bias), targets, **options)


@pytest.mark.parametrize("n", [1, 31, 33, 64, 1100])
@pytest.mark.parametrize("reduction", ["mean", "sum", "none"])
def test_agrees_with_torch_in_float64(n: int, reduction: str) -> None:
    tensors = inputs(n, 11, 5, torch.float64)
    options: dict[str, Any] = {"ignore_index": 3, "label_smoothing": 0.1, "reduction": reduction}
    expected = both_passes(in_torch, tensors, 0.7, **options)
    for function in (linear_cross_entropy, linear_cross_entropy_reference):
        actual = both_passes(function, tensors, 0.7, **options)
        torch.testing.assert_close(actual, expected, rtol=1e-11, atol=1e-13)


@pytest.mark.parametrize("trained", ["hidden", "weight", "all"])
@pytest.mark.parametrize("dtype", [torch.float64, torch.float32, torch.bfloat16])
def test_losses_of_rows_have_slopes_of_their_own(trained: str, dtype: torch.dtype) -> None:
    hidden, weight, targets, bias = inputs(80, 50, 16, dtype)
    targets[7:40] = -100
    slopes = torch.randn(80, dtype=torch.float64)
    leaves = {"hidden": [hidden], "weight": [weight], "all": [hidden, weight, bias]}[trained]
    for leaf in leaves:
        leaf.requires_grad_()
    losses = linear_cross_entropy(hidden, weight, targets, bias, reduction="none")
    actual = torch.autograd.grad((losses * slopes).sum(), leaves)
    exact = [it.detach().double().requires_grad_(it.requires_grad) for it in (hidden, weight, bias)]
    expected = in_torch(exact[0], exact[1], targets, exact[2], reduction="none")
    grads = torch.autograd.grad((expected * slopes).sum(), [it for it in exact if it.requires_grad])
    tolerance = {torch.float64: 1e-11, torch.float32: 1e-5, torch.bfloat16: 3e-2}[dtype]
    torch.testing.assert_close(losses.double(), expected, rtol=tolerance, atol=tolerance)
    for one, other in zip(actual, grads, strict=True):
        assert one.dtype == dtype
        torch.testing.assert_close(one.double(), other, rtol=tolerance, atol=tolerance * other.abs().max().item())


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32])
def test_rows_that_do_not_count_are_left_out_of_the_products(dtype: torch.dtype) -> None:
    tensors = inputs(80, 20000, 16, dtype)
    tensors[2][:60] = -100
    exact = both_passes(in_torch, [it.double() if it.is_floating_point() else it for it in tensors])
    actual = both_passes(linear_cross_entropy, tensors)
    torch.testing.assert_close([it.double() for it in actual], exact, rtol=1e-4, atol=1e-6)
    assert actual[1][:60].abs().max() == 0
    counted = [tensors[0][60:], tensors[1], tensors[2][60:], tensors[3]]
    torch.testing.assert_close(actual[2:], both_passes(linear_cross_entropy, counted)[2:], rtol=0, atol=1e-12)


def test_options_are_those_of_the_formula() -> None:
    hidden, weight, targets, bias = inputs(100, 9, 4, torch.float64)

    def formula(hidden: Tensor, weight: Tensor, targets: Tensor, bias: Tensor, **_: Any) -> Tensor:
        z = 3 * torch.tanh((hidden @ weight.T + bias) / 3)
        log_probs = z - z.exp().sum(1, keepdim=True).log()
        nll = -0.9 * log_probs.gather(1, targets[:, None])[:, 0] - 0.1 * log_probs.mean(1)
        return (nll + 0.01 * z.exp().sum(1).log() ** 2)[targets != 3].mean()

    tensors = [hidden, weight, targets, bias]
    actual, expected = both_passes(linear_cross_entropy, tensors, **OPTIONS), both_passes(formula, tensors)
    torch.testing.assert_close(actual, expected, rtol=1e-11, atol=1e-13)


@pytest.mark.parametrize("dtype", DTYPES)
def test_is_hardly_further_from_float64_than_torch(dtype: torch.dtype) -> None:
    tensors = inputs(300, 700, 40, dtype)
    exact = both_passes(in_torch, [it.double() if it.is_floating_point() else it for it in tensors])
    actual, torchs = both_passes(linear_cross_entropy, tensors), both_passes(in_torch, tensors)
    for one, other, expected, most in zip(actual, torchs, exact, (1.0, 1.3, 2.0, 1.3), strict=True):
        assert one.dtype == dtype
        error, torchs_error = (one.double() - expected).abs().sum(), (other.double() - expected).abs().sum()
        assert error <= most * torchs_error + torch.finfo(torch.float32).eps * expected.abs().sum()


@pytest.mark.parametrize("dtype", DTYPES[1:])
def test_gradient_of_a_float32_weight_is_added_in_float32(dtype: torch.dtype) -> None:
    tensors = inputs(300, 700, 40, dtype, torch.float32)
    exact = both_passes(in_torch, [it.double() if it.is_floating_point() else it for it in tensors])
    rounded = [tensors[0], tensors[1].to(dtype), tensors[2], tensors[3].to(dtype)]
    _, _, grad, _ = both_passes(linear_cross_entropy, tensors)
    _, _, torchs, _ = both_passes(in_torch, rounded)
    assert grad.dtype == torch.float32
    assert (grad.double() - exact[2]).abs().sum() < 1.05 * (torchs.double() - exact[2]).abs().sum()


def test_small_gradients_of_float16_are_not_lost() -> None:
    # The mean's gradient of a logit is about 1 / (600 * 3000), less than half of float16's smallest number is 3e-8.
    tensors = inputs(600, 3000, 8, torch.float16)
    _, grad, _, _ = both_passes(linear_cross_entropy, tensors, 32768.0)
    exact = both_passes(in_torch, [it.double() if it.is_floating_point() else it for it in tensors], 32768.0)[1]
    torch.testing.assert_close(grad.double(), exact, rtol=0, atol=4e-3 * exact.abs().max().item())


@pytest.mark.parametrize("dtype", [torch.float64, *DTYPES])
def test_within_autocast_it_is_as_torchs(dtype: torch.dtype) -> None:
    tensors = inputs(50, 30, 8, dtype)
    with torch.autocast("cpu", torch.bfloat16):
        actual = both_passes(linear_cross_entropy, tensors)
        expected = both_passes(in_torch, tensors)
    assert [it.dtype for it in actual] == [it.dtype for it in expected]
    tolerance = 1e-12 if dtype == torch.float64 else 2e-2
    torch.testing.assert_close(actual, expected, rtol=tolerance, atol=tolerance)


def peak_bytes(call: Callable[[], object], folder: Path) -> int:
    """The most that a call holds beside its results, as torch's profiler tells."""
    path = folder / "trace.json"
    with profile(activities=[ProfilerActivity.CPU], profile_memory=True) as profiled:
        results = call()
    assert results
    profiled.export_chrome_trace(str(path))
    events = [it for it in json.loads(path.read_text())["traceEvents"] if it.get("name") == "[memory]"]
    held = peak = 0
    for event in sorted(events, key=lambda it: it["ts"]):
        held += event["args"]["Bytes"]
        peak = max(peak, held)
    return peak - held


@pytest.mark.parametrize("classes", [4096, pytest.param(32000, marks=pytest.mark.slow)])
def test_holds_less_than_an_eighth_of_the_logits(classes: int, tmp_path: Path) -> None:
    hidden, weight, targets, _ = inputs(2048, classes, 8, torch.float32)
    hidden.requires_grad_()
    weight.requires_grad_()
    logits = 2048 * classes * 4

    def gradients(function: Callable[..., Tensor]) -> tuple[Tensor, ...]:
        return torch.autograd.grad(function(hidden, weight, targets), (hidden, weight))

    results = hidden.nbytes + weight.nbytes  # once more in the backward pass, which scales what the forward saved
    assert peak_bytes(lambda: gradients(linear_cross_entropy), tmp_path) - results < logits / 8
    assert peak_bytes(lambda: gradients(in_torch), tmp_path) > 2 * logits  # the measure itself works
    with torch.no_grad():
        assert peak_bytes(lambda: [linear_cross_entropy(hidden, weight, targets)], tmp_path) < logits / 16


def test_saves_the_gradients_and_nothing_else() -> None:
    hidden, weight, targets, bias = (
        it.requires_grad_() if it.is_floating_point() else it for it in inputs(100, 20, 8, torch.float32)
    )
    saved: list[Tensor] = []
    with torch.autograd.graph.saved_tensors_hooks(lambda it: saved.append(it) or it, lambda it: it):
        linear_cross_entropy(hidden, weight, targets, bias)
    assert sum(it.nbytes for it in saved) == hidden.nbytes + weight.nbytes + bias.nbytes + 4


def test_gradients_that_nobody_asks_for_are_not_made() -> None:
    hidden, weight, targets, bias = inputs(40, 20, 8, torch.float32)
    before = native_status().calls["cross_entropy_backward"]
    loss = linear_cross_entropy(hidden, weight, targets, bias)
    assert not loss.requires_grad
    assert native_status().calls["cross_entropy_backward"] == before
    expected = both_passes(in_torch, [hidden, weight, targets, bias])
    for index in range(3):
        leaves = [it.detach().requires_grad_(number == index) for number, it in enumerate((hidden, weight, bias))]
        loss = linear_cross_entropy(leaves[0], leaves[1], targets, leaves[2])
        torch.testing.assert_close(torch.autograd.grad(loss, leaves[index])[0], expected[1 + index])


def test_the_graph_can_be_used_twice() -> None:
    hidden, weight, targets, _ = inputs(40, 20, 8, torch.float32)
    hidden.requires_grad_()
    loss = linear_cross_entropy(hidden, weight, targets)
    first, second = (torch.autograd.grad(loss, hidden, retain_graph=True)[0] for _ in range(2))
    torch.testing.assert_close(first, second, rtol=0, atol=0)


def test_no_rows_and_only_ignored_rows() -> None:
    hidden, weight, targets, bias = inputs(0, 20, 8, torch.float32)
    assert both_passes(linear_cross_entropy, [hidden, weight, targets, bias])[0].isnan()
    loss, *grads = both_passes(linear_cross_entropy, [hidden, weight, targets, bias], reduction="sum")
    assert loss == 0
    assert all((grad == 0).all() for grad in grads)
    hidden, weight, _, bias = inputs(5, 20, 8, torch.float32)
    assert linear_cross_entropy(hidden, weight, torch.full((5,), -100), bias).isnan()


@pytest.mark.parametrize("name", ["hidden", "weight", "bias"])
def test_memory_that_was_freed_is_named(name: str) -> None:
    hidden, weight, targets, bias = inputs(5, 20, 8, torch.float32)
    # Of another dtype than hidden, weight and bias are converted first.
    given = {"hidden": hidden.bfloat16(), "weight": weight, "targets": targets, "bias": bias}
    given[name].untyped_storage().resize_(0)
    with pytest.raises(ArgumentError, match=f"expected {name} with its values, .* got a storage of 0"):
        linear_cross_entropy(**given)


def test_wrong_arguments_are_named() -> None:
    hidden, weight, targets, bias = inputs(5, 20, 8, torch.float32)
    with pytest.raises(ShapeError, match=r"hidden of shape \[n, d\] and weight of shape \[classes, d\], got \[8\] and"):
        linear_cross_entropy(hidden[0], weight, targets)
    with pytest.raises(ShapeError, match=r"weight of shape \[20, 8\], got \[20, 7\]"):
        linear_cross_entropy(hidden, weight[:, :7], targets)
    with pytest.raises(ShapeError, match=r"bias of shape \[20\], got \[19\]"):
        linear_cross_entropy(hidden, weight, targets, bias[1:])
    with pytest.raises(ShapeError, match=r"targets of shape \[5\], got \[4\]"):
        linear_cross_entropy(hidden, weight, targets[1:])
    with pytest.raises(DTypeError, match="weight of dtype float32, got bfloat16"):
        linear_cross_entropy(hidden, weight.bfloat16(), targets)
    with pytest.raises(DTypeError, match="bias of dtype float32, got float64"):
        linear_cross_entropy(hidden, weight, targets, bias.double())
    with pytest.raises(DTypeError, match="targets of dtype int64, got int32"):
        linear_cross_entropy(hidden, weight, targets.int())
    with pytest.raises(DeviceError, match="weight on cpu, got meta"):
        linear_cross_entropy(hidden, weight.to("meta"), targets)
    with pytest.raises(ArgumentError, match="reduction 'mean', 'sum' or 'none', got 'max'"):
        linear_cross_entropy(hidden, weight, targets, reduction="max")
    with pytest.raises(ArgumentError, match=r"label_smoothing of 0\.\.1, got 2\.0"):
        linear_cross_entropy(hidden, weight, targets, label_smoothing=2.0)
    with pytest.raises(
        TargetError, match=r"linear_cross_entropy: expected targets of 0\.\.19, or -100.*got 20 in row 2"
    ):
        linear_cross_entropy(hidden, weight, torch.tensor([0, 1, 20, 3, 4]))


def test_second_derivative_is_refused() -> None:
    hidden, weight, targets, _ = inputs(5, 20, 8, torch.float32)
    hidden.requires_grad_()
    loss = linear_cross_entropy(hidden, weight, targets)
    with pytest.raises(AutodiffError, match="linear_cross_entropy_reference"):
        torch.autograd.grad(loss, hidden, create_graph=True)


def test_opcheck() -> None:
    hidden, weight, targets, bias = inputs(40, 20, 8, torch.float32)
    leaves = [it.requires_grad_() for it in (hidden, weight, bias)]
    arguments = (leaves[0], leaves[1], targets, leaves[2], -100, 0.0, 0.0, None, "mean", True, True)
    torch.library.opcheck(torch.ops.burnlike.linear_cross_entropy.default, arguments)


@pytest.mark.parametrize("dynamic", [True, *slow(False)])
def test_compiles_for_changing_shapes_and_within_autocast(dynamic: bool) -> None:
    torch.compiler.reset()
    compiled = torch.compile(linear_cross_entropy, fullgraph=True, dynamic=dynamic, backend="aot_eager")
    for n in (40, 70):
        tensors = inputs(n, 20, 8, torch.float32)
        for enabled in (False, True):
            with torch.autocast("cpu", torch.bfloat16, enabled=enabled):
                torch.testing.assert_close(
                    both_passes(compiled, tensors), both_passes(linear_cross_entropy, tensors), rtol=0, atol=0
                )


@pytest.mark.parametrize("compiles", [False, True])
def test_gradients_of_functions_go_through_the_reference(compiles: bool) -> None:
    hidden, weight, targets, _ = inputs(40, 20, 8, torch.float32)

    def both_modes(function: Callable[..., Tensor]) -> tuple[Tensor, Tensor]:
        def loss(it: Tensor) -> Tensor:
            return function(it, weight, targets)

        return torch.func.grad(loss)(hidden), torch.func.jvp(loss, (hidden,), (hidden.flip(0),))[1]

    ours = torch.compile(both_modes, backend="aot_eager") if compiles else both_modes
    torch.testing.assert_close(ours(linear_cross_entropy), both_modes(in_torch))
