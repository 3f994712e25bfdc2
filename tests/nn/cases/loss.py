"""Cases of losses."""

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional

from burnlike import nn

from . import Case, floats

WEIGHTS = (0.5, 2.0, 1.0, 1.5)
TARGETS = (2, 0, 3, 1, 2)

NO_META_CTC = dict.fromkeys(("compile", "export", "meta"), "torch has no meta kernel of ctc_loss")
NO_VMAP_CTC = {"vmap": "torch has no batching rule for ctc_loss"}


def pair(*shape: int) -> Callable[[], tuple[Tensor, ...]]:
    return lambda: (floats(*shape), floats(*shape))


def rows() -> tuple[Tensor, Tensor]:
    return floats(5, 4), torch.tensor(TARGETS)


def probabilities() -> tuple[Tensor, Tensor]:
    x, targets = rows()
    return x.softmax(1), targets


def signs(*shape: int) -> Tensor:
    return floats(*shape).sign().long()


def yes_or_no(*shape: int) -> tuple[Tensor, Tensor]:
    return floats(*shape), (floats(*shape) > 0).long()


def rates(*shape: int) -> tuple[Tensor, Tensor]:
    return torch.rand(shape, dtype=torch.float64) / 2, yes_or_no(*shape)[1]


def as_floats(x: Tensor, targets: Tensor) -> tuple[Tensor, Tensor]:
    return x, targets.double()


def cross_entropy(loss: Any, x: Tensor, targets: Tensor) -> Tensor:
    """Row by row, with one-hot targets."""
    log_probs = x - x.exp().sum(1, keepdim=True).log() if loss.logits else x.log()
    total = count = torch.zeros((), dtype=torch.float64)
    for row, target in zip(log_probs, targets.tolist(), strict=True):
        if target in (loss.pad_tokens or ()):
            continue
        weights = torch.ones(4, dtype=torch.float64) if loss.weights is None else loss.weights
        smoothing = loss.smoothing or 0.0
        expected = torch.full((4,), smoothing / 4, dtype=torch.float64)
        expected[target] += 1 - smoothing
        total, count = total - (expected * weights * row).sum(), count + weights[target]
    return total / count


def binary_cross_entropy(loss: Any, x: Tensor, targets: Tensor) -> Tensor:
    p = x.sigmoid() if loss.logits else x
    expected = targets.double()
    if loss.smoothing is not None:
        count = targets.shape[-1] if targets.ndim > 1 else 2
        expected = expected * (1 - loss.smoothing) + loss.smoothing / count
    value = -(expected * p.log() + (1 - expected) * (1 - p).log())
    if loss.weights is not None:
        value = value * (loss.weights if targets.ndim > 1 else loss.weights[targets])
    return value.mean()


def ctc() -> tuple[Tensor, ...]:
    log_probs = floats(6, 3, 4).log_softmax(2)
    return log_probs, torch.tensor([[1, 2, 2], [3, 0, 0], [1, 1, 0]]), torch.tensor([6, 4, 5]), torch.tensor([3, 1, 2])


def transducer(zero_length: bool = False) -> tuple[Tensor, ...]:
    targets, lengths = torch.tensor([[1, 2], [3, 3], [2, 1]]), torch.tensor([2, 0 if zero_length else 1, 2])
    return floats(3, 4, 3, 4), targets, torch.tensor([4, 3, 2]), lengths


def rnnt(loss: Any, x: Tensor, targets: Tensor, times: Tensor, lengths: Tensor) -> Tensor:
    """Cell by cell (Graves 2012, eq. 16 and 17)."""
    log_probs = x.log_softmax(3) if loss.logits else x
    found = []
    for sample in range(len(x)):
        time, length = int(times[sample]), int(lengths[sample])
        alpha: dict[tuple[int, int], Tensor] = {}
        for t in range(time):
            for u in range(length + 1):
                arcs = [torch.zeros((), dtype=torch.float64)] if t == u == 0 else []
                if t:
                    arcs.append(alpha[t - 1, u] + log_probs[sample, t - 1, u, loss.blank])
                if u:
                    arcs.append(alpha[t, u - 1] + log_probs[sample, t, u - 1, targets[sample, u - 1]])
                alpha[t, u] = torch.stack(arcs).logsumexp(0)
        found.append(-alpha[time - 1, length] - log_probs[sample, time - 1, length, loss.blank])
    return torch.stack(found)


