import functools
import operator

import pytest
import torch

from burnlike import Autodiff, Cpu, Tensor
from burnlike.errors import TensorTypeError, TensorValueError
from burnlike.tensor import IndexingUpdateOp

CPU = Cpu()
TRACKED = Autodiff(CPU)
UPDATES = ("Assign", "Add", "Mul", "Min", "Max")
MEETINGS = {"Assign": lambda _, v: v, "Add": operator.add, "Mul": operator.mul, "Min": min, "Max": max}


def leaf(*numbers: float) -> torch.Tensor:
    return torch.tensor(numbers, dtype=torch.float64, requires_grad=True)


@pytest.mark.parametrize("update", UPDATES)
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.int64, torch.int32])
def test_every_update_meets_the_elements(update: str, dtype: torch.dtype) -> None:
    x = torch.tensor([[3, -2, 5], [1, 4, 0]], dtype=dtype)
    indices = torch.tensor([[2, 0], [1, 2]], dtype=torch.int32)
    v = torch.tensor([[4, 7], [-3, 2]], dtype=dtype)
    expected = x.clone()
    for row in range(2):
        for column in range(2):
            place = int(indices[row, column])
            expected[row, place] = MEETINGS[update](x[row, place], v[row, column])
    out = Tensor(x, CPU).scatter(1, indices, v, update)
    assert out.inner.equal(expected)
    assert out.dtype is dtype
    assert Tensor(x, CPU).scatter(1, indices, v, IndexingUpdateOp(update)).inner.equal(expected)
    coordinates = torch.stack([torch.tensor([[0, 0], [1, 1]]), indices.long()], -1)
    assert Tensor(x, CPU).scatter_nd(coordinates, v, update).inner.equal(expected)


@pytest.mark.parametrize("update", UPDATES[1:])
def test_several_values_for_one_element_all_count(update: str) -> None:
    x, v = [2.0, 3.0], [5.0, -4.0, 7.0]
    expected = [functools.reduce(MEETINGS[update], v, x[0]), x[1]]
    indices = torch.zeros(3, dtype=torch.int64)
    of = Tensor(torch.tensor(x), CPU)
    assert of.scatter(0, indices, torch.tensor(v), update).inner.tolist() == expected
    assert of.select_assign(0, indices, torch.tensor(v), update).inner.tolist() == expected
    assert of.scatter_nd(indices.view(3, 1), torch.tensor(v), update).inner.tolist() == expected


@pytest.mark.parametrize("update", UPDATES)
def test_select_assign_updates_rows(update: str) -> None:
    x = torch.tensor([[3.0, -2.0, 5.0], [1.0, 4.0, 0.5]])
    v = torch.tensor([[4.0, 7.0], [-3.0, 2.0]])
    expected = x.clone()
    for row in range(2):
        for column, place in enumerate([2, 0]):
            expected[row, place] = MEETINGS[update](x[row, place], v[row, column])
    assert Tensor(x, CPU).select_assign(-1, torch.tensor([2, 0]), v, update).inner.equal(expected)


def test_scatter_nd_updates_what_gather_nd_reads() -> None:
    x = Tensor(torch.zeros(2, 3, 4), CPU)
    indices = torch.tensor([[1, 2], [0, 1]])
    v = torch.arange(8.0).reshape(2, 4)
    out = x.scatter_nd(indices, v, "Assign")
    assert out.gather_nd(indices).inner.equal(v)
    assert out.inner.sum() == v.sum()
    transposed = Tensor(torch.zeros(3, 2).t(), CPU).scatter_nd(torch.tensor([[1]]), torch.ones(1, 3), "Add")
    assert transposed.inner.tolist() == [[0, 0, 0], [1, 1, 1]]


def test_add_on_bool_is_or_and_the_only_update() -> None:
    x = Tensor(torch.tensor([True, False, False]), CPU)
    indices, v = torch.tensor([0, 0, 1, 1]), torch.tensor([True, False, False, True])
    assert x.scatter(0, indices, v, "Add").inner.tolist() == [True, True, False]
    assert x.select_assign(0, indices, v, "Add").inner.tolist() == [True, True, False]
    for update in ("Assign", "Mul", "Min", "Max"):
        with pytest.raises(TensorTypeError, match="Add"):
            x.scatter(0, indices, v, update)
    with pytest.raises(TensorTypeError, match="not defined for Bool"):
        x.scatter_nd(indices.view(4, 1), v, "Add")  # pyright: ignore


