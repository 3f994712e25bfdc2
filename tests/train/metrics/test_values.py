"""Values beside scikit-learn, torch in float64, and numbers worked out by hand."""

import math
from collections.abc import Callable
from typing import Any

import pytest
import sklearn.metrics as sk
import torch
from torch import Tensor
from torch.nn import functional

from burnlike.config import MetricConfig
from burnlike.errors import TargetError
from burnlike.train import metrics as m

from .samples import fed

REDUCTIONS = pytest.mark.parametrize("reduction", ["Macro", "Micro"])


def value(config: MetricConfig, *batches: Any) -> float:
    return fed(config, list(batches)).compute().item()


@pytest.fixture
def generator() -> torch.Generator:
    return torch.Generator().manual_seed(7)


def labelled(generator: torch.Generator, n: int = 200) -> tuple[Tensor, Tensor]:
    """Scores with many ties, and labels that depend on them."""
    scores = (torch.rand(n, 4, generator=generator) * 20).round() / 20
    return scores, torch.rand(n, 4, generator=generator) < scores


def classified(generator: torch.Generator, n: int = 200) -> tuple[Tensor, Tensor]:
    logits = torch.randn(n, 5, generator=generator)
    return logits, torch.distributions.Categorical(logits=logits * 2).sample() % 4  # class 4 is never a target


@REDUCTIONS
def test_classes_are_scored_as_scikit_learn_does(reduction: str, generator: torch.Generator) -> None:
    logits, targets = classified(generator)
    known = {"average": reduction.lower(), "labels": range(5), "zero_division": 0}
    fields: dict[str, Any] = {"top_k": 1, "class_reduction": reduction}
    predicted = logits.argmax(1)
    for config, expected in (
        (m.PrecisionConfig(**fields), sk.precision_score(targets, predicted, **known)),
        (m.RecallConfig(**fields), sk.recall_score(targets, predicted, **known)),
        (m.FBetaScoreConfig(beta=0.5, **fields), sk.fbeta_score(targets, predicted, beta=0.5, **known)),
    ):
        one_hot = functional.one_hot(targets, 5)
        for form in (targets, one_hot, one_hot.bool(), one_hot.double(), targets.to(torch.uint8)):
            assert value(config, (logits, form)) == pytest.approx(100 * expected, rel=1e-12)


@REDUCTIONS
def test_labels_are_scored_as_scikit_learn_does(reduction: str, generator: torch.Generator) -> None:
    scores, truth = labelled(generator)
    average = reduction.lower()
    known = {"average": average, "zero_division": 0}
    fields: dict[str, Any] = {"threshold": 0.35, "class_reduction": reduction}
    predicted = scores > 0.35
    for config, expected in (
        (m.PrecisionConfig(**fields), sk.precision_score(truth, predicted, **known)),
        (m.RecallConfig(**fields), sk.recall_score(truth, predicted, **known)),
        (m.FBetaScoreConfig(beta=2, **fields), sk.fbeta_score(truth, predicted, beta=2, **known)),
        (m.AurocConfig(class_reduction=reduction), sk.roc_auc_score(truth, scores, average=average)),
        (
            m.AucPrConfig(class_reduction=reduction),
            sk.average_precision_score(truth, scores, average=average),
        ),
    ):
        assert value(config, (scores, truth)) == pytest.approx(100 * expected, rel=1e-6)
    hamming = 100 * (1 - sk.hamming_loss(truth, predicted))
    assert value(m.HammingConfig(threshold=0.35), (scores, truth)) == pytest.approx(hamming)
    logits = scores.logit(eps=1e-6)
    assert value(m.HammingConfig(threshold=0.36, sigmoid=True), (logits, truth)) == pytest.approx(
        value(m.HammingConfig(threshold=0.36), (scores, truth))
    )


def test_areas_tell_large_logits_apart(generator: torch.Generator) -> None:
    """Their sigmoids are all 1 in float32."""
    logits = 100 + 50 * torch.randn(300, 1, generator=generator)
    truth = torch.rand(300, 1, generator=generator) < (logits - 100) / 100 + 0.5
    assert value(m.AurocConfig(), (logits, truth)) == pytest.approx(100 * sk.roc_auc_score(truth, logits), rel=1e-6)
    assert value(m.AucPrConfig(), (logits, truth)) == pytest.approx(
        100 * sk.average_precision_score(truth, logits), rel=1e-6
    )


