import pytest
import torch

from burnlike import Autodiff, Cpu, Tensor
from burnlike.errors import TensorTypeError, TensorValueError
from burnlike.tensor import Slice, s

CPU = Cpu()


def values(*shape: int, dtype: torch.dtype = torch.float32) -> torch.Tensor:
    return torch.arange(torch.Size(shape).numel(), dtype=dtype).reshape(shape)


def positions(start: int, end: int | None, step: int, size: int) -> list[int]:
    """The definition: the range between the clamped bounds; a negative step walks it from its end."""
    start = max(start + size, 0) if start < 0 else min(start, size)
    end = size if end is None else max(end + size, 0) if end < 0 else min(end, size)
    found = list(range(start, end))
    return found[::step] if step > 0 else found[::-1][::-step]


@pytest.mark.parametrize("step", [1, 2, 3, -1, -2, -3])
def test_slices_reads_and_writes_what_the_definition_says(step: int) -> None:
    x = Tensor(values(5), CPU)
    for start in range(-7, 8):
        for end in (None, *range(-7, 8)):
            found = positions(start, end, step, 5)
            assert x.slice([[start, end, step]]).inner.tolist() == found
            news = torch.arange(len(found), dtype=torch.float32) + 10
            expected = values(5)
            expected[found] = news
            assert x.slice_assign([[start, end, step]], news).inner.equal(expected)
            expected[found] = -1
            assert x.slice_fill([[start, end, step]], -1).inner.equal(expected)


@pytest.mark.parametrize(
    "form",
    [
        1,
        slice(1, 2),
        Slice(1, 2),
        range(1, 2),
        "1",
        "1..2",
        "1..=1",
        "1..2;1",
        "-1",
        [1, 2],
        (1, None),
        [1],
        [-1, None, 1],
    ],
)
def test_forms_of_the_same_slice(form: object) -> None:
    x = Tensor(values(2, 3), CPU)
    assert x.slice([form]).inner.tolist() == [[3, 4, 5]]
    assert x.slice_dim(0, form).inner.tolist() == [[3, 4, 5]]


def test_a_single_form_is_for_the_first_dimension() -> None:
    x = Tensor(values(2, 3), CPU)
    assert x.slice("..;-1").inner.tolist() == [[3, 4, 5], [0, 1, 2]]
    assert x.slice(1).shape == (1, 3)
    assert x.slice([]).shape == (2, 3)


def test_s_writes_slices_as_between_brackets() -> None:
    assert s[0:2, 1, ::-1] == (Slice(0, 2), Slice(1, 2), Slice(0, None, -1))
    assert s[-1] == (Slice(-1, None),)
    assert Tensor(values(2, 3), CPU).slice(s[:, 1:]).inner.tolist() == [[1, 2], [4, 5]]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("..", Slice()),
        ("2..", Slice(2)),
        ("..-3", Slice(0, -3)),
        ("..=-1", Slice(0, None)),
        ("..=-2 ; -2", Slice(0, -1, -2)),
        ("5", Slice(5, 6)),
        (" 1 .. 4 ", Slice(1, 4)),
    ],
)
def test_texts(text: str, expected: Slice) -> None:
    assert Slice.parse(text) == expected


@pytest.mark.parametrize("text", ["", "a", "1..b", "1;", ";2", "1...2", "1..2;0"])
def test_texts_that_are_no_slice(text: str) -> None:
    with pytest.raises(TensorValueError, match="Slice"):
        Slice.parse(text)


