"""Softmax of masked scores as its own op: what the table of cases does not say."""

import pytest
import torch
from torch import Tensor

from burnlike.errors import DeviceError, DTypeError, ShapeError
from burnlike.ops import masked_softmax

from .test_cuda_kernels import Kernels, kernels

__all__ = ["kernels"]

INF, NAN = torch.inf, torch.nan


def passes(grad: Tensor, scores: Tensor, mask: Tensor | None, causal: bool = False) -> list[Tensor]:
    """The result and the gradient."""
    leaf = scores.detach().requires_grad_()
    y = masked_softmax(leaf, mask, 0.5, causal)
    return [y.detach(), *torch.autograd.grad(y, leaf, grad)]


def torch_passes(grad: Tensor, scores: Tensor, hidden: Tensor) -> list[Tensor]:
    """Those of torch's functions, of rows that see something."""
    leaf = scores.detach().requires_grad_()
    y = (leaf * 0.5).masked_fill(hidden, -INF).softmax(-1)
    return [y.detach(), *torch.autograd.grad(y, leaf, grad)]


def test_known_values() -> None:
    # exp(ln 3) = 3 beside exp(0) = 1; the largest score is hidden.
    scores = torch.tensor([[0.0, 2 * torch.log(torch.tensor(3.0)), 9.0]])
    y = masked_softmax(scores, torch.tensor([False, False, True]), 0.5)
    torch.testing.assert_close(y, torch.tensor([[0.25, 0.75, 0.0]]))


@pytest.mark.parametrize("sizes", [(2, 3, 8, 40), (2, 1, 1, 40), (8, 1), (40,), (3, 8, 40), ()], ids=str)
def test_masks_of_every_shape_are_those_of_torch(sizes: tuple[int, ...]) -> None:
    torch.manual_seed(0)
    grad, scores = (torch.randn(2, 3, 8, 40, dtype=torch.float64) for _ in range(2))
    mask = torch.rand(sizes) < 0.5
    if not sizes or sizes[-1] == 1:
        mask = torch.zeros(sizes, dtype=torch.bool)
    else:
        mask[..., 0] = False  # so that each row sees something
    for one, other in zip(passes(grad, scores, mask), torch_passes(grad, scores, mask), strict=True):
        torch.testing.assert_close(one, other)


@pytest.mark.parametrize(("rows", "columns"), [(6, 6), (3, 40), (1, 7)])
def test_causal_rows_end_with_the_last_column(rows: int, columns: int) -> None:
    grad, scores = (torch.randn(2, rows, columns, dtype=torch.float64) for _ in range(2))
    row, column = torch.arange(rows)[:, None], torch.arange(columns)
    expected = torch_passes(grad, scores, column > row + (columns - rows))
    for one, other in zip(passes(grad, scores, None, causal=True), expected, strict=True):
        torch.testing.assert_close(one, other)


@pytest.mark.parametrize("width", [5, 64, 3000], ids=str)
def test_a_row_that_is_wholly_hidden_has_equal_weights_and_no_gradient(width: int, kernels: Kernels) -> None:
    scores, mask = torch.randn(3, width), torch.zeros(3, width, dtype=torch.bool)
    mask[1] = True
    y, grad = kernels.run(passes, torch.randn(3, width), scores, mask)
    torch.testing.assert_close(y[1], torch.full((width,), 1 / width), rtol=1e-6, atol=0)
    assert grad[1].tolist() == [0.0] * width
    assert (y[0] != y[0, 0]).any()
    assert grad[0].abs().sum() > 0


def test_rows_before_the_first_column_of_a_causal_matrix_see_nothing() -> None:
    y, grad = passes(torch.randn(4, 2), torch.randn(4, 2), None, causal=True)
    assert y[:2].tolist() == [[0.5, 0.5]] * 2
    assert y[2].tolist() == [1.0, 0.0]
    assert grad[:3].tolist() == [[0.0, 0.0]] * 3


@pytest.mark.parametrize(
    "row",
    [[NAN, 1.0, 2.0, 0.0], [INF, 1.0, 2.0, 0.0], [INF, INF, 2.0, 0.0], [-INF, -INF, -INF, 0.0], [-INF, 1.0, 2.0, 0.0]],
    ids=str,
)
@pytest.mark.parametrize("repeats", [1, 16, 800], ids=str)
def test_special_values_make_what_they_make_in_torch(row: list[float], repeats: int, kernels: Kernels) -> None:
    scores = torch.tensor(row).repeat(repeats)[None]
    mask = torch.tensor([False, False, False, True]).repeat(repeats)
    found = kernels.run(lambda scores, mask: masked_softmax(scores, mask), scores, mask)
    torch.testing.assert_close(found, scores.masked_fill(mask, -INF).softmax(-1), equal_nan=True)


