import asyncio

import pytest
import torch

from burnlike import Autodiff, Cpu, Tensor
from burnlike.errors import TensorTypeError, TensorValueError

CPU = Cpu()
SMALL = Cpu(int=torch.int32)
X = torch.tensor([[1.0, 2.0, 3.0], [4.0, 5.0, 6.0]])
MASK = torch.tensor([[True, False, True], [False, True, False]])


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.int32, torch.bool])
def test_mask_where_takes_the_value_where_the_mask_is_set(dtype: torch.dtype) -> None:
    x, v = X.to(dtype), torch.zeros(2, 3).to(dtype)
    out = Tensor(x, CPU).mask_where(MASK, v)
    assert out.inner.equal(torch.where(MASK, v, x))
    assert out.dtype is dtype


def test_mask_value_and_tensor_broadcast_together() -> None:
    x = Tensor(torch.zeros(1, 3), CPU)
    assert x.mask_where(torch.tensor([[True], [False]]), torch.ones(1, 1)).inner.tolist() == [[1, 1, 1], [0, 0, 0]]
    assert x.mask_fill(torch.tensor([[True], [False]]), 5).inner.tolist() == [[5, 5, 5], [0, 0, 0]]
    with pytest.raises(TensorValueError, match="Mask Where"):
        x.mask_where(torch.ones(1, 2, dtype=torch.bool), torch.ones(1, 3))
    with pytest.raises(TensorValueError, match="Mask Fill"):
        x.mask_fill(torch.ones(1, 2, dtype=torch.bool), 1.0)


def test_masks_of_another_rank_or_kind_are_refused() -> None:
    x = Tensor(X, CPU)
    with pytest.raises(TensorTypeError, match="rank 2, got rank 1"):
        x.mask_fill(MASK[0], 0.0)
    with pytest.raises(TensorTypeError, match="one of kind Float"):
        x.mask_fill(X, 0.0)
    with pytest.raises(TensorTypeError, match="different kinds"):
        x.mask_where(MASK, X.int())
    with pytest.raises(TensorTypeError, match="expected a Float tensor of rank 2, got float"):
        x.mask_where(MASK, 0.0)  # pyright: ignore


def test_mask_fill_converts_to_the_kind_and_keeps_the_dtype() -> None:
    filled = Tensor(X.to(torch.int16), CPU).mask_fill(MASK, 7.0)
    assert filled.inner.tolist() == [[7, 2, 7], [4, 7, 6]]
    assert filled.dtype is torch.int16
    assert Tensor(X.half(), CPU).mask_fill(MASK, float("-inf")).dtype is torch.float16


def test_gradients_follow_the_choice_and_leave_nan_behind() -> None:
    backend = Autodiff(CPU)
    x = torch.tensor([[float("nan"), 2.0, 3.0], [4.0, 5.0, 6.0]], requires_grad=True)
    v = X.clone().requires_grad_()
    of_x, of_v = torch.autograd.grad(Tensor(x, backend).mask_where(MASK, v).inner.sum(), (x, v))
    assert of_v.equal(MASK.float())
    assert of_x.equal((~MASK).float())
    (filled,) = torch.autograd.grad(Tensor(x, backend).mask_fill(MASK, 0.0).inner.sum(), x)
    assert filled.equal((~MASK).float())


def test_mask_select_wants_exactly_the_shape() -> None:
    x = Tensor(X, CPU)
    chosen = x.mask_select(MASK)
    assert chosen.inner.tolist() == [1, 3, 5]
    assert chosen.rank() == 1
    assert asyncio.run(x.mask_select_async(Tensor(MASK, CPU))).inner.tolist() == [1, 3, 5]
    assert x.mask_select(torch.zeros(2, 3, dtype=torch.bool)).shape == (0,)
    with pytest.raises(TensorValueError, match=r"the mask has shape \[1, 3\]"):
        x.mask_select(MASK[:1])


@pytest.mark.parametrize("offset", [-3, -1, 0, 1, 4])
def test_triangular_masks_are_set_outside(offset: int) -> None:
    difference = torch.arange(4)[None, :] - torch.arange(3)[:, None]
    assert Tensor.triu_mask((3, 4), offset, CPU).inner.equal(difference < offset)
    assert Tensor.tril_mask((3, 4), offset, CPU).inner.equal(difference > offset)
    assert Tensor.diag_mask((3, 4), offset, CPU).inner.equal(difference != offset)


def test_triangular_masks_have_leading_dimensions_of_size_1() -> None:
    for make in (Tensor.triu_mask, Tensor.tril_mask, Tensor.diag_mask):
        mask = make((5, 2, 3, 3), 0, CPU)
        assert mask.shape == (1, 1, 3, 3)
        assert mask.rank() == 4
        with pytest.raises(TensorValueError, match="rank 2 to 8"):
            make([3], 0, CPU)


def test_logic_broadcasts_and_takes_scalars() -> None:
    a, b = torch.tensor([[True, False]]), torch.tensor([[True], [False]])
    x, y = Tensor(a, CPU), Tensor(b, CPU)
    assert x.bool_and(y).inner.equal(a & b)
    assert (x | y).inner.equal(a | b)
    assert (x ^ b).inner.equal(a ^ b)
    assert (~x).inner.equal(~a)
    assert (True & x).inner.equal(a)
    assert (x | True).inner.all()
    with pytest.raises(TensorTypeError, match="different kinds"):
        x & a.int()  # pyright: ignore
    with pytest.raises(TensorValueError, match="Bool And"):
        x & torch.ones(1, 3, dtype=torch.bool)
    with pytest.raises(TensorTypeError, match="not defined for Int"):
        Tensor(a.int(), CPU) & Tensor(a.int(), CPU)  # pyright: ignore


def test_positions_are_of_the_int_type_of_the_backend() -> None:
    x = Tensor(MASK, SMALL)
    rows, columns = x.nonzero()
    assert rows.inner.tolist() == [0, 0, 1]
    assert columns.inner.tolist() == [0, 2, 1]
    assert rows.dtype is torch.int32
    assert rows.rank() == 1
    assert x.argwhere().inner.tolist() == [[0, 0], [0, 2], [1, 1]]
    assert x.argwhere().dtype is torch.int32
    assert asyncio.run(x.argwhere_async()).inner.equal(x.argwhere().inner)
    assert len(asyncio.run(x.nonzero_async())) == 2


def test_where_nothing_is_set_nonzero_is_an_empty_list() -> None:
    x = Tensor(torch.zeros(2, 3, dtype=torch.bool), CPU)
    assert x.nonzero() == []
    assert x.argwhere().shape == (0, 2)
    with pytest.raises(TensorTypeError, match="not defined for Float"):
        Tensor(X, CPU).nonzero()  # pyright: ignore
