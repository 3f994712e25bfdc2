"""Products of vectors, norms, decompositions and determinants."""

import math

import pytest
import torch

from burnlike import Autodiff, Cpu, Tensor
from burnlike.errors import TensorTypeError, TensorValueError
from burnlike.tensor import Norm, linalg

from ..made import typed

CPU = Cpu()
HALVES = (torch.float16, torch.bfloat16)


def tracked(data: torch.Tensor) -> Tensor:
    return Tensor(data.clone().requires_grad_(), Autodiff(CPU))


def test_det_matches_torch_for_each_size_and_batch() -> None:
    for size in (0, 1, 2, 3, 4, 7):
        matrices = torch.randn(2, 3, size, size, dtype=torch.float64)
        found = linalg.det(typed(matrices)).inner
        assert found.shape == (2, 3)
        torch.testing.assert_close(found, torch.linalg.det(matrices))


@pytest.mark.parametrize("dtype", HALVES)
def test_det_of_halves_is_calculated_in_float32(dtype: torch.dtype) -> None:
    matrix = torch.diag(torch.tensor([300.0, 400.0, 1 / 512, 1.0])).to(dtype)[None]
    found = linalg.det(typed(matrix)).inner
    assert found.dtype is dtype
    torch.testing.assert_close(found, torch.tensor([234.375], dtype=dtype))


def test_det_of_a_matrix_singular_up_to_rounding_is_exactly_zero() -> None:
    rows = torch.randn(1, 3, 5)
    singular = torch.cat([rows, rows.sum(1, keepdim=True) / 3, rows[:, :1]], 1)
    assert linalg.det(typed(singular)).inner.tolist() == [0.0]


@pytest.mark.parametrize("size", [2, 3, 4, 5])
def test_det_has_the_cofactors_as_derivative_where_it_is_zero(size: int) -> None:
    matrix = torch.randn(size, size, dtype=torch.float64)
    matrix[-1] = matrix[0] + matrix[1] if size > 2 else 2 * matrix[0]
    x = tracked(torch.stack([matrix, torch.eye(size, dtype=torch.float64)]))
    linalg.det(x).inner.sum().backward()
    minors = torch.zeros_like(matrix)
    for row in range(size):
        for column in range(size):
            rest = matrix[torch.arange(size) != row][:, torch.arange(size) != column]
            minors[row, column] = (-1) ** (row + column) * torch.linalg.det(rest)
    assert x.inner.grad is not None
    torch.testing.assert_close(x.inner.grad[0], minors)
    torch.testing.assert_close(x.inner.grad[1], torch.eye(size, dtype=torch.float64))


def test_det_has_no_derivative_left_where_two_pivots_vanish() -> None:
    x = tracked(torch.diag(torch.tensor([1.0, 2.0, 0.0, 0.0]))[None])
    linalg.det(x).inner.sum().backward()
    assert x.inner.grad is not None
    assert not x.inner.grad.any()


def test_det_traces_to_one_graph_with_its_derivative() -> None:
    matrices = torch.stack([torch.randn(4, 4), torch.diag(torch.tensor([1.0, 2.0, 3.0, 0.0]))])
    x, y = tracked(matrices), tracked(matrices)
    torch.compile(linalg.det, fullgraph=True, backend="aot_eager")(x).inner.sum().backward()
    linalg.det(y).inner.sum().backward()
    torch.testing.assert_close(x.inner.grad, y.inner.grad)


@pytest.mark.parametrize("size", [2, 3, 4])
def test_det_is_differentiable_twice(size: int) -> None:
    matrix = torch.randn(1, size, size, dtype=torch.float64, requires_grad=True)
    det = CPU.module_ops.det
    assert torch.autograd.gradcheck(det, (matrix,))
    assert torch.autograd.gradgradcheck(det, (matrix,))


@pytest.mark.parametrize(
    ("shape", "message"),
    [
        ((2, 2), "The input tensor must have at least 3 dimensions"),
        ((1, 2, 3), "The last two dimensions of the input tensor must be equal"),
    ],
)
def test_det_refuses_other_shapes(shape: tuple[int, ...], message: str) -> None:
    with pytest.raises(TensorValueError, match=message):
        linalg.det(typed(torch.zeros(shape)))