def run(name: str, x: torch.Tensor, v: torch.Tensor, update: str, indices: list[int]) -> torch.Tensor:
    index = torch.tensor(indices)
    of = Tensor(x, TRACKED)
    if name == "scatter_nd":
        return of.scatter_nd(index.view(-1, 1), Tensor(v, TRACKED), update).inner
    return getattr(of, name)(0, index, Tensor(v, TRACKED), update).inner


NAMES = ("scatter", "select_assign", "scatter_nd")


@pytest.mark.parametrize("update", UPDATES)
@pytest.mark.parametrize("name", NAMES)
def test_updates_are_differentiable_twice(name: str, update: str) -> None:
    x, v = leaf(1.5, -2.0, 0.5, 3.0), leaf(-1.0, 4.0)
    assert torch.autograd.gradcheck(lambda a, b: run(name, a, b, update, [3, 1]) ** 2, (x, v))
    assert torch.autograd.gradgradcheck(lambda a, b: run(name, a, b, update, [3, 1]) ** 2, (x, v))


@pytest.mark.parametrize("name", NAMES)
def test_the_product_has_derivatives_at_zero(name: str) -> None:
    x, v = leaf(0.0, 5.0, 2.0), leaf(3.0, 0.0)
    out = run(name, x, v, "Mul", [0, 1])
    weights = torch.tensor([10.0, 100.0, 1000.0], dtype=torch.float64)
    grads = torch.autograd.grad(out, (x, v), weights)
    assert grads[0].tolist() == [30.0, 0.0, 1000.0]  # g * v where something was written
    assert grads[1].tolist() == [0.0, 500.0]  # g * x


@pytest.mark.parametrize("name", NAMES)
def test_the_product_of_several_values_is_differentiable_twice(name: str) -> None:
    """Burn leaves the other values of an element out of the gradient of each, and says so."""
    x, v = leaf(1.5, -2.0, 0.5), leaf(-1.0, 4.0, 3.0, 0.25)
    assert torch.autograd.gradcheck(lambda a, b: run(name, a, b, "Mul", [1, 1, 0, 1]), (x, v))
    assert torch.autograd.gradgradcheck(lambda a, b: run(name, a, b, "Mul", [1, 1, 0, 1]) ** 2, (x, v))
    x, v = leaf(2.0, 3.0), leaf(0.0, 5.0, 0.0, 0.0)
    assert torch.autograd.gradcheck(lambda a, b: run(name, a, b, "Mul", [0, 0, 1, 1]), (x, v))


@pytest.mark.parametrize("update", ["Min", "Max"])
@pytest.mark.parametrize("name", NAMES)
def test_a_tie_passes_the_whole_gradient_to_each(name: str, update: str) -> None:
    x, v = leaf(2.0, 7.0), leaf(2.0, 2.0)
    out = run(name, x, v, update, [0, 0])
    grads = torch.autograd.grad(out.sum(), (x, v))
    assert grads[0].tolist() == [1.0, 1.0]
    assert grads[1].tolist() == [1.0, 1.0]


def test_the_gradient_of_add_counts_every_value() -> None:
    x, v = leaf(1.0, 2.0), leaf(3.0, 4.0, 5.0)
    out = run("scatter", x, v, "Add", [1, 1, 0])
    grads = torch.autograd.grad(out, (x, v), torch.tensor([10.0, 20.0], dtype=torch.float64))
    assert grads[0].tolist() == [10.0, 20.0]
    assert grads[1].tolist() == [20.0, 20.0, 10.0]


def test_operands_stay_as_they_were() -> None:
    for update in UPDATES:
        x, v = torch.tensor([1.0, 2.0]), torch.tensor([3.0])
        for name in NAMES:
            run(name, x, v, update, [0])
        assert x.tolist() == [1.0, 2.0]
        assert v.tolist() == [3.0]


