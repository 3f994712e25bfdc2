"""Losses of classes: Burn's numbers, and what is refused."""

from typing import Any

import pytest
import torch
from hypothesis import given, settings, strategies as st
from torch import Tensor

from burnlike import Autodiff, Cpu, Tensor as Typed, nn
from burnlike.errors import ArgumentError, ConfigError, DTypeError, ShapeError, TargetError

from ..cases.loss import binary_cross_entropy, cross_entropy

LOGITS = torch.tensor([[1.0, 2.0, 3.0], [3.0, 1.0, 0.0], [0.0, 0.0, 1.0]])
TARGETS = torch.tensor([2, 0, 1])
WEIGHTS = (1.0, 2.0, 3.0)


@pytest.mark.parametrize(
    ("config", "expected"),
    [
        (nn.CrossEntropyLossConfig(), 0.7096322),
        (nn.CrossEntropyLossConfig(pad_tokens=(1,)), 0.288726),
        (nn.CrossEntropyLossConfig(pad_tokens=(1,), weights=WEIGHTS), 0.348166),
        (nn.CrossEntropyLossConfig(smoothing=0.1), 0.78741),
        (nn.CrossEntropyLossConfig(smoothing=0.1, pad_tokens=(1,), weights=WEIGHTS), 0.48388866),
    ],
)
def test_numbers_are_burns(config: nn.CrossEntropyLossConfig, expected: float) -> None:
    assert config.init()(LOGITS, TARGETS).item() == pytest.approx(expected, rel=1e-5)


@pytest.mark.parametrize("logits", [True, False])
@pytest.mark.parametrize("smoothing", [None, 0.1])
def test_nothing_but_pads_is_nan(logits: bool, smoothing: float | None) -> None:
    loss = nn.CrossEntropyLossConfig(pad_tokens=(1,), logits=logits, smoothing=smoothing).init()
    assert loss(LOGITS.softmax(1), torch.ones(3, dtype=torch.int64)).isnan()


@pytest.mark.parametrize("smoothing", [None, 0.1])
def test_a_probability_of_0_gives_a_finite_loss(smoothing: float | None) -> None:
    probabilities = torch.tensor([[0.0, 1.0]], requires_grad=True)
    loss = nn.CrossEntropyLossConfig(logits=False, smoothing=smoothing).init()(probabilities, torch.tensor([0]))
    assert loss.item() == pytest.approx(43.668 * (1 - (smoothing or 0) / 2), rel=1e-4)
    loss.backward()
    assert probabilities.grad is not None
    assert probabilities.grad.isfinite().all()


OPTIONS = st.fixed_dictionaries(
    {
        "pad_tokens": st.none() | st.lists(st.integers(-2, 6), min_size=1, max_size=3).map(tuple),
        "weights": st.none() | st.lists(st.floats(0.1, 4.0), min_size=4, max_size=4).map(tuple),
        "smoothing": st.none() | st.floats(0.0, 1.0),
        "logits": st.booleans(),
    }
)


@settings(derandomize=True, max_examples=40, deadline=None)
@given(options=OPTIONS, targets=st.lists(st.integers(-2, 6), min_size=1, max_size=6), seed=st.integers(0, 99))
def test_cross_entropy_is_the_mean_row_by_row(options: dict, targets: list[int], seed: int) -> None:
    pads = options["pad_tokens"] or ()
    targets = [it if it in pads else it % 4 for it in targets]
    loss = nn.CrossEntropyLossConfig(**options).init().double()
    x = torch.randn(len(targets), 4, dtype=torch.float64, generator=torch.Generator().manual_seed(seed))
    x = x if loss.logits else x.softmax(1)
    inputs = [x.clone().requires_grad_() for _ in range(2)]
    found, expected = loss(inputs[0], torch.tensor(targets)), cross_entropy(loss, inputs[1], torch.tensor(targets))
    torch.testing.assert_close(found, expected, rtol=1e-12, atol=1e-12, equal_nan=True)
    if not found.isnan():
        grads = [torch.autograd.grad(it, x)[0] for it, x in zip((found, expected), inputs, strict=True)]
        torch.testing.assert_close(*grads, rtol=1e-12, atol=1e-12)


