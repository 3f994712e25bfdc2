"""Cases of losses: drawn configs, inputs, edges and reductions."""

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from random import Random
from typing import Any

import torch
from torch import Tensor

from tests.burn_configs import module_config

from .layer_case import Fields, LayerCase, floats, rounded, sizes, yes

WORDS = {"mean": "Mean", "sum": "Sum", "auto": "Auto", "batch_mean": "BatchMean", "none": "none"}
EDGES = (0.0, 1.0, -1.0, 1e-30, 1e30, torch.inf, -torch.inf, torch.nan)

Inputs = dict[str, Tensor]


def _values(random: Random, *shape: int, edges: Sequence[float] = EDGES) -> Tensor:
    """Normal numbers, in one case of four with special ones among them."""
    x = floats(random, *shape)
    if random.random() < 0.25:
        flat = x.view(-1)
        for at in range(len(flat)):
            if random.random() < 0.3:
                flat[at] = random.choice(edges)
    return x


def _shape(random: Random) -> list[int]:
    return sizes(random, random.randint(1, 3), 1, 4) if random.random() < 0.9 else [0, 3]


def _signs(random: Random, *shape: int) -> Tensor:
    return floats(random, *shape).sign()


def loss_case(name: str, config: Fields, inputs: Inputs, word: str) -> LayerCase:
    """A loss whose inputs are in the order of its arguments."""

    def call(loss: Any, given: Mapping[str, Tensor]) -> Tensor:
        arguments = [*given.values()]
        if not hasattr(loss, "forward_with_reduction"):
            return loss.forward_no_reduction(*arguments) if word == "none" else loss(*arguments, word)
        return loss(*arguments) if word == "none" else loss.forward_with_reduction(*arguments, word)

    return LayerCase(name, config, inputs, {"reduction": WORDS[word]}, call)


def _of_pairs(
    name: str, config: Callable[[Random], Fields], targets: Callable[..., Tensor] = _values, values: Any = _values
) -> Callable[[Random], LayerCase]:
    def draw(random: Random) -> LayerCase:
        shape = _shape(random)
        inputs = {"x": values(random, *shape), "y": targets(random, *shape)}
        return loss_case(name, config(random), inputs, random.choice([*WORDS]))

    return draw


def _probabilities(random: Random, *shape: int) -> Tensor:
    return floats(random, *shape).sigmoid()


def _logarithms(random: Random, *shape: int) -> Tensor:
    return _probabilities(random, *shape).log()


def _counts(random: Random, *shape: int) -> Tensor:
    return (floats(random, *shape).abs() * 2).round()


def _kl(random: Random) -> LayerCase:
    is_log = yes(random)
    draw = _of_pairs(
        "KLDivLoss", lambda _: {"log_target": is_log}, _logarithms if is_log else _probabilities, _logarithms
    )
    return draw(random)


def _poisson(random: Random) -> LayerCase:
    is_log = yes(random)
    config = {"log_input": is_log, "full": yes(random), "eps": random.choice([1e-8, 0.1])}
    return _of_pairs("PoissonNllLoss", lambda _: config, _counts, floats if is_log else _counts)(random)


def _gaussian(random: Random) -> LayerCase:
    shape = _shape(random)
    inputs = {"x": _values(random, *shape), "y": _values(random, *shape), "var": floats(random, *shape).square()}
    config = {"eps": random.choice([1e-6, 0.3]), "full": yes(random)}
    return loss_case("GaussianNLLLoss", config, inputs, random.choice([*WORDS]))


def _ranking(random: Random) -> LayerCase:
    shape = _shape(random)
    inputs = {"x": _values(random, *shape), "y": _values(random, *shape), "target": _signs(random, *shape)}
    return loss_case("MarginRankingLoss", {"margin": rounded(random, 0, 1)}, inputs, random.choice([*WORDS]))


def _multi_margin(random: Random) -> LayerCase:
    batch, classes = random.randint(0, 4), random.randint(1, 5)
    inputs = {"x": floats(random, batch, classes), "y": _integers(random, classes, batch)}
    config = {"margin": rounded(random, 0, 2), "p": random.choice([1, 2])}
    return loss_case("MultiMarginLoss", config, inputs, random.choice([*WORDS]))