@pytest.mark.parametrize("special", [NAN, INF, -INF])
def test_hidden_scores_and_their_gradients_are_not_read(special: float, kernels: Kernels) -> None:
    torch.manual_seed(0)
    grad, scores = torch.randn(4, 48), torch.randn(4, 48)
    mask = torch.rand(4, 48) < 0.5
    mask[:, 0] = False
    expected = torch_passes(grad, scores, mask)
    found = kernels.run(passes, grad.masked_fill(mask, special), scores.masked_fill(mask, special), mask)
    for one, other in zip(found, expected, strict=True):
        torch.testing.assert_close(one, other)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float16])
def test_errors_are_no_larger_than_those_of_torch(dtype: torch.dtype) -> None:
    torch.manual_seed(0)
    grad, scores = (torch.randn(64, 300).to(dtype) for _ in range(2))
    mask = torch.rand(300) < 0.3
    exact = torch_passes(grad.double(), scores.double(), mask)
    ours, theirs = passes(grad, scores, mask), torch_passes(grad, scores, mask)
    for one, other, expected in zip(ours, theirs, exact, strict=True):
        error = (one.double() - expected).square().mean().sqrt()
        # A tenth for the luck of single roundings.
        assert error <= 1.1 * (other.double() - expected).square().mean().sqrt()


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16], ids=str)
@pytest.mark.parametrize("width", [2056, 4104, 16392])
def test_wide_rows_on_cuda(width: int, dtype: torch.dtype, kernels: Kernels) -> None:
    torch.manual_seed(0)
    grad, scores = (torch.randn(2, width).to(dtype) for _ in range(2))
    mask = torch.rand(2, width) < 0.5
    for one, other in zip(kernels.run(passes, grad, scores, mask), passes(grad, scores, mask), strict=True):
        torch.testing.assert_close(one, other, rtol=1e-5 if dtype == torch.float32 else 1e-2, atol=1e-7)


def test_the_result_and_the_mask_alone_are_saved() -> None:
    scores, mask = torch.randn(4, 2, 8, 8, requires_grad=True), torch.zeros(4, 1, 1, 8, dtype=torch.bool)
    saved: list[Tensor] = []
    with torch.autograd.graph.saved_tensors_hooks(lambda it: saved.append(it) or it, lambda it: it):
        y = masked_softmax(scores, mask)
    assert [it.data_ptr() for it in saved] == [y.data_ptr(), mask.data_ptr()]


@pytest.mark.parametrize("causal", [False, True])
def test_second_derivatives_are_those_of_torch(causal: bool) -> None:
    torch.manual_seed(0)
    scores, mask = torch.randn(2, 3, 5, dtype=torch.float64, requires_grad=True), torch.rand(2, 1, 5) < 0.4
    assert torch.autograd.gradgradcheck(lambda scores: masked_softmax(scores, mask, 0.7, causal), (scores,))


def test_wrong_arguments_are_named() -> None:
    scores = torch.randn(3, 8)
    with pytest.raises(ShapeError, match=r"masked_softmax: expected mask that broadcasts to \[3, 8\], got \[3, 7\]"):
        masked_softmax(scores, torch.zeros(3, 7, dtype=torch.bool))
    with pytest.raises(ShapeError, match=r"expected mask that broadcasts to \[3, 8\], got \[1, 3, 8\]"):
        masked_softmax(scores, torch.zeros(1, 3, 8, dtype=torch.bool))
    with pytest.raises(ShapeError, match=r"expected scores of shape \[\.\.\., rows, columns\], .* got \[8\]"):
        masked_softmax(scores[0], causal=True)
    with pytest.raises(DTypeError, match=r"expected mask of dtype bool, got float32"):
        masked_softmax(scores, torch.zeros(3, 8))
    with pytest.raises(DeviceError, match=r"expected mask on cpu, got meta"):
        masked_softmax(scores, torch.zeros(8, dtype=torch.bool, device="meta"))
