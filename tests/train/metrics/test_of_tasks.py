"""Every metric of every task that can have it, of what the task gives a Learner, beside scikit-learn and torchmetrics
in float64."""

import math
from collections.abc import Callable
from typing import Any, NamedTuple

import pytest
import sklearn.metrics as sk
import torch
import torchmetrics.functional.classification as tm
from torch import Tensor, nn
from torch.nn import functional

from burnlike.errors import BurnlikeError
from burnlike.train import (
    Classification,
    ClassificationConfig,
    LanguageModel,
    Learner,
    MaskedLanguageModel,
    MaskedLanguageModelConfig,
    Segmentation,
    SegmentationConfig,
    SequenceToSequence,
    TokenClassification,
    metrics as m,
)

CLASSES = 4
GENERATOR = torch.Generator().manual_seed(11)


class Given(nn.Module):
    """Gives the logits that a batch brings along."""

    def __init__(self) -> None:
        super().__init__()
        self.anything = nn.Parameter(torch.zeros(()))

    def forward(self, logits: Tensor, **_: Any) -> Tensor:
        return logits + self.anything


class OfTask(NamedTuple):
    """What a task gives: batches, and in float64 what counts of them.

    Attributes:
        task: the task.
        batches: of the Learner.
        logits: `[n, classes]` of all that count.
        targets: `[n]` classes, or `[n, classes]` zeros and ones.
    """

    task: Any
    batches: list[Any]
    logits: Tensor
    targets: Tensor


def drawn(*shape: int) -> Tensor:
    return 3 * torch.randn(*shape, generator=GENERATOR, dtype=torch.float64)


def numbers(high: int, *shape: int) -> Tensor:
    return torch.randint(high, shape, generator=GENERATOR)


def joined(batches: list[Any], class_dim: int = -1) -> tuple[Tensor, Tensor]:
    logits, targets = (torch.cat([batch[it] for batch in batches]) for it in (0, 1))
    rows = logits.movedim(class_dim, -1).flatten(0, -2)
    kept = targets.flatten() != -100
    return rows[kept], targets.flatten()[kept]


def classification() -> OfTask:
    batches = [(drawn(n, CLASSES), numbers(CLASSES, n)) for n in (9, 4, 30)]
    return OfTask(Classification(), batches, *joined(batches))


def binary() -> OfTask:
    batches = [(drawn(n, 1), numbers(2, n)) for n in (9, 4, 30)]
    logits, targets = joined(batches)
    return OfTask(Classification(), batches, logits, targets)


def several_labels() -> OfTask:
    batches = [(drawn(n, CLASSES), numbers(2, n, CLASSES).double()) for n in (9, 4, 30)]
    logits, targets = (torch.cat([batch[it] for batch in batches]) for it in (0, 1))
    return OfTask(Classification(ClassificationConfig(multi_label=True)), batches, logits, targets.long())


def segmentation() -> OfTask:
    batches = [(drawn(n, CLASSES, 3, 5), numbers(CLASSES, n, 3, 5)) for n in (3, 2)]
    return OfTask(Segmentation(), batches, *joined(batches, 1))


def segmentation_with_ignored() -> OfTask:
    batches = [(drawn(n, CLASSES, 3, 5), numbers(CLASSES, n, 3, 5)) for n in (3, 2)]
    for _, masks in batches:
        masks[:, 0] = 255
    known = [(logits, masks.masked_fill(masks == 255, -100)) for logits, masks in batches]
    return OfTask(Segmentation(SegmentationConfig(ignore_index=255)), batches, *joined(known, 1))


def binary_segmentation() -> OfTask:
    batches = [(drawn(n, 1, 3, 5), numbers(2, n, 3, 5)) for n in (3, 2)]
    return OfTask(Segmentation(), batches, *joined(batches, 1))


def token_classification() -> OfTask:
    batches = [(drawn(n, 6, CLASSES), numbers(CLASSES, n, 6)) for n in (3, 2)]
    for _, labels in batches:
        labels[:, 0] = labels[0, 4:] = -100
    named = [{"logits": logits, "labels": labels} for logits, labels in batches]
    return OfTask(TokenClassification(), named, *joined(batches))


def sequence_to_sequence() -> OfTask:
    found = token_classification()
    batches = [it | {"input_ids": torch.zeros_like(it["labels"])} for it in found.batches]
    return found._replace(task=SequenceToSequence(), batches=batches)


TASKS = [
    *(classification, binary, several_labels, segmentation, segmentation_with_ignored, binary_segmentation),
    *(token_classification, sequence_to_sequence),
]


