"""Statistics, cross products and sampling by weights."""

from typing import Any

import pytest
import torch

from burnlike import Autodiff, Cpu, Tensor
from burnlike.errors import TensorTypeError, TensorValueError
from burnlike.tensor import module

from ..made import typed

NAN = float("nan")
X = torch.tensor([[0.5, 1.8, 0.2, -2.0], [3.0, -4.0, 5.0, 0.0]], dtype=torch.float64)


@pytest.mark.parametrize("dim", [0, 1, -1])
@pytest.mark.parametrize(("suffix", "correction"), [("", 1), ("_bias", 0)])
def test_variances_follow_torch(dim: int, suffix: str, correction: int) -> None:
    variance, mean = getattr(typed(X), f"var_mean{suffix}")(dim)
    wanted = X.var(dim, correction=correction, keepdim=True)
    torch.testing.assert_close(variance.inner, wanted)
    torch.testing.assert_close(getattr(typed(X), f"var{suffix}")(dim).inner, wanted)
    torch.testing.assert_close(mean.inner, X.mean(dim, keepdim=True))


def test_one_element_has_no_unbiased_variance_and_no_spread() -> None:
    one = typed(X[:, :1])
    assert one.var(1).inner.isnan().all()
    assert one.var_mean(1)[0].inner.isnan().all()
    assert one.var_mean(1)[1].inner.tolist() == [[0.5], [3.0]]
    assert one.var_bias(1).inner.tolist() == [[0.0], [0.0]]
    assert typed(X[:, :0]).var(1).inner.isnan().all()


@pytest.mark.parametrize(
    ("values", "median", "index"),
    [
        ([3.0, 1.0, 2.0], 2.0, 2),
        ([4.0, 1.0, 3.0, 2.0], 2.0, 3),  # the lower of the two in the middle
        ([NAN, 1.0, 2.0], 2.0, 2),  # NaN is the greatest
        ([NAN, 1.0], 1.0, 1),
    ],
)
def test_medians_are_the_lower_ones_with_nan_as_the_greatest(values: list[float], median: float, index: int) -> None:
    x = typed(torch.tensor(values), Cpu(int=torch.int32))
    found, where = x.median_with_indices(0)
    assert x.median(-1).inner.tolist() == found.inner.tolist() == [median]
    assert where.inner.tolist() == [index]
    assert where.dtype is torch.int32


def test_mostly_nan_has_the_median_nan() -> None:
    assert typed(torch.tensor([[NAN, 1.0, NAN]])).median(1).inner.isnan().tolist() == [[True]]


@pytest.mark.parametrize("correction", [0, 1])
def test_the_covariance_of_a_matrix_is_torch_s(correction: int) -> None:
    wanted = torch.cov(X, correction=correction)
    torch.testing.assert_close(typed(X).cov(1, correction).inner, wanted)
    torch.testing.assert_close(typed(X).cov(-1, correction).inner, wanted)
    torch.testing.assert_close(typed(X.T).cov(0, correction).inner, wanted)


