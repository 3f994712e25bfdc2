import numpy as np
import pytest
import torch

from burnlike import Autodiff, Cpu, Tensor
from burnlike.errors import TensorError, TensorTypeError, TensorValueError

from ..made import counted

CPU = Cpu()


@pytest.mark.parametrize(
    ("shape", "expected"),
    [
        ((6,), (6,)),
        ([3, 2], (3, 2)),
        ((-1, 2), (3, 2)),
        ((0, -1), (2, 3)),
        ((0, 0), (2, 3)),
        ((1, 2, 1, 3, 1, 1, 1, 1), (1, 2, 1, 3, 1, 1, 1, 1)),
    ],
)
def test_reshape_infers_one_size_and_keeps_those_of_0(shape, expected) -> None:
    x = counted(2, 3)
    for y in (x.reshape(shape), x.reshape(*shape)):
        assert (y.shape, y.rank()) == (expected, len(expected))
        assert y.inner.flatten().tolist() == list(range(6))


@pytest.mark.parametrize("shape", [(-1, -1), (-2, -1), (4,), (), (4, -1), (2, 3, 0), (1,) * 9])
def test_reshape_refuses_what_does_not_fit(shape) -> None:
    with pytest.raises(TensorValueError, match="Reshape"):
        counted(2, 3).reshape(shape)


def test_reshape_takes_numpys_integers_and_refuses_text() -> None:
    assert counted(2, 3).reshape(np.int64(6)).shape == (6,)
    with pytest.raises(TensorTypeError, match="Reshape"):
        counted(2, 3).reshape("6")


def test_an_empty_dimension_stays() -> None:
    x = counted(0, 3)
    assert x.reshape(0, 3).shape == (0, 3)
    with pytest.raises(TensorValueError):
        x.reshape(0, -1)


def test_dimensions_change_places() -> None:
    x = counted(2, 3, 4)
    assert torch.equal(x.transpose().inner, x.inner.mT)
    assert torch.equal(x.t().inner, x.inner.mT)
    row = counted(3)
    assert row.transpose() is row
    assert row.t() is row
    assert torch.equal(x.swap_dims(0, -1).inner, x.inner.permute(2, 1, 0))
    assert torch.equal(x.permute([1, -1, 0]).inner, x.inner.permute(1, 2, 0))
    assert torch.equal(x.movedim([0, 1], [-1, 0]).inner, x.inner.permute(1, 2, 0))
    assert torch.equal(x.flip([0, -1]).inner, x.inner.flip(0, 2))


@pytest.mark.parametrize(
    "call",
    [
        lambda x: x.swap_dims(0, 2),
        lambda x: x.permute([0, 0]),
        lambda x: x.permute([0]),
        lambda x: x.movedim([0, 1], [0]),
        lambda x: x.movedim([0, 0], [0, 1]),
        lambda x: x.movedim(0, 100),
        lambda x: x.flip([0, 0]),
        lambda x: x.flip([2]),
        lambda x: x.flatten(1, 0),
        lambda x: x.flatten(0, 2),
        lambda x: x.roll([1], [0, 1]),
        lambda x: x.roll([1], []),
        lambda x: x.roll_dim(1, 2),
        lambda x: x.repeat([1, 1, 2]),
        lambda x: x.repeat_dim(2, 2),
        lambda x: x.repeat_dim(0, -1),
        lambda x: x.expand([-1, 1, 3]),
        lambda x: x.expand([1, 0]),
        lambda x: x.expand([1, -2]),
        lambda x: x.expand([3]),
        lambda x: x.expand([2, 4]),
        lambda x: x.unfold(2, 1, 1),
        lambda x: x.unfold(0, 1, 0),
        lambda x: x.flatten(0, 1, rank=2),
    ],
)
def test_what_does_not_fit_is_refused(call) -> None:
    with pytest.raises(TensorError):
        call(counted(1, 3))


def test_flatten_merges_both_ends_included() -> None:
    x = counted(2, 3, 4, 5)
    assert x.flatten(1, 2).shape == (2, 12, 5)
    assert x.flatten(-3, -1, rank=2).shape == (2, 60)


def test_squeeze_drops_sizes_of_1_and_keeps_a_dimension() -> None:
    x = counted(1, 2, 1, 3)
    assert x.squeeze().shape == (2, 3)
    assert x.squeeze(rank=2).rank() == 2
    assert x.squeeze_dim(-2).shape == (1, 2, 3)
    assert x.squeeze_dims([0, -2]).shape == (2, 3)
    assert x.squeeze_dims([]).shape == (2, 3)