@settings(derandomize=True, max_examples=30, deadline=None)
@given(
    shape=st.lists(st.integers(1, 4), min_size=1, max_size=3),
    smoothing=st.none() | st.floats(0.0, 1.0),
    logits=st.booleans(),
    weighted=st.booleans(),
)
def test_binary_cross_entropy_is_the_mean_of_all(
    shape: list[int], smoothing: float | None, logits: bool, weighted: bool
) -> None:
    classes = shape[-1] if len(shape) > 1 else 2
    weights = tuple(0.5 + it for it in range(classes)) if weighted else None
    loss = nn.BinaryCrossEntropyLossConfig(weights=weights, smoothing=smoothing, logits=logits).init().double()
    generator = torch.Generator().manual_seed(0)
    x = torch.rand(shape, dtype=torch.float64, generator=generator) * 0.9 + 0.05
    targets = torch.randint(0, 2, shape, generator=generator)
    torch.testing.assert_close(loss(x, targets), binary_cross_entropy(loss, x, targets), rtol=1e-10, atol=1e-12)


def test_smoothing_0_is_none() -> None:
    with_weights = nn.CrossEntropyLossConfig(weights=WEIGHTS)
    for config in (nn.CrossEntropyLossConfig(), with_weights):
        assert torch.equal(config.replace(smoothing=0.0).init()(LOGITS, TARGETS), config.init()(LOGITS, TARGETS))


@pytest.mark.parametrize(
    "options",
    [
        {},
        {"logits": False},
        {"smoothing": 0.1},
        {"smoothing": 0.1, "weights": WEIGHTS},
        {"weights": WEIGHTS, "logits": False},
        {"pad_tokens": (9,)},
        {"pad_tokens": (9, -100), "smoothing": 0.1, "weights": WEIGHTS},
    ],
)
@pytest.mark.parametrize("target", [3, -1])
def test_targets_that_are_no_classes_are_named(options: dict, target: int) -> None:
    loss = nn.CrossEntropyLossConfig(**options).init()
    with pytest.raises(TargetError, match=rf"CrossEntropyLoss: targets: expected 0\.\.2, got {target}$"):
        loss(LOGITS.softmax(1), torch.tensor([0, target, 9 if "pad_tokens" in options else 1]))


def test_the_error_of_a_target_is_an_index_error() -> None:
    with pytest.raises(IndexError, match=r"MultiMarginLoss: target: expected 0\.\.2, got 3"):
        nn.MultiMarginLossConfig().init()(LOGITS, torch.tensor([0, 3, 1]))


@pytest.mark.parametrize("make", [nn.CrossEntropyLossConfig, nn.MultiMarginLossConfig])
def test_targets_are_integers_and_one_for_each_row(make: type) -> None:
    loss = make().init()
    for dtype in (torch.float32, torch.bool):
        with pytest.raises(DTypeError, match=r"targets?: expected integers, got torch"):
            loss(LOGITS, TARGETS.to(dtype))
    for targets in (TARGETS[:2], TARGETS[:, None], LOGITS):
        with pytest.raises(ShapeError, match=r"targets?: expected \[3\], got"):
            loss(LOGITS, targets)
    assert torch.equal(loss(LOGITS, TARGETS.int()), loss(LOGITS, TARGETS))