def test_slices_that_are_refused() -> None:
    x = Tensor(values(2, 3), CPU)
    with pytest.raises(TensorValueError, match="3 slices for a tensor of rank 2"):
        x.slice([0, 0, 0])
    for form in (slice(0, 1, 0), [0, 1, 0]):
        with pytest.raises(TensorValueError, match="step of 0"):
            x.slice([form])
    with pytest.raises(TensorValueError, match="counts down"):
        x.slice([range(2, 0, -1)])
    for wrong in (..., 1.5, [0, 1, 1, 1], None):
        with pytest.raises(TensorTypeError, match="expected an index"):
            x.slice([wrong])
    with pytest.raises(TensorTypeError, match="Slice"):
        x.slice([["a", 2]])
    with pytest.raises(TensorValueError, match="Slice Dim"):
        x.slice_dim(2, 0)


def test_empty_slices_keep_the_dtype() -> None:
    x = Tensor(values(2, 3, dtype=torch.float64), CPU)
    assert x.slice([[1, 1]]).inner.dtype is torch.float64
    assert x.slice([[2, 1, -1], 0]).shape == (0, 1)


def test_slice_assign_wants_exactly_the_shape_of_the_region() -> None:
    x = Tensor(values(3, 4), CPU)
    with pytest.raises(TensorValueError, match=r"shape \[1, 4\], the region \[2, 4\]"):
        x.slice_assign([[0, 2]], torch.zeros(1, 4))
    with pytest.raises(TensorTypeError, match="expected a Float tensor of rank 2, got float"):
        x.slice_assign([[0, 2]], 1.0)  # pyright: ignore[reportArgumentType]
    with pytest.raises(TensorTypeError, match="different ranks"):
        x.slice_assign([[0, 2]], torch.zeros(4))
    assert x.slice_assign([[1, 1]], torch.zeros(0, 4)).inner.equal(x.inner)


def test_writes_leave_the_operands_as_they_were() -> None:
    x, v = Tensor(values(3), CPU), Tensor(torch.ones(2), CPU)
    x.slice_assign([[0, 2]], v)
    x.slice_fill([0], 9)
    assert x.inner.tolist() == [0, 1, 2]
    assert v.inner.tolist() == [1, 1]