def test_a_class_without_an_area_is_left_out(generator: torch.Generator) -> None:
    scores, truth = torch.rand(50, 3, generator=generator), torch.rand(50, 3, generator=generator) > 0.5
    truth[:, 2] = False
    some = value(m.AurocConfig(), (scores[:, :2], truth[:, :2]))
    assert value(m.AurocConfig(), (scores, truth)) == pytest.approx(some)
    assert value(m.AucPrConfig(), (scores, truth)) == value(m.AucPrConfig(), (scores[:, :2], truth[:, :2]))
    truth[:] = False
    assert value(m.AurocConfig(), (scores, truth)) == value(m.AucPrConfig(), (scores, truth)) == 50


def test_a_class_that_is_nowhere_counts_as_in_burn() -> None:
    scores, classes = torch.tensor([[0.9, 0.0, 0.1], [0.8, 0.1, 0.1]]), torch.tensor([0, 1])
    fields: dict[str, Any] = {"top_k": 1, "class_reduction": "Macro"}
    assert value(m.PrecisionConfig(**fields), (scores, classes)) == pytest.approx(100 * (0.5 + 0 + 0) / 3)
    assert value(m.RecallConfig(**fields), (scores, classes)) == pytest.approx(100 * (1 + 0 + 0) / 3)
    assert value(m.FBetaScoreConfig(**fields), (scores, classes)) == pytest.approx(100 * (2 / 3 + 0) / 2)


def test_a_single_column_takes_numbers_of_0_and_1(generator: torch.Generator) -> None:
    scores = torch.rand(40, 1, generator=generator)
    truth = (torch.rand(40, generator=generator) > 0.5).long()
    for config in (m.PrecisionConfig(), m.RecallConfig(), m.HammingConfig(), m.AurocConfig(), m.AucPrConfig()):
        assert value(config, (scores, truth)) == value(config, (scores, truth.unsqueeze(1).bool()))
    expected = 100 * sk.precision_score(truth, scores[:, 0] > 0.5)
    assert value(m.PrecisionConfig(), (scores, truth)) == pytest.approx(expected)


def test_the_dimension_of_classes_may_be_the_second(generator: torch.Generator) -> None:
    scores = torch.randn(3, 5, 4, 5, generator=generator)  # as many classes as columns: only class_dim tells them apart
    targets = torch.randint(5, (3, 4, 5), generator=generator)
    last, flat = scores.movedim(1, -1), (scores.movedim(1, -1).reshape(-1, 5), targets.flatten())
    for config in (m.AccuracyConfig, m.TopKAccuracyConfig, m.PerplexityConfig, m.AurocConfig, m.HammingConfig):
        expected = value(config(), flat)
        assert value(config(), (last, targets)) == pytest.approx(expected)
        assert value(config(class_dim=1), (scores, targets)) == pytest.approx(expected)
    assert value(m.AccuracyConfig(class_dim=1), (scores, targets)) == pytest.approx(
        100 * (scores.argmax(1) == targets).double().mean().item()
    )


@pytest.mark.parametrize("k", [1, 2, 5])
def test_top_k_accuracy_without_pad_tokens(k: int, generator: torch.Generator) -> None:
    logits, targets = classified(generator)
    ranks = (logits > logits.gather(1, targets.unsqueeze(1))).sum(1)
    counted = targets != 2
    expected = 100 * (ranks[counted] < k).double().mean().item()
    assert value(m.TopKAccuracyConfig(k=k, pad_token=2), (logits, targets)) == pytest.approx(expected)


def test_a_batch_of_pad_tokens_changes_nothing(generator: torch.Generator) -> None:
    logits, targets = classified(generator)
    padding = torch.full_like(targets, -100)
    for config in (m.AccuracyConfig, m.TopKAccuracyConfig, m.PerplexityConfig):
        alone = value(config(pad_token=-100), (logits, targets))
        assert value(config(pad_token=-100), (logits, padding), (logits, targets), (logits, padding)) == alone
        assert math.isnan(value(config(pad_token=-100), (logits, padding)))
        assert value(config(pad_token=-1), (logits, torch.full_like(targets, -1)), (logits, targets)) == alone


