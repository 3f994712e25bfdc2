"""Functions of torch over a backend of one's own give torch's numbers, also for special values, or raise by name."""

from collections.abc import Callable
from typing import Any

import pytest
import torch
import torch.nn.functional as F

from burnlike import Autodiff, Tensor
from burnlike.errors import BackendError
from burnlike.tensor import lift
from tests.backend.counting import Beside, Changed, Counting, leaving_torch

SPECIAL = torch.tensor([torch.nan, torch.inf, -torch.inf, 0.0, -0.0, 1e30, 0.5, 1.5, -2.5, 3.0, -3.0])
LEFT, RIGHT = (it.flatten() for it in torch.meshgrid(SPECIAL, SPECIAL, indexing="ij"))
ROWS = torch.tensor([[1.0, torch.nan, 3.0, 2.0], [4.0, 1.0, 3.0, 2.0], [torch.inf, 1.0, -torch.inf, 0.0]])
INTS = torch.tensor([[3, -7, 5], [8, 2, -1]])
PLACES = torch.tensor([[0, 1, 0], [1, 1, 0]])
CUBE = torch.randn(2, 7, 9, generator=torch.Generator().manual_seed(0))
CASES: dict[str, tuple[Callable[..., Any], list[torch.Tensor]]] = {
    "fmax": (torch.fmax, [LEFT, RIGHT]),
    "fmin": (torch.fmin, [LEFT, RIGHT]),
    "maximum": (torch.maximum, [LEFT, RIGHT]),
    "floor_divide": (torch.floor_divide, [LEFT, RIGHT]),
    "floor_divide a number": (lambda x: torch.floor_divide(x, -2.5), [SPECIAL]),
    "floor_divide 0": (lambda x: torch.floor_divide(x, 0.0), [SPECIAL]),
    "floor_divide ints": (lambda x: torch.floor_divide(x, -2), [INTS]),
    "xlogy": (torch.xlogy, [LEFT, RIGHT]),
    "xlogy a number": (lambda x: torch.xlogy(x, -1.0), [SPECIAL]),
    "xlogy 0": (lambda x: torch.xlogy(0, x), [SPECIAL]),
    "a number less": (lambda x: torch.sub(2, x), [SPECIAL]),
    "logit": (lambda x: torch.logit(x, 1e-6), [SPECIAL]),
    "round": (lambda x: torch.round(x, decimals=2), [torch.tensor([1.2345, -0.005, 12.999])]),
    "round tens": (lambda x: torch.round(x, decimals=-1), [torch.tensor([1234.5, -15.0])]),
    "median": (torch.median, [ROWS]),
    "median of rows": (lambda x: torch.median(x, 1), [ROWS[:2]]),
    "median of ints": (lambda x: torch.median(x, 1), [INTS]),
    "hardtanh of ints": (F.hardtanh, [INTS]),
    "addmv of ints": (lambda x, y: torch.addmv(x, y, x, beta=0.2, alpha=2), [INTS[0], INTS.new_ones(3, 3)]),
    "any of bytes": (lambda x: torch.any(x, 1), [INTS.to(torch.uint8)]),
    "logsumexp of bool": (lambda x: torch.logsumexp(x, 1), [INTS > 2]),
    "bincount": (lambda x, y: torch.bincount(x, y), [PLACES[0], INTS[0]]),
    "masked_scatter": (lambda x, y: torch.masked_scatter(x, y > 2, INTS), [INTS[0], INTS]),
    **{
        f"scatter_reduce {kind}": (
            lambda x, index, kind=kind: torch.scatter_reduce(x, 1, index, x * 2, kind, include_self=False),
            [CUBE[0, :2, :3], PLACES],
        )
        for kind in ("sum", "prod", "mean", "amax", "amin")
    },
    "scatter_reduce with itself": (lambda x, index: torch.scatter_reduce(x, 1, index, x, "mean"), [INTS, PLACES]),
    # What torch takes apart into operators that have a translation.
    "addcdiv": (lambda x, y: torch.addcdiv(x, y, y + 20, value=2), [INTS.float(), INTS.float()]),
    "addcmul of ints": (lambda x: torch.addcmul(x, x, x, value=2), [INTS]),
    "lerp": (lambda x, y: torch.lerp(x, y, 0.3), [INTS.float(), INTS.float() ** 2]),
    "logaddexp": (torch.logaddexp, [LEFT, RIGHT]),
    "nan_to_num": (lambda x: torch.nan_to_num(x, 1.0, 2.0, 3.0), [SPECIAL]),
    "frac": (torch.frac, [SPECIAL]),
    "sgn": (torch.sgn, [SPECIAL]),
    "std": (lambda x: torch.std(x, 1, correction=0), [INTS.float()]),
    "std_mean": (lambda x: torch.std_mean(x, 1), [INTS.float()]),
    "norm": (lambda x: torch.norm(x, p=3, dim=1), [CUBE]),
    "aminmax": (lambda x: torch.aminmax(x, dim=1), [ROWS[:2]]),
    "argsort": (lambda x: torch.argsort(x, descending=True), [INTS]),
    "count_nonzero": (lambda x: torch.count_nonzero(x, 1), [PLACES]),
    "logsumexp of no rows": (lambda x: torch.logsumexp(x, 0), [CUBE[0, :0]]),
    "index_fill": (lambda x: torch.index_fill(x, 1, torch.tensor([0, 2]), 7), [INTS]),
    "stack": (lambda x, y: torch.stack([x, y], -1), [INTS, PLACES]),
    "split of no rows": (lambda x: torch.split(x, 2), [CUBE[0, :0]]),
    "pixel_shuffle": (lambda x: torch.pixel_shuffle(x, 2), [CUBE[:, :4].reshape(4, 2, 9)]),
    "pixel_unshuffle": (lambda x: torch.pixel_unshuffle(x, 3), [CUBE[:, :6]]),
    "adaptive_max_pool1d": (lambda x: F.adaptive_max_pool1d(x, 4), [CUBE]),
    "adaptive_max_pool2d": (lambda x: F.adaptive_max_pool2d(x, (3, 4)), [CUBE]),
    "adaptive_max_pool3d": (lambda x: F.adaptive_max_pool3d(x, (3, 2, 5)), [CUBE[None]]),
    "adaptive_avg_pool2d without a batch": (lambda x: F.adaptive_avg_pool2d(x, (5, 3)), [CUBE]),
    "max_pool3d of ints": (lambda x: F.max_pool3d(x, 2, padding=1), [INTS.repeat(2, 2, 1)[None].expand(1, 2, 4, 3)]),
    "conv_transpose2d": (
        lambda x, w: F.conv_transpose2d(x, w, stride=2, padding=1, output_padding=(2, 1), dilation=3),
        [CUBE[None], CUBE[:, None, :3, :3]],
    ),
    "conv_transpose3d": (
        lambda x, w: F.conv_transpose3d(x, w, stride=1, output_padding=1, dilation=2),
        [CUBE[None, None], CUBE[None, None, :2, :2, :2]],
    ),
}