def values(given: OfTask, *configs: Any) -> list[Any]:
    """The loss, and the value of each metric, or its parts."""
    model = Given()
    metrics = {f"it{place}": config.init() for place, config in enumerate(configs)}
    learner = Learner(model, torch.optim.SGD(model.parameters(), lr=0.1), task=given.task, metrics=metrics)
    found = learner.evaluate(given.batches)
    parts = [{name.split(".", 1)[1]: it for name, it in found.items() if name.startswith(f"{key}.")} for key in metrics]
    return [found["loss"], *(found.get(key, own) for key, own in zip(metrics, parts, strict=True))]


def predicted(given: OfTask) -> Tensor:
    """What stands for a decision: the best class; of a single logit, and of several labels, a probability of 0.5."""
    if given.targets.dim() == 2 or given.logits.shape[1] == 1:
        found = given.logits.sigmoid() > 0.5
        return found.long() if given.targets.dim() == 2 else found[:, 0].long()
    return given.logits.argmax(1)


def known(given: OfTask, average: str) -> dict[str, Any]:
    """Options of scikit-learn's scores: of a binary problem, those of class 1 alone."""
    if given.targets.dim() == 1 and given.logits.shape[1] == 1:
        return {"zero_division": 0}
    labels = {} if given.targets.dim() == 2 else {"labels": range(CLASSES)}
    return {"average": average.lower(), "zero_division": 0, **labels}


REDUCTIONS = ("Macro", "Micro")
ZEROS: Any = {"average": "macro", "zero_division": 0}


@pytest.mark.parametrize("make", TASKS, ids=lambda it: it.__name__)
def test_decisions(make: Callable[[], OfTask]) -> None:
    """Precision, recall, F-score, the Hamming score and the counts, without a threshold."""
    given = make()
    found, targets = predicted(given), given.targets
    kinds = (
        (m.PrecisionConfig, sk.precision_score),
        (m.RecallConfig, sk.recall_score),
        (m.FBetaScoreConfig, sk.f1_score),
    )
    asked = [(config(class_reduction=it), score, it) for it in REDUCTIONS for config, score in kinds]
    others = (
        m.HammingConfig(),
        m.ConfusionStatsConfig(class_reduction="Micro"),
    )
    _, *scores, hamming, stats = values(given, *(it[0] for it in asked), *others)
    for value, (config, score, reduction) in zip(scores, asked, strict=True):
        assert value == pytest.approx(100 * score(targets, found, **known(given, reduction)), rel=1e-12), config
    one_hot = functional.one_hot if targets.dim() == 1 and given.logits.shape[1] > 1 else lambda it, _: it
    expected = 100 * (1 - sk.hamming_loss(one_hot(targets, CLASSES), one_hot(found, CLASSES)))
    assert hamming == pytest.approx(expected, rel=1e-12)
    if targets.dim() == 1 and given.logits.shape[1] > 1:
        right = int((found == targets).sum())
        assert (stats["true_positive"], stats["false_positive"]) == (right, len(targets) - right)
    else:
        cells = sk.confusion_matrix(targets.flatten(), found.flatten()).ravel()
        names = ("true_negative", "false_positive", "false_negative", "true_positive")
        assert [stats[name] for name in names] == cells.tolist()


def probabilities(given: OfTask) -> Tensor:
    """By softmax of one class of several, by the sigmoid of labels and of a single logit."""
    is_exclusive = given.targets.dim() == 1 and given.logits.shape[1] > 1
    return given.logits.softmax(1) if is_exclusive else given.logits.sigmoid()


def one_hot_truth(given: OfTask) -> Tensor:
    """The targets as zeros and ones of the shape of the logits."""
    if given.targets.dim() == 2:
        return given.targets
    return functional.one_hot(given.targets, CLASSES) if given.logits.shape[1] > 1 else given.targets.unsqueeze(1)


AREAS = (m.AurocConfig, sk.roc_auc_score), (m.AucPrConfig, sk.average_precision_score)


@pytest.mark.parametrize("make", TASKS, ids=lambda it: it.__name__)
def test_areas(make: Callable[[], OfTask]) -> None:
    given = make()
    asked = [(config(class_reduction=it), score, it) for it in REDUCTIONS for config, score in AREAS]
    for value, (config, score, reduction) in zip(values(given, *(it[0] for it in asked))[1:], asked, strict=True):
        expected = 100 * score(one_hot_truth(given), probabilities(given), average=reduction.lower())
        assert value == pytest.approx(expected, rel=1e-6), config  # torchmetrics adds areas in float32