def test_perplexity_in_float64(generator: torch.Generator) -> None:
    logits = 30 * torch.randn(4, 50, 1000, generator=generator)  # probabilities of e^-100, 0 in float32
    targets = torch.randint(1000, (4, 50), generator=generator)
    loss = functional.cross_entropy(logits.double().flatten(0, 1), targets.flatten())
    assert value(m.PerplexityConfig(), (logits, targets)) == pytest.approx(loss.exp().item(), rel=1e-4)
    assert math.isfinite(loss.exp().item())


def test_dice_takes_scores_and_classes_or_masks(generator: torch.Generator) -> None:
    scores = torch.randn(2, 4, 6, 5, generator=generator)
    targets = torch.randint(4, (2, 6, 5), generator=generator)
    predicted, true = (functional.one_hot(it, 4).movedim(-1, 1) for it in (scores.argmax(1), targets))
    expected = sk.f1_score(targets.flatten(), scores.argmax(1).flatten(), average="micro", labels=[1, 2, 3])
    for batch in ((scores, targets), (predicted, true), (predicted.bool(), true.bool())):
        assert value(m.DiceConfig(), batch) == pytest.approx(expected, rel=1e-6)
    accuracy = (scores.argmax(1) == targets).double().mean().item()  # of all classes Dice is the accuracy
    assert value(m.DiceConfig(include_background=True), (scores, targets)) == pytest.approx(accuracy, rel=1e-6)
    for what, batch in {"predictions": (255 * predicted, true), "targets": (predicted, true - 1)}.items():
        with pytest.raises(TargetError, match=rf"Dice: {what}: expected 0\.\.1, got"):
            value(m.DiceConfig(), batch)


def test_class_156_of_uint8_counts() -> None:
    scores, targets = functional.one_hot(torch.tensor([156, 3]), 200).float(), torch.tensor([156, 4], dtype=torch.uint8)
    for config in (m.AccuracyConfig(), m.RecallConfig(class_reduction="Micro")):
        assert value(config, (scores, targets)) == 50


def edits(one: list[int], other: list[int]) -> int:
    """The recursion of the definition."""
    if not one or not other:
        return len(one) + len(other)
    if one[0] == other[0]:
        return edits(one[1:], other[1:])
    return 1 + min(edits(one[1:], other), edits(one, other[1:]), edits(one[1:], other[1:]))


@pytest.mark.parametrize("config", [m.CharErrorRateConfig, m.WordErrorRateConfig])
def test_error_rates_by_their_definition(config: Callable[..., MetricConfig], generator: torch.Generator) -> None:
    predictions = torch.randint(5, (12, 6), generator=generator)
    targets = torch.randint(5, (12, 5), generator=generator)  # 4 is padding, anywhere
    rows = [[[it for it in row if it != 4] for row in both.tolist()] for both in (predictions, targets)]
    errors, length = sum(map(edits, *rows)), sum(map(len, rows[1]))
    assert value(config(pad_token=4), (predictions, targets)) == pytest.approx(100 * errors / length)
    assert math.isnan(value(config(pad_token=4), (predictions, torch.full_like(targets, 4))))