def test_what_does_not_fit_is_refused() -> None:
    x = Tensor(torch.zeros(2, 3), CPU)
    indices = torch.zeros(2, 1, dtype=torch.int64)
    with pytest.raises(TensorValueError, match=r"values of shape \[2, 1\], got \[2, 2\]"):
        x.scatter(1, indices, torch.zeros(2, 2), "Add")
    with pytest.raises(TensorValueError, match="they may differ on dimension 1 only"):
        x.scatter(1, indices[:1], torch.zeros(1, 1), "Add")
    with pytest.raises(TensorValueError, match=r"values of shape \[2, 2\], got \[2, 1\]"):
        x.select_assign(1, torch.tensor([0, 1]), torch.zeros(2, 1), "Add")
    with pytest.raises(TensorValueError, match=r"values of shape \[1, 3\], got \[2, 3\]"):
        x.scatter_nd(torch.tensor([[0]]), torch.zeros(2, 3), "Add")
    with pytest.raises(TensorTypeError, match="different ranks"):
        x.scatter_nd(torch.tensor([[0]]), torch.zeros(3), "Add")
    with pytest.raises(TensorTypeError, match="different kinds"):
        x.scatter(1, indices, indices, "Add")  # pyright: ignore
    with pytest.raises(TensorValueError, match="did you mean 'Add'"):
        x.scatter(1, indices, torch.zeros(2, 1), "add")  # pyright: ignore
    with pytest.raises(TensorValueError, match="empty"):
        x.scatter_nd(torch.zeros(0, 1, dtype=torch.int64), torch.zeros(0, 3), "Add")
    with pytest.raises(TensorTypeError, match="expected a Float tensor of rank 2, got float"):
        x.scatter(1, indices, 1.0, "Add")  # pyright: ignore


@pytest.mark.parametrize("update", UPDATES)
@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("index", [-1, 2])
def test_indices_out_of_range_are_refused(name: str, update: str, index: int) -> None:
    with pytest.raises(TensorValueError):
        run(name, torch.zeros(2), torch.ones(1), update, [index])


def test_coordinates_out_of_range_do_not_reach_another_row() -> None:
    x = Tensor(torch.zeros(2, 3), CPU)
    for wrong in ([0, 3], [1, -1], [2, 0]):
        with pytest.raises(TensorValueError, match="negative, or not below"):
            x.scatter_nd(torch.tensor([wrong]), torch.ones(1), "Add")


# Dynamo makes such an object itself when it traces an autograd function.
@pytest.mark.filterwarnings("ignore:.*should not be instantiated:DeprecationWarning")
def test_updates_with_derivatives_of_their_own_compile_without_a_break() -> None:
    x, v = leaf(1.5, -2.0, 0.5), leaf(-1.0, 4.0)

    def loss(of: Tensor, by: Tensor) -> torch.Tensor:
        product = of.scatter(0, torch.tensor([2, 1]), by, "Mul")
        return product.select_assign(0, torch.tensor([0, 1]), by, "Max").inner.square().sum()

    typed = (Tensor(x, TRACKED), Tensor(v, TRACKED))
    expected = torch.autograd.grad(loss(*typed), (x, v))
    compiled = torch.compile(loss, fullgraph=True, backend="aot_eager")
    found = torch.autograd.grad(compiled(*typed), (x, v))
    assert all(map(torch.equal, expected, found))


@pytest.mark.filterwarnings("ignore:.*should not be instantiated:DeprecationWarning")
@pytest.mark.parametrize("update", ["Mul", "Max"])
def test_a_tensor_scattered_into_itself_compiles(update: str) -> None:
    x, indices = leaf(1.5, -2.0, 0.5), torch.tensor([2, 0, 0])

    def loss(of: Tensor) -> torch.Tensor:
        return of.scatter(0, indices, of, update).inner.square().sum()

    typed = Tensor(x, TRACKED)
    (expected,) = torch.autograd.grad(loss(typed), x)
    (found,) = torch.autograd.grad(torch.compile(loss, fullgraph=True, backend="aot_eager")(typed), x)
    assert torch.equal(expected, found)