@pytest.mark.parametrize("make", TASKS, ids=lambda it: it.__name__)
def test_a_threshold_is_one_of_probabilities(make: Callable[[], OfTask]) -> None:
    given = make()
    for threshold in (0.2, 0.7):
        expected = 100 * sk.recall_score(one_hot_truth(given), probabilities(given) > threshold, **ZEROS)
        hamming = 100 * (1 - sk.hamming_loss(one_hot_truth(given), probabilities(given) > threshold))
        if given.logits.shape[1] == 1:  # class 1 alone
            expected = 100 * sk.recall_score(given.targets, probabilities(given)[:, 0] > threshold)
        asked = [m.RecallConfig(threshold=threshold), m.HammingConfig(threshold=threshold)]
        asked.append(m.HammingConfig(threshold=threshold, sigmoid=True))
        recall, *found = values(given, *asked)[1:]
        assert recall == pytest.approx(expected, rel=1e-12)
        of_sigmoid = 100 * (1 - sk.hamming_loss(one_hot_truth(given), given.logits.sigmoid() > threshold))
        assert found == pytest.approx([hamming, of_sigmoid], rel=1e-12)


@pytest.mark.parametrize("make", [classification, binary, several_labels], ids=lambda it: it.__name__)
def test_scores_are_those_of_what_predict_writes(make: Callable[[], OfTask]) -> None:
    """Also where the same number is added to all logits of an item, which changes no probability."""
    given = make()
    if make is classification:
        shifted = [(logits + drawn(len(logits), 1), targets) for logits, targets in given.batches]
        given = given._replace(batches=shifted)
    rows = [row for batch in given.batches for row in given.task.predict(Given(), batch, {})]
    count = max(given.logits.shape[1], 2)
    written = torch.tensor([[row[f"probabilities.{it}"] for it in range(count)] for row in rows])
    written = written.double()[:, 1:] if make is binary else written.double()
    truth = one_hot_truth(given)
    asked = [config(class_reduction=it) for it in REDUCTIONS for config, _ in AREAS]
    expected = [100 * score(truth, written, average=it.lower()) for it in REDUCTIONS for _, score in AREAS]
    assert values(given, *asked)[1:] == pytest.approx(expected, rel=1e-6)
    if make is several_labels:
        chosen = torch.tensor([[str(it) in row["labels"] for it in range(count)] for row in rows])
        scores = [sk.precision_score(truth, chosen, **ZEROS), sk.f1_score(truth, chosen, **ZEROS)]
    else:
        chosen = torch.tensor([int(row["class"]) for row in rows])
        average = {"average": "binary"} if make is binary else ZEROS
        scores = [score(given.targets, chosen, **average) for score in (sk.precision_score, sk.f1_score)]
        accuracy = sk.accuracy_score(given.targets, chosen)
        assert values(given, m.AccuracyConfig())[1] == pytest.approx(100 * accuracy)
    found = values(given, m.PrecisionConfig(), m.FBetaScoreConfig())[1:]
    assert found == pytest.approx([100 * it for it in scores])


@pytest.mark.parametrize("kind", [m.Auroc, m.AucPr], ids=lambda it: it.__name__)
def test_an_area_of_logits_by_hand_is_that_of_their_probabilities(kind: Any) -> None:
    logits, targets = drawn(40, CLASSES), numbers(CLASSES, 40)
    found = []
    for scores, options in ((logits + drawn(40, 1), {"logits": True}), (logits.softmax(1), {})):
        metric = kind()
        metric.update(scores, targets, **options)
        found.append(metric.compute().item())
    assert found[0] == pytest.approx(found[1], rel=1e-12)


@pytest.mark.parametrize("make", TASKS, ids=lambda it: it.__name__)
def test_shares_of_targets(make: Callable[[], OfTask]) -> None:
    """Accuracy, Top-K accuracy and perplexity; several labels have none of them."""
    given = make()
    logits = functional.pad(given.logits, (1, 0)) if given.logits.shape[1] == 1 else given.logits
    k = min(2, logits.shape[1])
    configs = (
        m.AccuracyConfig(),
        m.TopKAccuracyConfig(
            k=k,
        ),
        m.PerplexityConfig(),
    )
    if given.targets.dim() == 2:
        for config in configs:
            with pytest.raises(BurnlikeError, match="targets"):
                values(given, config)
        return
    loss, accuracy, top_k, perplexity = values(given, *configs)
    assert accuracy == pytest.approx(100 * sk.accuracy_score(given.targets, predicted(given)), rel=1e-12)
    best = tm.multiclass_accuracy(logits, given.targets, logits.shape[1], average="micro", top_k=k).item()
    assert top_k == pytest.approx(100 * best, rel=1e-6)
    assert loss == pytest.approx(functional.cross_entropy(logits, given.targets).item(), rel=1e-9)
    assert perplexity == pytest.approx(math.exp(loss), rel=1e-9)


