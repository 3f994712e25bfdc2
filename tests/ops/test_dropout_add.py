import pytest
import torch
import torch.nn.functional as F
from torch import Tensor
from torch.utils.checkpoint import checkpoint

from burnlike.errors import ArgumentError, DTypeError, ShapeError
from burnlike.ops import dropout_add, dropout_add_reference


def test_values_are_dropped_with_the_probability_and_the_others_scaled() -> None:
    x, residual = torch.randn(400, 257), torch.randn(400, 257)
    for probability in (0.1, 0.5, 0.9):
        y = dropout_add(x, residual, probability)
        dropped = y == residual
        # Five standard deviations of the share of dropped values.
        deviation = (probability * (1 - probability) / x.numel()) ** 0.5
        assert abs(dropped.double().mean().item() - probability) < 5 * deviation
        expected = residual + x / (1 - probability)
        torch.testing.assert_close(y[~dropped], expected[~dropped])


def test_draws_are_independent_of_their_neighbours_and_of_other_seeds() -> None:
    ones, zeros = torch.ones(1 << 18), torch.zeros(1 << 18)
    seeds = (0, 1, 2, 1 << 32, -1)
    kept = [dropout_add(ones, zeros, 0.5, seed=torch.tensor(seed)) - 1 for seed in seeds]
    series = [*kept, *(kept[0].roll(step) for step in (1, 2, 16, 256, 512))]
    correlations = torch.corrcoef(torch.stack(series)) - torch.eye(len(series))
    assert correlations.abs().max() < 5 * (1 << 18) ** -0.5


def test_the_mask_of_a_seed_is_known() -> None:
    # By hand from the formulas of csrc/include/burnlike/random.h.
    def mixed(x: int) -> int:
        x = (x ^ x >> 16) * 0x7FEB352D & 0xFFFFFFFF
        x = (x ^ x >> 15) * 0x846CA68B & 0xFFFFFFFF
        return x ^ x >> 16

    key = mixed(mixed(mixed(mixed(7) ^ 3)))
    bits = [mixed(mixed(index // 256 ^ key) + index % 256 * 0x9E3779B9 & 0xFFFFFFFF) for index in range(600)]
    expected = torch.tensor([float((it >> 8) / 2**24 >= 0.25) for it in bits]) / 0.75
    y = dropout_add(torch.ones(600), torch.zeros(600), 0.25, seed=torch.tensor((3 << 32) + 7))
    torch.testing.assert_close(y, expected)


@pytest.mark.parametrize("probability", [0.0, 1.0])
def test_probabilities_at_the_ends_are_as_in_torch(probability: float) -> None:
    x = torch.tensor([1.0, torch.nan, torch.inf, -2.0], requires_grad=True)
    residual = torch.tensor([5.0, 6.0, 7.0, 8.0], requires_grad=True)
    actual, expected = dropout_add(x, residual, probability), residual + F.dropout(x, probability)
    torch.testing.assert_close(actual, expected, equal_nan=True, rtol=0, atol=0)
    grads = torch.autograd.grad(actual.sum(), (x, residual))
    torch.testing.assert_close(grads, torch.autograd.grad(expected.sum(), (x, residual)), rtol=0, atol=0)


def test_nothing_is_dropped_in_evaluation() -> None:
    x, residual = torch.randn(3, 8), torch.randn(3, 8)
    torch.testing.assert_close(dropout_add(x, residual, 0.9, training=False), residual + x, rtol=0, atol=0)


def test_backward_drops_what_forward_dropped_and_saves_the_seed_alone() -> None:
    x, residual = torch.randn(30, 77, requires_grad=True), torch.zeros(30, 77, requires_grad=True)
    saved: list[Tensor] = []
    with torch.autograd.graph.saved_tensors_hooks(lambda it: saved.append(it) or it, lambda it: it):
        y = dropout_add(x, residual, 0.4)
    assert sum(it.nbytes for it in saved) == 8
    seed = torch.randn(30, 77)
    grad_x, grad_residual = torch.autograd.grad(y, (x, residual), seed)
    torch.testing.assert_close(grad_x, torch.where(y == 0, 0.0, seed / 0.6))
    assert grad_residual is seed


def test_manual_seed_repeats_it() -> None:
    x, residual = torch.randn(9, 99), torch.randn(9, 99)
    torch.manual_seed(3)
    first, second = dropout_add(x, residual, 0.5), dropout_add(x, residual, 0.5)
    torch.manual_seed(3)
    torch.testing.assert_close(dropout_add(x, residual, 0.5), first, rtol=0, atol=0)
    assert not torch.equal(first, second)


def test_checkpointing_drops_the_same_again() -> None:
    x = torch.randn(9, 99, requires_grad=True)

    def gradient(through: bool) -> Tensor:
        torch.manual_seed(3)
        block = lambda it: dropout_add(it * it, it, 0.5)  # noqa: E731
        y = checkpoint(block, x, use_reentrant=False) if through else block(x)
        assert isinstance(y, Tensor)
        return torch.autograd.grad(y.sum(), x)[0]

    torch.testing.assert_close(gradient(True), gradient(False), rtol=0, atol=0)


@pytest.mark.filterwarnings("ignore:`torch.jit.script_method` is deprecated:DeprecationWarning")
@pytest.mark.parametrize("backend", ["aot_eager", "inductor"])
def test_compiles_with_a_seed_of_its_own_in_each_call(backend: str) -> None:
    torch.compiler.reset()
    compiled = torch.compile(lambda x, y: dropout_add(x, y, 0.5), fullgraph=True, backend=backend)
    x, residual = torch.ones(40, 50, requires_grad=True), torch.zeros(40, 50)
    torch.manual_seed(1)
    first, second = compiled(x, residual), compiled(x, residual)
    torch.manual_seed(1)
    torch.testing.assert_close(compiled(x, residual), first, rtol=0, atol=0)
    assert not torch.equal(first, second)
    assert first.unique().tolist() == [0, 2]
    (grad,) = torch.autograd.grad(first.sum(), x)
    torch.testing.assert_close(grad, first.detach())


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16], ids=str)
def test_a_float32_residual_stays_so(dtype: torch.dtype) -> None:
    x = torch.randn(5, 300).to(dtype).requires_grad_()
    residual = torch.randn(5, 300, requires_grad=True)
    seed = torch.tensor(5)
    y = dropout_add(x, residual, 0.3, seed=seed)
    assert y.dtype == torch.float32
    exact = dropout_add_reference(x.double(), residual.double(), 0.3, seed)
    torch.testing.assert_close(y.double(), exact, rtol=1e-6, atol=1e-6)
    grad_x, grad_residual = torch.autograd.grad(y.sum(), (x, residual))
    assert (grad_x.dtype, grad_residual.dtype) == (dtype, torch.float32)


def test_wrong_arguments_are_named() -> None:
    x = torch.randn(3, 8)
    for training in (True, False):
        with pytest.raises(ShapeError, match=r"dropout_add: expected residual of shape \[3, 8\], got \[8\]"):
            dropout_add(x, torch.ones(8), training=training)
    for probability in (-0.1, 1.5, float("nan")):
        with pytest.raises(ArgumentError, match="expected a probability from 0 to 1, got"):
            dropout_add(x, x, probability)
    with pytest.raises(DTypeError, match="expected seed of dtype int64, got float32"):
        dropout_add(x, x, seed=torch.tensor(1.0))
    with pytest.raises(ShapeError, match=r"expected seed of shape \[\], got \[2\]"):
        dropout_add(x, x, seed=torch.tensor([1, 2]))
