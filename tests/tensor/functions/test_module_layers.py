"""Linear maps, lookups, normalization and the CTC loss against torch in float64."""

import math
from typing import Any

import pytest
import torch
import torch.nn.functional as F

from burnlike import Cpu, Tensor
from burnlike.backend import Autodiff
from burnlike.errors import TensorTypeError, TensorValueError
from burnlike.tensor import activation, loss, module
from burnlike.tensor.options import ConvOptions, ConvTransposeOptions, MaxPoolOptions


def numbers(*shape: int) -> torch.Tensor:
    return torch.randn(shape, dtype=torch.float64)


@pytest.mark.parametrize("shape", [(4,), (3, 4), (2, 3, 4), (2, 1, 3, 4)])
@pytest.mark.parametrize("has_bias", [False, True])
def test_linear_is_a_product_from_the_right(shape: tuple[int, ...], has_bias: bool) -> None:
    x, weight, bias = numbers(*shape), numbers(4, 5), numbers(5)
    out = module.linear(Tensor(x, Cpu()), weight, bias if has_bias else None)
    torch.testing.assert_close(out.inner, x @ weight + (bias if has_bias else 0.0))
    assert out.rank() == len(shape)


def test_linear_refuses_sizes_that_do_not_fit() -> None:
    x: Any = Tensor(numbers(2, 4), Cpu())
    with pytest.raises(TensorValueError, match=r"expected an input \[.., 3\] and a bias \[5\]"):
        module.linear(x, numbers(3, 5))
    with pytest.raises(TensorValueError, match=r"got \[2, 4\] and \[4\]"):
        module.linear(x, numbers(4, 5), numbers(4))
    with pytest.raises(TensorTypeError, match="rank 2, got rank 1"):
        module.linear(x, numbers(4))


def test_embedding_takes_rows_by_indices_of_any_int_dtype() -> None:
    weights: Any = Tensor(numbers(5, 3), Cpu())
    for dtype in (torch.int64, torch.int32, torch.uint8):
        rows = module.embedding(weights, torch.tensor([[4, 0], [1, 1]], dtype=dtype))
        assert rows.inner.equal(weights.inner[torch.tensor([[4, 0], [1, 1]])])
    with pytest.raises(TensorValueError, match="index out of range"):
        module.embedding(weights, torch.tensor([[5]]))
    with pytest.raises(TensorTypeError, match="rank 2, got rank 1"):
        module.embedding(weights, torch.tensor([1]))


def test_layer_norm_is_torchs_on_the_last_dimension() -> None:
    x, gamma, beta = numbers(2, 3, 4), numbers(4), numbers(4)
    for shift in (beta, None):
        out = module.layer_norm(Tensor(x, Cpu()), gamma, shift, 1e-3)
        torch.testing.assert_close(out.inner, F.layer_norm(x, [4], gamma, shift, 1e-3))
    with pytest.raises(TensorValueError, match=r"beta: expected shape \[4\], got \[3\]"):
        module.layer_norm(Tensor(x, Cpu()), gamma, numbers(3), 1e-3)


@pytest.mark.parametrize("shape", [(5, 3), (2, 3, 4), (2, 3, 4, 5)])
def test_batch_norm_by_given_statistics_has_gradients_for_all(shape: tuple[int, ...]) -> None:
    tensors = [numbers(*shape), numbers(3), numbers(3), numbers(3), numbers(3).square() + 0.1]
    expected = F.batch_norm(tensors[0], tensors[3], tensors[4], tensors[1], tensors[2], False, 0.0, 1e-3)

    def run(*tensors: torch.Tensor) -> torch.Tensor:
        x, gamma, beta, mean, variance = tensors
        return module.batch_norm(Tensor(x, Autodiff(Cpu())), gamma, beta, mean, variance, 1e-3).inner

    torch.testing.assert_close(run(*tensors), expected)
    assert torch.autograd.gradcheck(run, [it.requires_grad_() for it in tensors])


def test_batch_norm_by_the_batch_gives_its_biased_statistics() -> None:
    x, gamma, beta = numbers(4, 3, 5).requires_grad_(), numbers(3), numbers(3)
    out, mean, variance = module.batch_norm_train(Tensor(x, Autodiff(Cpu())), gamma, beta, 1e-3)
    torch.testing.assert_close(out.inner, F.batch_norm(x, None, None, gamma, beta, True, 0.0, 1e-3))
    torch.testing.assert_close(mean.inner, x.detach().mean((0, 2)))
    torch.testing.assert_close(variance.inner, x.detach().var((0, 2), correction=0))
    assert out.inner.requires_grad
    assert [mean.inner.requires_grad, variance.inner.requires_grad] == [False, False]