def test_slices_are_differentiable_twice() -> None:
    x, v = torch.rand(3, 4, dtype=torch.float64), torch.rand(2, 2, dtype=torch.float64)
    backend = Autodiff(CPU)

    def assign(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
        out = Tensor(a, backend).slice_assign([[0, 3, -2], [1, 3]], Tensor(b, backend))
        return out.slice([slice(None), [0, 4, -2]]).inner ** 2

    operands = (x.requires_grad_(), v.requires_grad_())
    assert torch.autograd.gradcheck(assign, operands)
    assert torch.autograd.gradgradcheck(assign, operands)


def test_scalars_are_converted_to_the_kind() -> None:
    assert Tensor(values(3, dtype=torch.int32), CPU).slice_fill([0], 2.0).inner.tolist() == [2, 1, 2]
    assert Tensor(torch.zeros(2, dtype=torch.bool), CPU).slice_fill([-1], 5).inner.tolist() == [False, True]


def test_narrow() -> None:
    x = Tensor(values(2, 5), CPU)
    assert x.narrow(-1, 1, 2).inner.tolist() == [[1, 2], [6, 7]]
    for start, length in [(0, 0), (-1, 2), (4, 2), (5, 1)]:
        with pytest.raises(TensorValueError, match="Narrow"):
            x.narrow(1, start, length)


def test_select_dim_takes_one_row_and_its_dimension_away() -> None:
    x = Tensor(values(2, 3), CPU)
    assert x.select_dim(1, -1).inner.tolist() == [2, 5]
    with pytest.raises(TensorValueError, match=r"outside of -3\.\.2"):
        x.select_dim(1, 3)
    with pytest.raises(TensorValueError, match="rank 1"):
        x.select_dim(0, 0).select_dim(0, 0)  # pyright: ignore


@pytest.mark.parametrize("dtype", [torch.int64, torch.int32, torch.int16, torch.uint8])
def test_select_and_take_with_indices_of_every_dtype(dtype: torch.dtype) -> None:
    x = Tensor(values(2, 3), CPU)
    assert x.select(-1, torch.tensor([2, 0, 2], dtype=dtype)).inner.tolist() == [[2, 0, 2], [5, 3, 5]]
    rows = x.take(0, torch.tensor([[1], [0]], dtype=dtype))
    assert rows.inner.tolist() == [[[3, 4, 5]], [[0, 1, 2]]]
    assert rows.rank() == 3
    assert x.take(0, torch.empty(0, 2, dtype=dtype)).shape == (0, 2, 3)


def test_gather_wants_the_other_sizes_to_be_equal() -> None:
    x = Tensor(values(2, 3), CPU)
    assert x.gather(1, torch.tensor([[2], [0]], dtype=torch.int32)).inner.tolist() == [[2], [3]]
    with pytest.raises(TensorValueError, match="they may differ on dimension 1 only"):
        x.gather(1, torch.tensor([[0, 1]]))


@pytest.mark.parametrize("index", [-1, 3])
def test_indices_out_of_range_are_refused(index: int) -> None:
    x = Tensor(values(3, 3), CPU)
    for read in (
        lambda: x.select(0, torch.tensor([index])),
        lambda: x.take(0, torch.tensor([[index]])),
        lambda: x.gather(0, torch.full((1, 3), index)),
        lambda: x.gather_nd(torch.tensor([[0, index]])),
    ):
        with pytest.raises(TensorValueError):
            read()


def test_gather_nd_reads_by_the_first_dimensions() -> None:
    x = Tensor(values(2, 3, 4), CPU)
    assert x.gather_nd(torch.tensor([[1, 2], [0, 0]])).inner.equal(torch.stack([values(2, 3, 4)[1, 2], values(4)]))
    assert x.gather_nd(torch.tensor([1])).inner.equal(values(2, 3, 4)[1])
    assert x.gather_nd(torch.tensor([[[0, 1, 2]]], dtype=torch.int32)).inner.tolist() == [[6]]


def test_gather_nd_refuses_what_does_not_fit() -> None:
    x = Tensor(values(2, 3), CPU)
    with pytest.raises(TensorValueError, match="address 3 dimensions"):
        x.gather_nd(torch.tensor([[0, 0, 0]]))
    with pytest.raises(TensorValueError, match="empty"):
        x.gather_nd(torch.empty(0, 2, dtype=torch.int64))
    with pytest.raises(TensorValueError, match="rank 0"):
        x.gather_nd(torch.tensor([0, 1]))
    with pytest.raises(TensorTypeError, match="not defined for Bool"):
        Tensor(torch.ones(2, dtype=torch.bool), CPU).gather_nd(torch.tensor([[0]]))  # pyright: ignore
    with pytest.raises(TensorValueError, match="negative, or not below"):
        x.gather_nd(torch.tensor([[0, 3]]))


def test_operands_of_another_kind_rank_or_backend_are_refused() -> None:
    x = Tensor(values(2, 3), CPU)
    with pytest.raises(TensorTypeError, match="expected an Int tensor, got one of kind Float"):
        x.select(0, torch.ones(1))
    with pytest.raises(TensorTypeError, match="rank 1, got rank 2"):
        x.select(0, torch.zeros(1, 1, dtype=torch.int64))
    with pytest.raises(TensorTypeError, match="different backends"):
        x.select(0, Tensor(torch.zeros(1, dtype=torch.int64), Autodiff(CPU)))


def test_slices_compile_without_a_break_for_changing_sizes() -> None:
    def run(x: Tensor) -> Tensor:
        part = x.slice([[1, None, -2], 0])
        return x.slice_assign([[1, None, -2], 1], part.slice_fill([0], 7.0))

    compiled = torch.compile(run, fullgraph=True, backend="eager", dynamic=True)
    for rows in (5, 7):
        x = Tensor(values(rows, 2), CPU)
        assert compiled(x).inner.equal(run(x).inner)
