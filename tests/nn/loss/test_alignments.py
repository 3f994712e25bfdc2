"""CTC and the transducer: lattices by other means, lengths, and what is refused."""

import itertools
from typing import Any

import pytest
import torch
from hypothesis import given, settings, strategies as st
from torch import Tensor

from burnlike import nn
from burnlike.errors import ArgumentError, AutodiffError, DTypeError, ShapeError, TargetError

from ..cases.loss import ctc, rnnt, transducer


def drawn(batch: int, time: int, length: int, seed: int) -> list[Tensor]:
    generator = torch.Generator().manual_seed(seed)
    return [
        torch.randn(batch, time, length + 1, 3, dtype=torch.float64, generator=generator),
        torch.randint(0, 3, (batch, length), generator=generator),
        torch.randint(1, time + 1, (batch,), generator=generator),
        torch.randint(0, length + 1, (batch,), generator=generator),
    ]


@settings(derandomize=True, max_examples=15, deadline=None)
@given(st.integers(1, 3), st.integers(1, 5), st.integers(0, 4), st.integers(0, 99), st.booleans(), st.integers(0, 2))
def test_the_transducer_is_that_of_graves_cell_by_cell(
    batch: int, time: int, length: int, seed: int, logits: bool, blank: int
) -> None:
    loss = nn.RNNTLossConfig(blank=blank, logits=logits).init()
    x, *rest = drawn(batch, time, length, seed)
    inputs = [x.clone().requires_grad_() for _ in range(2)]
    found, expected = loss(inputs[0], *rest), rnnt(loss, inputs[1], *rest)
    torch.testing.assert_close(found, expected, rtol=1e-12, atol=1e-12)
    weights = torch.arange(1.0, batch + 1, dtype=torch.float64)
    grads = [torch.autograd.grad((it * weights).sum(), x)[0] for it, x in zip((found, expected), inputs, strict=True)]
    torch.testing.assert_close(*grads, rtol=1e-11, atol=1e-12)


def test_the_transducer_sums_over_all_alignments() -> None:
    x, targets, _, _ = drawn(1, 3, 2, 7)
    log_probs = x[0].log_softmax(2)
    total = []
    for labels_at in itertools.combinations(range(4), 2):  # of five steps the last is a blank
        t = u = 0
        score = torch.zeros((), dtype=torch.float64)
        for step in range(5):
            if step in labels_at:
                score, u = score + log_probs[t, u, targets[0, u]], u + 1
            else:
                score, t = score + log_probs[t, u, 0], t + 1
        total.append(score)
    loss = nn.RNNTLossConfig().init()(x, targets, torch.tensor([3]), torch.tensor([2]))
    torch.testing.assert_close(loss[0], -torch.stack(total).logsumexp(0), rtol=1e-12, atol=0)


def test_derivatives_of_the_transducer_by_differences() -> None:
    x, *rest = drawn(2, 3, 2, 5)
    for logits in (True, False):
        loss = nn.RNNTLossConfig(logits=logits).init()
        assert torch.autograd.gradcheck(lambda it, loss=loss: loss(it, *rest), x.clone().requires_grad_())


def test_what_lies_behind_a_sample_does_not_matter() -> None:
    loss = nn.RNNTLossConfig().init()
    x, targets, times, lengths = transducer()
    targets[1, 1] = -7
    x[2, 2:] = float("inf")
    x.requires_grad_()
    value = loss(x, targets, times, lengths)
    value.sum().backward()
    assert value.isfinite().all()
    assert x.grad is not None
    assert x.grad[1, 3:].eq(0).all()
    assert x.grad[1, :, 2:].eq(0).all()
    assert x.grad[0].ne(0).all()


def test_impossible_paths_are_infinitely_unlikely() -> None:
    loss = nn.RNNTLossConfig(logits=False).init()
    x = torch.full((1, 2, 2, 2), 0.5).log()
    x[0, 0, 0, 1] = float("-inf")  # the label can't come at the first time
    x.requires_grad_()
    one = torch.tensor([1])
    value = loss(x, torch.tensor([[1]]), torch.tensor([2]), one)
    torch.testing.assert_close(value, -torch.tensor([0.125]).log())
    value.backward()
    assert x.grad is not None
    assert x.grad.isfinite().all()


def test_a_long_sequence_in_float32() -> None:
    generator = torch.Generator().manual_seed(0)
    x = torch.randn(2, 120, 31, 8, generator=generator) * 4
    rest = torch.randint(1, 8, (2, 30), generator=generator), torch.tensor([120, 90]), torch.tensor([30, 25])
    loss = nn.RNNTLossConfig().init()
    torch.testing.assert_close(loss(x, *rest).double(), loss(x.double(), *rest), rtol=1e-5, atol=0)