def test_bleu_of_papers_and_its_smoothing() -> None:
    # Papineni et al. 2002, section 2.1: "the the the the the the the" has 2 / 7 clipped unigrams.
    the, cat, is_, on, mat = 1, 2, 3, 4, 5
    predicted, target = torch.full((1, 7), the), torch.tensor([[the, cat, is_, on, the, mat, 0]])
    assert value(m.BleuConfig(max_n=1, pad_token=0), (predicted, target)) == pytest.approx(100 * 2 / 7)
    # 4 of 5 tokens, 2 of 4 pairs, 0 of 3 and 0 of 2 longer ones.
    batch = torch.tensor([[1, 2, 9, 4, 5]]), torch.tensor([[1, 2, 3, 4, 5]])
    assert value(m.BleuConfig(), batch) == 0
    by_hand = {"epsilon": (0.25 / 3, 0.25 / 2), "exponential": (1 / 2 / 3, 1 / 4 / 2)}
    for smoothing, (three, four) in by_hand.items():
        expected = 100 * (4 / 5 * 2 / 4 * three * four) ** 0.25
        config = m.BleuConfig(smoothing=smoothing, epsilon=0.25)  # pyright: ignore[reportArgumentType]
        assert value(config, batch) == pytest.approx(expected)
    # A prediction that is too short: exp(1 - 6 / 4).
    short = torch.tensor([[1, 2, 3, 4, 0, 0]]), torch.tensor([[1, 2, 3, 4, 5, 6]])
    assert value(m.BleuConfig(max_n=2, pad_token=0), short) == pytest.approx(100 * math.exp(-0.5))


def test_bleu_is_of_the_corpus() -> None:
    batches = [(torch.tensor([[1, 2, 3, 4]]), torch.tensor([[1, 2, 7, 7]])), (torch.tensor([[5]]), torch.tensor([[5]]))]
    assert value(m.BleuConfig(max_n=1), *batches) == pytest.approx(100 * 3 / 5)


def test_rouge_by_hand() -> None:
    # Lin 2004, section 3.1: police killed the gunman; police kill the gunman; the gunman kill police.
    target = torch.tensor([[1, 2, 3, 4]])
    same_order, other_order = torch.tensor([[1, 9, 3, 4]]), torch.tensor([[3, 4, 9, 1]])
    assert value(m.RougeLConfig(), (same_order, target)) == pytest.approx(75)
    assert value(m.RougeLConfig(), (other_order, target)) == pytest.approx(50)
    assert value(m.RougeNConfig(n=1), (other_order, target)) == pytest.approx(75)
    assert value(m.RougeNConfig(n=2), (other_order, target)) == pytest.approx(100 / 3)
    # 3 tokens and 2 pairs of 5 and 4 tokens, 4 and 3 pairs: F1 of lengths that differ.
    batch = torch.tensor([[1, 2, 3, 8, 8]]), torch.tensor([[1, 2, 3, 9, 0]])
    assert value(m.RougeLConfig(pad_token=0), batch) == pytest.approx(100 * 2 * 3 / 9)
    assert value(m.RougeNConfig(n=2, pad_token=0), batch) == pytest.approx(100 * 2 * 2 / 7)


def test_empty_sequences_in_rouge() -> None:
    some, none = torch.tensor([[1, 2]]), torch.tensor([[0, 0]])
    for config in (m.RougeLConfig(pad_token=0), m.RougeNConfig(pad_token=0)):
        assert value(config, (none, none)) == 100
        assert value(config, (some, none)) == value(config, (none, some)) == 0
    assert value(m.BleuConfig(max_n=1, pad_token=0), (none, some)) == 0


def gaussian(size: int, sigma: float, channels: int) -> Tensor:
    """The window of Wang et al. 2004, in two dimensions."""
    x = torch.arange(size, dtype=torch.float64) - size // 2
    window = torch.exp(-(x[:, None] ** 2 + x[None] ** 2) / (2 * sigma**2))
    return (window / window.sum()).expand(channels, 1, size, size)


