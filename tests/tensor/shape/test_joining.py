import pytest
import torch

from burnlike import Autodiff, Cpu, Tensor
from burnlike.errors import TensorError, TensorTypeError, TensorValueError

from ..made import counted

CPU = Cpu()


def test_cat_and_stack_are_torchs() -> None:
    x, y = counted(2, 3), counted(2, 1)
    assert torch.equal(Tensor.cat([x, y], -1).inner, torch.cat([x.inner, y.inner], 1))
    assert torch.equal(Tensor.stack([x, x], -1).inner, torch.stack([x.inner, x.inner], 2))
    assert Tensor.stack((x, x), 0).rank() == 3


def test_an_empty_tensor_adds_nothing_and_keeps_the_dtype() -> None:
    empty = Tensor(torch.empty(2, 0, dtype=torch.int16), CPU)
    assert Tensor.cat([empty, empty], 1).dtype is torch.int16
    full = Tensor(torch.ones(2, 2, dtype=torch.int16), CPU)
    assert Tensor.cat([empty, full], 1).shape == (2, 2)


def test_torch_tensors_are_taken_beside_typed_ones() -> None:
    x = counted(2)
    assert Tensor.cat([torch.tensor([5]), x], 0).inner.tolist() == [5, 0, 1]
    assert Tensor.stack([x, torch.tensor([5, 6])], 0).shape == (2, 2)


@pytest.mark.parametrize("join", [Tensor.cat, Tensor.stack])
@pytest.mark.parametrize(
    ("other", "error"),
    [
        (counted(2), TensorTypeError),
        (Tensor(torch.ones(2, 3), CPU), TensorTypeError),
        (Tensor(torch.ones(2, 3, dtype=torch.int32), CPU), TensorTypeError),
        (Tensor(torch.ones(2, 3, dtype=torch.int64), Autodiff(CPU)), TensorTypeError),
        (1, TensorTypeError),
        (counted(3, 4), TensorValueError),
    ],
    ids=["rank", "kind", "dtype", "backend", "number", "shape"],
)
def test_what_does_not_fit_together_is_refused(join, other, error) -> None:
    with pytest.raises(error, match=r"Cat|Stack"):
        join([counted(2, 3), other], 0)


@pytest.mark.parametrize("join", [Tensor.cat, Tensor.stack])
def test_nothing_and_untyped_tensors_only_are_refused(join) -> None:
    with pytest.raises(TensorValueError, match="at least one"):
        join([], 0)
    with pytest.raises(TensorTypeError, match="expected a Tensor"):
        join([torch.ones(2)], 0)
    with pytest.raises(TensorError):
        join([counted(2, 3)], 3)


@pytest.mark.parametrize(
    ("size", "chunks", "sizes"),
    [(12, 6, [2] * 6), (100, 8, [13] * 7 + [9]), (6, 7, [1] * 6), (6, 6, [1] * 6), (7, 3, [3, 3, 1]), (0, 2, [])],
)
def test_chunk_gives_the_number_asked_for(size, chunks, sizes) -> None:
    pieces = counted(size).chunk(chunks, 0)
    assert [piece.shape[0] for piece in pieces] == sizes
    assert [it for piece in pieces for it in piece.inner.tolist()] == list(range(size))


@pytest.mark.parametrize(("size", "chunks"), [(6, 4), (7, 5), (9, 4), (6, 0)])
def test_chunk_refuses_a_number_that_would_not_come_out(size, chunks) -> None:
    with pytest.raises(TensorValueError, match="Chunk"):
        counted(size).chunk(chunks, 0)


def test_split_leaves_a_smaller_rest() -> None:
    assert [piece.inner.tolist() for piece in counted(5).split(2, -1)] == [[0, 1], [2, 3], [4]]
    assert [piece.shape for piece in counted(5).split(10, 0)] == [(5,)]
    assert counted(0).split(1, 0) == counted(0).split(0, 0) == []


def test_split_with_sizes_leaves_empty_pieces_out() -> None:
    assert [piece.inner.tolist() for piece in counted(3).split_with_sizes([0, 1, 2], 0)] == [[0], [1, 2]]


@pytest.mark.parametrize(
    "call",
    [
        lambda x: x.split(0, 0),
        lambda x: x.split(-1, 0),
        lambda x: x.split(1, 1),
        lambda x: x.split_with_sizes([2, 2], 0),
        lambda x: x.split_with_sizes([4, -1], 0),
        lambda x: x.split_with_sizes([3], -2),
        lambda x: x.iter_dim(1),
    ],
)
def test_pieces_that_do_not_add_up_are_refused(call) -> None:
    with pytest.raises(TensorValueError, match=r"Split|Iter Dim"):
        call(counted(3))


def test_slices_come_from_both_ends_and_keep_the_dimension() -> None:
    x = counted(2, 4)
    slices = x.iter_dim(1)
    first, last = next(slices), slices.next_back()
    assert (first.shape, len(slices)) == ((2, 1), 2)
    assert last is not None
    assert torch.equal(last.inner, x.inner[:, 3:])
    assert [it.inner[0, 0].item() for it in reversed(slices)] == [2, 1]
    assert slices.next_back() is None
    assert list(slices) == []


def test_gradients_pass_through() -> None:
    leaf = torch.randn(4, 2, dtype=torch.float64, requires_grad=True)
    backend = Autodiff(CPU)

    def joined(it: torch.Tensor) -> torch.Tensor:
        x = Tensor(it, backend)
        return Tensor.stack([Tensor.cat(x.chunk(2, 0)[::-1], 0), Tensor.cat(list(x.iter_dim(1)), 1)], 0).inner

    assert torch.autograd.gradcheck(joined, leaf)