def _integers(random: Random, count: int, *shape: int) -> Tensor:
    return torch.randint(0, count, shape, generator=torch.Generator().manual_seed(random.getrandbits(40)))


def _triplet(random: Random) -> LayerCase:
    shape = random.randint(0, 4), random.randint(1, 4)
    # Burn's norm squares a single number, too, and 1e30 overflows.
    edges = [it for it in EDGES if abs(it) != 1e30]
    inputs = {name: _values(random, *shape, edges=edges) for name in ("x", "y", "far")}
    config = {"margin": rounded(random, 0, 2), "p": random.choice([1.0, 2.0, 3.0, 1.5])}
    return loss_case("TripletMarginLoss", config, inputs, random.choice([*WORDS]))


def _cosine(random: Random) -> LayerCase:
    shape = random.randint(0, 4), random.randint(2, 4)
    scale = random.choice([1.0, 1.0, 1e-3, 1e-10, 1e-15])
    inputs = {name: floats(random, *shape) * scale for name in ("x", "y")}
    inputs["target"] = _integers(random, 3, shape[0]) - 1
    word = random.choice([*WORDS])
    config = {"margin": rounded(random, -1, 1), "reduction": "Mean"}

    def call(loss: Any, given: Mapping[str, Tensor]) -> Tensor:
        return loss.forward_no_reduction(*given.values()) if word == "none" else loss(*given.values())

    def make() -> Any:
        reduction = "mean" if word == "none" else word
        return module_config("CosineEmbeddingLoss", {**config, "reduction": reduction}).init()

    return LayerCase("CosineEmbeddingLoss", config, inputs, {"reduction": WORDS[word]}, call, make)


def _weights(random: Random, count: int) -> list[float] | None:
    return [rounded(random, 0.1, 2) for _ in range(count)] if yes(random) else None


def _cross_entropy(random: Random) -> LayerCase:
    batch, classes = random.randint(1, 5), random.randint(2, 5)
    config = {
        "pad_tokens": random.sample(range(classes), random.randint(1, 2)) if yes(random) else None,
        "weights": _weights(random, classes),
        "smoothing": rounded(random, 0, 0.9) if yes(random) else None,
        "logits": yes(random),
    }
    x = floats(random, batch, classes) * 3
    inputs = {"x": x if config["logits"] else x.softmax(1), "y": _integers(random, classes, batch)}
    if config["pad_tokens"] and random.random() < 0.3:
        inputs["y"].fill_(config["pad_tokens"][0])  # nothing counts
    return LayerCase("CrossEntropyLoss", config, inputs, call=_two)


def _binary(random: Random) -> LayerCase:
    shape = sizes(random, random.randint(1, 3), 1, 4)
    config = {
        "weights": _weights(random, shape[-1] if len(shape) > 1 else 2),
        "smoothing": rounded(random, 0, 0.9) if yes(random) else None,
        "logits": yes(random),
    }
    x = floats(random, *shape) * 3
    inputs = {"x": x if config["logits"] else x.sigmoid(), "y": _integers(random, 2, *shape)}
    return LayerCase("BinaryCrossEntropyLoss", config, inputs, call=_two)


def _two(loss: Any, given: Mapping[str, Tensor]) -> Tensor:
    return loss(given["x"], given["y"])


def ctc_case(config: Fields, inputs: Inputs, word: str) -> LayerCase:
    """CTC of logits: gradients with respect to logarithms of probabilities are those of logits here."""
    of_log_probs = loss_case("CTCLoss", config, inputs, word).call

    def call(loss: Any, given: Mapping[str, Tensor]) -> Tensor:
        return of_log_probs(loss, {**given, "x": given["x"].log_softmax(2)})

    return LayerCase("CTCLoss", config, inputs, {"reduction": WORDS[word]}, call)


def _ctc(random: Random) -> LayerCase:
    time, batch, classes, length = (
        random.randint(1, 6),
        random.randint(1, 3),
        random.randint(3, 5),
        random.randint(1, 4),
    )
    blank = random.choice([0, 0, classes - 1])
    labels = [it for it in range(classes) if it != blank]
    lengths = [random.randint(0, min(length, time)) for _ in range(batch)]
    inputs = {
        "x": floats(random, time, batch, classes) * random.choice([1, 5]),
        "y": torch.tensor([[random.choice(labels) for _ in range(length)] for _ in range(batch)]),
        "times": torch.tensor([random.randint(it or 1, time) for it in lengths]),
        "lengths": torch.tensor(lengths),
    }
    return ctc_case({"blank": blank, "zero_infinity": yes(random)}, inputs, random.choice([*WORDS]))


