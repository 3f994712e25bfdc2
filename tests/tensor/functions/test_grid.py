"""Coordinates of grids and sampling at them."""

import pytest
import torch
import torch.nn.functional as F

from burnlike import Cpu
from burnlike.errors import TensorTypeError, TensorValueError
from burnlike.tensor import GridOptions, GridSampleOptions, grid

from ..made import typed

CPU = Cpu()


@pytest.mark.parametrize("indexing", ["Matrix", "Cartesian"])
@pytest.mark.parametrize("vectors", [[[1, 2, 3]], [[1, 2, 3], [4, 5]], [[1.0, 2.0], [3.0], [4.0, 5.0, 6.0]]])
def test_meshgrid_is_torch_and_sparse_grids_broadcast_to_it(vectors: list[list[float]], indexing: str) -> None:
    inner = [torch.tensor(vector) for vector in vectors]
    wanted = torch.meshgrid(*inner, indexing="ij" if indexing == "Matrix" else "xy")
    dense = [it.inner for it in grid.meshgrid([typed(it) for it in inner], indexing)]  # pyright: ignore
    assert all(torch.equal(*pair) for pair in zip(dense, wanted, strict=True))
    options = GridOptions(indexing=indexing, sparsity="Sparse")  # pyright: ignore
    sparse = [it.inner for it in grid.meshgrid([typed(it) for it in inner], options)]
    assert [it.numel() for it in sparse] == [len(it) for it in inner]
    for one, full in zip(torch.broadcast_tensors(*sparse), wanted, strict=True):
        assert torch.equal(one, full)


def test_meshgrid_stack_puts_the_coordinates_first_or_last() -> None:
    x, y = torch.tensor([0.5, 1.0, 2.5]), torch.tensor([0.5, 1.0])
    wanted = torch.stack(torch.meshgrid(x, y, indexing="ij"))
    assert torch.equal(grid.meshgrid_stack([typed(x), typed(y)]).inner, wanted)
    assert torch.equal(grid.meshgrid_stack((typed(x), typed(y)), "Last").inner, wanted.movedim(0, -1))


def test_grids_of_other_ranks_kinds_counts_and_words_are_refused() -> None:
    x = typed([1.0])
    with pytest.raises(TensorValueError, match="expected 1 to 8 vectors, got 0"):
        grid.meshgrid([])
    with pytest.raises(TensorValueError, match="expected 1 to 7 vectors, got 8"):
        grid.meshgrid_stack([x] * 8)
    with pytest.raises(TensorTypeError, match="different ranks"):
        grid.meshgrid([x, typed([[1.0]])])
    with pytest.raises(TensorTypeError, match="different kinds"):
        grid.meshgrid([x, typed([1])])  # pyright: ignore
    with pytest.raises(TensorValueError, match="did you mean 'Sparse'"):
        grid.meshgrid([x], "sparse")  # pyright: ignore
    with pytest.raises(TensorValueError, match="indexing"):
        GridOptions(indexing="ij")  # pyright: ignore
    with pytest.raises(TensorValueError, match="index_pos"):
        grid.meshgrid_stack([x], "Middle")  # pyright: ignore


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.bfloat16])
def test_affine_grid_transforms_coordinates_from_corner_to_corner(dtype: torch.dtype) -> None:
    transform = torch.tensor([[[2.0, 0.5, 0.25], [-1.0, 1.0, 0.5]]], dtype=dtype)
    x, y = torch.linspace(-1, 1, 3), torch.linspace(-1, 1, 2)
    rows, columns = torch.meshgrid(y, x, indexing="ij")
    wanted = torch.stack([2 * columns + 0.5 * rows + 0.25, rows - columns + 0.5], -1).to(dtype)
    found = grid.affine_grid_2d(typed(transform), [2, 5, 2, 3]).inner
    torch.testing.assert_close(found, wanted.expand(2, 2, 3, 2))