def by_definition(x: Tensor, y: Tensor, window: Tensor, padding: str) -> tuple[Tensor, Tensor]:
    def mean(z: Tensor) -> Tensor:
        padded = functional.pad(z, (window.shape[-1] // 2,) * 4, mode=padding)
        return functional.conv2d(padded, window, groups=z.shape[1])

    mx, my = mean(x), mean(y)
    vx, vy, cov = mean(x * x) - mx**2, mean(y * y) - my**2, mean(x * y) - mx * my
    c1, c2 = 0.01**2, 0.03**2
    return (2 * mx * my + c1) / (mx**2 + my**2 + c1), (2 * cov + c2) / (vx + vy + c2)


def noisy(generator: torch.Generator) -> tuple[Tensor, Tensor]:
    x = torch.rand(3, 2, 48, 40, generator=generator, dtype=torch.float64)
    return x, (x + 0.3 * torch.randn(x.shape, generator=generator, dtype=torch.float64)).clamp(0, 1)


def test_ssim_by_its_definition(generator: torch.Generator) -> None:
    x, y = noisy(generator)
    luminance, contrast = by_definition(x, y, gaussian(11, 1.5, 2), "constant")
    expected = (luminance * contrast).mean().item()
    assert value(m.SsimConfig(), (x, y)) == pytest.approx(expected, rel=1e-12)
    assert value(m.SsimConfig(), (x.float(), y.float())) == pytest.approx(expected, rel=1e-5)
    assert value(m.SsimConfig(pixel_range=255), (x * 255, y * 255)) == pytest.approx(expected, rel=1e-12)


def test_ms_ssim_by_its_definition(generator: torch.Generator) -> None:
    x, y = noisy(generator)
    betas, window = (0.2, 0.3, 0.5), gaussian(7, 1.2, 2)
    product = torch.ones(3, 2, dtype=torch.float64)
    for scale, beta in enumerate(betas):
        luminance, contrast = by_definition(x, y, window, "reflect")
        both = luminance * contrast if scale == len(betas) - 1 else contrast
        product *= both.mean((2, 3)).clamp(min=0) ** beta
        x, y = functional.avg_pool2d(x, 2), functional.avg_pool2d(y, 2)
    config = m.MsSsimConfig(kernel_size=7, sigma=1.2, channels=2, betas=betas)
    assert value(config, noisy(torch.Generator().manual_seed(7))) == pytest.approx(product.mean().item(), rel=1e-12)


def test_loss_weighs_batches_by_their_items() -> None:
    metric = m.Loss()
    metric.update(torch.tensor(2.0), 3)
    metric.update(torch.tensor([1.0, 4.0]))
    metric.update(torch.tensor(math.nan), 0)
    assert metric.compute() == (3 * 2 + 1 + 4) / 5
    rate = m.LearningRate()
    for it in (0.1, torch.tensor(0.3), torch.tensor([0.2])):
        rate.update(it, None)
    assert rate.compute().item() == pytest.approx(0.2)


def test_confusion_stats_of_classes(generator: torch.Generator) -> None:
    logits, targets = classified(generator)
    found = fed(m.ConfusionStatsConfig(top_k=1), [(logits, targets)]).compute()
    matrices = sk.multilabel_confusion_matrix(targets, logits.argmax(1), labels=range(5))
    for name, row, column in (
        ("true_negative", 0, 0), ("false_positive", 0, 1), ("false_negative", 1, 0), ("true_positive", 1, 1),
    ):  # fmt: skip
        assert found[name].tolist() == matrices[:, row, column].tolist()


@pytest.mark.parametrize("classes", [4, 10, 300])
def test_of_tied_scores_the_lower_classes_are_the_best(classes: int) -> None:
    scores, first = torch.zeros(6, classes), torch.zeros(6, dtype=torch.int64)
    for k in (1, 2, 3):
        shares = [value(m.TopKAccuracyConfig(k=k), (scores, first + target)) for target in range(classes)]
        assert shares == [100.0] * k + [0.0] * (classes - k)
        stats = fed(m.ConfusionStatsConfig(top_k=k), [(scores, first)]).compute()
        assert stats["predicted_positive"].tolist() == [6.0] * k + [0.0] * (classes - k)
        assert value(m.PrecisionConfig(top_k=k, class_reduction="Micro"), (scores, first)) == pytest.approx(100 / k)
    assert value(m.AccuracyConfig(), (scores, first)) == 100


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_tied_scores_among_others(dtype: torch.dtype, generator: torch.Generator) -> None:
    scores = (torch.randn(40, 7, generator=generator) * 2).round().to(dtype)
    targets = torch.randint(7, (40,), generator=generator)
    for k in (2, 3, 7):
        best = [sorted(range(7), key=lambda it: -row[it])[:k] for row in scores.tolist()]
        right = sum(target in row for target, row in zip(targets.tolist(), best, strict=True))
        assert value(m.TopKAccuracyConfig(k=k), (scores, targets)) == pytest.approx(100 * right / 40)
        assert value(m.RecallConfig(top_k=k, class_reduction="Micro"), (scores, targets)) == pytest.approx(
            100 * right / 40
        )


NUMBERS = {
    m.MaeConfig: sk.mean_absolute_error,
    m.RmseConfig: sk.root_mean_squared_error,
    m.R2Config: sk.r2_score,
    m.MapeConfig: lambda *pair: 100 * sk.mean_absolute_percentage_error(*pair),
}


@pytest.mark.parametrize("config", NUMBERS)
def test_numbers_are_scored_as_scikit_learn_does(config: type[MetricConfig], generator: torch.Generator) -> None:
    targets = torch.randn(30, 2, generator=generator) * torch.tensor([1.0, 300.0]) + torch.tensor([5.0, 2000.0])
    predictions = targets + torch.randn(30, 2, generator=generator)
    batches = [(predictions[:20], targets[:20]), (predictions[20:], targets[20:])]
    each = [NUMBERS[config](*(it[:, place].double() for it in (targets, predictions))) for place in (0, 1)]
    assert value(config(), *batches) == pytest.approx(sum(each) / 2)
    named = fed(config(targets=("days", "price")), batches).compute()
    assert [named[it].item() for it in ("", "days", "price")] == pytest.approx([sum(each) / 2, *each])
    assert value(config(), *((a[:, 1], b[:, 1]) for a, b in batches)) == pytest.approx(each[1])


def two_passes(batches: list[tuple[Tensor, Tensor]]) -> float:
    predictions, targets = (torch.cat(it) for it in zip(*batches, strict=True))
    return (1 - (predictions - targets).square().sum() / (targets - targets.mean()).square().sum()).item()


@pytest.mark.parametrize("mean", [0.0, 1e6, -1e8])
def test_r2_keeps_its_digits_far_from_0(mean: float, generator: torch.Generator) -> None:
    targets = torch.randn(3000, generator=generator, dtype=torch.float64) + mean
    predictions = targets + torch.randn(3000, generator=generator, dtype=torch.float64) / 2
    batches = [*zip(predictions.split(70), targets.split(70), strict=True)]
    expected = pytest.approx(two_passes(batches), rel=1e-7)
    assert value(m.R2Config(), *batches) == expected
    for place in (0, 1, 30):
        merged = fed(m.R2Config(), batches[place:])
        merged.merge_state(fed(m.R2Config(), batches[:place]))
        assert merged.compute().item() == expected
        merged.update(predictions[:70], targets[:70])
        assert merged.compute().item() == pytest.approx(two_passes([*batches, batches[0]]), rel=1e-7)


def test_r2_of_equal_targets_is_none() -> None:
    targets = torch.full((7,), 0.1, dtype=torch.float64)
    for predictions in (targets + 1, targets):
        assert math.isnan(value(m.R2Config(), (predictions, targets), (targets[:3], targets[:3])))
    named = m.R2Config(targets=("equal", "other"))
    two = torch.stack([targets, torch.arange(7.0)], 1)
    values = fed(named, [(two + 1, two)]).compute()
    assert values["equal"].isnan()
    assert values["other"].item() == pytest.approx(1 - 7 / 28)


def test_a_target_of_0_has_no_error_in_percent() -> None:
    assert value(m.MapeConfig(), (torch.tensor([1.0, 5.0]), torch.tensor([2.0, 0.0]))) == 50


@pytest.mark.cuda
@pytest.mark.parametrize("channels", [1, 3])
def test_similarity_on_cuda_is_that_of_the_cpu(channels: int) -> None:
    # cuDNN would compute images of one channel, or with channels last, in TF32: 0.97 for 0.976.
    torch.manual_seed(0)
    images = torch.rand(2, channels, 64, 48).contiguous(memory_format=torch.channels_last)
    others = (images + 0.05 * torch.randn_like(images)).clamp(0, 1)
    values = []
    for device in ("cpu", "cuda"):
        metric = m.SsimConfig().init()
        metric.update(images.to(device), others.to(device))
        values.append(metric.compute().cpu())
    torch.testing.assert_close(values[1], values[0], rtol=1e-5, atol=1e-5)
