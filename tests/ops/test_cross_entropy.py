import math
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from hypothesis import given, settings, strategies as st
from torch import Tensor

from burnlike.errors import ArgumentError, DTypeError, ShapeError, TargetError
from burnlike.ops import cross_entropy, cross_entropy_reference, native_status

from ..marks import slow

FUNCTIONS = [cross_entropy, cross_entropy_reference]


def both_passes(function: Any, logits: Tensor, *arguments: Any, **options: Any) -> tuple[Tensor, Tensor]:
    leaf = logits.detach().requires_grad_()
    loss = function(leaf, *arguments, **options)
    (grad,) = torch.autograd.grad(loss, leaf, torch.ones_like(loss))
    return loss.detach(), grad


@settings(max_examples=40, deadline=None, derandomize=True)
@given(
    rows=st.integers(1, 9),
    classes=st.sampled_from([1, 2, 31, 33, 1023, 1025, 2200]),
    smoothing=st.sampled_from([0.0, 0.3, 1.0]),
    is_weighted=st.booleans(),
    reduction=st.sampled_from(["none", "mean", "sum"]),
    seed=st.integers(0, 99),
)
def test_agrees_with_torch_in_float64(
    rows: int, classes: int, smoothing: float, is_weighted: bool, reduction: str, seed: int
) -> None:
    torch.manual_seed(seed)
    logits = torch.randn(rows, classes, dtype=torch.float64) * 3
    targets = torch.randint(classes, (rows,))
    ignored = int(targets[0]) if rows > 1 else -100
    weight = torch.rand(classes, dtype=torch.float64) if is_weighted else None
    options: Any = {"ignore_index": ignored, "label_smoothing": smoothing, "reduction": reduction}
    for function in FUNCTIONS:
        torch.testing.assert_close(
            both_passes(function, logits, targets, weight, **options),
            both_passes(F.cross_entropy, logits, targets, weight, **options),
            rtol=1e-10,
            atol=1e-12,
            equal_nan=True,
        )


@pytest.mark.parametrize("function", FUNCTIONS)
def test_z_loss_and_soft_cap_are_their_formulas(function: Any) -> None:
    torch.manual_seed(0)
    logits = torch.randn(6, 50, dtype=torch.float64, requires_grad=True)
    targets = torch.randint(50, (6,))
    weight = torch.rand(50, dtype=torch.float64)
    z = 1.5 * torch.tanh(logits / 1.5)
    log_sum = z.exp().sum(1).log()
    rows = weight[targets]
    expected = (rows * (log_sum - z[range(6), targets] + 0.1 * log_sum**2)).sum() / rows.sum()
    (expected_grad,) = torch.autograd.grad(expected, logits)
    actual = both_passes(function, logits, targets, weight, z_loss=0.1, soft_cap=1.5)
    torch.testing.assert_close(actual, (expected.detach(), expected_grad), rtol=1e-12, atol=1e-14)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float16])
@pytest.mark.parametrize("offset", [0.0, 1000.0])
def test_is_no_further_from_float64_than_torch(dtype: torch.dtype, offset: float) -> None:
    torch.manual_seed(0)
    logits = (torch.randn(64, 5000) * 4 + offset).to(dtype)
    targets = torch.randint(5000, (64,))
    exact_loss, exact_grad = both_passes(F.cross_entropy, logits.double(), targets)
    loss, grad = both_passes(cross_entropy, logits, targets)
    torch_loss, torch_grad = both_passes(F.cross_entropy, logits, targets)
    last_place = torch.finfo(dtype).eps * exact_loss.item()
    assert (loss.double() - exact_loss).abs() <= max(last_place, (torch_loss.double() - exact_loss).abs())
    assert (grad.double() - exact_grad).abs().sum() <= 1.02 * (torch_grad.double() - exact_grad).abs().sum()


def test_special_values_are_as_in_torch() -> None:
    inf, nan = math.inf, math.nan
    logits = torch.randn(9, 2100)
    logits[1, 5], logits[2, 7], logits[3] = nan, inf, -inf
    logits[4, :2050] = -inf  # the first tiles have no class
    logits[5, 1:] = -inf  # of probability 1
    logits[6, 3] = -inf  # the target
    logits[7] = 1e30
    targets = torch.tensor([0, 0, 7, 0, 2060, 0, 3, 1, 1])
    for options in ({}, {"label_smoothing": 0.1}):
        actual = both_passes(cross_entropy, logits, targets, reduction="none", **options)
        expected = both_passes(F.cross_entropy, logits, targets, reduction="none", **options)
        torch.testing.assert_close(actual, expected, equal_nan=True)


def test_ignored_rows_have_no_part_whatever_they_hold() -> None:
    logits = torch.randn(4, 30)
    logits[2] = math.nan
    targets = torch.tensor([1, 2, 9, 3])
    kept = [0, 1, 3]
    loss, grad = both_passes(cross_entropy, logits, targets, ignore_index=9)
    expected, expected_grad = both_passes(F.cross_entropy, logits[kept], targets[kept])
    torch.testing.assert_close(loss, expected)
    torch.testing.assert_close(grad[kept], expected_grad)
    assert (grad[2] == 0).all()
    assert cross_entropy(logits, torch.full((4,), 9), ignore_index=9).isnan()
    assert both_passes(cross_entropy, logits, torch.full((4,), 9), ignore_index=9, reduction="sum")[0] == 0