def test_batch_norm_refuses_rank_1_and_an_empty_batch() -> None:
    one = numbers(3)
    with pytest.raises(TensorTypeError, match="rank 2 or more"):
        module.batch_norm(Tensor(numbers(3), Cpu()), one, one, one, one, 1e-3)
    with pytest.raises(TensorValueError, match="the batch is empty"):
        module.batch_norm_train(Tensor(numbers(0, 3), Cpu()), one, one, 1e-3)


def test_ctc_loss_is_torchs_for_each_sample() -> None:
    log_probs = numbers(6, 3, 5).log_softmax(2)
    targets = torch.tensor([[1, 2, 2], [3, 0, 0], [0, 0, 0]])
    lengths, target_lengths = torch.tensor([6, 4, 5]), torch.tensor([3, 1, 0])
    out = module.ctc_loss(Tensor(log_probs, Cpu()), targets.int(), lengths.int(), target_lengths.int(), 0)
    expected = F.ctc_loss(log_probs, targets, lengths, target_lengths, 0, "none")
    torch.testing.assert_close(out.inner, expected)
    assert out.inner[2].item() == pytest.approx(-log_probs[:5, 2, 0].sum().item())


def test_ctc_loss_of_an_impossible_target_is_infinite() -> None:
    log_probs = numbers(2, 1, 3).log_softmax(2).requires_grad_()
    tracked: Any = Tensor(log_probs, Autodiff(Cpu()))
    out = module.ctc_loss(tracked, torch.tensor([[1, 1]]), torch.tensor([2]), torch.tensor([2]), 0)
    assert out.inner.tolist() == [math.inf]
    assert torch.autograd.grad(out.inner.sum(), log_probs)[0].eq(0).all()


def test_ctc_loss_refuses_what_does_not_fit() -> None:
    log_probs: Any = Tensor(numbers(2, 1, 3), Cpu())
    one, label = torch.tensor([1]), torch.tensor([[1]])
    with pytest.raises(TensorValueError, match="blank: expected one of the 3 classes, got 3"):
        module.ctc_loss(log_probs, label, one, one, 3)
    with pytest.raises(TensorValueError, match="input_lengths: expected size 1, one for each sample, got 2"):
        module.ctc_loss(log_probs, label, torch.tensor([1, 1]), one, 0)


@pytest.mark.parametrize("shape", [(4,), (3, 4), (2, 3, 4)])
def test_cross_entropy_is_the_mean_over_rows(shape: tuple[int, ...]) -> None:
    logits, probs = numbers(*shape), numbers(*shape).softmax(-1)
    out = loss.cross_entropy_with_logits(Tensor(logits, Cpu()), probs)
    expected = -(logits.log_softmax(-1) * probs).sum(-1).mean()
    assert out.inner.tolist() == pytest.approx([expected.item()])
    with pytest.raises(TensorValueError, match="target_probs of the logits' shape"):
        loss.cross_entropy_with_logits(Tensor(logits, Cpu()), numbers(*shape[:-1], 5))


@pytest.mark.parametrize("dynamic", [False, True])
def test_layers_compile_without_a_break(dynamic: bool) -> None:
    def net(x: Any, kernel: torch.Tensor, weight: torch.Tensor) -> torch.Tensor:
        hidden = module.conv1d(x, kernel, None, ConvOptions(padding=[(1, 0)]))
        hidden = activation.prelu(hidden, torch.full((2,), 0.5))
        pooled = module.avg_pool1d(module.max_pool1d(hidden, MaxPoolOptions(2)), 2, 1, 0, True, False)
        return loss.cross_entropy_with_logits(module.linear(pooled, weight), torch.full((1, 2, 3), 1 / 3)).inner

    x = Tensor(torch.randn(1, 1, 6), Autodiff(Cpu()))
    inputs = [x, torch.randn(2, 1, 2, requires_grad=True), torch.randn(2, 3)]
    compiled = torch.compile(net, fullgraph=True, dynamic=dynamic, backend="eager")
    torch.testing.assert_close(compiled(*inputs), net(*inputs))


def test_nothing_is_promoted() -> None:
    """Where torch would compute in the wider element type, or in neither."""
    x: Any = Tensor(torch.rand(1, 2, 4), Cpu())
    wide = torch.rand(2, dtype=torch.float64)
    images: Any = Tensor(torch.rand(1, 1, 3, 3), Cpu())
    message = r"nothing is promoted, use cast\(dtype\)"
    with pytest.raises(TensorTypeError, match=message):
        loss.cross_entropy_with_logits(x, torch.rand(1, 2, 4, dtype=torch.float64))
    with pytest.raises(TensorTypeError, match=message):
        module.conv_transpose1d(x, torch.rand(2, 2, 2), wide, ConvTransposeOptions())
    with pytest.raises(TensorTypeError, match=message):
        module.avg_pool2d_backward(images, torch.rand(1, 1, 2, 2).double(), [2, 2], [1, 1], [0, 0], True, False)
    with pytest.raises(TensorTypeError, match=message):
        module.attention_fallback(images, images, images, None, torch.rand(1, 1, 3, 3).double())