SEGMENTATIONS = [segmentation, segmentation_with_ignored, binary_segmentation]


@pytest.mark.parametrize("make", SEGMENTATIONS, ids=lambda it: it.__name__)
def test_dice(make: Callable[[], OfTask]) -> None:
    given = make()
    found, count = predicted(given), max(CLASSES if given.logits.shape[1] > 1 else 2, 2)
    one, other = (functional.one_hot(it, count)[:, 1:].double() for it in (found, given.targets))
    expected = (2 * (one * other).sum() / (one.sum() + other.sum())).item()
    assert values(given, m.DiceConfig())[1] == pytest.approx(expected, rel=1e-6)


@pytest.mark.parametrize("task", [LanguageModel(), MaskedLanguageModel(MaskedLanguageModelConfig(mask_token=3))])
def test_language_models(task: Any) -> None:
    """Logits of tokens: the recall of all together is the accuracy, and perplexity is exp of the loss."""
    torch.manual_seed(1)
    model = nn.Sequential(nn.Embedding(9, 5), nn.Linear(5, 9)).double()
    task.take_facts({"vocab_size": 9})
    metrics = {
        "accuracy": m.Accuracy(),
        "recall": m.RecallConfig(class_reduction="Micro").init(),
        "perplexity": m.Perplexity(),
    }
    learner = Learner(model, torch.optim.SGD(model.parameters(), lr=0.1), task=task, metrics=metrics)
    batches = [numbers(9, n, 40) for n in (3, 5)]
    found = learner.evaluate(batches)
    assert found["recall"] == pytest.approx(found["accuracy"])
    assert 0 < found["accuracy"] < 60
    assert found["perplexity"] == pytest.approx(math.exp(found["loss"]), rel=1e-9)


def test_scores_by_hand_are_probabilities() -> None:
    """Without a task: labels above 0.5, and the best class of several."""
    scores = torch.rand(50, CLASSES, generator=GENERATOR)
    labels, classes = numbers(2, 50, CLASSES), numbers(CLASSES, 50)
    metric = m.Recall()
    metric.update(scores, labels)
    assert metric.compute() == pytest.approx(100 * sk.recall_score(labels, scores > 0.5, average="macro"))
    metric = m.Recall()
    metric.update(scores, classes)
    assert metric.compute() == pytest.approx(100 * sk.recall_score(classes, scores.argmax(1), average="macro"))
    metric = m.Recall()
    metric.update(scores.logit(), labels, logits=True)
    assert metric.compute() == pytest.approx(100 * sk.recall_score(labels, scores > 0.5, average="macro"))


TAGS = ("O", "B-PER", "I-PER", "B-LOC", "I-LOC")


def test_spans_of_tags() -> None:
    """Of conlleval's rules; written by hand from its table."""
    cases = {
        "B-PER I-PER O B-LOC": [("PER", 0, 2), ("LOC", 3, 4)],
        "B-PER B-PER": [("PER", 0, 1), ("PER", 1, 2)],
        "I-PER I-PER I-LOC": [("PER", 0, 2), ("LOC", 2, 3)],  # a span may begin without its mark
        "O O": [],
        "B-PER I-LOC I-LOC O": [("PER", 0, 1), ("LOC", 1, 3)],
        "S-PER B-LOC I-LOC E-LOC": [("PER", 0, 1), ("LOC", 1, 4)],
        "E-PER E-PER": [("PER", 0, 1), ("PER", 1, 2)],
        "PER PER LOC O": [("PER", 0, 2), ("LOC", 2, 3)],
    }
    for text, expected in cases.items():
        assert m.spans_of(text.split()) == expected, text


def test_span_f1() -> None:
    true = torch.tensor([[1, 2, 0, 3, -100], [0, 1, 2, 2, 0]])
    best = torch.tensor([[1, 2, 0, 0, 3], [0, 1, 2, 0, 3]])
    config = m.SpanF1Config().for_classes(TAGS)
    metric = config.init()
    for row in (0, 1):
        metric.update(functional.one_hot(best[row : row + 1], 5).double(), true[row : row + 1])
    # True: PER 0-2, LOC 3-4; PER 1-4. Predicted: PER 0-2; PER 1-3, LOC 4-5. One is right.
    assert metric.compute() == pytest.approx(100 * 2 * 1 / (3 + 3))
    assert math.isnan(config.init().compute())
    with pytest.raises(BurnlikeError, match="SpanF1: expected the tags by their numbers in `classes`"):
        m.SpanF1().update(torch.zeros(1, 2, 5), torch.zeros(1, 2, dtype=torch.int64))