def test_targets_of_binary_cross_entropy() -> None:
    loss = nn.BinaryCrossEntropyLossConfig(weights=(1.0, 2.0), logits=True).init()
    with pytest.raises(TargetError, match=r"expected 0\.\.1, got 2"):
        loss(torch.zeros(2), torch.tensor([0, 2]))
    with pytest.raises(DTypeError, match="expected integers"):
        loss(torch.zeros(2), torch.zeros(2))
    with pytest.raises(ShapeError, match=r"expected \[\.\.\., 2\], as there are 2 weights, got \[2, 3\]"):
        loss(torch.zeros(2, 3), torch.zeros(2, 3))
    with pytest.raises(ArgumentError, match=r"got probabilities in -1\.\.2; for logits, set `logits: true`"):
        nn.BinaryCrossEntropyLossConfig().init()(torch.tensor([-1.0, 2.0]), torch.tensor([0, 1]))


@pytest.mark.parametrize(
    "options",
    [{"weights": []}, {"weights": [1.0, 0.0]}, {"smoothing": 1.5}, {"pad_tokens": []}, {"weights": [float("nan")]}],
)
def test_options_that_make_no_sense_are_refused(options: dict) -> None:
    with pytest.raises(ConfigError, match=next(iter(options))):
        nn.CrossEntropyLossConfig(**options)


def test_weights_move_with_the_module_and_are_not_saved() -> None:
    loss: Any = nn.CrossEntropyLossConfig(weights=WEIGHTS).init()
    assert loss.state_dict() == {}
    assert loss.double().weights.dtype == torch.float64
    assert loss.to("meta").weights.is_meta
    logits = LOGITS.double()
    mixed = nn.CrossEntropyLossConfig(weights=WEIGHTS).init()(logits, TARGETS)
    torch.testing.assert_close(mixed, nn.CrossEntropyLossConfig(weights=WEIGHTS).init().double()(logits, TARGETS))


def test_a_typed_loss_has_one_element_and_a_backward_pass() -> None:
    backend = Autodiff(Cpu())
    x = Typed(LOGITS, backend).require_grad()
    loss = nn.CrossEntropyLossConfig(pad_tokens=(1,)).init()(x, Typed(TARGETS, backend))
    assert list(loss.shape) == [1]
    grads = x.grad(loss.backward())
    assert grads is not None
    plain = LOGITS.clone().requires_grad_()
    nn.CrossEntropyLossConfig(pad_tokens=(1,)).init()(plain, TARGETS).backward()
    torch.testing.assert_close(grads.inner, plain.grad, rtol=0, atol=0)


@pytest.mark.parametrize(("pads", "text"), [(None, "None"), ((0, 3), "Vec<0..2>")], ids=["none", "two"])
def test_the_display_tells_the_number_of_pad_tokens(pads: tuple[int, ...] | None, text: str) -> None:
    loss = nn.CrossEntropyLossConfig(pad_tokens=pads, weights=WEIGHTS, smoothing=0.5).init()
    expected = f"{{pad_tokens: {text}, weights: Tensor {{rank: 1, shape: [3]}}, smoothing: 0.5, logits: true}}"
    assert str(loss) == f"CrossEntropyLoss {expected}"


def test_no_class_is_read_in_a_compiled_graph() -> None:
    loss = nn.CrossEntropyLossConfig(logits=False, pad_tokens=(1,)).init()

    def compiled(x: Tensor, targets: Tensor) -> Tensor:
        return loss(x, targets)

    torch._dynamo.reset()
    found = torch.compile(compiled, fullgraph=True, backend="eager")(LOGITS.softmax(1), TARGETS)
    torch.testing.assert_close(found, loss(LOGITS.softmax(1), TARGETS))


def test_a_second_derivative_of_cross_entropy_is_that_of_torch() -> None:
    logits, targets = torch.randn(3, 6, dtype=torch.float64, requires_grad=True), torch.tensor([0, 5, 2])

    def penalty(loss: Tensor) -> Tensor:
        (gradient,) = torch.autograd.grad(loss, logits, create_graph=True)
        return torch.autograd.grad(gradient.square().sum(), logits)[0]

    expected = penalty(torch.nn.functional.cross_entropy(logits, targets, label_smoothing=0.1))
    torch.testing.assert_close(penalty(nn.CrossEntropyLossConfig(smoothing=0.1).init()(logits, targets)), expected)
