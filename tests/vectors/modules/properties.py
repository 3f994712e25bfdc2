"""Expectations in words, by the call and the text: each runs its record and checks what the text says."""

from collections.abc import Callable
from typing import Any

import torch

from .calls import initialized, method
from .expectations import CLOSE, Failure, same
from .results import Result
from .subject import Subject

forward = method("forward")


def unchanged(subject: Subject) -> Result:
    """The output is the input."""
    result = forward(subject)
    if not torch.equal(result.single(), subject.tensors()["input"]):
        raise Failure("the output is not the input")
    return result


def changed(subject: Subject) -> Result:
    """The output is another one than the input."""
    result = forward(subject)
    if torch.equal(result.single(), subject.tensors()["input"]):
        raise Failure("the output is the input")
    return result


def within(low: float, high: float) -> Callable[[Subject], Result]:
    """Every number lies in [low, high]."""

    def check(subject: Subject) -> Result:
        result = forward(subject)
        output = result.single()
        if output.min() < low or output.max() > high:
            raise Failure(f"expected numbers in [{low}, {high}], got {output.min()} to {output.max()}")
        return result

    return check


def close(result: Result, expected: torch.Tensor, subject: Subject) -> Result:
    """Compare with what another way gives, by the record's tolerances."""
    same(result.single(), expected.tolist(), CLOSE, "the output")
    return result


def shifted(subject: Subject) -> Result:
    """Rotation at positions from 6, by a table that was moved there."""
    config: Any = subject.config()
    x = subject.wrapped(subject.tensors()["input"])
    layer = config.init()
    layer.shift(6)
    whole = config.replace(max_sequence_length=10).init()
    result = Result.of(subject.world, layer.apply(x, 0))
    return close(result, subject.world.plain(whole.apply(x, 6)), subject)


def shifted_twice(subject: Subject) -> Result:
    """No error."""
    layer: Any = subject.layer()
    layer.shift(2)
    layer.shift(5)
    return Result(subject.world)


def masked(subject: Subject) -> Result:
    """What the mask hides does not matter."""
    layer = subject.layer()
    query, context, mask = subject.tensors().values()
    result = Result.of(subject.world, layer(*(subject.wrapped(it) for it in (query, context, mask))))
    other = torch.where(mask.unsqueeze(-1), torch.rand_like(context) + 1, context)
    again = layer(*(subject.wrapped(it) for it in (query, other, mask)))
    return close(result, subject.world.plain(again), subject)


def of_one_hot(subject: Subject, smoothing: float = 0.0, *, weighted: bool = False) -> Result:
    """The cross entropy with targets as probabilities, weights over the sum of those of the targets."""
    logits, targets = subject.tensors().values()
    count = logits.shape[-1]
    wanted = torch.nn.functional.one_hot(targets, count) * (1 - smoothing) + smoothing / count
    weights = torch.tensor(subject.record["config"]["weights"]) if weighted else torch.ones(count)
    loss = -(weights * wanted * logits.log_softmax(-1)).sum() / weights[targets].sum()
    result = Result.of(subject.world, subject.layer()(subject.wrapped(logits), subject.wrapped(targets)))
    return close(result, loss.reshape(1), subject)


def of_no_smoothing(subject: Subject) -> Result:
    """Smoothing 0 is none."""
    args = [subject.wrapped(it) for it in subject.tensors().values()]
    plain = subject.config({**subject.record["config"], "smoothing": None}).init()
    result = Result.of(subject.world, subject.layer()(*args))
    return close(result, subject.world.plain(plain(*args)).reshape(1), subject)


def of_log_probabilities(subject: Subject) -> Result:
    """With `logits` the loss takes the log softmax itself."""
    logits, *others = (subject.wrapped(it) for it in subject.tensors().values())
    other = subject.config({**subject.record["config"], "logits": False}).init()
    result = Result.of(subject.world, subject.layer()(logits, *others))
    return close(result, subject.world.plain(other(torch.log_softmax(logits, -1), *others)), subject)


PROPERTIES: dict[tuple[str, str], Callable[[Subject], Result]] = {
    ("forward", "output == input exactly"): unchanged,
    ("forward", "output != input"): changed,
    ("forward", "every output element is in [-0.5, 0.5]"): within(-0.5, 0.5),
    ("init", "init does not fail (fan_out is provided to the initializer)"): initialized,
    (
        "shift(6); apply(x, 0)",
        "RotaryEncoding(4,4) after shift(6) and apply(x, 0) equals RotaryEncoding(10,4).apply(x, 6)",
    ): shifted,
    ("shift(2); shift(5)", "no error"): shifted_twice,
    (
        "forward",
        "changing the context at masked (last 2 of 8) positions does not change the output",
    ): masked,
    ("forward", "equals cross_entropy_with_logits(logits, one_hot(targets)) (mean over the batch)"): of_one_hot,
    (
        "forward",
        "equals -sum(w * onehot * log_softmax) / (w[2]+w[0]+w[4]+w[1]) = .../(3+1+5+2)",
    ): lambda subject: of_one_hot(subject, weighted=True),
    ("forward", "smoothing 0 equals no smoothing"): of_no_smoothing,
    ("forward", "smoothing 0 with weights equals weights only"): of_no_smoothing,
    (
        "forward",
        "equals -mean over batch of sum(log_softmax * smoothed targets)",
    ): lambda subject: of_one_hot(subject, subject.record["config"]["smoothing"]),
    ("forward", "logits=true on logits equals logits=false on log_softmax(logits)"): of_log_probabilities,
}