def test_affine_grid_of_one_element_is_at_the_center() -> None:
    identity = torch.eye(2, 3)[None]
    assert grid.affine_grid_2d(typed(identity), [1, 1, 1, 2]).inner.tolist() == [[[[-1.0, 0.0], [1.0, 0.0]]]]


def test_one_batch_of_images_takes_several_transformations() -> None:
    transforms = torch.arange(12.0).reshape(2, 2, 3)
    found = grid.affine_grid_2d(typed(transforms), [1, 5, 2, 3]).inner
    assert torch.equal(found, grid.affine_grid_2d(typed(transforms), [2, 5, 2, 3]).inner)


def test_affine_grid_refuses_other_shapes() -> None:
    transform = typed(torch.zeros(2, 2, 3))
    with pytest.raises(TensorValueError, match=r"expected transformations \[3, 2, 3\]"):
        grid.affine_grid_2d(transform, [3, 1, 2, 2])
    with pytest.raises(TensorValueError, match="each 1 or above"):
        grid.affine_grid_2d(transform, [2, 1, 0, 2])
    with pytest.raises(TensorTypeError, match="rank 3"):
        grid.affine_grid_2d(typed(torch.zeros(2, 3)), [1, 1, 2, 2])  # pyright: ignore


@pytest.mark.parametrize("align_corners", [True, False])
@pytest.mark.parametrize("padding_mode", ["Zeros", "Border", "Reflection"])
@pytest.mark.parametrize("mode", ["Nearest", "Bilinear", "Bicubic"])
def test_grid_sample_is_torch(mode: str, padding_mode: str, align_corners: bool) -> None:
    x, places = torch.randn(2, 3, 4, 5), torch.rand(2, 6, 7, 2) * 3 - 1.5
    options = GridSampleOptions(mode, padding_mode=padding_mode, align_corners=align_corners)  # pyright: ignore
    wanted = F.grid_sample(x, places, mode.lower(), padding_mode.lower(), align_corners)
    torch.testing.assert_close(typed(x).grid_sample_2d(typed(places), options).inner, wanted)


def test_grid_sample_takes_a_mode_or_nothing_and_halves() -> None:
    x, places = torch.randn(1, 1, 3, 3), torch.rand(1, 2, 2, 2)
    wanted = F.grid_sample(x, places, align_corners=False)
    assert torch.equal(typed(x).grid_sample_2d(places).inner, wanted)
    assert torch.equal(typed(x).grid_sample_2d(typed(places), "Bilinear").inner, wanted)
    half = typed(x.half()).grid_sample_2d(places.half())
    assert half.dtype is torch.float16


def test_grid_sample_has_derivatives() -> None:
    x = torch.randn(1, 2, 3, 3, dtype=torch.float64, requires_grad=True)
    places = (torch.rand(1, 2, 2, 2, dtype=torch.float64) - 0.5).requires_grad_()
    sample = CPU.module_ops.grid_sample_2d
    assert torch.autograd.gradcheck(lambda a, b: sample(a, b, "bilinear", "zeros", False), (x, places))


def test_grid_sample_refuses_other_shapes_and_words() -> None:
    x = typed(torch.zeros(2, 1, 3, 3))
    for shape in [(1, 2, 2, 2), (2, 2, 2, 3)]:
        with pytest.raises(TensorValueError, match=r"expected a grid \[2, H, W, 2\]"):
            x.grid_sample_2d(torch.zeros(shape))
    with pytest.raises(TensorTypeError, match="ranks"):
        x.grid_sample_2d(torch.zeros(2, 2, 2))
    with pytest.raises(TensorValueError, match="Bilinear"):
        x.grid_sample_2d(torch.zeros(2, 2, 2, 2), "Linear")  # pyright: ignore
    with pytest.raises(TensorTypeError, match="GridSampleOptions"):
        x.grid_sample_2d(torch.zeros(2, 2, 2, 2), 3)  # pyright: ignore