DIFFERENTIABLE = [name for name in CASES if ("pool" in name and "ints" not in name) or name.startswith("conv")]
DIFFERENTIABLE += ["baddbmm", "logit of chances", "scatter_reduce mean"]
CASES["baddbmm"] = (lambda x: torch.baddbmm(x, x, x, beta=0.5), [CUBE[:, :, :7]])
CASES["logit of chances"] = (torch.logit, [CUBE.sigmoid()])


@pytest.mark.parametrize("name", CASES)
def test_it_gives_torchs_numbers(name: str) -> None:
    function, inputs = CASES[name]
    backend = Counting()
    with Beside(backend) as beside:
        found = function(*[Tensor(it, backend) for it in inputs])
    expected = function(*inputs)
    assert [it for it in beside.found if it.startswith("aten")] == []
    if isinstance(expected, tuple):
        found, expected = found[0], expected[0]
    torch.testing.assert_close(found.inner.reshape(expected.shape), expected, equal_nan=True)


def made_and_added(x: torch.Tensor) -> torch.Tensor:
    return x + torch.eye(2, 3, dtype=x.dtype) + torch.linspace(-1, 2, 3)


def test_what_torch_makes_of_counted_places() -> None:
    found: Any = lift(made_and_added)(Tensor(INTS.float(), Changed(leaving_torch)))
    torch.testing.assert_close(found.inner, made_and_added(INTS.float()))


def written_in_parts(x: torch.Tensor) -> torch.Tensor:
    """torch lets a program write through each of several views."""
    found = x.clone()
    found.unbind()[1].add_(5)
    found.chunk(3, -1)[2].unbind(1)[0].copy_(x[:, 0, :3])
    torch.lerp(x[0, :2], x[1, :2], x[0, 2:4], out=found.split([2, 5], 1)[0][1])
    return found


def test_what_is_written_through_one_of_several_views_arrives() -> None:
    found: Any = lift(written_in_parts)(Tensor(CUBE, Changed(leaving_torch)))
    torch.testing.assert_close(found.inner, written_in_parts(CUBE))


@pytest.mark.parametrize("name", DIFFERENTIABLE)
def test_it_gives_torchs_gradients(name: str) -> None:
    function, inputs = CASES[name]
    gradients = []
    for backend in (None, Autodiff(Counting())):
        leaves = [it.clone().requires_grad_() if it.is_floating_point() else it for it in inputs]
        result = function(*(Tensor(it, backend) if backend else it for it in leaves))
        (result * result).sum().backward()
        gradients.append([it.grad for it in leaves])
    for one, other in zip(*gradients, strict=True):
        torch.testing.assert_close(one, other)


def test_normal_draws_around_each_mean() -> None:
    x: Any = Tensor(torch.full((4000,), 5.0), Counting())
    cases: Any = (
        (torch.normal(x, 0.5), 5.0, 0.5),
        (torch.normal(1.0, x), 1.0, 5.0),
        (torch.normal(x, x), 5.0, 5.0),
    )
    for drawn, mean, std in cases:
        assert drawn.inner.mean().item() == pytest.approx(mean, abs=0.4)
        assert drawn.inner.std().item() == pytest.approx(std, rel=0.1)


@pytest.mark.parametrize(
    "function",
    [
        lambda x: torch.cummax(x > 1, 0),
        lambda x: F.avg_pool2d(x[None], 2, ceil_mode=True, divisor_override=3),
        lambda x: F.interpolate((x[None, None] * 9).to(torch.uint8), (5, 5), mode="bilinear"),
        lambda x: F.adaptive_max_pool2d(x[None], 3, return_indices=True),
    ],
)
def test_what_the_tables_do_not_have_is_named(function: Any) -> None:
    with pytest.raises(BackendError, match="is not made of functions of the backend's tables"):
        lift(function)(Tensor(torch.rand(4, 4), Counting()))


def test_the_derivative_of_a_max_pool_is_a_function_of_the_tables() -> None:
    # torch 2.11 has no decomposition of it.
    backend = Counting()
    x = Tensor(CUBE.clone().requires_grad_(), Autodiff(backend))
    found: Any = F.max_pool2d(x, 2)
    found.sum().backward()
    assert "module_ops.max_pool2d_backward" in backend.log