@pytest.mark.parametrize("shape", [(4, 4), (2, 5, 3), (2, 3, 5)])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, *HALVES])
def test_decompositions_multiply_to_the_matrix(shape: tuple[int, ...], dtype: torch.dtype) -> None:
    matrix = torch.randn(shape).to(dtype)
    close = {"atol": 0.05, "rtol": 0.05} if dtype in HALVES else {"atol": 1e-4, "rtol": 1e-4}
    rows, columns = shape[-2:]
    least = min(rows, columns)

    p, lower, upper = (part.inner for part in linalg.lu(typed(matrix)))
    assert (p.shape[-2:], lower.shape[-2:], upper.shape[-2:]) == ((rows, rows), (rows, least), (least, columns))
    assert torch.equal(lower.tril(), lower)
    assert torch.equal(upper.triu(), upper)
    torch.testing.assert_close(p @ lower @ upper, matrix, **close)

    for reduced, inner_size in ((True, least), (False, rows)):
        q, r = (part.inner for part in linalg.qr(typed(matrix), reduced))
        assert (q.shape[-1], r.shape[-2]) == (inner_size, inner_size)
        torch.testing.assert_close(q @ r, matrix, **close)

    u, s, vt = (part.inner for part in linalg.svd(typed(matrix), 10))
    assert (u.shape[-1], s.shape[-1], vt.shape[-2]) == (least, least, least)
    assert bool((s.diff() <= 0).all())
    torch.testing.assert_close(u * s.unsqueeze(-2) @ vt, matrix, **close)
    assert {part.dtype for part in (p, lower, upper, q, r, u, s, vt)} == {dtype}


def test_decompositions_refuse_vectors_and_svd_refuses_tracked_tensors_and_no_sweeps() -> None:
    vector = typed([1.0, 2.0])
    for decompose in (linalg.lu, lambda x: linalg.qr(x, True), lambda x: linalg.svd(x, 3), linalg.diag, linalg.trace):
        with pytest.raises(TensorValueError, match="at least 2 dimensions"):
            decompose(vector)
    with pytest.raises(TensorTypeError, match="gradients are not implemented"):
        linalg.svd(tracked(torch.eye(2)), 3)
    with pytest.raises(TensorValueError, match="sweeps must be greater than zero"):
        linalg.svd(typed(torch.eye(2)), 0)
    with pytest.raises(TensorValueError, match="are all elements finite"):
        linalg.svd(typed([[float("nan"), 1.0], [1.0, 1.0]]), 3)


def test_diag_takes_each_kind_and_trace_keeps_a_dimension() -> None:
    assert linalg.diag(typed([[True, False], [True, False]])).inner.tolist() == [True, False]
    assert linalg.diag(typed([[[1, 2, 3], [4, 5, 6]]])).inner.tolist() == [[1, 5]]
    assert linalg.trace(typed([[[1.0, 2.0, 3.0], [4.0, 5.0, 6.0]]])).inner.tolist() == [[6.0]]


@pytest.mark.parametrize("dtype", [torch.float32, torch.int32, torch.int8])
def test_outer_products_are_batched_and_broadcast(dtype: torch.dtype) -> None:
    lhs, rhs = torch.arange(6).reshape(2, 3).to(dtype), torch.arange(4).reshape(1, 4).to(dtype)
    found = linalg.outer(typed(lhs), typed(rhs))
    assert found.spec.rank == 3
    assert torch.equal(found.inner, lhs[:, :, None] * rhs[:, None, :])
    other = torch.arange(9).reshape(3, 3).to(dtype)
    assert torch.equal(linalg.outer_dim(typed(lhs), typed(other), 0).inner, lhs[:, None, :] * other[None, :, :])


def test_outer_refuses_sizes_ranks_and_kinds_that_do_not_fit() -> None:
    with pytest.raises(TensorValueError, match="Operation: 'Outer'"):
        linalg.outer(typed(torch.zeros(2, 3)), typed(torch.zeros(3, 4)))
    with pytest.raises(TensorValueError, match="rank 9"):
        linalg.outer(typed(torch.zeros([1] * 8)), typed(torch.zeros([1] * 8)))
    with pytest.raises(TensorTypeError, match="Bool"):
        linalg.outer(typed([True]), typed([True]))
    with pytest.raises(TensorTypeError, match="different element types"):
        linalg.outer(typed([1.0]), typed(torch.ones(1, dtype=torch.float64)))


@pytest.mark.parametrize("dtype", [torch.float64, torch.int32, torch.uint8])
def test_matvec_broadcasts_batches_and_keeps_the_dtype(dtype: torch.dtype) -> None:
    matrix, vector = torch.arange(24).reshape(4, 2, 3).to(dtype), torch.arange(3).reshape(1, 3).to(dtype)
    found = linalg.matvec(typed(matrix), vector).inner
    assert found.dtype is dtype
    assert torch.equal(found, (matrix * vector).sum(-1, dtype=dtype))


@pytest.mark.parametrize(
    ("matrix", "vector", "message"),
    [
        ((2, 3), (4,), "Inner dimension mismatch"),
        ((2, 3, 4), (3, 4), "Batch dimensions are not broadcast-compatible"),
        ((2, 3, 4), (4,), "ranks"),
        ((3,), (3,), "at least 2 dimensions"),
    ],
)
def test_matvec_refuses_other_shapes(matrix: tuple[int, ...], vector: tuple[int, ...], message: str) -> None:
    with pytest.raises((TensorValueError, TensorTypeError), match=message):
        linalg.matvec(typed(torch.zeros(matrix)), typed(torch.zeros(vector)))