def test_the_covariance_of_a_higher_rank_swaps_the_dimension_to_the_front() -> None:
    x = torch.randn(2, 3, 4, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
    centred = x - x.mean(2, keepdim=True)  # [a, b, n] -> [n, b, a]; products over b
    torch.testing.assert_close(typed(x).cov(2, 1).inner, torch.einsum("abn,cbn->nac", centred, centred) / 3)


def test_the_covariance_refuses_vectors_and_corrections_out_of_range() -> None:
    with pytest.raises(TensorValueError, match="rank 2 or more"):
        typed(X[0]).cov(0, 1)
    for correction in (-1, 5):
        with pytest.raises(TensorValueError, match="correction from 0 to 4"):
            typed(X).cov(1, correction)


def test_cross_products_broadcast_and_follow_torch() -> None:
    x, y = torch.tensor([[1.0], [2.0], [3.0]]), torch.arange(12.0).reshape(3, 4)
    assert torch.equal(typed(x).cross(typed(y), 0).inner, torch.linalg.cross(x, y, dim=0))
    assert torch.equal(typed(x).cross(y, -2).inner, torch.linalg.cross(x, y, dim=0))


def test_cross_products_have_gradients() -> None:
    a = Tensor(torch.tensor([[1.0, 2.0, 3.0]], requires_grad=True), Autodiff(Cpu()))
    b = Tensor(torch.tensor([[4.0, 5.0, 6.0]]), Autodiff(Cpu()))
    gradient = torch.autograd.grad(a.cross(b, 1).sum().inner, a.inner)[0]
    assert gradient.tolist() == [[-1.0, 2.0, -1.0]]  # b x (1, 1, 1)


@pytest.mark.parametrize(
    ("other", "dim", "match"),
    [
        (torch.zeros(3, 3), 2, "outside of"),
        (torch.zeros(3, 2), 1, "size 3"),
        (torch.zeros(3, 1), 1, "size 3"),
        (torch.zeros(2, 3), 1, "Operands"),
        (torch.zeros(3), 0, "ranks"),
        (torch.zeros(3, 3, dtype=torch.int64), 0, "kinds"),
        (2.0, 0, "expected a Float tensor of rank 2"),
    ],
)
def test_cross_refuses_what_does_not_fit(other: Any, dim: int, match: str) -> None:
    with pytest.raises((TensorValueError, TensorTypeError), match=match):
        typed(torch.ones(3, 3)).cross(other, dim)


def test_samples_follow_the_weights_and_the_seed() -> None:
    backend = Cpu(int=torch.int32)
    weights = typed(torch.tensor([[1.0, 0.0, 3.0], [0.0, 2.0, 0.0]]), backend)
    backend.seed(5)
    drawn = weights.categorical(20_000)
    backend.seed(5)
    assert torch.equal(weights.categorical(20_000).inner, drawn.inner)
    assert drawn.dtype is torch.int32
    shares = drawn.inner[0].bincount(minlength=3) / 20_000
    assert shares[1] == 0
    torch.testing.assert_close(shares[2], torch.tensor(0.75), atol=0.02, rtol=0)
    assert drawn.inner[1].unique().tolist() == [1]


@pytest.mark.parametrize("shape", [[4], [2, 3, 4], [0, 4]])
def test_samples_take_the_place_of_the_last_dimension(shape: list[int]) -> None:
    drawn = typed(torch.ones(shape)).categorical(5)
    assert list(drawn.shape) == [*shape[:-1], 5]
    assert ((drawn.inner >= 0) & (drawn.inner < 4)).all()


@pytest.mark.parametrize(
    "weights", [[0.0, 0.0], [1.0, -0.5], [1.0, NAN], [1.0, float("inf")], [[1.0, 1.0], [0.0, 0.0]]]
)
def test_weights_that_are_none_are_refused(weights: Any) -> None:
    with pytest.raises(TensorValueError, match="finite weights of 0 or more, with a sum above 0"):
        typed(torch.tensor(weights)).categorical(1)


def test_samples_and_weights_are_at_least_one() -> None:
    with pytest.raises(TensorValueError, match="at least 1 sample"):
        typed(torch.ones(2)).categorical(0)
    with pytest.raises(TensorValueError, match="at least one weight"):
        typed(torch.ones(2, 0)).categorical(1)


@pytest.mark.parametrize("call", [("var", 2), ("var_bias", -3), ("var_mean", 2), ("median", 2), ("cov", 2, 1)])
def test_dimensions_out_of_range_are_refused(call: tuple[Any, ...]) -> None:
    with pytest.raises(TensorValueError, match=r"is outside of -2\.\.1"):
        getattr(typed(X), call[0])(*call[1:])


@pytest.mark.parametrize("name", ["median", "median_with_indices"])
def test_nothing_has_no_median(name: str) -> None:
    with pytest.raises(TensorValueError, match="at least one element"):
        getattr(typed(X[:0]), name)(0)


@pytest.mark.parametrize("name", ["var", "median", "var_mean_bias"])
def test_integers_have_no_statistics(name: str) -> None:
    with pytest.raises(TensorTypeError, match="not defined for Int"):
        getattr(typed(torch.tensor([1, 2])), name)(0)


@pytest.mark.parametrize("suffix", ["", "_bias"])
def test_the_mean_beside_an_infinity_is_infinite(suffix: str) -> None:
    x = typed(torch.tensor([[float("inf"), 1.0, 2.0], [-float("inf"), 1.0, 2.0], [1.0, 2.0, 3.0]]))
    variance, mean = getattr(x, f"var_mean{suffix}")(1)
    assert mean.inner.flatten().tolist() == x.mean_dim(1).inner.flatten().tolist() == [float("inf"), -float("inf"), 2.0]
    assert variance.inner.isnan().flatten().tolist() == [True, True, False]
    images = x.reshape((1, 3, 3))
    _, means, variances = module.batch_norm_train(images, typed(torch.ones(3)), typed(torch.zeros(3)), 1e-5)
    assert means.inner.tolist() == [float("inf"), -float("inf"), 2.0]
    assert variances.inner.isnan().tolist() == [True, True, False]


@pytest.mark.parametrize("name", ["var", "var_bias", "var_mean", "var_mean_bias"])
def test_no_rows_have_no_variances_and_no_warning(name: str) -> None:
    found = getattr(typed(torch.zeros(0, 3)), name)(1)
    for part in found if isinstance(found, tuple) else (found,):
        assert part.dims() == (0, 1)
