"""Losses at their edges: nothing in a batch, nothing that counts, no alignment, tiny vectors."""

from typing import Any

import pytest
import torch
from torch import Tensor

from burnlike import nn
from burnlike.config import ModuleConfig
from burnlike.nn.loss import configs

NONE = torch.empty(0, dtype=torch.int64)


def rows(count: int = 1) -> tuple[Tensor, ...]:
    return tuple(torch.empty(0, 3) for _ in range(count))


CTC = torch.empty(4, 0, 3), torch.empty(0, 2, dtype=torch.int64), NONE, NONE
RNNT = torch.empty(0, 4, 3, 3), *CTC[1:]
EMPTY: dict[str, tuple[Any, tuple[Tensor, ...]]] = {
    "CrossEntropyLoss": (nn.CrossEntropyLossConfig(), (*rows(), NONE)),
    "BinaryCrossEntropyLoss": (nn.BinaryCrossEntropyLossConfig(), (*rows(), torch.empty(0, 3).long())),
    "MseLoss": (nn.MseLossConfig(), rows(2)),
    "HuberLoss": (nn.HuberLossConfig(delta=1.0), rows(2)),
    "SmoothL1Loss": (nn.SmoothL1LossConfig(), rows(2)),
    "LpLoss": (nn.LpLossConfig(p=3.0), rows(2)),
    "KLDivLoss": (nn.KLDivLossConfig(), rows(2)),
    "PoissonNllLoss": (nn.PoissonNllLossConfig(full=True), rows(2)),
    "GaussianNLLLoss": (nn.GaussianNLLLossConfig(), rows(3)),
    "CTCLoss": (nn.CTCLossConfig(), CTC),
    "RNNTLoss": (nn.RNNTLossConfig(), RNNT),
    "CosineEmbeddingLoss": (nn.CosineEmbeddingLossConfig(), (*rows(2), NONE)),
    "HingeEmbeddingLoss": (nn.HingeEmbeddingLossConfig(), rows(2)),
    "MarginRankingLoss": (nn.MarginRankingLossConfig(), rows(3)),
    "MultiMarginLoss": (nn.MultiMarginLossConfig(), (*rows(), NONE)),
    "MultiMarginLoss/half": (nn.MultiMarginLossConfig(p=2), (rows()[0].half(), NONE)),
    "SoftMarginLoss": (nn.SoftMarginLossConfig(), rows(2)),
    "TripletMarginLoss": (nn.TripletMarginLossConfig(), rows(3)),
}


def reduced(config: Any, inputs: tuple[Tensor, ...], reduction: str) -> Tensor | None:
    """The loss by a reduction; None if it has only another."""
    if "reduction" in config.__struct_fields__ and reduction != "none":
        return config.replace(reduction=reduction).init()(*inputs)
    loss = config.init()
    if hasattr(loss, "forward_with_reduction"):
        return loss(*inputs) if reduction == "none" else loss.forward_with_reduction(*inputs, reduction)
    if not hasattr(loss, "forward_no_reduction"):
        return loss(*inputs) if reduction == "mean" else None
    return loss.forward_no_reduction(*inputs) if reduction == "none" else loss(*inputs, reduction)


@pytest.mark.parametrize("reduction", ["none", "sum", "mean"])
@pytest.mark.parametrize("name", EMPTY)
def test_the_sum_of_an_empty_batch_is_0_and_its_mean_no_number(name: str, reduction: str) -> None:
    config, inputs = EMPTY[name]
    leaf = inputs[0].clone().requires_grad_()
    full = torch.full((10_000,), 1e30)
    del full  # so that memory that was never written is not 0
    loss = reduced(config, (leaf, *inputs[1:]), reduction)
    if loss is None:
        return
    if reduction == "none":
        assert loss.numel() == 0
    else:
        assert loss.shape == ()
        assert loss.isnan() if reduction == "mean" else loss.eq(0)
    loss.sum().backward()
    assert leaf.grad is not None
    assert leaf.grad.shape == inputs[0].shape


def test_each_loss_was_tried() -> None:
    names = {
        it.__name__.removesuffix("Config")
        for it in vars(configs).values()
        if isinstance(it, type) and issubclass(it, ModuleConfig) and it.__struct_config__.tag
    }
    assert names == {name.split("/")[0] for name in EMPTY}