@pytest.mark.parametrize("exponent", [0.0, 1.0, 2.0, 3.0, 4.0, 1.5, -1.0, -2.0, float("inf"), float("-inf")])
def test_norms_match_the_formula(exponent: float) -> None:
    x = torch.randn(2, 3, 4, dtype=torch.float64)
    for dims in ([1], [0, 2], [-1, 0, 1]):
        magnitudes = x.abs()
        if exponent == 0:
            wanted = (x != 0).double().sum(dims, True)
        elif exponent in (float("inf"), float("-inf")):
            wanted = magnitudes.amax(dims, True) if exponent > 0 else magnitudes.amin(dims, True)
        else:
            wanted = magnitudes.pow(exponent).sum(dims, True).pow(1 / exponent)
        torch.testing.assert_close(linalg.vector_norm_dims(typed(x), exponent, dims).inner, wanted)
        torch.testing.assert_close(linalg.lp_norm_dims(typed(x), exponent, dims).inner, wanted)


def test_norms_along_no_dimension_are_those_of_each_element() -> None:
    x = torch.tensor([[0.0, -2.0, 3.0]])
    for exponent in (1, 2, 3.0, float("-inf")):
        assert linalg.vector_norm_dims(typed(x), exponent, []).inner.tolist() == [[0.0, 2.0, 3.0]]
    assert linalg.l0_norm_dims(typed(x), []).inner.tolist() == [[0.0, 1.0, 1.0]]
    assert linalg.l0_norm_dims(typed([0, 5]), []).inner.tolist() == [0, 1]


@pytest.mark.parametrize("dtype", [torch.int64, torch.int16, torch.uint8])
def test_norms_of_integers_keep_the_dtype(dtype: torch.dtype) -> None:
    x = torch.tensor([[1, 2, 0], [0, 3, 4]]).to(dtype)
    results = [norm(typed(x), -1).inner for norm in (linalg.l0_norm, linalg.l1_norm)]
    results += [norm(typed(x), 1).inner for norm in (linalg.max_abs_norm, linalg.min_abs_norm)]
    assert [result.flatten().tolist() for result in results] == [[2, 2], [3, 7], [2, 4], [0, 0]]
    assert {result.dtype for result in results} == {dtype}


def test_a_norm_is_named_by_a_word_a_number_or_a_norm() -> None:
    x = typed([[3.0, -4.0]])
    for norm in ("L2", 2, 2.0, Norm.L2, Norm.Lp(2)):
        assert linalg.vector_norm(x, norm, 1).inner.tolist() == [[5.0]]
    assert linalg.vector_norm(x, Norm.LNegInf, 1).inner.tolist() == [[3.0]]
    with pytest.raises(TensorValueError, match="did you mean 'LInf'"):
        linalg.vector_norm(x, "Linf", 1)
    with pytest.raises(TensorTypeError, match="Float"):
        linalg.vector_norm(typed([1]), 2, 0)
    with pytest.raises(TensorValueError, match="dimension 2 is outside"):
        linalg.l1_norm(x, 2)
    assert linalg.lp_norm(x, float("nan"), 1).inner.isnan().tolist() == [[True]]
    assert linalg.lp_norm(typed(torch.zeros(2, 0)), -1.5, 1).inner.tolist() == [[math.inf], [math.inf]]


def test_the_euclidean_norm_has_derivative_zero_at_zero() -> None:
    x = tracked(torch.zeros(1, 3))
    linalg.l2_norm(x, 1).inner.sum().backward()
    assert x.inner.grad is not None
    assert x.inner.grad.tolist() == [[0.0, 0.0, 0.0]]


def test_vector_normalize_divides_by_the_norm_or_by_epsilon() -> None:
    x = typed([[3.0, 4.0], [0.3, 0.4]])
    torch.testing.assert_close(linalg.vector_normalize(x, "L2", 1, 1.0).inner, torch.tensor([[0.6, 0.8], [0.3, 0.4]]))


def test_cosine_similarity_divides_before_it_multiplies() -> None:
    large = torch.tensor([[300.0, 400.0]], dtype=torch.float16)
    assert linalg.cosine_similarity(typed(large), typed(large), 1).inner.item() == pytest.approx(1.0, abs=1e-3)
    x, y = torch.randn(3, 4, dtype=torch.float64), torch.randn(3, 1, dtype=torch.float64)
    wanted = torch.nn.functional.cosine_similarity(x, y.expand(3, 4), 0)
    torch.testing.assert_close(linalg.cosine_similarity(typed(x), y, -2, 1e-8).inner, wanted[None])
    zero = typed([[0.0, 0.0]])
    assert linalg.cosine_similarity(zero, zero, 1).inner.tolist() == [[0.0]]


def test_a_plain_torch_tensor_is_told_how_to_become_one() -> None:
    with pytest.raises(TensorTypeError, match=r"Tensor\(x, backend\)"):
        linalg.det(torch.zeros(1, 2, 2))  # pyright: ignore
    with pytest.raises(TensorTypeError, match="got float"):
        linalg.outer(typed([1.0]), 2.0)  # pyright: ignore