@pytest.mark.parametrize(
    "call",
    [
        lambda: counted(1, 1).squeeze(),
        lambda: counted(1).squeeze_dim(0),
        lambda: counted(2, 1).squeeze_dim(0),
        lambda: counted(2, 1).squeeze_dim(2),
        lambda: counted(1, 1).squeeze_dims([0, 1]),
        lambda: counted(2, 1).squeeze(rank=2),
        lambda: counted(2, 3).unsqueeze(1),
        lambda: counted(2, 3).unsqueeze(9),
        lambda: counted(2, 3).unsqueeze_dim(3),
        lambda: counted(*[1] * 8).unsqueeze_dim(0),
        lambda: counted(2).unsqueeze_dims([3]),
        lambda: counted(2).unsqueeze_dims([2, 2]),
        lambda: counted(2).unsqueeze_dims([-3, -3]),
        lambda: counted(2).unsqueeze_dims([0], rank=3),
    ],
)
def test_ranks_and_places_that_can_not_be_are_refused(call) -> None:
    with pytest.raises(TensorValueError, match=r"Squeeze|Unsqueeze"):
        call()


def test_unsqueeze_adds_in_front() -> None:
    assert counted(2, 3).unsqueeze(4).shape == (1, 1, 2, 3)
    assert counted(2, 3).unsqueeze(2).shape == (2, 3)


def test_unsqueeze_dim_adds_one_or_several_at_a_place() -> None:
    x = counted(2, 3)
    assert [x.unsqueeze_dim(dim).shape.index(1) for dim in (0, 1, 2, -1, -3)] == [0, 1, 2, 2, 0]
    assert x.unsqueeze_dim(-2, rank=4).shape == (2, 1, 1, 3)


@pytest.mark.parametrize(
    ("axes", "expected"),
    [
        ([0, 4], (1, 3, 4, 5, 1)),
        ([0, 1, 3], (1, 1, 3, 1, 4, 5)),
        ([1, -2], (3, 1, 4, 1, 5)),
        ([-1, -1], (3, 4, 5, 1, 1)),
        ([2, 2], (3, 4, 1, 1, 5)),
        ([], (3, 4, 5)),
    ],
)
def test_unsqueeze_dims_counts_in_the_result(axes, expected) -> None:
    assert counted(3, 4, 5).unsqueeze_dims(axes).shape == expected


def test_expand_repeats_without_a_copy() -> None:
    x = counted(3, 1)
    y = x.expand((2, -1, 4))
    assert torch.equal(y.inner, x.inner.expand(2, 3, 4))
    assert y.inner.data_ptr() == x.inner.data_ptr()


def test_repeat_counts_from_the_left_and_may_be_empty() -> None:
    x = counted(2, 3)
    assert torch.equal(x.repeat([2]).inner, x.inner.repeat(2, 1))
    assert torch.equal(x.repeat_dim(-1, 2).inner, x.inner.repeat(1, 2))
    assert x.repeat([2, 1, 1]).shape == (4, 3)
    empty = Tensor(torch.ones(2, dtype=torch.int8), CPU).repeat_dim(0, 0)
    assert (empty.shape, empty.dtype) == ((0,), torch.int8)


def test_roll_has_the_direction_of_torch() -> None:
    assert counted(5).roll([1], [0]).inner.tolist() == [4, 0, 1, 2, 3]
    assert counted(5).roll([1, 1], [0, 0]).inner.tolist() == [3, 4, 0, 1, 2]
    assert counted(5).roll_dim(-11, -1).inner.tolist() == [1, 2, 3, 4, 0]
    assert counted(0, 2).roll([1, 2], [0, 1]).shape == (0, 2)
    with pytest.raises(TensorValueError):
        counted(0, 2).roll([1], [2])


def test_windows_are_a_new_last_dimension() -> None:
    x = counted(2, 5)
    assert torch.equal(x.unfold(1, 3, 2).inner, x.inner.unfold(1, 3, 2))
    assert x.unfold(0, 3, 1).shape == (0, 5, 3)
    assert x.unfold(-1, 6, 1).shape == (2, 0, 6)


def test_a_dimension_is_a_whole_number() -> None:
    with pytest.raises(TensorTypeError):
        counted(2, 3).roll_dim(1, "rows")


@pytest.mark.parametrize(
    "call",
    [
        lambda x: x.reshape(3, 2).transpose().flip([0]).roll([1], [1]),
        lambda x: x.unsqueeze_dims([0, -1]).squeeze().expand([2, 2, 3]).repeat([2]),
        lambda x: x.unfold(1, 2, 1).flatten(0, -1).movedim(0, 0),
    ],
)
def test_gradients_pass_through(call) -> None:
    leaf = torch.randn(2, 3, dtype=torch.float64, requires_grad=True)
    backend = Autodiff(CPU)
    assert torch.autograd.gradcheck(lambda it: call(Tensor(it, backend)).inner, leaf)