@pytest.mark.parametrize("weights", [None, (1.0, 2.0, 3.0)])
@pytest.mark.parametrize("smoothing", [None, 0.1])
@pytest.mark.parametrize("logits", [True, False])
def test_rows_that_do_not_count_have_no_gradient(
    logits: bool, smoothing: float | None, weights: tuple[float, ...] | None
) -> None:
    loss = nn.CrossEntropyLossConfig(pad_tokens=(0,), logits=logits, smoothing=smoothing, weights=weights).init()
    x = torch.full((2, 3), 1 / 3, requires_grad=True)
    nothing = loss(x, torch.tensor([0, 0]))
    assert nothing.isnan()
    assert torch.autograd.grad(nothing, x)[0].eq(0).all()
    # A row that does not count may hold anything.
    with_nan = torch.tensor([[0.2, 0.3, 0.5], [torch.nan] * 3], requires_grad=True)
    value = loss(with_nan, torch.tensor([1, 0]))
    torch.testing.assert_close(value, loss(with_nan[:1], torch.tensor([1])))


def test_a_count_that_is_masked_has_no_gradient_of_its_logarithm() -> None:
    targets = torch.tensor([0.0, 1.0, 3.0], requires_grad=True)
    loss = nn.PoissonNllLossConfig(full=True).init()
    found = torch.autograd.grad(loss(torch.zeros(3), targets, "sum"), targets)[0]
    # Of (t + 1/2) log t - t + log(2 pi) / 2 for t > 1: log t + 1 / (2 t).
    torch.testing.assert_close(found, torch.tensor([0.0, 0.0, torch.tensor(3.0).log().item() + 1 / 6]))


@pytest.mark.parametrize("size", [1e-3, 1e-10, 1e-15, 1e-18])
def test_the_angle_of_tiny_vectors_is_that_of_large_ones(size: float) -> None:
    loss = nn.CosineEmbeddingLossConfig(margin=0.1).init()
    target = torch.tensor([1, -1, 1, -1, 1])
    generator = torch.Generator().manual_seed(0)
    results = []
    for scale, dtype in ((size, torch.float32), (1.0, torch.float64)):
        pair = torch.randn(2, 5, 4, generator=generator.manual_seed(0)).to(dtype) * scale
        leaves = [it.clone().requires_grad_() for it in pair]
        values = loss.forward_no_reduction(leaves[0], leaves[1], target)
        grads = torch.autograd.grad(values.sum(), leaves)
        results.append([values.double(), *(it.double() * scale for it in grads)])
    for found, exact in zip(*results, strict=True):
        torch.testing.assert_close(found, exact, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("reduction", ["none", "sum", "mean"])
@pytest.mark.parametrize("zero_infinity", [False, True])
def test_a_target_without_alignment_leaves_the_others_their_gradients(reduction: str, zero_infinity: bool) -> None:
    config = nn.CTCLossConfig(zero_infinity=zero_infinity)
    generator = torch.Generator().manual_seed(0)
    x = torch.randn(3, 3, 4, generator=generator, dtype=torch.float64, requires_grad=True)
    # The second needs a step more, between its two equal ones; a class of the third can't come.
    targets, times = torch.tensor([[1, 2], [1, 1], [3, 2]]), torch.tensor([3, 2, 3])
    lengths = torch.tensor([2, 2, 2])
    log_probs = x.log_softmax(2)
    never = torch.zeros(3, 3, 4, dtype=torch.bool)
    never[:, 2, 3] = True
    log_probs = log_probs.masked_fill(never, -torch.inf)
    values = config.init()(log_probs, targets, times, lengths)
    assert values[1:].tolist() == ([0.0, 0.0] if zero_infinity else [torch.inf] * 2)
    loss = reduced(config, (log_probs, targets, times, lengths), reduction)
    assert loss is not None
    found = torch.autograd.grad(loss.sum(), x)[0]
    alone = nn.CTCLossConfig().init()(x[:, :1].log_softmax(2), targets[:1], times[:1], lengths[:1])
    expected = torch.autograd.grad(alone.sum(), x)[0] / (6 if reduction == "mean" else 1)
    torch.testing.assert_close(found, expected)