@pytest.mark.parametrize("function", FUNCTIONS)
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float16, torch.float64])
def test_dtype_is_that_of_torch_within_autocast_and_outside(function: Any, dtype: torch.dtype) -> None:
    logits, targets = torch.randn(3, 5).to(dtype).requires_grad_(), torch.tensor([0, 1, 4])
    for enabled in (False, True):
        with torch.autocast("cpu", torch.bfloat16, enabled=enabled):
            loss = function(logits, targets)
            assert loss.dtype == F.cross_entropy(logits, targets).dtype
        assert torch.autograd.grad(loss, logits)[0].dtype == dtype


def test_loss_of_16_bits_within_autocast_is_not_rounded() -> None:
    logits, targets = torch.randn(50, 40).bfloat16(), torch.randint(40, (50,))
    with torch.autocast("cpu", torch.bfloat16):
        torch.testing.assert_close(cross_entropy(logits, targets), F.cross_entropy(logits.float(), targets))


def test_only_logits_targets_and_two_numbers_a_row_are_saved() -> None:
    logits, targets = torch.randn(40, 300, requires_grad=True), torch.randint(300, (40,))
    saved: list[Tensor] = []
    with torch.autograd.graph.saved_tensors_hooks(lambda it: saved.append(it) or it, lambda it: it):
        cross_entropy(logits, targets, label_smoothing=0.1, z_loss=0.1)
    own = [it for it in saved if it.data_ptr() not in (logits.data_ptr(), targets.data_ptr())]
    assert sum(it.nbytes for it in own) == 40 * 2 * 4 + 8


def test_targets_out_of_bounds_are_named() -> None:
    logits = torch.randn(4, 5, requires_grad=True)
    for target in (5, -1, 2**62):
        with pytest.raises(TargetError, match=rf"targets of 0\.\.4, or -100 \(ignore_index\), got {target} in row 2"):
            cross_entropy(logits, torch.tensor([0, 1, target, 9]))
    with pytest.raises(IndexError):  # as torch's
        cross_entropy(logits, torch.tensor([0, 1, 5, 0]))
    with pytest.raises(TargetError, match="got -100"):
        cross_entropy(logits, torch.tensor([0, 1, -100, 0]), ignore_index=3)


def test_a_backward_pass_checks_targets_that_changed() -> None:
    loss_of = torch.ops.burnlike.cross_entropy_backward
    statistics, total = torch.ones(2, 2), torch.ones((), dtype=torch.float64)
    with pytest.raises(RuntimeError, match="target 7 is out of bounds"):
        loss_of(
            *(torch.ones(()), torch.ones(2, 3), torch.tensor([0, 7]), None, statistics, total),
            *(-100, 0.0, 0.0, None, "mean"),
        )


def test_wrong_arguments_are_named() -> None:
    logits, targets = torch.randn(4, 5), torch.zeros(4, dtype=torch.int64)
    with pytest.raises(ShapeError, match=r"logits of shape \[n, classes\], got \[4, 5, 1\]"):
        cross_entropy(logits[..., None], targets)
    with pytest.raises(ShapeError, match=r"weight of shape \[5\], got \[4\]"):
        cross_entropy(logits, targets, torch.ones(4))
    with pytest.raises(DTypeError, match="weight of dtype float32, got float64"):
        cross_entropy(logits, targets, torch.ones(5).double())
    wrong: Any
    for wrong, message in (
        ({"label_smoothing": 1.5}, "label_smoothing of 0..1, got 1.5"),
        ({"label_smoothing": math.nan}, "label_smoothing of 0..1, got nan"),
        ({"soft_cap": 0.0}, "soft_cap of 1e-6..1e6, got 0.0; without a cap it is None"),
        ({"z_loss": -1.0}, "z_loss of 0..1e6, got -1.0"),
        ({"reduction": "average"}, "reduction 'none', 'mean' or 'sum', got 'average'"),
    ):
        with pytest.raises(ArgumentError, match=message):
            cross_entropy(logits, targets, **wrong)


def test_native_path_runs_forward_and_backward() -> None:
    before = native_status().calls
    cross_entropy(torch.randn(3, 8, requires_grad=True), torch.tensor([0, 1, 2])).backward()
    after = native_status().calls
    assert after["cross_entropy"] == before["cross_entropy"] + 1
    assert after["cross_entropy_backward"] == before["cross_entropy_backward"] + 1


def test_meta_tensors_give_shapes() -> None:
    logits = torch.empty(2, 8, device="meta", dtype=torch.bfloat16)
    targets = torch.empty(2, device="meta", dtype=torch.int64)
    assert cross_entropy(logits, targets).shape == ()
    assert cross_entropy(logits, targets, reduction="none").shape == (2,)
    assert cross_entropy(logits, targets).dtype == torch.bfloat16


@pytest.mark.parametrize("dynamic", [True, *slow(False)])
def test_compiles_for_changing_shapes_and_within_autocast(dynamic: bool) -> None:
    torch.compiler.reset()
    compiled = torch.compile(cross_entropy, fullgraph=True, dynamic=dynamic, backend="aot_eager")
    for rows in (2, 5, 9):
        logits, targets = torch.randn(rows, 16).bfloat16(), torch.arange(rows)
        for enabled in (False, True):
            with torch.autocast("cpu", torch.bfloat16, enabled=enabled):
                torch.testing.assert_close(
                    both_passes(compiled, logits, targets), both_passes(cross_entropy, logits, targets), rtol=0, atol=0
                )


def test_gradients_of_functions_go_through_the_reference() -> None:
    logits, targets = torch.randn(3, 8), torch.tensor([0, 1, 2])
    actual = torch.func.grad(lambda it: cross_entropy(it, targets))(logits)
    torch.testing.assert_close(actual, both_passes(F.cross_entropy, logits, targets)[1])