@pytest.mark.parametrize("logits", [True, False])
def test_the_transducers_gradients_in_torchs_worlds(logits: bool) -> None:
    loss = nn.RNNTLossConfig(logits=logits).init()
    x, *rest = drawn(2, 2, 1, 3)

    def total(it: Tensor) -> Tensor:
        return loss(it, *rest).sum()

    leaf = x.clone().requires_grad_()
    total(leaf).backward()
    torch.testing.assert_close(torch.func.grad(total)(x), leaf.grad)
    both = torch.vmap(torch.func.grad(total))(torch.stack((x, x.flip(0))))
    torch.testing.assert_close(both[0], leaf.grad)
    torch._dynamo.reset()
    again = x.clone().requires_grad_()
    torch.compile(total, fullgraph=True, backend="eager")(again).backward()
    torch.testing.assert_close(again.grad, leaf.grad)
    half = x.bfloat16().requires_grad_()
    total(half).backward()
    assert half.grad is not None
    assert half.grad.dtype == torch.bfloat16
    with pytest.raises(AutodiffError, match="RNNTLoss has no second derivative"):
        torch.autograd.grad(torch.autograd.grad(total(leaf), leaf, create_graph=True)[0].sum(), leaf)


@pytest.mark.parametrize("config", [nn.RNNTLossConfig(), nn.CTCLossConfig()])
def test_reductions(config: Any) -> None:
    loss: Any = config.init()
    inputs = transducer() if type(config) is nn.RNNTLossConfig else ctc()
    values = loss(*inputs)
    weights = torch.ones(3) if type(config) is nn.RNNTLossConfig else inputs[3]
    torch.testing.assert_close(loss.forward_with_reduction(*inputs), (values / weights).mean())
    torch.testing.assert_close(loss.forward_with_reduction(*inputs, "sum"), values.sum())
    with pytest.raises(ArgumentError, match="batch_mean"):
        loss.forward_with_reduction(*inputs, "batch_mean")


def test_the_mean_of_ctc_with_an_empty_target_is_finite() -> None:
    log_probs, targets, times, _ = ctc()
    lengths = torch.tensor([3, 0, 2])
    loss = nn.CTCLossConfig().init()
    expected = (loss(log_probs, targets, times, lengths) / torch.tensor([3, 1, 2])).mean()
    torch.testing.assert_close(loss.forward_with_reduction(log_probs, targets, times, lengths), expected)


def test_a_target_without_alignment() -> None:
    log_probs = torch.zeros(2, 1, 3).log_softmax(2).requires_grad_()
    inputs = torch.tensor([[1, 1]]), torch.tensor([2]), torch.tensor([2])
    assert nn.CTCLossConfig().init()(log_probs, *inputs).item() == float("inf")
    value = nn.CTCLossConfig(zero_infinity=True).init()(log_probs, *inputs)
    value.backward()
    assert value.item() == 0
    assert log_probs.grad is not None
    assert log_probs.grad.eq(0).all()


@pytest.mark.parametrize("config", [nn.RNNTLossConfig(), nn.CTCLossConfig()])
def test_what_does_not_fit_is_refused(config: Any) -> None:
    loss = config.init()
    x, targets, times, lengths = transducer() if isinstance(loss, nn.RNNTLoss) else ctc()
    name = "logit_lengths" if isinstance(loss, nn.RNNTLoss) else "input_lengths"
    for inputs, message in (
        ((x, targets[:2], times, lengths), "targets: expected"),
        ((x, targets, times[:2], lengths), rf"{name}: expected \[3\], got \[2\]"),
        ((x, targets, times, lengths[:, None]), r"target_lengths: expected \[3\], got \[3, 1\]"),
    ):
        with pytest.raises(ShapeError, match=message):
            loss(*inputs)
    for inputs in ((x, targets.float(), times, lengths), (x, targets, times, lengths.float())):
        with pytest.raises(DTypeError, match="expected integers"):
            loss(*inputs)
    for inputs, message in (
        ((x, targets + 3, times, lengths), r"targets: expected 0\.\.3"),
        ((x, targets, times + 9, lengths), rf"{name}: expected .*, got"),
        ((x, targets, times, lengths + 9), r"target_lengths: expected .*, got"),
        ((x, targets, times, lengths - 9), r"target_lengths: expected .*, got"),
    ):
        with pytest.raises(TargetError, match=message):
            loss(*inputs)
    with pytest.raises(ArgumentError, match=r"blank: expected one of the classes 0\.\.3, got 4"):
        config.replace(blank=4).init()(x, targets, times, lengths)


def test_targets_of_ctc_behind_their_length_do_not_matter() -> None:
    loss = nn.CTCLossConfig().init()
    log_probs, targets, times, lengths = ctc()
    expected = loss(log_probs, targets, times, lengths)
    targets[1, 1:] = -1
    targets[2, 2:] = 99
    assert torch.equal(loss(log_probs, targets, times, lengths), expected)


def test_an_empty_lattice_is_refused() -> None:
    lengths = torch.ones(1, dtype=torch.int64)
    with pytest.raises(ShapeError, match="above 0"):
        nn.RNNTLossConfig().init()(torch.zeros(1, 0, 2, 3), torch.zeros(1, 1, dtype=torch.int64), lengths, lengths)
    with pytest.raises(ShapeError, match="expected a time above 0"):
        nn.CTCLossConfig().init()(torch.zeros(0, 1, 3), torch.zeros(1, 1, dtype=torch.int64), lengths, lengths)