def _rnnt(random: Random) -> LayerCase:
    time, batch, classes, length = (
        random.randint(1, 5),
        random.randint(1, 3),
        random.randint(2, 4),
        random.randint(1, 3),
    )
    blank = random.choice([0, 0, classes - 1])
    is_logits = yes(random)
    x = floats(random, batch, time, length + 1, classes)
    labels = [it for it in range(classes) if it != blank]
    inputs = {
        "x": x if is_logits else x.log_softmax(3),
        "y": torch.tensor([[random.choice(labels) for _ in range(length)] for _ in range(batch)]),
        "times": torch.tensor([random.randint(1, time) for _ in range(batch)]),
        "lengths": torch.tensor([random.randint(0, length) for _ in range(batch)]),
    }
    return loss_case("RNNTLoss", {"blank": blank, "logits": is_logits}, inputs, random.choice([*WORDS]))


def _over_dims(name: str, program: str, config: Callable[[Random], Fields]) -> Callable[[Random], LayerCase]:
    def draw(random: Random) -> LayerCase:
        dims = random.choice([[0], [-1], [0, 1], [1]])
        fields = config(random)
        return LayerCase(
            program,
            fields,
            {"x": floats(random, 3, 4), "y": floats(random, 3, 4)},
            {"dims": dims},
            lambda it, given: it.forward_reduce_dims(given["x"], given["y"], dims),
            lambda: module_config(name, fields).init(),
        )

    return draw


def _residuals(random: Random) -> LayerCase:
    config = {"delta": random.choice([0.5, 1.0, 2.0])}
    make = partial(_built, "HuberLoss", config)
    x = {"x": floats(random, 3, 4)}
    return LayerCase("HuberLoss residuals", config, x, {}, lambda it, given: it.forward_residuals(given["x"]), make)


def _built(name: str, config: Fields) -> Any:
    return module_config(name, config).init()


def _exponent(random: Random) -> Fields:
    return {"p": random.choice([1.0, 2.0, 3.0, 1.5, 0.5])}


def _beta(random: Random) -> Fields:
    return {"beta": rounded(random, 0.1, 2)}


def _two_dims(draw: Callable[[Random], LayerCase]) -> Callable[[Random], LayerCase]:
    def drawn(random: Random) -> LayerCase:
        while (case := draw(random)).inputs["x"].ndim != 2:
            pass
        return case

    return drawn


DRAWS: dict[str, Callable[[Random], LayerCase]] = {
    "MseLoss": _of_pairs("MseLoss", lambda _: {}),
    "HuberLoss": _of_pairs("HuberLoss", lambda r: {"delta": r.choice([0.5, 1.0, 2.0])}),
    "HuberLoss residuals": _residuals,
    "SmoothL1Loss": _two_dims(_of_pairs("SmoothL1Loss", _beta)),
    "SmoothL1Loss dims": _over_dims("SmoothL1Loss", "SmoothL1Loss", _beta),
    "LpLoss": _of_pairs("LpLoss", _exponent),
    "LpLoss dims": _over_dims("LpLoss", "LpLoss dims", _exponent),
    "KLDivLoss": _kl,
    "PoissonNllLoss": _poisson,
    "GaussianNLLLoss": _gaussian,
    "HingeEmbeddingLoss": _of_pairs("HingeEmbeddingLoss", lambda r: {"margin": rounded(r, 0, 2)}, _signs),
    "MarginRankingLoss": _ranking,
    "MultiMarginLoss": _multi_margin,
    "SoftMarginLoss": _of_pairs("SoftMarginLoss", lambda _: {}, _signs),
    "TripletMarginLoss": _triplet,
    "CosineEmbeddingLoss": _cosine,
    "CrossEntropyLoss": _cross_entropy,
    "BinaryCrossEntropyLoss": _binary,
    "CTCLoss": _ctc,
    "RNNTLoss": _rnnt,
}
"""The draw of each loss."""