def of_none(function: Callable[..., Tensor]) -> dict[str, Callable[..., Tensor]]:
    """The reductions of a function without one, by name."""
    return {
        "mean": lambda *args: function(*args[:-1]).mean(),
        "sum": lambda *args: function(*args[:-1]).sum(),
        "auto": lambda *args: function(*args[:-1]).mean(),
        "batch_mean": lambda *args: function(*args[:-1]).sum() / len(args[1]),
    }


def reductions(
    name: str,
    config: Any,
    inputs: Callable[[], tuple[Any, ...]],
    function: Callable[..., Tensor],
    names: tuple[str, ...] = ("mean", "sum"),
) -> list[Case]:
    """One case for each reduction."""
    by_name = of_none(function)
    return [Case(f"{name}/{word}", config, lambda word=word: (*inputs(), word), by_name[word]) for word in names]


MULTI_MARGIN = {"vmap": "torch has no batching rule for multi_margin_loss"}
CE = nn.CrossEntropyLossConfig
BCE = nn.BinaryCrossEntropyLossConfig

CASES = [
    Case("CrossEntropyLoss", CE(), rows, bad_shapes=((5,), (4, 4), (5, 4, 1))),
    Case("CrossEntropyLoss/pad", CE(pad_tokens=(2,)), rows),
    Case("CrossEntropyLoss/pad_no_class", CE(pad_tokens=(-100,)), lambda: (floats(2, 3), torch.tensor([-100, 1]))),
    Case("CrossEntropyLoss/pads", CE(pad_tokens=(2, 0)), rows, cross_entropy),
    Case("CrossEntropyLoss/weights", CE(weights=WEIGHTS), rows, bad_shapes=((5, 3),)),
    Case("CrossEntropyLoss/weights_pad", CE(weights=WEIGHTS, pad_tokens=(2,)), rows),
    Case("CrossEntropyLoss/smoothing", CE(smoothing=0.1), rows),
    Case("CrossEntropyLoss/smoothing_pad", CE(smoothing=0.1, pad_tokens=(2,)), rows),
    Case("CrossEntropyLoss/smoothing_weights", CE(smoothing=0.1, weights=WEIGHTS), rows),
    Case("CrossEntropyLoss/all", CE(smoothing=0.1, weights=WEIGHTS, pad_tokens=(2, 9)), rows, cross_entropy),
    Case("CrossEntropyLoss/probabilities", CE(logits=False), probabilities, cross_entropy),
    Case(
        "CrossEntropyLoss/probabilities_all",
        CE(logits=False, smoothing=0.1, weights=WEIGHTS, pad_tokens=(2,)),
        probabilities,
        cross_entropy,
    ),
    Case("CrossEntropyLoss/probabilities_weights", CE(logits=False, weights=WEIGHTS), probabilities, cross_entropy),
    Case("CrossEntropyLoss/probabilities_pad", CE(logits=False, pad_tokens=(2, 7)), probabilities, cross_entropy),
    Case("CrossEntropyLoss/probabilities_smoothing", CE(logits=False, smoothing=0.1), probabilities, cross_entropy),
    Case(
        "BinaryCrossEntropyLoss",
        BCE(),
        lambda: rates(5),
        torch_inputs=as_floats,
        bad_shapes=((4,), (5, 1)),
    ),
    Case("BinaryCrossEntropyLoss/logits", BCE(logits=True), lambda: yes_or_no(5, 4), torch_inputs=as_floats),
    Case("BinaryCrossEntropyLoss/floats", BCE(logits=True), lambda: (floats(5), torch.rand(5, dtype=torch.float64))),
    Case(
        "BinaryCrossEntropyLoss/smoothing", BCE(smoothing=0.1, logits=True), lambda: yes_or_no(6), binary_cross_entropy
    ),
    Case(
        "BinaryCrossEntropyLoss/weights",
        BCE(weights=(0.5, 2.0), logits=True),
        lambda: yes_or_no(6),
        binary_cross_entropy,
    ),
    Case(
        "BinaryCrossEntropyLoss/multilabel",
        BCE(weights=WEIGHTS, smoothing=0.2),
        lambda: rates(5, 4),
        binary_cross_entropy,
        bad_shapes=((5, 3),),
    ),
    Case("MseLoss", nn.MseLossConfig(), pair(3, 4), bad_shapes=((3, 1), (4,))),
    *reductions("MseLoss", nn.MseLossConfig(), pair(3, 4), lambda _, x, y: (x - y) ** 2),
    Case("HuberLoss", nn.HuberLossConfig(delta=0.7), pair(3, 4), bad_shapes=((3, 1),)),
    *reductions(
        "HuberLoss",
        nn.HuberLossConfig(delta=0.7),
        pair(3, 4),
        lambda loss, x, y: torch.where(
            (x - y).abs() <= loss.delta, (x - y) ** 2 / 2, loss.delta * ((x - y).abs() - loss.delta / 2)
        ),
    ),
    Case("SmoothL1Loss", nn.SmoothL1LossConfig(beta=0.7), pair(3, 4), bad_shapes=((3, 1),)),
    Case("LpLoss/l1", nn.LpLossConfig(p=1.0), pair(3, 4), bad_shapes=((3, 1),)),
    Case("LpLoss/l2", nn.LpLossConfig(p=2.0), pair(3, 4)),
    *reductions("LpLoss/l2", nn.LpLossConfig(p=2.0), pair(3, 4), lambda _, x, y: (x - y) ** 2),
    *reductions("LpLoss/l3", nn.LpLossConfig(p=3.0), pair(3, 4), lambda _, x, y: (x - y).abs() ** 3),
    *reductions("LpLoss/half", nn.LpLossConfig(p=0.5), pair(3, 4), lambda _, x, y: (x - y).abs().sqrt()),
    Case("KLDivLoss", nn.KLDivLossConfig(), lambda: (floats(3, 4), floats(3, 4).softmax(1)), bad_shapes=((3, 1),)),
    Case("KLDivLoss/log_target", nn.KLDivLossConfig(log_target=True), pair(3, 4)),
    *reductions(
        "KLDivLoss",
        nn.KLDivLossConfig(),
        lambda: (floats(3, 4), floats(3, 4).softmax(1)),
        lambda _, x, y: y * (y.log() - x),
        ("mean", "sum", "batch_mean"),
    ),
    Case("PoissonNllLoss", nn.PoissonNllLossConfig(), lambda: (floats(3, 4), floats(3, 4).exp()), bad_shapes=((3, 1),)),
    Case(
        "PoissonNllLoss/rates",
        nn.PoissonNllLossConfig(log_input=False, full=True, eps=1e-3),
        lambda: (floats(3, 4).exp(), floats(3, 4).exp()),
    ),
    *reductions(
        "PoissonNllLoss",
        nn.PoissonNllLossConfig(),
        lambda: (floats(3, 4), floats(3, 4).exp()),
        lambda _, x, y: x.exp() - y * x,
    ),
    Case(
        "GaussianNLLLoss",
        nn.GaussianNLLLossConfig(),
        lambda: (floats(3, 4), floats(3, 4), floats(3, 4).exp()),
        bad_shapes=((3, 1),),
    ),
    Case(
        "GaussianNLLLoss/one_variance",
        nn.GaussianNLLLossConfig(full=True),
        lambda: (floats(3, 4), floats(3, 4), floats(3, 1).exp()),
    ),
    *reductions(
        "GaussianNLLLoss",
        nn.GaussianNLLLossConfig(eps=0.5),
        lambda: (floats(3, 4), floats(3, 4), floats(3, 4).exp()),
        lambda loss, x, y, var: (var.clamp(min=loss.eps).log() + (x - y) ** 2 / var.clamp(min=loss.eps)) / 2,
    ),
    Case(
        "CosineEmbeddingLoss",
        nn.CosineEmbeddingLossConfig(margin=0.1),
        lambda: (floats(5, 4), floats(5, 4), torch.tensor([1, -1, -1, 1, -1])),
        bad_shapes=((5,), (5, 3), (4, 4)),
    ),
    Case(
        "CosineEmbeddingLoss/sum",
        nn.CosineEmbeddingLossConfig(reduction="sum"),
        lambda: (floats(5, 4), floats(5, 4), torch.tensor([1, -1, -1, 1, 0])),
    ),
    Case("HingeEmbeddingLoss", nn.HingeEmbeddingLossConfig(), lambda: (floats(9), signs(9)), bad_shapes=((8,),)),
    *reductions(
        "HingeEmbeddingLoss",
        nn.HingeEmbeddingLossConfig(margin=0.5),
        lambda: (floats(9), signs(9)),
        lambda loss, x, y: torch.where(y == 1, x, (loss.margin - x).clamp(min=0)),
    ),
    Case(
        "MarginRankingLoss",
        nn.MarginRankingLossConfig(margin=0.3),
        lambda: (floats(9), floats(9), signs(9)),
        bad_shapes=((8,),),
    ),
    *reductions(
        "MarginRankingLoss",
        nn.MarginRankingLossConfig(margin=0.3),
        lambda: (floats(9), floats(9), signs(9)),
        lambda loss, x, y, target: (loss.margin - target * (x - y)).clamp(min=0),
    ),
    Case("MultiMarginLoss", nn.MultiMarginLossConfig(), rows, bad_shapes=((5,), (4, 4)), not_in=MULTI_MARGIN),
    Case("MultiMarginLoss/squared", nn.MultiMarginLossConfig(margin=0.5, p=2), rows, not_in=MULTI_MARGIN),
    Case(
        "MultiMarginLoss/sum",
        nn.MultiMarginLossConfig(),
        lambda: (*rows(), "sum"),
        lambda _, x, y, word: functional.multi_margin_loss(x, y, reduction=word),
        not_in=MULTI_MARGIN,
    ),
    Case("SoftMarginLoss", nn.SoftMarginLossConfig(), lambda: (floats(3, 4), signs(3, 4)), bad_shapes=((3, 1),)),
    *reductions(
        "SoftMarginLoss",
        nn.SoftMarginLossConfig(),
        lambda: (floats(3, 4), signs(3, 4)),
        lambda _, x, y: (1 + (-y * x).exp()).log(),
    ),
    Case(
        "TripletMarginLoss",
        nn.TripletMarginLossConfig(),
        lambda: (floats(3, 4), floats(3, 4), floats(3, 4)),
        bad_shapes=((3,), (3, 3)),
    ),
    *reductions(
        "TripletMarginLoss/l3",
        nn.TripletMarginLossConfig(margin=0.3, p=3.0),
        lambda: (floats(3, 4), floats(3, 4), floats(3, 4)),
        lambda loss, x, y, z: (
            ((x - y).abs() ** 3).sum(1) ** (1 / 3) - ((x - z).abs() ** 3).sum(1) ** (1 / 3) + loss.margin
        ).clamp(min=0),
    ),
    Case("CTCLoss", nn.CTCLossConfig(), ctc, bad_shapes=((6, 3), (6, 2, 4)), not_in={**NO_META_CTC, **NO_VMAP_CTC}),
    Case("CTCLoss/blank", nn.CTCLossConfig(blank=3, zero_infinity=True), ctc, not_in={**NO_META_CTC, **NO_VMAP_CTC}),
    Case("RNNTLoss", nn.RNNTLossConfig(), transducer, rnnt, bad_shapes=((3, 4, 3), (2, 4, 3, 4), (3, 4, 4, 4))),
    Case("RNNTLoss/blank", nn.RNNTLossConfig(blank=3), lambda: transducer(zero_length=True), rnnt),
    Case(
        "RNNTLoss/log_probs",
        nn.RNNTLossConfig(logits=False),
        lambda: (floats(3, 4, 3, 4).log_softmax(3), *transducer()[1:]),
        rnnt,
    ),
]
